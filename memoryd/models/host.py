"""Who owns the model's process, and whose text is embedded next?

One worker thread owns the child and its pipe. Queries and rerankings overtake passages; one forward runs at a time,
over one query or a small batch of passages. The child starts with the first text, ends after `idle_seconds` without
one, and comes back by itself when it dies: what was waiting keeps waiting. A text that ends the child twice, alone, is
poisoned and never tried again by this host.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from memoryd.errors import ModelFilesWrong, ModelUnavailable, TextPoisoned
from memoryd.models.identity import ModelFiles, ModelIdentity, ModelSpec, embedded_spec
from memoryd.models.process import ChildFailed, ModelProcess, TextFailed
from memoryd.models.waiting import Job, Reranking, Waiting
from memoryd.records import Encoded

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
        spec: ModelSpec | None = None,
        token_vectors: bool = False,
    ) -> None:
        """`command` replaces the child's command line, `spec` the embedded model, `files` its installed files.

        `token_vectors`: passages get them too. Nothing is started yet.
        """
        self.token_vectors = token_vectors
        self._spec = spec or embedded_spec(files=files)
        self._process = ModelProcess(self._spec, command=command, threads=threads, log=log)
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting = Waiting()
        self._worker: threading.Thread | None = None
        self._closing = False
        self._busy = 0
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
        return self._spec.identity

    @property
    def loaded(self) -> bool:
        """Whether the model answers without a start before."""
        with self._changed:
            return self._state(self._clock()) == "ready"

    def embed_query(self, text: str, timeout: float) -> bytes:
        """The unit vector of a query (float32 LE): `encode_query` without the rest."""
        return self.encode_query(text, timeout).dense

    def encode_query(self, text: str, timeout: float) -> Encoded:
        """What the model makes of a query, waited for at most `timeout` seconds: `begin_query` and its end."""
        return self.begin_query(text)(timeout)

    def begin_query(self, text: str) -> Callable[[float], Encoded]:
        """Let the model begin with a query; what comes of it is waited for by a call with at most so many seconds.

        On a timeout the work goes on, so that the same query soon finds its vector. Raises ModelUnavailable,
        TextPoisoned, ModelFilesWrong, now or by that call.
        """
        with self._changed:
            known = self._waiting.known(text)
            if known is not None:
                return lambda _timeout: known
            job = self._waiting.asked(text)
            if job is None:
                if len(self._waiting.queries) >= MAX_WAITING_QUERIES:
                    raise ModelUnavailable("Too many queries wait for the embedding model.")
                job = self._waiting.job(text, query=True)
                self._enqueue([job])
        return job.wait

    def embed_passages(self, texts: Sequence[str], cancelled: Callable[[], bool]) -> list[bytes | None]:
        """Unit vectors in the order of `texts`: `encode_passages` without the rest."""
        return [None if one is None else one.dense for one in self._encoded(texts, cancelled, tokens=False)]

    def encode_passages(self, texts: Sequence[str], cancelled: Callable[[], bool]) -> list[Encoded | None]:
        """What the model makes of each text, in order; None for a poisoned text.

        Waits as long as it takes, also through restarts of the child. Once `cancelled()` is true it returns what is
        there, with None for the rest. Raises ModelFilesWrong, and ModelUnavailable when the host is closed.
        """
        return self._encoded(texts, cancelled, tokens=self.token_vectors)

    def _encoded(self, texts: Sequence[str], cancelled: Callable[[], bool], *, tokens: bool) -> list[Encoded | None]:
        with self._changed:
            jobs = [self._waiting.job(text, query=False, tokens=tokens) for text in texts]
            self._enqueue(jobs)
        try:
            for job in jobs:
                while not (job.done.wait(LOOK_SECONDS) or cancelled()):
                    pass
                if cancelled():
                    return [one.encoded for one in jobs]
        finally:
            with self._changed:
                self._waiting.withdraw(jobs)
        return [None if isinstance(job.error, TextPoisoned) else job.outcome() for job in jobs]

    def rerank(self, method: str, query: str, candidates: Sequence[tuple[str, bytes]], seconds: float) -> Reranking:
        """Score passages (text, token vectors or b"") against a query by `maxsim` or `bge-reranker:FOLDER`.

        Never raises: what does not come within `seconds` has no scores but a reason.
        """
        asked = Reranking(method, query, candidates, seconds)
        with self._changed:
            try:
                if len(self._waiting.queries) >= MAX_WAITING_QUERIES:
                    raise ModelUnavailable("Too many queries wait for the embedding model.")
                self._enqueue([asked])
            except (ModelUnavailable, ModelFilesWrong) as error:
                asked.finish(None, [], error.message)
        if not asked.done.wait(seconds):
            with self._changed:
                if asked in self._waiting.queries:
                    self._waiting.queries.remove(asked)
            return Reranking(method, query, (), seconds, reason=f"it did not come within {seconds:g} s")
        return asked

    def warm(self) -> None:
        """Load the model in the background. Raises ModelUnavailable, ModelFilesWrong."""
        with self._changed:
            self._enqueue([self._waiting.job("warm", query=True)])

    def poisoned(self) -> frozenset[str]:
        """SHA-256 (hex, of the UTF-8 text) of the passages that this host gave up on."""
        with self._changed:
            return frozenset(digest for digest, passage in self._waiting.poisoned.items() if passage)

    def queries(self) -> dict[str, int]:
        """How many queries are remembered with what the model made of them, and how often one was or was not."""
        with self._changed:
            return {"kept": self._waiting.remembered(), "hits": self._waiting.hits, "misses": self._waiting.misses}

    def status(self) -> dict[str, Any]:
        """`state` is off, loading, ready, backoff, failed or closed; `loaded_seconds` is how long it is ready."""
        with self._changed:
            now = self._clock()
            state = self._state(now)
            return {
                "state": state,
                "pid": self._process.pid if state in ("loading", "ready") else None,
                "name": self.identity.name,
                "why": self._spec.why,
                "dims": self.identity.dims,
                "language": self.identity.language,
                "device": self._process.device,
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
            self._waiting.abandon(_closed())
            worker = self._worker
            self._changed.notify_all()
        self._process.kill()
        if worker is not None:
            worker.join()

    def _enqueue(self, jobs: list[Job] | list[Reranking]) -> None:
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
            raise ModelFilesWrong(wrong.message, next_step=wrong.next_step, **wrong.details)

    def _state(self, now: float) -> str:
        if self._closing:
            return "closed"
        if self._process.alive():
            return "ready" if self._process.ready else "loading"
        if self._files_wrong is not None:
            return "failed"
        return "backoff" if now < self._not_before else "off"

    def _work(self) -> None:
        taken: list[Job] | Reranking | None = None
        try:
            while (taken := self._next()) is not None:
                self._serve(taken)
        finally:  # also where a fault of ours ends this thread: nobody waits for ever, the next text starts another
            self._process.end()
            with self._changed:
                self._worker = None
                self._waiting.abandon(ModelUnavailable("The embedding model's thread ended."), *_each(taken))

    def _next(self) -> list[Job] | Reranking | None:
        """What is next once it may run; None when the host closes. Ends an idle child meanwhile."""
        while True:
            with self._changed:
                self._busy = 0
                taken = self._wait()
                if taken is not None or self._closing:
                    self._busy = len(_each(taken))
                    return taken
            self._process.end()

    def _wait(self) -> list[Job] | Reranking | None:
        """Sleep until a text may run; None when the host closes or the child was idle long enough."""
        while not self._closing:
            now = self._clock()
            ready = now >= self._not_before
            if ready and len(self._waiting):
                return self._waiting.take(self._process.batch_tokens)
            started = self._process.started()
            if started and now - self._used >= self._idle_seconds:
                return None
            self._changed.wait(self._sleep(now) if started or not ready else None)
        return None

    def _sleep(self, now: float) -> float:
        until = self._not_before if now < self._not_before else self._used + self._idle_seconds
        return min(TICK_SECONDS, max(0.001, until - now))

    def _serve(self, taken: list[Job] | Reranking) -> None:
        try:
            self._ensure_loaded()
        except ModelFilesWrong as error:
            self._give_up(taken, error)
        except ChildFailed as error:
            self._set_back(taken, error, blame=False)
        else:
            if isinstance(taken, Reranking):
                self._score(taken)
            else:
                self._encode(taken)

    def _encode(self, jobs: list[Job]) -> None:
        try:
            tokens, query = any(job.tokens for job in jobs), jobs[0].query
            made = self._process.encode([job.text for job in jobs], tokens=tokens, query=query)
        except TextFailed as error:
            self._set_back(jobs, error, blame=True, restart=False)
        except ChildFailed as error:
            self._set_back(jobs, error, blame=True)
        else:
            with self._changed:
                self._setbacks = 0
                self._used = self._clock()
                for job, encoded in zip(jobs, made, strict=True):
                    self._waiting.finish(job, encoded=encoded)

    def _score(self, asked: Reranking) -> None:
        try:
            scores, made, reason = self._process.rerank(asked.method, asked.query, asked.candidates, asked.seconds)
        except TextFailed as error:
            asked.finish(None, [], str(error))
        except ChildFailed as error:
            self._set_back(asked, error, blame=False)
        else:
            with self._changed:
                self._used = self._clock()
            asked.finish(scores, made, reason)

    def _ensure_loaded(self) -> None:
        if self._process.ready and self._process.alive():
            return
        if self._process.started():  # it died while nothing was asked of it: nobody's text is to blame
            self._process.end()
            self._restarts += 1
        self._process.start()
        self._files_wrong = None
        self._loaded_at = self._used = self._clock()

    def _set_back(self, taken: list[Job] | Reranking, error: Exception, *, blame: bool, restart: bool = True) -> None:
        """A text failed or the child died: wait a growing time, then go on with the same texts or poison one.

        A reranking is not tried again: its answer would come too late.
        """
        if restart:
            self._process.end()
        with self._changed:
            if self._closing:
                self._waiting.abandon(_closed(), *_each(taken))
                return
            self._last_error = str(error)
            if restart:
                self._restarts += 1
                self._setbacks += 1
                self._not_before = self._clock() + _backoff(self._setbacks)
            if isinstance(taken, Reranking):
                taken.finish(None, [], str(error))
            else:
                self._waiting.put_back(taken, blame=blame)

    def _give_up(self, taken: list[Job] | Reranking, error: ModelFilesWrong) -> None:
        """The files are wrong: nobody waits for a model that cannot come."""
        self._process.end()
        with self._changed:
            self._last_error, self._files_wrong = error.message, error
            self._not_before = self._clock() + LAST_BACKOFF_SECONDS
            self._waiting.abandon(error, *_each(taken))


def _each(taken: list[Job] | Reranking | None) -> Sequence[Job | Reranking]:
    if taken is None:
        return []
    return [taken] if isinstance(taken, Reranking) else taken


def _backoff(setbacks: int) -> float:
    return float(min(LAST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2 ** min(setbacks - 1, 20)))


def _closed() -> ModelUnavailable:
    return ModelUnavailable("The embedding model's host is closed.")
