from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryd.catalog.journal import log_damage

FRAME = 24 + 4096


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a database that was killed after 30 transactions of several frames each."""
    path = tmp_path_factory.mktemp("killed") / "a.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA wal_autocheckpoint=0")
    connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, v TEXT)")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for number in range(30):
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO t (v) VALUES (?)", [(str(number) * 2000,)] * 4)
        connection.execute("COMMIT")
    files = {part.name: part.read_bytes() for part in path.parent.glob("a.db*")}
    connection.close()
    return files


def lay_out(folder: Path, files: dict[str, bytes], log: bytes | None = None) -> Path:
    for name, data in files.items():
        if not name.endswith("-shm"):
            (folder / name).write_bytes(data)
    if log is not None:
        (folder / "a.db-wal").write_bytes(log)
    (folder / "a.db-shm").unlink(missing_ok=True)
    return folder / "a.db"


def rows(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT count(*) FROM t").fetchone()[0]
    finally:
        connection.close()


def commits(log: bytes) -> list[int]:
    """Numbers (from 1) of the frames that end a transaction."""
    ends = range(1, (len(log) - 32) // FRAME + 1)
    return [number for number in ends if any(log[32 + (number - 1) * FRAME + 4 : 32 + (number - 1) * FRAME + 8])]


def test_a_whole_log_and_no_log_are_no_damage(tmp_path: Path, killed):
    path = lay_out(tmp_path, killed)
    assert log_damage(path) is None
    assert path.with_name("a.db-wal").read_bytes() == killed["a.db-wal"]
    assert path.read_bytes() == killed["a.db"]
    assert rows(path) == 120
    path.with_name("a.db-wal").unlink(missing_ok=True)
    assert log_damage(path) is None
    path.with_name("a.db-wal").touch()
    assert log_damage(path) is None


def test_a_log_without_its_database_is_damage(tmp_path: Path, killed):
    path = lay_out(tmp_path, killed)
    path.write_bytes(b"")
    assert log_damage(path)
    path.unlink()
    assert log_damage(path)
    assert not path.exists()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_case_15_a_log_that_was_cut_is_a_kill_not_damage(tmp_path: Path, killed, data):
    """case 15: whole transactions up to the cut are there."""
    whole = killed["a.db-wal"]
    cut = data.draw(st.integers(32, len(whole)))
    path = lay_out(tmp_path, killed, whole[:cut])
    assert log_damage(path) is None
    kept = sum(1 for number in commits(whole) if 32 + number * FRAME <= cut)
    assert rows(path) == kept * 4


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_case_15_any_flipped_bit_that_costs_a_commit_is_found(tmp_path: Path, killed, data):
    """case 15: wherever it is, but in the last frame, where it cannot be told from a frame torn by a kill."""
    whole = killed["a.db-wal"]
    last = 32 + (commits(whole)[-1] - 1) * FRAME
    at = data.draw(st.integers(0, len(whole) - 1))
    log = bytearray(whole)
    log[at] ^= 1 << data.draw(st.integers(0, 7))
    path = lay_out(tmp_path, killed, bytes(log))
    found = log_damage(path)
    if at < last:
        # The page size and the header's unused words have their own checks; a changed header never verifies.
        assert found is not None
        assert "log" in found
    else:
        assert found is None
        assert rows(path) == 116


def test_the_remains_of_a_rolled_back_transaction_are_no_damage(tmp_path: Path):
    """A large transaction spills into the log before it is rolled back; a later small one overwrites only its start."""
    source = tmp_path / "source"
    source.mkdir()
    connection = sqlite3.connect(source / "a.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA cache_size=10")
    connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, v TEXT)")
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO t (v) VALUES (?)", [("x" * 3000,)] * 200)
    connection.execute("ROLLBACK")
    connection.execute("INSERT INTO t (v) VALUES ('kept')")
    files = {part.name: part.read_bytes() for part in source.glob("a.db*")}
    connection.close()
    assert (len(files["a.db-wal"]) - 32) // FRAME > commits(files["a.db-wal"])[-1] + 50
    path = lay_out(tmp_path, files)
    assert log_damage(path) is None
    assert rows(path) == 1


def test_the_rest_of_an_earlier_run_is_no_damage(tmp_path: Path):
    """After a checkpoint the log is written from its start again; older frames behind it belong to the run before."""
    source = tmp_path / "source"
    source.mkdir()
    connection = sqlite3.connect(source / "a.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, v TEXT)")
    for _ in range(20):
        connection.execute("INSERT INTO t (v) VALUES (?)", ("x" * 3000,))
    connection.execute("PRAGMA wal_checkpoint(RESTART)")
    connection.execute("INSERT INTO t (v) VALUES ('last')")
    files = {part.name: part.read_bytes() for part in source.glob("a.db*")}
    connection.close()
    assert len(commits(files["a.db-wal"])) > 10
    path = lay_out(tmp_path, files)
    assert log_damage(path) is None
    assert rows(path) == 21
