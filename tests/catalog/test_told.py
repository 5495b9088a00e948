"""What the catalog knows of records is what was applied to it."""

from __future__ import annotations

from memoryd.catalog.scopes import Scopes
from memoryd.catalog.snapshots import Snapshots
from memoryd.catalog.told import Told
from memoryd.records import ScopeRecord, SnapshotRecord
from tests.catalog.make import A, B, C, apply, event


def test_document_records_come_back_with_their_numbers(db):
    given = [event(1, A), event(2, B, tags=("x", "y"), exec=True), event(3, None), event(4, C, path=b"\xff.md")]
    apply(db, *given)
    told = Told(db)
    assert told.documents(4, 9) == given[3:]
    found = told.documents(1, 3)
    assert [(one.seq, one.event, one.address, one.observed) for one in found] == [
        (one.seq, one.event, one.address, one.observed) for one in given[:3]
    ]
    assert list(told.addresses()) == sorted({A, B, C})


def test_an_artifacts_title_is_part_of_its_record(db):
    apply(db, event(1, A, source="artifact"), event(2, A, source="docs"), title="Build log")
    assert [one.title for one in Told(db).documents(1, 2)] == ["Build log", ""]


def test_snapshots_and_scopes(db):
    snapshot = SnapshotRecord("l", "docs", "global", "ab" * 32, "now", 5, 3, 700, 1)
    scope = ScopeRecord("p-x-00000000", "x", None, "/w", 6)
    with db.write() as tx:
        Snapshots(db).apply(tx, snapshot)
        Scopes(db).apply(tx, scope)
    told = Told(db)
    assert told.snapshots(1, 9) == [snapshot]
    assert told.snapshots(6, 9) == []
    assert told.scopes(1, 9) == [scope]
    assert told.scopes(7, 9) == []
