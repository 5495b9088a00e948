"""index.db: rows in and out, packs that replace others, and refusal of a file that is none of ours."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from pathlib import Path

import pytest

from memoryd.store.chunkindex import BATCH, ChunkIndex, PackRows, Place, RecordFrame, Totals

A, B, C = (bytes([n]) * 16 for n in (1, 2, 3))


def key(n: int) -> bytes:
    return hashlib.sha256(b"%d" % n).digest()


@pytest.fixture
def index(tmp_path: Path):
    made = ChunkIndex(tmp_path / "index.db")
    yield made
    made.close()


def rows(pack: bytes, numbers: range | list[int], **more) -> PackRows:
    return PackRows(pack, 1000, chunks=[(key(n), 32, n * 10, 10, n % 2 == 0) for n in numbers], **more)


def test_places_are_found_in_batches(index):
    index.apply(rows(A, range(1000)))
    found = index.chunks([key(n) for n in range(1500)])
    assert len(found) == 1000
    assert found[key(7)] == [Place(A, 32, 70, 10, 10, False)]
    assert index.chunks([]) == {}
    for count in (1, 2, 3, BATCH - 1, BATCH, BATCH + 1):
        assert len(index.chunks([key(n) for n in range(count)])) == count


def test_every_copy_is_listed(index):
    index.apply(rows(A, [1]))
    index.apply(rows(B, [1, 2]))
    assert {place.pack for place in index.chunks([key(1)])[key(1)]} == {A, B}


def test_applying_twice_changes_nothing(index):
    index.apply(rows(A, range(10)))
    before = index.totals()
    index.apply(rows(A, range(10)))
    assert index.totals() == before == Totals(1, 10, 5, 100, 1000)


def test_manifests_and_records(index):
    index.apply(PackRows(A, 1, last_seq=9, manifests=[(key(1), 32, 5, 48, 70)], records=[(4, 99, 9)]))
    index.apply(PackRows(B, 1, last_seq=12, records=[(10, 32, 12)]))
    assert index.manifests([key(1), key(2)]) == {key(1): [Place(A, 32, 5, 48, 70, True)]}
    assert index.record_frames(0) == [RecordFrame(4, 9, A, 99), RecordFrame(10, 12, B, 32)]
    assert index.record_frames(9) == [RecordFrame(10, 12, B, 32)]
    assert index.record_frames(8) == [RecordFrame(4, 9, A, 99), RecordFrame(10, 12, B, 32)]
    assert index.last_seq() == 12


@pytest.mark.parametrize("order", ["old first", "new first"])
def test_a_replaced_pack_is_not_read(index, order):
    """`replaces` counts whichever pack is applied first; the replaced one stays known, without rows."""
    old, new = rows(A, range(10)), rows(B, range(4), replaces=(A, C))
    for one in [old, new] if order == "old first" else [new, old]:
        index.apply(one)
    assert set(index.chunks([key(n) for n in range(10)])) == {key(n) for n in range(4)}
    assert {place.pack for places in index.chunks([key(1)]).values() for place in places} == {B}
    assert index.applied() == {A, B}
    assert index.packs() == {A: (0, True), B: (4, False)}
    assert index.totals() == Totals(1, 4, 2, 40, 1000)


def test_what_lies_in_a_frame(index):
    index.apply(rows(A, range(10)))
    index.apply(PackRows(B, 1, manifests=[(key(77), 40, 0, 48, 70)]))
    assert index.held_in(A, None) == (sorted(key(n) for n in range(0, 10, 2)), 5)
    assert index.held_in(A, 33) == ([], 0)
    assert index.held_in(B, 40) == ([key(77)], 0)


def test_refilling_replaces_everything(index):
    index.apply(rows(A, range(10), last_seq=3))
    index.refill(iter([rows(B, range(5), last_seq=2)]))
    assert index.applied() == {B}
    assert index.totals().chunks == 5
    assert index.last_seq() == 2
    assert index.chunks([key(1)])[key(1)][0].pack == B


def test_a_failing_refill_leaves_the_rows_as_they_were(index):
    index.apply(rows(A, range(10)))

    def broken():
        yield rows(B, range(5))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.refill(broken())
    assert index.applied() == {A}
    assert len(index.chunks([key(n) for n in range(10)])) == 10
    index.apply(rows(C, [50]))
    assert index.chunks([key(50)])[key(50)][0].pack == C


def test_rows_survive_reopening(index, tmp_path):
    index.apply(rows(A, range(10)))
    index.close()
    again = ChunkIndex(tmp_path / "index.db")
    assert again.chunks([key(3)]) == {key(3): [Place(A, 32, 30, 10, 10, False)]}
    assert again.problems() == []
    again.close()


@pytest.mark.parametrize(
    "data",
    [b"not a database" * 100, bytes(8192), b"SQLite format 3\0" + bytes(84), b"SQLite format 3\0" + b"\xff" * 9000],
)
def test_a_file_that_is_no_index_is_refused(tmp_path, data):
    (tmp_path / "index.db").write_bytes(data)
    with pytest.raises(sqlite3.DatabaseError):
        ChunkIndex(tmp_path / "index.db").close()


@pytest.mark.parametrize("change", ["PRAGMA user_version=9", "PRAGMA application_id=1", "PRAGMA user_version=0"])
def test_another_schema_is_refused(tmp_path, change):
    path = tmp_path / "index.db"
    ChunkIndex(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(change)
    connection.close()
    with pytest.raises(sqlite3.DatabaseError, match="schema"):
        ChunkIndex(path)


def test_a_closed_index_refuses(index):
    index.apply(rows(A, range(3)))
    index.close()
    with pytest.raises(sqlite3.ProgrammingError):
        index.chunks([key(1)])


def test_readers_see_whole_packs_while_one_is_applied(index):
    """A pack's rows appear together: a reader that sees one of its chunks sees all."""
    done = threading.Event()
    partial = []

    def look() -> None:
        while not done.is_set():
            seen = len(index.chunks([key(n) for n in range(0, 2000, 10)]))
            if seen not in (0, 200):
                partial.append(seen)

    reader = threading.Thread(target=look)
    reader.start()
    index.apply(rows(A, range(2000)))
    for n in range(20):
        index.apply(rows(bytes([n + 10]) * 16, [5000 + n]))
    done.set()
    reader.join()
    assert partial == []
    assert index.totals().packs == 21


def test_an_index_that_lets_packs_go_is_durable_before_they_are_removed(tmp_path):
    """Found by replaying power losses: after two rewrites an older index would list packs that nobody can explain."""
    index = ChunkIndex(tmp_path / "index.db")
    said: list[str] = []
    index._writer.set_trace_callback(said.append)
    index.apply(PackRows(bytes(16), 10))
    index.apply(PackRows(b"x" * 16, 10, replaces=(bytes(16),)))
    index.apply(PackRows(b"y" * 16, 10))
    levels = [one for one in said if one.startswith(("PRAGMA synchronous", "COMMIT"))]
    assert levels == [
        *("PRAGMA synchronous=NORMAL", "COMMIT"),
        *("PRAGMA synchronous=FULL", "COMMIT"),
        *("PRAGMA synchronous=NORMAL", "COMMIT"),
    ]
    index.close()


def test_rows_of_a_pack_that_is_not_listed_are_damage(tmp_path):
    """A flipped bit in a row's pack number is no KeyError: the keeper makes such an index anew."""
    index = ChunkIndex(tmp_path / "index.db")
    index.apply(PackRows(bytes(16), 10, chunks=[(b"d" * 32, 32, 0, 5, True)]))
    index._writer.execute("UPDATE chunks SET pack = 77")
    with pytest.raises(sqlite3.DatabaseError):
        index.chunks([b"d" * 32])
    with pytest.raises(sqlite3.DatabaseError):
        index.sums()
    index.close()
