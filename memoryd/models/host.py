"""Who owns the model's process, and whose text is embedded next?

One worker thread owns the child and its pipe. Queries overtake passages; one text is in the model at a time. The
child starts with the first text, ends after `idle_seconds` without one, and comes back by itself when it dies: what
was waiting keeps waiting. A text that ends the child twice is poisoned and never tried again by this host.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from memoryd.errors import ModelFilesWrong, ModelUnavailable, TextPoisoned
from memoryd.models.identity import EMBEDDED, ModelFiles, ModelIdentity
from memoryd.models.process import ChildFailed, ModelProcess, TextFailed
from memoryd.models.waiting import Job, Waiting

MAX_WAITING_QUERIES = 1000
FIRST_BACKOFF_SECONDS = 0.1
LAST_BACKOFF_SECONDS = 30.0
TICK_SECONDS = 1.0
"""The longest sleep while something depends on the injected clock (idle end, backoff)."""
LOOK_SECONDS = 0.2
"""How often a waiting caller of `embed_passages` looks at `cancelled`."""


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
        self._waiting = Waiting()
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

    @property
    def loaded(self) -> bool:
        """Whether the model answers without a start before."""
        with self._changed:
            return self._state(self._clock()) == "ready"

    def embed_query(self, text: str, timeout: float) -> bytes:
        """The unit vector of a query (float32 LE), waited for at most `timeout` seconds.

        On a timeout the work goes on, so that the same query soon finds its vector. Raises ModelUnavailable,
        TextPoisoned, ModelFilesWrong.
        """
        with self._changed:
            known = self._waiting.known(text)
            if known is not None:
                return known
            job = self._waiting.asked(text)
            if job is None:
                if len(self._waiting.queries) >= MAX_WAITING_QUERIES:
                    raise ModelUnavailable("Too many queries wait for the embedding model.")
                job = self._waiting.job(text, query=True)
                self._enqueue([job])
        if not job.done.wait(timeout):
            raise ModelUnavailable(
                f"The embedding model did not answer within {timeout:g} s; it goes on working.",
                next_step="Ask again in a few seconds; a model that is still starting is quick after that.",
            )
        return job.outcome()

    def embed_passages(self, texts: Sequence[str], cancelled: Callable[[], bool]) -> list[bytes | None]:
        """Unit vectors in the order of `texts`; None for a poisoned text.

        Waits as long as it takes, also through restarts of the child. Once `cancelled()` is true it returns what is
        there, with None for the rest. Raises ModelFilesWrong, and ModelUnavailable when the host is closed.
        """
        with self._changed:
            jobs = [self._waiting.job(text, query=False) for text in texts]
            self._enqueue(jobs)
        try:
            for job in jobs:
                while not (job.done.wait(LOOK_SECONDS) or cancelled()):
                    pass
                if cancelled():
                    return [one.vector for one in jobs]
        finally:
            with self._changed:
                self._waiting.withdraw(jobs)
        return [None if isinstance(job.error, TextPoisoned) else job.outcome() for job in jobs]

    def poisoned(self) -> frozenset[str]:
        """SHA-256 (hex, of the UTF-8 text) of the passages that this host gave up on."""
        with self._changed:
            return frozenset(digest for digest, passage in self._waiting.poisoned.items() if passage)

    def status(self) -> dict[str, Any]:
        """`state` is off, loading, ready, backoff, failed or closed; `loaded_seconds` is how long it is ready."""
        with self._changed:
            now = self._clock()
            state = self._state(now)
            return {
                "state": state,
                "pid": self._process.pid if state in ("loading", "ready") else None,
                "name": self._identity.name,
                "queued": len(self._waiting) + self._busy,
                "restarts": self._restarts,
                "poisoned": len(self._waiting.poisoned),
                "last_error": self._last_error,
                "loaded_seconds": now - self._loaded_at if state == "ready" and self._loaded_at is not None else None,
                "load_seconds": self._process.load_seconds,
            }

    def close(self) -> None:
        """End the child and give every waiter ModelUnavailable; bounded by the kernel's time to kill."""
        with self._changed:
            self._closing = True
            for job in self._waiting.take_all():
                self._waiting.finish(job, error=_closed())
            worker = self._worker
            self._changed.notify_all()
        self._process.kill()
        if worker is not None:
            worker.join()

    def _enqueue(self, jobs: list[Job]) -> None:
        self._require_open()
        self._require_files()
        self._waiting.add(jobs)
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="model-host", daemon=True)
            self._worker.start()
        self._changed.notify_all()

    def _require_open(self) -> None:
        if self._closing:
            raise _closed()

    def _require_files(self) -> None:
        """While the files were just found wrong, say so at once instead of loading them for every call."""
        wrong = self._files_wrong
        if wrong is not None and self._clock() < self._not_before:
            raise ModelFilesWrong(wrong.message, **wrong.details)

    def _state(self, now: float) -> str:
        if self._closing:
            return "closed"
        if self._process.alive():
            return "ready" if self._process.ready else "loading"
        if self._files_wrong is not None:
            return "failed"
        return "backoff" if now < self._not_before else "off"

    def _work(self) -> None:
        job: Job | None = None
        try:
            while (job := self._next()) is not None:
                self._serve(job)
        finally:  # also where a fault of ours ends this thread: nobody waits for ever, the next text starts another
            self._process.end()
            with self._changed:
                self._worker = None
                for one in [*([job] if job is not None else []), *self._waiting.take_all()]:
                    if not one.done.is_set():
                        self._waiting.finish(one, error=ModelUnavailable("The embedding model's thread ended."))

    def _next(self) -> Job | None:
        """The next text once it may run; None when the host closes. Ends an idle child meanwhile."""
        while True:
            with self._changed:
                self._busy = False
                job = self._wait()
                if job is not None or self._closing:
                    self._busy = job is not None
                    return job
            self._process.end()

    def _wait(self) -> Job | None:
        """Sleep until a text may run; None when the host closes or the child was idle long enough."""
        while not self._closing:
            now = self._clock()
            ready = now >= self._not_before
            if ready and len(self._waiting):
                return self._waiting.take()
            started = self._process.started()
            if started and now - self._used >= self._idle_seconds:
                return None
            self._changed.wait(self._sleep(now) if started or not ready else None)
        return None

    def _sleep(self, now: float) -> float:
        until = self._not_before if now < self._not_before else self._used + self._idle_seconds
        return min(TICK_SECONDS, max(0.001, until - now))

    def _serve(self, job: Job) -> None:
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
            with self._changed:
                self._setbacks = 0
                self._used = self._clock()
                self._waiting.finish(job, vector=vector)

    def _ensure_loaded(self) -> None:
        if self._process.ready and self._process.alive():
            return
        if self._process.started():  # it died while nothing was asked of it: nobody's text is to blame
            self._process.end()
            self._restarts += 1
        self._process.start()
        self._files_wrong = None
        self._loaded_at = self._used = self._clock()

    def _set_back(self, job: Job, error: Exception, *, blame: bool, restart: bool = True) -> None:
        """A text failed or the child died: wait a growing time, then go on with the same text or poison it."""
        if restart:
            self._process.end()
        with self._changed:
            if self._closing:
                self._waiting.finish(job, error=_closed())
                return
            job.failures += blame
            self._last_error = str(error)
            if restart:
                self._restarts += 1
                self._setbacks += 1
                self._not_before = self._clock() + _backoff(self._setbacks)
            self._waiting.put_back(job)

    def _give_up(self, job: Job, error: ModelFilesWrong) -> None:
        """The files are wrong: nobody waits for a model that cannot come."""
        self._process.end()
        with self._changed:
            self._last_error, self._files_wrong = error.message, error
            self._not_before = self._clock() + LAST_BACKOFF_SECONDS
            for one in [job, *self._waiting.take_all()]:
                self._waiting.finish(one, error=error)


def _backoff(setbacks: int) -> float:
    return float(min(LAST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2 ** min(setbacks - 1, 20)))


def _closed() -> ModelUnavailable:
    return ModelUnavailable("The embedding model's host is closed.")
