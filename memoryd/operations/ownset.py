"""Which questions does a person's own vault ask, and which memory answers each?

Nothing here is invented: a memory is asked for by its title, by the words of its key, and by the words that were true
before it (its superseded predecessors: an agent that still believes them must find what holds now). Facts that answers
handed out before count as `recalled`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from memoryd.catalog.memories import MemoryRow
from memoryd.operations.home import Home
from memoryd.operations.known import body_of
from memoryd.records import GLOBAL_SCOPE

MOST = 20_000
LONGEST = 300
"""Characters of a predecessor that are asked."""
FEWEST_WORDS = 2
MOST_REVISIONS = 50
_BREAKS = re.compile(r"[._/\-]+")


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, in which scopes, and the document that answers it (`category` says where it comes from)."""

    text: str
    scopes: tuple[str, ...]
    answer: str
    category: str
    recalled: bool


def questions(home: Home, recalled: Mapping[str, object]) -> list[Question]:
    """All questions that the memories in force answer; `recalled` has the facts that were handed out as its keys.

    A question that several memories would answer (the same title twice) is left out.
    """
    rows = home.memories.listed(None, ("in_force",), (), MOST, 0)
    found: dict[tuple[str, str], list[Question]] = {}
    for row in rows:
        for one in _of(home, row, row.fields.fact in recalled):
            found.setdefault((one.text.casefold(), one.scopes[-1]), []).append(one)
    return [same[0] for same in found.values() if len({one.answer for one in same}) == 1]


def _of(home: Home, row: MemoryRow, recalled: bool) -> Iterator[Question]:
    for category, text in _asked(home, row):
        if len(text.split()) >= FEWEST_WORDS:
            scopes = tuple(dict.fromkeys((GLOBAL_SCOPE, row.fields.scope)))
            yield Question(text[:LONGEST], scopes, row.document_id, category, recalled)


def _asked(home: Home, row: MemoryRow) -> Iterator[tuple[str, str]]:
    yield "title", row.fields.title
    if row.fields.key:
        yield "key", _BREAKS.sub(" ", row.fields.key)
    for past in home.memories.revisions(row.fields.fact, None, MOST_REVISIONS):
        if past.fields.id != row.fields.id:
            yield "outdated", body_of(home, past)
