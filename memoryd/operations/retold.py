"""Which lost records of a damaged pack follow from what the catalog still says?

Rows tell documents, snapshots and scopes. A tombstone left no row of its own: that a content was erased stands in the
catalog's marks, and that a single record was taken back shows where the packs hold a record of which the catalog, which
came further than it, knows nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from memoryd.catalog.told import Told
from memoryd.digest import canonical_json
from memoryd.operations import burial, ingest
from memoryd.operations.home import Home
from memoryd.records import DocumentEvent, ScopeRecord, SnapshotRecord, TombstoneRecord
from memoryd.store import pack as packs
from memoryd.store.mend import Record, Ruin

REASON = "taken back once; the reason was lost with a damaged pack"
Known = DocumentEvent | SnapshotRecord | ScopeRecord | TombstoneRecord


@dataclass(slots=True)
class Retold:
    """The records that are known, and the numbers of which nothing is."""

    records: list[Record] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)

    def know(self, kind: int, seq: int, record: Known) -> None:
        """A record that is to be written again under its number."""
        self.records.append((kind, seq, canonical_json({**record.to_json(), "seq": seq})))


def retold(home: Home, ruin: Ruin) -> Retold:
    """The lost records of one pack. Raises StoreError kinds."""
    found = Retold()
    for first, last in ruin.records:
        known = {seq: (kind, record) for kind, seq, record in _known(home, first, last) if seq not in ruin.held}
        for seq, (kind, record) in known.items():
            found.know(kind, seq, record)
        found.lost += [seq for seq in range(first, last + 1) if seq not in ruin.held and seq not in known]
    if found.lost:
        _take_back(home, found)
    return found


def _known(home: Home, first: int, last: int) -> Iterator[tuple[int, int, Known]]:
    told = Told(home.catalog)
    for document in told.documents(first, last):
        yield packs.DOCUMENT, document.seq, document
    for snapshot in told.snapshots(first, last):
        yield packs.SNAPSHOT, snapshot.seq, snapshot
    for scope in told.scopes(first, last):
        yield packs.SCOPE, scope.seq, scope
    for address, seq in burial.forgotten(home).items():
        if first <= seq <= last:
            yield packs.TOMBSTONE, seq, TombstoneRecord(address, None, REASON, seq)


def _take_back(home: Home, found: Retold) -> None:
    """Give lost numbers to tombstones of single records: which number one has makes no difference."""
    for target, seq in zip(_buried(home), list(found.lost), strict=False):
        found.know(packs.TOMBSTONE, seq, TombstoneRecord(None, target, REASON, seq))
        found.lost.remove(seq)


def _buried(home: Home) -> list[int]:
    """Records in the packs that the catalog took back, but for those that a tombstone there, or an erasure, names."""
    applied, erased, told = ingest.applied(home), burial.forgotten(home), Told(home.catalog)
    there: dict[int, str | None] = {}
    named: set[int | None] = set()
    for record in home.store.records(lost=[]):
        if record.kind in (packs.RECORD_NAMES[packs.DOCUMENT], packs.RECORD_NAMES[packs.SNAPSHOT]):
            there[record.seq] = record.data.get("address")
        elif record.kind == packs.RECORD_NAMES[packs.TOMBSTONE]:
            named.add(record.data.get("target"))
    return [
        seq
        for seq, address in there.items()
        if seq <= applied
        and seq not in named
        and not (address is not None and seq < erased.get(address, 0))
        and not (told.documents(seq, seq) or told.snapshots(seq, seq))
    ]
