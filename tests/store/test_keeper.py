"""index.db is a view: lost, torn, garbled or behind, the answers stay the same."""

from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from memoryd.errors import NotFound

CONTENTS = [b"one", b"", b"three" * 400, bytes(70_000), random.Random(1).randbytes(90_000)]


@pytest.fixture
def filled(opened, put, tmp_path) -> tuple[Path, list[str]]:
    """A closed home with several packs, records included, and the addresses in it."""
    store = opened()
    addresses = [put(store, content)[0] for content in CONTENTS]
    with store.group() as group:
        for n in range(5):
            group.record("document", {"v": 1, "n": n})
        group.commit()
    store.close()
    return tmp_path / "home", addresses


def right(store, addresses: list[str]) -> bool:
    assert [store.read(address) for address in addresses] == CONTENTS
    assert [record.seq for record in store.records()] == [1, 2, 3, 4, 5]
    assert store.last_seq() == 5
    assert (store.stats().packs, store.stats().contents) == (6, 5)
    assert list(store.findings(read_data=True)) == []
    return True


def set_aside(home: Path) -> list[str]:
    return [path.name for path in (home / "store/quarantine").iterdir()]


def test_a_deleted_index_is_made_anew(opened, filled):
    home, addresses = filled
    (home / "store/index.db").unlink()
    assert right(opened(), addresses)
    assert set_aside(home) == []


@pytest.mark.parametrize("how", ["garbage", "empty", "half", "middle", "another schema", "a table less"])
def test_case_15_a_damaged_index_is_quarantined_and_rebuilt(opened, filled, how):
    """case 15: what is malformed is moved to quarantine and made anew from the packs, never taken as it is."""
    home, addresses = filled
    path = home / "store/index.db"
    data = bytearray(path.read_bytes())
    if how == "another schema":
        edit(path, "PRAGMA user_version=77")
    elif how == "a table less":
        edit(path, "DROP TABLE chunks")
    else:
        data[4096 * 2 : 4096 * 4] = b"\xa5" * 8192
        path.write_bytes(
            {"garbage": b"garbage" * 999, "empty": b"", "half": data[: len(data) // 2], "middle": data}[how]
        )
    assert right(opened(), addresses)
    assert bool(set_aside(home)) == (how != "empty")  # an empty file is what SQLite makes first


def edit(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("how", ["torn", "garbage", "dropped", "flipped"])
def test_case_15_a_torn_wal_loses_nothing(opened, put, filled, tmp_path, how):
    """case 15: an index whose write-ahead log was torn goes back to a checkpoint; the packs bring it forward again."""
    home, addresses = filled
    store = opened()
    late = [put(store, b"late %d" % n * 50)[0] for n in range(8)]
    copy = tmp_path / "crashed"
    shutil.copytree(home, copy)  # the state on disk of a process that was killed
    wal = copy / "store/index.db-wal"
    data = bytearray(wal.read_bytes())
    assert len(data) > 10_000
    if how == "dropped":
        wal.unlink()
    else:
        data[len(data) // 2] ^= 0xFF
        torn = {"torn": data[: len(data) // 2], "garbage": b"\x5a" * len(data), "flipped": data}[how]
        wal.write_bytes(torn)
    again = opened(home=copy)
    assert [again.read(address) for address in addresses] == CONTENTS
    assert [again.read(address) for address in late] == [b"late %d" % n * 50 for n in range(8)]
    assert list(again.findings(read_data=True)) == []


def test_an_older_index_catches_up(opened, put, filled, tmp_path):
    home, addresses = filled
    shutil.copy(home / "store/index.db", tmp_path / "older.db")
    store = opened()
    [late] = put(store, b"a later pack")
    store.close()
    shutil.copy(tmp_path / "older.db", home / "store/index.db")
    again = opened()
    assert again.read(late) == b"a later pack"
    assert [again.read(address) for address in addresses] == CONTENTS


@pytest.mark.parametrize("when", ["read", "write", "rebuild"])
def test_an_index_that_breaks_while_it_is_open_heals_itself(opened, put, filled, when):
    """Pages garbled under a running store: the next question makes the index anew and is answered."""
    home, addresses = filled
    store = opened()
    path = home / "store/index.db"
    with path.open("r+b") as file:
        size = file.seek(0, 2)
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))
    if when == "write":
        put(store, b"written on a broken index")
    elif when == "rebuild":
        store.rebuild_index()
    assert [store.read(address) for address in addresses] == CONTENTS
    assert list(store.findings(read_data=True)) == []
    assert set_aside(home)
    with pytest.raises(NotFound):
        store.read("0" * 64)


def test_a_pack_without_one_readable_frame_does_not_hinder_the_others(opened, filled):
    home, addresses = filled
    pack = max((home / "store/packs").rglob("*.pack"), key=lambda path: path.stat().st_size)
    pack.write_bytes(b"")
    (home / "store/index.db").unlink()
    store = opened()
    assert [store.read(address) for address in addresses[:4]] == CONTENTS[:4]
    with pytest.raises(NotFound):
        store.read(addresses[4])
    assert [finding.code for finding in store.findings(read_data=False)] == ["pack-damaged"]


def test_a_check_names_an_index_that_broke(opened, filled):
    """The check itself heals nothing: it says what is wrong, and a rebuild makes it right."""
    home, addresses = filled
    store = opened()
    with (home / "store/index.db").open("r+b") as file:
        size = file.seek(0, 2)
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))
    assert "index-damaged" in {finding.code for finding in store.findings(read_data=False)}
    store.rebuild_index()
    assert right(store, addresses)
