"""Which revision of a fact was in force when, and what did its file say then?

Told by the states of each revision's file as they were taken in, and by the times in their frontmatter: `updated` says
when a state was made, the day on which it was seen says it where that is newer (an edit by hand, a revert in git).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memoryd.catalog.memories import MemoryRow, instant
from memoryd.errors import InvalidInput, NotFound, StoreError, VaultFileInvalid
from memoryd.operations.home import Home
from memoryd.operations.moments import SECOND, moment
from memoryd.operations.moments import told as moment_told
from memoryd.operations.signals import REVISIONS_MOST
from memoryd.records import MemoryFields
from memoryd.sources import entry

Scopes = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """From when until when (microseconds since 1970, None: until now) a file held a revision in force, in one state."""

    row: MemoryRow
    address: str
    begin: int
    end: int | None

    def holds(self, at: int) -> bool:
        """Whether that moment lies in it."""
        return self.begin <= at and (self.end is None or at < self.end)


def chain(home: Home, scopes: Scopes, memory: MemoryRow) -> list[MemoryRow]:
    """The revisions of a memory's fact, oldest first, then what took its place with a fact of its own."""
    found = {row.fields.id: row for row in home.memories.revisions(memory.fields.fact, scopes, REVISIONS_MOST)}
    found.setdefault(memory.fields.id, memory)
    ends = [row.fields.superseded_by for row in found.values()]
    while ends and len(found) < 2 * REVISIONS_MOST:
        target = ends.pop()
        row = home.memories.get(target, scopes) if target is not None and target not in found else None
        if row is not None:
            found[row.fields.id] = row
            ends.append(row.fields.superseded_by)
    return list(found.values())


def shown(home: Home, scopes: Scopes, memory: MemoryRow) -> list[dict[str, Any]]:
    """The chain as answers show it: who superseded whom, and when each was in force."""
    return [_shown(row, spans(home, scopes, row)) for row in chain(home, scopes, memory)]


def _shown(row: MemoryRow, held: Sequence[Span]) -> dict[str, Any]:
    fields = row.fields
    told: dict[str, Any] = {
        "id": fields.id,
        "status": fields.status,
        "title": fields.title,
        "created": fields.created,
        "address": row.address,
        "supersedes": fields.supersedes,
        "superseded_by": fields.superseded_by,
        "in_force": [
            {"from": moment_told(begin), "until": None if end is None else moment_told(end)}
            for begin, end in _joined(held)
        ],
    }
    return told if fields.archive_reason is None else {**told, "archive_reason": fields.archive_reason}


def _joined(held: Sequence[Span]) -> list[tuple[int, int | None]]:
    """The times alone: one state after the other is one time in force."""
    times: list[tuple[int, int | None]] = []
    for span in held:
        if times and times[-1][1] == span.begin:
            times[-1] = (times[-1][0], span.end)
        else:
            times.append((span.begin, span.end))
    return times


def spans(home: Home, scopes: Scopes, row: MemoryRow) -> list[Span]:
    """When this revision was in force, as the states of its file tell, oldest first."""
    turns: list[tuple[int, bool, str]] = []
    before: MemoryFields | None = None
    for event in home.documents.history(row.document_id, scopes):
        seen = instant(event.observed) or 0
        fields = _read(home, event.address) if event.address is not None else None
        if event.address is None:
            turns.append((seen, False, ""))
        elif fields is not None and before is None:
            turns += _first(fields, event.address, seen)
        elif fields is not None:
            stamp = instant(fields.updated) if fields.updated != (before or fields).updated else None
            last = turns[-1][0] if turns else 0
            turns.append((stamp if stamp is not None and stamp > last else seen, _held(fields), event.address))
        before = fields or before
    ends: list[int | None] = [at for at, _, _ in turns[1:]]
    return [Span(row, address, at, end) for (at, held, address), end in zip(turns, [*ends, None], strict=False) if held]


def _first(fields: MemoryFields, address: str, seen: int) -> list[tuple[int, bool, str]]:
    """What the first known state tells: a vault that came from elsewhere may begin with a retired one."""
    made = instant(fields.created)
    began = (made if made is not None else seen, True, address)
    if _held(fields):
        return [began]
    retired = instant(fields.updated)
    return [began, (retired if retired is not None else seen, False, address)]


def _held(fields: MemoryFields) -> bool:
    return fields.status == "in_force"


def _read(home: Home, address: str) -> MemoryFields | None:
    """A state's frontmatter; None where it cannot be read or was broken by hand: the state before goes on."""
    try:
        return entry.parse(home.store.read(address)).fields
    except (NotFound, StoreError, VaultFileInvalid):
        return None


def in_force_at(home: Home, scopes: Scopes, memory: MemoryRow, text: str) -> tuple[Span, int]:
    """The revision of the memory's fact that was in force at a moment, and the moment.

    The memory itself where it was; else of several the one that came last. Raises InvalidInput for what says no moment,
    NotFound where none was in force.
    """
    now = int(home.clock() * SECOND)
    at = moment(text, now)
    if at is None:
        raise InvalidInput(
            f"`as_of` {text[:80]!r} says no moment.",
            next_step="Give a day (its first moment in UTC), a time in ISO 8601, or words like `2 days ago`.",
            parameter="as_of",
        )
    every = [span for row in chain(home, scopes, memory) for span in spans(home, scopes, row)]
    held = [span for span in every if span.holds(at)]
    if not held:
        raise _none_in_force(memory, every, at)
    own = [span for span in held if span.row.fields.id == memory.fields.id]
    return max(own or held, key=lambda span: (span.begin, span.row.fields.seq)), at


def _none_in_force(memory: MemoryRow, every: Sequence[Span], at: int) -> NotFound:
    first = min((span.begin for span in every), default=None)
    why = "it was retired then" if first is None or first <= at else f"it was first remembered {moment_told(first)}"
    return NotFound(
        f"No revision of {memory.fields.id[:12]} was in force at {moment_told(at)}: {why}.",
        next_step="Pass `metadata` with the id: `revisions` shows when each was in force.",
    )
