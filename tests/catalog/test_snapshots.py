"""Rows of snapshot records: found by label, number, root and source, and never outside the scopes named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memoryd.catalog.db import Database
from memoryd.catalog.snapshots import Snapshots
from memoryd.records import SnapshotRecord

FIRST = SnapshotRecord("before", "/w", "global", "ab" * 32, "2026-01-01T00:00:00Z", 5, 3, 700, 1)
SECOND = replace(FIRST, root="abcd" * 16, seq=7)
OTHER = SnapshotRecord("before", "docs", "p-x-00000000", "ab" * 32, "2026-01-02T00:00:00Z", 6)


@pytest.fixture
def snapshots(db: Database) -> Snapshots:
    found = Snapshots(db)
    with db.write() as tx:
        for record in (SECOND, FIRST, OTHER, FIRST):
            found.apply(tx, record)
    return found


def test_all_come_newest_first_and_keep_every_field(snapshots):
    assert snapshots.all(None) == [SECOND, OTHER, FIRST]
    assert snapshots.all(None, 1) == [SECOND]
    assert SnapshotRecord.from_json(FIRST.to_json(), FIRST.seq) == FIRST


def test_look_ups_see_only_the_scopes_named(snapshots):
    assert snapshots.all(["p-x-00000000"]) == [OTHER]
    assert snapshots.labelled("before", ["global"]) == [FIRST, SECOND]
    assert snapshots.labelled("before", []) == []
    assert snapshots.numbered(6, ["global"]) is None
    assert snapshots.numbered(6, None) == OTHER
    assert snapshots.rooted("abab", ["global"]) == [FIRST]
    assert snapshots.rooted("ab", None) == [FIRST, OTHER, SECOND]
    assert (snapshots.count(["global"]), snapshots.count(None)) == (2, 3)


def test_the_last_of_a_source(snapshots):
    assert snapshots.last_of("/w") == SECOND
    assert snapshots.last_of("elsewhere") is None


def test_a_removed_row_is_gone_and_the_others_stay(db, snapshots):
    with db.write() as tx:
        snapshots.remove(tx, SECOND.seq)
    assert snapshots.all(None) == [OTHER, FIRST]
