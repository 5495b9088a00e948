"""Which contents, trees and records are in force, as the records of the packs alone tell it?

The newest record of every document is in force, and every scope record and tombstone. Former states and snapshots stay
as long as the configuration's numbers say; memories and artifacts keep their whole history. A tombstone takes back one
record, or every record of a content that is older than itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memoryd.config import RetentionConfig
from memoryd.digest import raw_address
from memoryd.records import ARTIFACT_SOURCE, VAULT_SOURCE, DocumentEvent, SnapshotRecord, TombstoneRecord
from memoryd.store import pack as packs

KEPT_SOURCES = frozenset({VAULT_SOURCE, ARTIFACT_SOURCE})
"""Sources whose documents keep every state they ever had."""
DAY = 86_400.0


@dataclass(slots=True)
class State:
    """One record of a document: `address` None where it was gone, `observed` None where that is no time."""

    seq: int
    address: bytes | None
    observed: float | None


@dataclass(slots=True)
class Decision:
    """What is in force (32-byte addresses), which records go now, and which are taken back already."""

    contents: set[bytes] = field(default_factory=set)
    trees: set[bytes] = field(default_factory=set)
    expired_documents: list[int] = field(default_factory=list)
    expired_snapshots: list[int] = field(default_factory=list)
    buried: set[int] = field(default_factory=set)
    """Records that a tombstone took back."""
    idle: set[int] = field(default_factory=set)
    """Tombstones of single records that are gone."""
    forgotten: set[bytes] = field(default_factory=set)
    """Contents that a tombstone names and that no later record brought back."""

    @property
    def expired(self) -> list[int]:
        """Records that a tombstone is to take back now, oldest first."""
        return sorted(self.expired_documents + self.expired_snapshots)


class Ledger:
    """Takes every record once, in any order, and decides at the end."""

    def __init__(self) -> None:
        self.documents: dict[tuple[str, bytes], list[State]] = {}
        self.snapshots: dict[tuple[str, str], list[tuple[int, bytes, float | None]]] = {}
        self.targets: dict[int, int] = {}
        """seq of the tombstone by the record that it takes back."""
        self.addresses: dict[bytes, int] = {}
        """seq of the newest tombstone by content."""
        self.last_seq = 0
        self._seen: set[int] = set()

    def take(self, kind: int, seq: int, data: dict[str, Any]) -> None:
        """One record; a second copy changes nothing."""
        if seq in self._seen:
            return
        self._seen.add(seq)
        self.last_seq = max(self.last_seq, seq)
        if kind == packs.DOCUMENT:
            event = DocumentEvent.from_json(data, seq)
            state = State(seq, None if event.address is None else raw_address(event.address), seconds(event.observed))
            self.documents.setdefault((event.source, event.path), []).append(state)
        elif kind == packs.SNAPSHOT:
            shot = SnapshotRecord.from_json(data, seq)
            found = (seq, bytes.fromhex(shot.root), seconds(shot.created))
            self.snapshots.setdefault((shot.source, shot.label), []).append(found)
        elif kind == packs.TOMBSTONE:
            self._bury(TombstoneRecord.from_json(data, seq))

    def _bury(self, stone: TombstoneRecord) -> None:
        if stone.address is not None:
            address = raw_address(stone.address)
            self.addresses[address] = max(stone.seq, self.addresses.get(address, 0))
        elif stone.target is not None:
            self.targets[stone.target] = stone.seq

    def hide(self, contents: Iterable[bytes], seqs: Iterable[int]) -> None:
        """Decide as if tombstones for these contents and records had been written last."""
        self.last_seq += 1
        self.addresses.update(dict.fromkeys(contents, self.last_seq))
        self.targets.update(dict.fromkeys(seqs, self.last_seq))

    def buried(self, seq: int, address: bytes | None = None) -> bool:
        """Whether a tombstone takes back this record (of this content)."""
        return seq in self.targets or (address is not None and seq < self.addresses.get(address, 0))

    def decide(self, retention: RetentionConfig, now: float, *, expire: bool = True) -> Decision:
        """What stays and what goes; without `expire` nothing new goes."""
        found = Decision(forgotten=set(self.addresses))
        for (source, _path), states in self.documents.items():
            left = self._standing(states, found)
            found.forgotten.difference_update([state.address for state in left if state.address is not None])
            whole = source in KEPT_SOURCES or not expire
            kept = len(left) if whole else 0
            for rank, (state, next_seen) in enumerate(_newest_first(left)):
                if rank < max(kept, 1 + retention.history_revisions) or _within(next_seen, retention.history_days, now):
                    if state.address is not None:
                        found.contents.add(state.address)
                else:
                    found.expired_documents.append(state.seq)
        for shots in self.snapshots.values():
            self._decide_snapshots(shots, retention, now, found, expire=expire)
        found.idle = {stone for target, stone in self.targets.items() if target not in self._seen}
        for records in (found.buried, found.idle):
            records.discard(self.last_seq)  # it says how far the numbers were given out
        return found

    def _standing(self, states: list[State], found: Decision) -> list[State]:
        left = [state for state in states if not self.buried(state.seq, state.address)]
        found.buried |= {state.seq for state in states} - {state.seq for state in left}
        return left

    def _decide_snapshots(
        self,
        shots: list[tuple[int, bytes, float | None]],
        retention: RetentionConfig,
        now: float,
        found: Decision,
        *,
        expire: bool,
    ) -> None:
        left = sorted((shot for shot in shots if not self.buried(shot[0])), reverse=True)
        found.buried |= {shot[0] for shot in shots} - {shot[0] for shot in left}
        for rank, (seq, root, created) in enumerate(left):
            if not expire or rank < retention.snapshots or _within(created, retention.snapshot_days, now):
                found.trees.add(root)
            else:
                found.expired_snapshots.append(seq)


def _newest_first(states: Iterable[State]) -> Iterator[tuple[State, float | None]]:
    """Each state with the time at which the next one took its place; the current one has none."""
    next_seen: float | None = None
    for state in sorted(states, key=lambda one: one.seq, reverse=True):
        yield state, next_seen
        next_seen = state.observed


def _within(when: float | None, days: int, now: float) -> bool:
    """Whether that is at most so many days ago; a time that nobody knows is."""
    return when is None or now - when <= days * DAY if days else False


def seconds(text: str) -> float | None:
    """A record's time as seconds since 1970; None where it is no time."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
