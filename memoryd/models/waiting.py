"""Which texts wait for the model, in which order, and what became of those that were tried?

Plain bookkeeping without a lock of its own: `ModelHost` calls it with its lock held.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from memoryd.digest import sha256_hex
from memoryd.errors import ModelError, ModelUnavailable, TextPoisoned
from memoryd.records import Encoded

REMEMBERED_QUERIES = 256
FAILURES_UNTIL_POISONED = 2
BATCH_TEXTS = 32
SPECIAL_TOKENS = 2


@dataclass(slots=True, eq=False)
class Job:
    """One text on its way; `done` is set exactly once, then either `encoded` or `error` is there.

    `tokens`: token vectors are wanted as well. `alone`: it was in a batch that failed, so it goes alone from now on.
    """

    text: str
    query: bool
    digest: str
    tokens: bool = False
    alone: bool = False
    failures: int = 0
    encoded: Encoded | None = None
    error: ModelError | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def wait(self, timeout: float) -> Encoded:
        """What is made of the text, waited for at most `timeout` seconds. Raises ModelUnavailable, else its error."""
        if not self.done.wait(timeout):
            raise ModelUnavailable(
                f"The embedding model did not answer within {timeout:g} s; it goes on working.",
                next_step="Ask again in a few seconds; a model that is still starting is quick after that.",
            )
        return self.outcome()

    def outcome(self) -> Encoded:
        """What was made of a text that is done. Raises its error."""
        if self.error is not None:
            raise self.error
        assert self.encoded is not None
        return self.encoded


@dataclass(slots=True, eq=False)
class Reranking:
    """Passages that wait to be scored against a query: (text, token vectors or b"") each.

    Once `done`, `scores` are there (and `made`, the token vectors that were missing), or None with a `reason`.
    """

    method: str
    query: str
    candidates: Sequence[tuple[str, bytes]]
    seconds: float
    scores: list[float] | None = None
    made: list[bytes] = field(default_factory=list)
    reason: str = ""
    done: threading.Event = field(default_factory=threading.Event)

    def finish(self, scores: list[float] | None, made: list[bytes], reason: str) -> None:
        """Hand the outcome to whoever waits."""
        self.scores, self.made, self.reason = scores, made, reason
        self.done.set()


class Waiting:
    """Two queues, queries before passages, and the memory of poisoned texts and recent queries."""

    def __init__(self) -> None:
        self.queries: deque[Job | Reranking] = deque()
        self.passages: deque[Job] = deque()
        self.poisoned: dict[str, bool] = {}
        """By SHA-256 of the text: whether it was (also) a passage."""
        self._asked: dict[str, Job] = {}
        self._known: OrderedDict[str, Encoded] = OrderedDict()
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self.queries) + len(self.passages)

    def known(self, query: str) -> Encoded | None:
        """What was made of a query asked a short time ago."""
        encoded = self._known.get(query)
        if encoded is not None:
            self._known.move_to_end(query)
        self.hits += encoded is not None
        self.misses += encoded is None
        return encoded

    def remembered(self) -> int:
        """How many queries `known` has an answer for."""
        return len(self._known)

    def asked(self, query: str) -> Job | None:
        """The job of a query that waits already."""
        return self._asked.get(query)

    def job(self, text: str, *, query: bool, tokens: bool = False) -> Job:
        """A new job; that of a poisoned text is done."""
        job = Job(text, query, sha256_hex(text.encode("utf-8", "replace")), tokens)
        if job.digest in self.poisoned:
            self.poisoned[job.digest] |= not query
            self.finish(job, error=poisonous())
        return job

    def add(self, jobs: Iterable[Job | Reranking]) -> None:
        """Queue what is not done."""
        for job in jobs:
            if isinstance(job, Reranking):
                self.queries.append(job)
            elif not job.done.is_set():
                (self.queries if job.query else self.passages).append(job)
                if job.query:
                    self._asked[job.text] = job

    def take(self, batch_tokens: int) -> list[Job] | Reranking | None:
        """What goes into the model next: a query, a reranking, or passages of together so many tokens at most."""
        if self.queries:
            first = self.queries.popleft()
            return [first] if isinstance(first, Job) else first
        if not self.passages:
            return None
        batch = [self.passages.popleft()]
        longest = _tokens(batch[0].text)
        while self.passages and len(batch) < BATCH_TEXTS and not batch[0].alone:
            longest = max(longest, _tokens(self.passages[0].text))
            if longest * (len(batch) + 1) > batch_tokens or self.passages[0].alone:
                break
            batch.append(self.passages.popleft())
        return batch

    def take_all(self) -> list[Job | Reranking]:
        """Everything that waits."""
        jobs = [*self.queries, *self.passages]
        self.queries.clear()
        self.passages.clear()
        return jobs

    def put_back(self, jobs: Sequence[Job], *, blame: bool) -> None:
        """First in their queue again after a failure; one alone may be to blame, and is poisoned after one too many.

        Nobody knows which one of several it was: each goes alone from now on.
        """
        for job in reversed(jobs):
            job.alone = job.alone or (blame and len(jobs) > 1)
            job.failures += blame and len(jobs) == 1
            self._put_back(job)

    def _put_back(self, job: Job) -> None:
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

    def finish(self, job: Job, *, encoded: Encoded | None = None, error: ModelError | None = None) -> None:
        """Hand the outcome to whoever waits."""
        job.encoded, job.error = encoded, error
        if job.query:
            self._asked.pop(job.text, None)
            if encoded is not None:
                self._known[job.text] = encoded
                while len(self._known) > REMEMBERED_QUERIES:
                    self._known.popitem(last=False)
        job.done.set()

    def abandon(self, error: ModelError, *more: Job | Reranking) -> None:
        """Nobody waits any longer: `more`, and everything that waits, ends with this error."""
        for one in [*more, *self.take_all()]:
            if isinstance(one, Reranking):
                one.finish(None, [], error.message)
            elif not one.done.is_set():
                self.finish(one, error=error)


def _tokens(text: str) -> int:
    """About how many tokens a text has, rather too many: a third of its characters, all of those beyond ASCII."""
    return SPECIAL_TOKENS + (len(text) // 3 if text.isascii() else len(text))


def poisonous() -> TextPoisoned:
    """Why a text is not tried again."""
    return TextPoisoned("The embedding model's process ended twice over this text.")
