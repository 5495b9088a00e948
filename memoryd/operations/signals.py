"""How often was a fact handed out, read, praised, blamed and rewritten?

Nothing here is a rank: searches do not look at it. All of it follows the fact; a fact that took another one over (a
memory that replaced one with a history of its own) brings along what was counted for it before.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from memoryd.catalog.feedback import VERDICTS, Verdict
from memoryd.catalog.memories import MemoryRow, instant
from memoryd.catalog.state import Recall
from memoryd.operations.home import Home

CHURN_SECONDS = 86_400
"""A revision that was replaced so soon after it was made had not been thought through."""
REVISIONS_MOST = 100
NOTES_MOST = 5


def revisions(home: Home, fact: str, scopes: Sequence[str] | None) -> list[MemoryRow]:
    """The newest revisions of a fact, oldest first."""
    return home.memories.revisions(fact, scopes, REVISIONS_MOST)


def names_of(fact: str, members: Sequence[MemoryRow]) -> list[str]:
    """Every name that the fact may have been counted under: its own, and those of its revisions as facts apart."""
    return [*{fact, *(row.fields.id for row in members)}]


def signals(home: Home, fact: str, scopes: Sequence[str] | None) -> dict[str, Any]:
    """What was counted for the revisions of a fact that the scopes show; times in UTC."""
    members = revisions(home, fact, scopes)
    names = names_of(fact, members)
    waiting = home.noticed.waiting(names)
    recalls = _sum([*home.state.recalls.of(names).values(), *waiting[0]])
    fetches = _sum([*home.state.fetches.of(names).values(), *waiting[1]])
    said = home.state.feedback.of(names)
    return {
        "recalls": {"count": recalls.amount, "last": told(recalls.last)},
        "fetched_after_search": {"count": fetches.amount, "last": told(fetches.last)},
        "feedback": {**_counted(said), "newest": [_shown(one) for one in said[:NOTES_MOST]]},
        "churn": churn(members),
    }


def feedback_counts(home: Home, fact: str, scopes: Sequence[str] | None) -> dict[str, int]:
    """How often each verdict was given on a revision of the fact that the scopes show."""
    return _counted(home.state.feedback.of(names_of(fact, revisions(home, fact, scopes))))


def churn(members: Sequence[MemoryRow]) -> int:
    """How many revisions were replaced within a day of their making."""
    made = [moment for row in members if (moment := instant(row.fields.created)) is not None]
    return sum(0 <= later - earlier < CHURN_SECONDS * 1_000_000 for earlier, later in pairwise(made))


def told(seconds: float) -> str | None:
    """A moment (seconds since 1970) as answers show it, None for never."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)) if seconds else None


def _sum(counts: Iterable[Recall]) -> Recall:
    every = list(counts)
    return Recall(sum(one.amount for one in every), max((one.last for one in every), default=0.0))


def _counted(said: Sequence[Verdict]) -> dict[str, int]:
    return {verdict: sum(one.verdict == verdict for one in said) for verdict in VERDICTS}


def _shown(one: Verdict) -> dict[str, Any]:
    return {"verdict": one.verdict, "note": one.note, "id": one.memory, "by": one.session, "given": told(one.given)}
