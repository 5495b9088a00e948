"""Who owns the model's process, and whose text is embedded next?

One worker thread owns the child and its pipe. Queries overtake passages; one text is in the model at a time. The
child starts with the first text, ends after `idle_seconds` without one, and comes back by itself when it dies: what
was waiting keeps waiting. A text that ends the child twice is poisoned and never tried again by this host.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memoryd.digest import sha256_hex
from memoryd.errors import ModelError, ModelFilesWrong, ModelUnavailable, TextPoisoned
from memoryd.models.identity import EMBEDDED, ModelFiles, ModelIdentity
from memoryd.models.process import ChildFailed, ModelProcess, TextFailed

MAX_WAITING_QUERIES = 1000
REMEMBERED_QUERIES = 256
FAILURES_UNTIL_POISONED = 2
FIRST_BACKOFF_SECONDS = 0.1
LAST_BACKOFF_SECONDS = 30.0
TICK_SECONDS = 1.0
"""The longest sleep while something depends on the injected clock (idle end, backoff)."""
LOOK_SECONDS = 0.2
"""How often a waiting caller of `embed_passages` looks at `cancelled`."""


@dataclass(slots=True, eq=False)
class _Job:
    """One text on its way; `done` is set exactly once, then either `vector` or `error` is there."""

    text: str
    query: bool
    digest: str
    failures: int = 0
    vector: bytes | None = None
    error: ModelError | None = None
    done: threading.Event = field(default_factory=threading.Event)


class ModelHost:
    """The daemon's side of the embedding model; every method may be called from any thread."""

    def __init__(
        self,
        *,
        threads: int,
        idle_seconds: float,
        log: Path | None,
        clock: Callable[[], float] = time.monotonic,
        command: Sequence[str] | None = None,
        files: ModelFiles | None = None,
    ) -> None:
        """`command` replaces the child's command line, `files` the installed model; nothing is started yet."""
        self._identity = EMBEDDED
        self._process = ModelProcess(command=command, files=files, threads=threads, log=log)
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._changed = threading.Condition()
        self._queries: deque[_Job] = deque()
        self._passages: deque[_Job] = deque()
        self._asked: dict[str, _Job] = {}
        self._known: OrderedDict[str, bytes] = OrderedDict()
        self._poisoned: dict[str, bool] = {}
        self._worker: threading.Thread | None = None
        self._closing = False
        self._busy = False
        self._used = clock()
        self._not_before = clock()
        self._setbacks = 0
        self._restarts = 0
        self._last_error: str | None = None
        self._files_wrong: ModelFilesWrong | None = None
        self._loaded_at: float | None = None

    @property
    def identity(self) -> ModelIdentity:
        """What makes the vectors of this host comparable."""
        return self._identity

    def embed_query(self, text: str, timeout: float) -> bytes:
        """The unit vector of a query (float32 LE), waited for at most `timeout` seconds.

        On a timeout the work goes on, so that the same query soon finds its vector. Raises ModelUnavailable,
        TextPoisoned, ModelFilesWrong.
        """
        with self._changed:
            known = self._known.get(text)
            if known is not None:
                self._known.move_to_end(text)
                return known
            job = self._asked.get(text) or self._enqueue_query(text)
        if not job.done.wait(timeout):
            raise ModelUnavailable(f"The embedding model did not answer within {timeout:g} s; it goes on working.")
        return _outcome(job)

    def embed_passages(self, texts: Sequence[str], cancelled: Callable[[], bool]) -> list[bytes | None]:
        """Unit vectors in the order of `texts`; None for a poisoned text.

        Waits as long as it takes, also through restarts of the child. Once `cancelled()` is true it returns what is
        there, with None for the rest. Raises ModelFilesWrong, and ModelUnavailable when the host is closed.
        """
        jobs = [self._job(text, query=False) for text in texts]
        with self._changed:
            self._require_open()
            self._require_files()
            self._passages.extend(job for job in jobs if not job.done.is_set())
            self._start_worker()
            self._changed.notify_all()
        try:
            for job in jobs:
                while not (job.done.wait(LOOK_SECONDS) or cancelled()):
                    pass
                if cancelled():
                    return [one.vector for one in jobs]
        finally:
            self._withdraw(jobs)
        return [_passage_outcome(job) for job in jobs]

    def poisoned(self) -> frozenset[str]:
        """SHA-256 (hex, of the UTF-8 text) of the passages that this host gave up on."""
        with self._changed:
            return frozenset(digest for digest, passage in self._poisoned.items() if passage)

    def status(self) -> dict[str, Any]:
        """`state` is off, loading, ready, backoff, failed or closed; `loaded_seconds` is how long it is ready."""
        with self._changed:
            now = self._clock()
            state = self._state(now)
            return {
                "state": state,
                "pid": self._process.pid if state in ("loading", "ready") else None,
                "name": self._identity.name,
                "queued": len(self._queries) + len(self._passages) + self._busy,
                "restarts": self._restarts,
                "poisoned": len(self._poisoned),
                "last_error": self._last_error,
                "loaded_seconds": now - self._loaded_at if state == "ready" and self._loaded_at is not None else None,
                "load_seconds": self._process.load_seconds,
            }

    def close(self) -> None:
        """End the child and give every waiter ModelUnavailable; bounded by the kernel's time to kill."""
        with self._changed:
            self._closing = True
            waiting = [*self._queries, *self._passages]
            self._queries.clear()
            self._passages.clear()
            worker = self._worker
            self._changed.notify_all()
        for job in waiting:
            self._finish(job, error=_closed())
        self._process.kill()
        if worker is not None:
            worker.join()

    def _enqueue_query(self, text: str) -> _Job:
        self._require_open()
        self._require_files()
        if len(self._queries) >= MAX_WAITING_QUERIES:
            raise ModelUnavailable("Too many queries wait for the embedding model.")
        job = self._job(text, query=True)
        if not job.done.is_set():
            self._asked[text] = job
            self._queries.append(job)
            self._start_worker()
            self._changed.notify_all()
        return job

    def _job(self, text: str, *, query: bool) -> _Job:
        job = _Job(text, query, sha256_hex(text.encode("utf-8", "replace")))
        if job.digest in self._poisoned:
            job.error = _poisonous()
            job.done.set()
        return job

    def _require_open(self) -> None:
        if self._closing:
            raise _closed()

    def _require_files(self) -> None:
        """While the files were just found wrong, say so at once instead of loading them for every call."""
        wrong = self._files_wrong
        if wrong is not None and self._clock() < self._not_before:
            raise ModelFilesWrong(wrong.message, **wrong.details)

    def _start_worker(self) -> None:
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="model-host", daemon=True)
            self._worker.start()

    def _state(self, now: float) -> str:
        if self._closing:
            return "closed"
        if self._process.alive():
            return "ready" if self._process.ready else "loading"
        if self._files_wrong is not None:
            return "failed"
        return "backoff" if now < self._not_before else "off"

    def _work(self) -> None:
        try:
            while (job := self._next()) is not None:
                self._serve(job)
        finally:
            self._process.end()

    def _next(self) -> _Job | None:
        """The next text once it may run; None when the host closes. Ends an idle child meanwhile."""
        while True:
            with self._changed:
                self._busy = False
                job = self._wait()
                if job is not None or self._closing:
                    self._busy = job is not None
                    return job
            self._process.end()

    def _wait(self) -> _Job | None:
        """Sleep until a text may run; None when the host closes or the child was idle long enough."""
        while not self._closing:
            now = self._clock()
            ready = now >= self._not_before
            if ready and (self._queries or self._passages):
                return self._queries.popleft() if self._queries else self._passages.popleft()
            started = self._process.started()
            if started and now - self._used >= self._idle_seconds:
                return None
            self._changed.wait(self._sleep(now) if started or not ready else None)
        return None

    def _sleep(self, now: float) -> float:
        until = self._not_before if now < self._not_before else self._used + self._idle_seconds
        return min(TICK_SECONDS, max(0.001, until - now))

    def _serve(self, job: _Job) -> None:
        try:
            self._ensure_loaded()
        except ModelFilesWrong as error:
            self._give_up(job, error)
            return
        except ChildFailed as error:
            self._set_back(job, error, blame=False)
            return
        try:
            vector = self._process.embed(job.text)
        except TextFailed as error:
            self._set_back(job, error, blame=True, restart=False)
        except ChildFailed as error:
            self._set_back(job, error, blame=True)
        else:
            self._setbacks = 0
            self._finish(job, vector=vector)

    def _ensure_loaded(self) -> None:
        if self._process.ready and self._process.alive():
            return
        if self._process.started():  # it died while nothing was asked of it: nobody's text is to blame
            self._process.end()
            self._restarts += 1
        self._process.start()
        self._files_wrong = None
        self._loaded_at = self._used = self._clock()

    def _set_back(self, job: _Job, error: Exception, *, blame: bool, restart: bool = True) -> None:
        """A text failed or the child died: wait a growing time, then go on with the same text or poison it."""
        if restart:
            self._process.end()
        poisoned = False
        with self._changed:
            job.failures += blame
            poisoned = job.failures >= FAILURES_UNTIL_POISONED
            closing = self._closing
            if not closing:
                self._last_error = str(error)
                self._restarts += restart
                self._setbacks += restart
                if restart:
                    self._not_before = self._clock() + _backoff(self._setbacks)
                if poisoned:
                    self._poisoned[job.digest] = not job.query
                else:
                    (self._queries if job.query else self._passages).appendleft(job)
        if closing:
            self._finish(job, error=_closed())
        elif poisoned:
            self._finish(job, error=_poisonous())

    def _give_up(self, job: _Job, error: ModelFilesWrong) -> None:
        """The files are wrong: nobody waits for a model that cannot come."""
        self._process.end()
        with self._changed:
            self._last_error, self._files_wrong = error.message, error
            self._not_before = self._clock() + LAST_BACKOFF_SECONDS
            waiting = [job, *self._queries, *self._passages]
            self._queries.clear()
            self._passages.clear()
        for one in waiting:
            self._finish(one, error=error)

    def _finish(self, job: _Job, *, vector: bytes | None = None, error: ModelError | None = None) -> None:
        with self._changed:
            job.vector, job.error = vector, error
            self._used = self._clock()
            if job.query:
                self._asked.pop(job.text, None)
                if vector is not None:
                    self._known[job.text] = vector
                    while len(self._known) > REMEMBERED_QUERIES:
                        self._known.popitem(last=False)
        job.done.set()

    def _withdraw(self, jobs: Sequence[_Job]) -> None:
        """Take what nobody waits for out of the queue."""
        left = {id(job) for job in jobs if not job.done.is_set()}
        if left:
            with self._changed:
                self._passages = deque(job for job in self._passages if id(job) not in left)


def _outcome(job: _Job) -> bytes:
    if job.error is not None:
        raise job.error
    assert job.vector is not None
    return job.vector


def _passage_outcome(job: _Job) -> bytes | None:
    return None if isinstance(job.error, TextPoisoned) else _outcome(job)


def _backoff(setbacks: int) -> float:
    return float(min(LAST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2 ** min(setbacks - 1, 20)))


def _closed() -> ModelUnavailable:
    return ModelUnavailable("The embedding model's host is closed.")


def _poisonous() -> TextPoisoned:
    return TextPoisoned("The embedding model's process ended twice over this text.")
