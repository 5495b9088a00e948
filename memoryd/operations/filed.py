"""Which memories in force were found to say the same or to contradict each other, and who may settle that?

The gateway and the background check file what they find; a person or an agent decides. Nothing is retired here: a
finding vanishes by itself once one of its two memories is no longer in force, and comes back should it be again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memoryd.catalog.findings import KINDS, Finding
from memoryd.catalog.memories import MemoryRow
from memoryd.errors import NotFound
from memoryd.operations.home import Home

REASON_MOST = 500
"""Characters of a reason that are kept."""


@dataclass(frozen=True, slots=True)
class Open:
    """A finding nobody settled, about two memories in force."""

    finding: Finding
    memory: MemoryRow
    other: MemoryRow


def file(home: Home, kind: str, memory_id: str, other_id: str, score: float | None, reason: str) -> bool:
    """Note that two memories are `similar` or in `conflict`; False where that is known of the pair, settled or not.

    `memory_id` is the one that was looked at (the newer one), `other_id` what it was compared with; whole ids. Raises
    StoreError kinds.
    """
    if kind not in KINDS or memory_id == other_id:
        raise ValueError(f"no finding: {kind} of {memory_id} and {other_id}")
    found = Finding(kind, memory_id, other_id, score, reason[:REASON_MOST], home.clock())
    home.reviewed.clear()
    return home.state.findings.file(found)


def open_findings(home: Home, scopes: Sequence[str] | None, kind: str | None = None) -> list[Open]:
    """What nobody settled, the newest first; both memories in force and in the scopes (None: all of them)."""
    found = [one for one in home.state.findings.open() if kind in (None, one.kind)]
    rows = home.memories.get_many([*{id for one in found for id in (one.memory, one.other)}], scopes)
    live = {id: row for id, row in rows.items() if row.fields.status == "in_force"}
    return [Open(one, live[one.memory], live[one.other]) for one in found if one.memory in live and one.other in live]


def settle(home: Home, scopes: Sequence[str] | None, kind: str, memory_id: str, other_id: str) -> bool:
    """Note that both memories may stand beside each other: the pair is not shown, and not filed, again.

    False where that was noted before. Raises NotFound where nothing was filed, or a memory lies outside the scopes.
    """
    filed = home.state.findings.find(kind, memory_id, other_id)
    if filed is None or len(home.memories.get_many([memory_id, other_id], scopes)) < 2:
        raise NotFound(f"No {kind} was filed for {memory_id[:80]!r} and {other_id[:80]!r} in this session's scopes.")
    return home.state.findings.settle(kind, memory_id, other_id, home.clock())
