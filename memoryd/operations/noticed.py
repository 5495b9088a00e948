"""Which facts were shown to whom a moment ago, and which of that still waits to be counted?

Kept in memory, so that no answer waits for a disk: the home writes the counts down in the background. A count means
that an answer held words of the fact. A fact that a search showed and that the same session then reads whole was worth
reading: that is counted apart.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from memoryd.catalog.state import Recall

FETCH_SECONDS = 900
"""A fact that is read whole so soon after the same session's search showed it was fetched because of that."""
FACTS_WAITING = 10_000
SHOWN_KEPT = 10_000
Session = tuple[str, str | None]
"""A caller's name and directory."""


class Noticed:
    """Counts that wait, and what searches showed. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recalls: dict[str, Recall] = {}
        self._fetches: dict[str, Recall] = {}
        self._shown: OrderedDict[tuple[Session, str], float] = OrderedDict()

    def listed(self, session: Session, facts: Iterable[str], now: float) -> None:
        """A search or a brief showed words of these facts."""
        with self._lock:
            for fact in dict.fromkeys(facts):
                _count(self._recalls, fact, Recall(1, now))
                self._shown[session, fact] = now
                self._shown.move_to_end((session, fact))
            while len(self._shown) > SHOWN_KEPT:
                self._shown.popitem(last=False)

    def read(self, session: Session, fact: str, now: float) -> None:
        """Somebody read an entry; one search pays for one fetch, however many parts of the entry are read."""
        with self._lock:
            _count(self._recalls, fact, Recall(1, now))
            shown = self._shown.pop((session, fact), None)
            if shown is not None and now - shown <= FETCH_SECONDS:
                _count(self._fetches, fact, Recall(1, now))

    def take(self) -> tuple[dict[str, Recall], dict[str, Recall]]:
        """Recalls and fetches that wait, which are from now on the caller's to keep."""
        with self._lock:
            taken = self._recalls, self._fetches
            self._recalls, self._fetches = {}, {}
            return taken

    def peek(self) -> dict[str, Recall]:
        """Recalls that are not written down yet; they go on waiting."""
        with self._lock:
            return dict(self._recalls)

    def give_back(self, recalls: Mapping[str, Recall], fetches: Mapping[str, Recall]) -> None:
        """What was taken could not be kept: it waits again."""
        with self._lock:
            for waiting, counts in ((self._recalls, recalls), (self._fetches, fetches)):
                for fact, count in counts.items():
                    _count(waiting, fact, count)

    def waiting(self, facts: Iterable[str]) -> tuple[list[Recall], list[Recall]]:
        """Recalls and fetches of these facts that are not written down yet."""
        with self._lock:
            wanted = list(facts)
            return (
                [self._recalls[fact] for fact in wanted if fact in self._recalls],
                [self._fetches[fact] for fact in wanted if fact in self._fetches],
            )


def _count(counts: dict[str, Recall], fact: str, more: Recall) -> None:
    had = counts.get(fact)
    if had is None and len(counts) >= FACTS_WAITING:
        return  # a disk that takes nothing for so long costs counts, not memory
    counts[fact] = more if had is None else Recall(had.amount + more.amount, max(had.last, more.last))
