"""Which memories in force were not asked for in a long time, are blamed, or say too much?

Everything is counted by fact. A memory is never called unused for a time in which nobody counted: a state.db that is
younger than the memory knows nothing of before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memoryd.catalog.feedback import Verdict
from memoryd.catalog.memories import MemoryRow, instant
from memoryd.catalog.state import Recall
from memoryd.operations.home import Home
from memoryd.operations.twins import stored_body

DAY = 86_400
SECOND = 1_000_000
LENGTHS_MOST = 100_000


@dataclass(frozen=True, slots=True)
class Use:
    """What was counted for the fact of a memory in force; times in seconds since 1970, `last` 0 for never."""

    row: MemoryRow
    made: float
    recalls: int
    last: float

    def idle(self, now: float) -> float:
        """Seconds since somebody was shown it, or since it was made."""
        return now - max(self.last, self.made)


def uses(home: Home, rows: Sequence[MemoryRow]) -> list[Use]:
    """How often each of these was recalled, by any revision of its fact."""
    names = _names(rows, home)
    written, waiting = home.state.recalls.all(), home.noticed.peek()
    praised = _praised(home, names)
    found = []
    for row in rows:
        every = names[row.fields.fact]
        counted = [counts[name] for counts in (written, waiting) for name in every if name in counts]
        said = praised.get(row.fields.fact, 0.0)
        found.append(Use(row, made(row), sum(one.amount for one in counted), max(_last(counted), said)))
    return found


def made(row: MemoryRow) -> float:
    """When the revision was made; the epoch where its file holds no time (it is then old, not new)."""
    at = instant(row.fields.created)
    return 0.0 if at is None else at / SECOND


def _names(rows: Iterable[MemoryRow], home: Home) -> dict[str, set[str]]:
    """Every name that the fact of each memory may have been counted under."""
    names: dict[str, set[str]] = {row.fields.fact: {row.fields.fact} for row in rows}
    for id, fact in home.memories.facts():
        if fact in names:
            names[fact].add(id)
    return names


def _praised(home: Home, names: dict[str, set[str]]) -> dict[str, float]:
    """When each fact was last called useful: as good as a recall."""
    fact_of = {name: fact for fact, every in names.items() for name in every}
    last: dict[str, float] = {}
    for said in home.state.feedback.praise():
        fact = fact_of.get(said.fact)
        if fact is not None:
            last[fact] = max(last.get(fact, 0.0), said.given)
    return last


def _last(counted: Sequence[Recall]) -> float:
    return max((one.last for one in counted), default=0.0)


def stale(home: Home, every: Iterable[Use]) -> list[Use]:
    """Those that were of use once and for `review.stale_days` no more; the longest unused first."""
    now, limit = home.clock(), home.config.review.stale_days * DAY
    found = [one for one in every if one.last and one.idle(now) >= limit]
    return sorted(found, key=lambda one: (-one.idle(now), one.row.fields.id))


def never_recalled(home: Home, every: Iterable[Use]) -> list[Use]:
    """Those that nobody was shown in the `review.unrecalled_days` or more since they were made, or counting began."""
    now, limit = home.clock(), home.config.review.unrecalled_days * DAY
    since = home.state.counting_since(now, begin=False)
    found = [one for one in every if not one.last and now - max(one.made, since) >= limit]
    return sorted(found, key=lambda one: (one.made, one.row.fields.id))


def blamed(home: Home, rows: Iterable[MemoryRow]) -> list[tuple[MemoryRow, list[Verdict]]]:
    """Those that were called wrong or outdated, with what was said of this very revision; the last word first."""
    said: dict[str, list[Verdict]] = {}
    for one in home.state.feedback.against():
        said.setdefault(one.memory, []).append(one)
    found = [(row, said[row.fields.id]) for row in rows if row.fields.id in said]
    return sorted(found, key=lambda one: (-one[1][0].given, one[0].fields.id))


def verbose(home: Home, rows: Iterable[MemoryRow]) -> list[tuple[MemoryRow, int]]:
    """Those of more than `review.verbose_words` words, with their number; the longest first."""
    limit = home.config.review.verbose_words
    found = [(row, count) for row in rows if (count := _length(home, row)) > limit]
    return sorted(found, key=lambda one: (-one[1], one[0].fields.id))


def _length(home: Home, row: MemoryRow) -> int:
    """The words of a memory; 0 where it cannot be read. Counted once for each content."""
    known = home.lengths.get(row.address)
    if known is not None:
        return known
    body = stored_body(home, row)
    if body is None:
        return 0
    if len(home.lengths) >= LENGTHS_MOST:
        home.lengths.clear()
    home.lengths[row.address] = count = len(body.split())
    return count
