"""What is in force follows from the records alone, in whatever order they come."""

from __future__ import annotations

import random

import pytest

from memoryd.config import RetentionConfig
from memoryd.operations.roots import DAY, Ledger, seconds
from memoryd.records import DocumentEvent, SnapshotRecord, TombstoneRecord
from memoryd.store import pack as packs

NOW = 1_800_000_000.0
STRICT = RetentionConfig(history_revisions=0, history_days=0, snapshots=1, snapshot_days=0)


def at(days_ago: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(NOW - days_ago * DAY, UTC).isoformat()


def seen(seq: int, content: int | None, *, source: str = "docs", path: bytes = b"a", days_ago: float = 0) -> tuple:
    address = None if content is None else "sha256:" + f"{content:064x}"
    event = "gone" if content is None else "seen"
    return (
        packs.DOCUMENT,
        seq,
        DocumentEvent(source, path, "global", "document", event, address, 1, observed=at(days_ago)).to_json(),
    )


def shot(seq: int, root: int, *, label: str = "l", days_ago: float = 0) -> tuple:
    return packs.SNAPSHOT, seq, SnapshotRecord(label, "docs", "global", f"{root:064x}", at(days_ago)).to_json()


def stone(seq: int, *, content: int | None = None, target: int | None = None) -> tuple:
    address = None if content is None else "sha256:" + f"{content:064x}"
    return packs.TOMBSTONE, seq, TombstoneRecord(address, target, "why").to_json()


def decided(*records: tuple, retention: RetentionConfig = STRICT, expire: bool = True):
    ledger = Ledger()
    for kind, seq, data in random.Random(len(records)).sample(records, len(records)):
        ledger.take(kind, seq, data)
        ledger.take(kind, seq, data)
    return ledger.decide(retention, NOW, expire=expire)


def numbers(addresses: set[bytes]) -> set[int]:
    return {int.from_bytes(address, "big") for address in addresses}


def test_the_newest_record_of_each_document_is_in_force():
    found = decided(seen(1, 1), seen(2, 2), seen(3, 3, path=b"b"), seen(4, 1))
    assert numbers(found.contents) == {1, 3}
    assert found.expired == [1, 2]


def test_a_document_that_is_gone_keeps_its_last_record_and_no_content():
    found = decided(seen(1, 1), seen(2, None))
    assert (found.contents, found.expired) == (set(), [1])


@pytest.mark.parametrize("source", ["vault", "artifact"])
def test_memories_and_artifacts_keep_everything(source):
    found = decided(seen(1, 1, source=source), seen(2, 2, source=source), seen(3, None, source=source))
    assert (numbers(found.contents), found.expired) == ({1, 2}, [])


def test_a_state_counts_its_days_from_when_it_was_replaced():
    records = [seen(1, 1, days_ago=400), seen(2, 2, days_ago=11), seen(3, 3, days_ago=2)]
    for days, left in ((1, {3}), (5, {2, 3}), (20, {1, 2, 3})):
        found = decided(*records, retention=STRICT.model_copy(update={"history_days": days}))
        assert numbers(found.contents) == left
    for count, left in ((0, {3}), (1, {2, 3}), (2, {1, 2, 3})):
        found = decided(*records, retention=STRICT.model_copy(update={"history_revisions": count}))
        assert numbers(found.contents) == left


def test_snapshots_stay_by_count_or_by_age_and_the_newest_always():
    records = [shot(1, 1, days_ago=300), shot(2, 2, days_ago=200), shot(3, 3, days_ago=100), shot(4, 4, label="other")]
    assert numbers(decided(*records).trees) == {3, 4}
    assert decided(*records).expired_snapshots == [2, 1]
    assert numbers(decided(*records, retention=STRICT.model_copy(update={"snapshots": 2})).trees) == {2, 3, 4}
    assert numbers(decided(*records, retention=STRICT.model_copy(update={"snapshot_days": 250})).trees) == {2, 3, 4}


def test_nothing_expires_where_it_must_not():
    records = [seen(1, 1), seen(2, 2), shot(3, 3, days_ago=9), shot(4, 4)]
    found = decided(*records, expire=False)
    assert (numbers(found.contents), numbers(found.trees), found.expired) == ({1, 2}, {3, 4}, [])


def test_a_tombstone_takes_back_one_record():
    found = decided(seen(1, 1, source="vault"), seen(2, 2, source="vault"), stone(3, target=1))
    assert (numbers(found.contents), found.buried) == ({2}, {1})


def test_a_tombstone_takes_back_every_older_record_of_a_content():
    records = [seen(1, 1), seen(2, 1, path=b"b"), seen(3, None), seen(4, None, path=b"b"), stone(5, content=1)]
    found = decided(*records)
    assert (found.contents, found.buried, numbers(found.forgotten)) == (set(), {1, 2}, {1})
    again = decided(*records, seen(6, 1))
    assert (numbers(again.contents), again.buried, again.forgotten) == ({1}, {1, 2}, set())


def test_a_tombstone_whose_record_is_gone_may_go_unless_it_bears_the_last_number():
    found = decided(seen(5, 1), stone(6, target=1), stone(7, target=2))
    assert found.idle == {6}
    assert decided(stone(6, target=1), seen(7, 1)).idle == {6}


def test_a_time_that_is_none_expires_nothing_by_its_age():
    assert seconds("yesterday") is None
    record = DocumentEvent("docs", b"a", "global", "document", "seen", "sha256:" + "0" * 63 + "2", 1, observed="?")
    found = decided(
        seen(1, 1), (packs.DOCUMENT, 2, record.to_json()), retention=STRICT.model_copy(update={"history_days": 1})
    )
    assert numbers(found.contents) == {1, 2}
