"""Which texts wait for the model, in which order, and what became of those that were tried?

Plain bookkeeping without a lock of its own: `ModelHost` calls it with its lock held.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from memoryd.digest import sha256_hex
from memoryd.errors import ModelError, TextPoisoned

REMEMBERED_QUERIES = 256
FAILURES_UNTIL_POISONED = 2


@dataclass(slots=True, eq=False)
class Job:
    """One text on its way; `done` is set exactly once, then either `vector` or `error` is there."""

    text: str
    query: bool
    digest: str
    failures: int = 0
    vector: bytes | None = None
    error: ModelError | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def outcome(self) -> bytes:
        """The vector of a job that is done. Raises its error."""
        if self.error is not None:
            raise self.error
        assert self.vector is not None
        return self.vector


class Waiting:
    """Two queues, queries before passages, and the memory of poisoned texts and recent queries."""

    def __init__(self) -> None:
        self.queries: deque[Job] = deque()
        self.passages: deque[Job] = deque()
        self.poisoned: dict[str, bool] = {}
        """By SHA-256 of the text: whether it was (also) a passage."""
        self._asked: dict[str, Job] = {}
        self._known: OrderedDict[str, bytes] = OrderedDict()

    def __len__(self) -> int:
        return len(self.queries) + len(self.passages)

    def known(self, query: str) -> bytes | None:
        """The vector of a query asked a short time ago."""
        vector = self._known.get(query)
        if vector is not None:
            self._known.move_to_end(query)
        return vector

    def asked(self, query: str) -> Job | None:
        """The job of a query that waits already."""
        return self._asked.get(query)

    def job(self, text: str, *, query: bool) -> Job:
        """A new job; that of a poisoned text is done."""
        job = Job(text, query, sha256_hex(text.encode("utf-8", "replace")))
        if job.digest in self.poisoned:
            self.poisoned[job.digest] |= not query
            self.finish(job, error=poisonous())
        return job

    def add(self, jobs: Iterable[Job]) -> None:
        """Queue what is not done."""
        for job in jobs:
            if not job.done.is_set():
                (self.queries if job.query else self.passages).append(job)
                if job.query:
                    self._asked[job.text] = job

    def take(self) -> Job | None:
        """The next text."""
        if self.queries:
            return self.queries.popleft()
        return self.passages.popleft() if self.passages else None

    def take_all(self) -> list[Job]:
        """Everything that waits."""
        jobs = [*self.queries, *self.passages]
        self.queries.clear()
        self.passages.clear()
        return jobs

    def put_back(self, job: Job) -> None:
        """First in its queue again after a failure, or poisoned after one too many."""
        if job.failures >= FAILURES_UNTIL_POISONED:
            self.poisoned[job.digest] = not job.query
            self.finish(job, error=poisonous())
        else:
            (self.queries if job.query else self.passages).appendleft(job)

    def withdraw(self, jobs: Iterable[Job]) -> None:
        """Take passages that nobody waits for any more out of the queue."""
        left = {id(job) for job in jobs if not job.done.is_set()}
        if left:
            self.passages = deque(job for job in self.passages if id(job) not in left)

    def finish(self, job: Job, *, vector: bytes | None = None, error: ModelError | None = None) -> None:
        """Hand the outcome to whoever waits."""
        job.vector, job.error = vector, error
        if job.query:
            self._asked.pop(job.text, None)
            if vector is not None:
                self._known[job.text] = vector
                while len(self._known) > REMEMBERED_QUERIES:
                    self._known.popitem(last=False)
        job.done.set()


def poisonous() -> TextPoisoned:
    """Why a text is not tried again."""
    return TextPoisoned("The embedding model's process ended twice over this text.")
