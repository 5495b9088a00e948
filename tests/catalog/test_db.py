from __future__ import annotations

import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from memoryd.catalog.db import Database, open_catalog, open_or_replace
from memoryd.errors import DatabaseDamaged, DiskFull, FormatUnsupported, HomeError, StorePoisoned

ITEMS = ("CREATE TABLE items (id INTEGER PRIMARY KEY, value TEXT NOT NULL);",)


@pytest.fixture
def items(tmp_path: Path):
    database = Database(tmp_path / "items.db", ITEMS)
    yield database
    database.close()


def put(database: Database, *values: str) -> None:
    with database.write() as tx:
        tx.executemany("INSERT INTO items (value) VALUES (?)", [(value,) for value in values])


def values(database: Database) -> list[str]:
    return [row[0] for row in database.rows("SELECT value FROM items ORDER BY id")]


def open_files(path: Path) -> list[str]:
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            continue
    return [name for name in found if name.startswith(str(path))]


def in_thread(work) -> None:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def copy_unclosed(database: Database, target: Path) -> Path:
    """The files as a kill would leave them now."""
    target.mkdir()
    for part in database.path.parent.glob(database.path.name + "*"):
        (target / part.name).write_bytes(part.read_bytes())
    return target / database.path.name


# --- transactions


def test_a_transaction_is_all_or_nothing(items: Database):
    put(items, "a")
    with pytest.raises(ZeroDivisionError), items.write() as tx:
        tx.execute("INSERT INTO items (value) VALUES ('b')")
        raise ZeroDivisionError
    put(items, "c")
    assert values(items) == ["a", "c"]


def test_a_second_transaction_inside_one_is_refused_and_the_first_goes_on(items: Database):
    with items.write() as tx:
        tx.execute("INSERT INTO items (value) VALUES ('a')")
        with pytest.raises(RuntimeError, match="already open"), items.write():
            pass
    assert values(items) == ["a"]


def test_faults_of_the_caller_keep_their_own_error(items: Database):
    with pytest.raises(sqlite3.IntegrityError), items.write() as tx:
        tx.execute("INSERT INTO items (value) VALUES (NULL)")
    with pytest.raises(sqlite3.OperationalError):
        items.rows("SELECT nothing FROM nowhere")
    assert not items.path.with_name("items.db.suspect").exists()
    put(items, "a")
    assert values(items) == ["a"]


def test_a_read_connection_cannot_write(items: Database):
    with pytest.raises(sqlite3.OperationalError):
        items.read().execute("INSERT INTO items (value) VALUES ('a')")


def test_what_the_file_says_about_itself(db: Database):
    assert db.meta("applied") is None
    with db.write() as tx:
        db.set_meta(tx, "applied", "1")
        db.set_meta(tx, "applied", "2")
    assert db.meta("applied") == "2"


# --- threads


def test_readers_never_wait_for_the_writer(items: Database):
    put(items, "old")
    with items.write() as tx:
        tx.execute("UPDATE items SET value = 'new'")
        seen: list[list[str]] = []
        in_thread(lambda: seen.append(values(items)))
        assert seen == [["old"]]
        assert values(items) == ["old"]
    assert values(items) == ["new"]


def test_eight_readers_beside_a_writer_see_only_whole_transactions(items: Database):
    """H21: one file under many threads; every read is one moment between two transactions."""
    done = threading.Event()
    failures: list[object] = []

    def watch() -> None:
        last = 0
        while not done.is_set():
            try:
                count, different = items.rows("SELECT count(*), count(DISTINCT value) FROM items")[0]
            except Exception as error:
                failures.append(error)
                return
            if count % 10 or count < last or different * 10 != count:
                failures.append((count, different, last))
            last = count

    readers = [threading.Thread(target=watch) for _ in range(8)]
    for reader in readers:
        reader.start()
    for number in range(100):
        put(items, *[str(number)] * 10)
    done.set()
    for reader in readers:
        reader.join()
    assert failures == []
    assert len(values(items)) == 1000


def test_eight_writers_take_turns(items: Database):
    def add() -> None:
        for _ in range(25):
            with items.write() as tx:
                count = tx.execute("SELECT count(*) FROM items").fetchone()[0]
                tx.execute("INSERT INTO items VALUES (?, 'x')", (count + 1,))

    writers = [threading.Thread(target=add) for _ in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [row[0] for row in items.rows("SELECT id FROM items ORDER BY id")] == list(range(1, 201))


def test_connections_of_ended_threads_do_not_pile_up(items: Database):
    for _ in range(20):
        in_thread(lambda: items.rows("SELECT 1 FROM items"))
    assert len([name for name in open_files(items.path) if name == str(items.path)]) <= 4


def test_close_closes_the_connections_of_every_thread(tmp_path: Path):
    database = Database(tmp_path / "items.db", ITEMS)
    hold, ready = threading.Event(), threading.Barrier(5)

    def use() -> None:
        values(database)
        ready.wait()
        hold.wait()

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    ready.wait()
    put(database, "a")
    assert open_files(database.path)
    database.close()
    database.close()
    assert open_files(database.path) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["items.db"]
    hold.set()
    for thread in threads:
        thread.join()


def test_a_closed_database_says_so(tmp_path: Path):
    database = Database(tmp_path / "items.db", ITEMS)
    values(database)
    database.close()
    with pytest.raises(HomeError, match="closed"):
        values(database)
    with pytest.raises(HomeError, match="closed"):
        database.read()
    with pytest.raises(HomeError, match="closed"):
        put(database, "a")
    with pytest.raises(HomeError, match="closed"):
        database.checkpoint()


# --- migrations


def test_migrations_run_in_order_and_once(tmp_path: Path):
    path = tmp_path / "items.db"
    first = Database(path, ITEMS)
    put(first, "a")
    first.close()
    steps = (*ITEMS, "ALTER TABLE items ADD COLUMN more TEXT NOT NULL DEFAULT 'm';", "UPDATE items SET value = 'b';")
    second = Database(path, steps)
    assert second.rows("SELECT value, more FROM items") == [("b", "m")]
    assert second.rows("PRAGMA user_version") == [(3,)]
    put(second, "c")
    second.close()
    third = Database(path, steps)
    assert values(third) == ["b", "c"]
    third.close()


def test_a_failing_migration_leaves_the_file_at_the_version_before(tmp_path: Path):
    path = tmp_path / "items.db"
    with pytest.raises(sqlite3.OperationalError):
        Database(path, (*ITEMS, "CREATE TABLE more (id); INSERT INTO nowhere VALUES (1);"))
    database = Database(path, ITEMS)
    assert database.rows("PRAGMA user_version") == [(1,)]
    assert database.rows("SELECT name FROM sqlite_master WHERE type = 'table'") == [("items",)]
    database.close()


def test_a_newer_version_is_refused_and_left_alone(tmp_path: Path):
    path = tmp_path / "catalog.db"
    open_catalog(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=999")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(FormatUnsupported, match="999") as caught:
        open_catalog(path)
    assert "upgrade" in caught.value.next_step
    assert path.read_bytes() == before
    assert list(tmp_path.glob("*.damaged-*")) == []


def test_tables_that_are_not_those_of_the_version_count_as_damage(tmp_path: Path):
    path = tmp_path / "catalog.db"
    open_catalog(path).close()
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE passages")
    connection.close()
    database = open_catalog(path)
    assert database.recreated
    assert database.rows("SELECT count(*) FROM passages") == [(0,)]
    database.close()


# --- files


def test_only_the_owner_may_read_the_files(items: Database):
    put(items, "a")
    for part in items.path.parent.iterdir():
        assert part.stat().st_mode & 0o077 == 0, part


def test_a_place_that_cannot_hold_a_file_is_a_clear_error(tmp_path: Path):
    (tmp_path / "catalog.db").mkdir()
    with pytest.raises(HomeError, match="catalog.db"):
        open_catalog(tmp_path / "catalog.db")
    with pytest.raises(HomeError, match="missing"):
        open_catalog(tmp_path / "missing" / "catalog.db")
    assert (tmp_path / "catalog.db").is_dir()


def test_names_that_sqlite_could_misread_are_plain_names(tmp_path: Path):
    path = tmp_path / "a?mode=ro#b%20 é" / "items.db"
    path.parent.mkdir()
    database = Database(path, ITEMS)
    put(database, "a")
    copy = copy_unclosed(database, tmp_path / "c?mode=memory")
    database.close()
    again = Database(copy, ITEMS)
    assert values(again) == ["a"]
    again.close()
    assert path.exists()


def test_case_17_the_log_stays_bounded_under_overlapping_readers(tmp_path: Path):
    """case 17: SQLite's own checkpoints starve under readers that never pause; the log must not grow without end."""
    limit = 1 << 20
    items = Database(tmp_path / "items.db", ITEMS, log_limit=limit)
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            items.rows("SELECT count(*) FROM items WHERE value LIKE 'x%'")

    readers = [threading.Thread(target=watch) for _ in range(4)]
    for reader in readers:
        reader.start()
    log = items.path.with_name("items.db-wal")
    largest = 0
    transaction = 0
    for number in range(40):
        with items.write(durable=False) as tx:
            tx.execute("DELETE FROM items")
            tx.executemany("INSERT INTO items (value) VALUES (?)", [(f"{number}" * 1000,) for _ in range(100)])
        largest = max(largest, log.stat().st_size)
        transaction = transaction or largest
    done.set()
    for reader in readers:
        reader.join()
    items.close()
    assert transaction * 40 > limit * 2
    assert largest <= limit + 3 * transaction


def test_a_checkpoint_empties_the_log_unless_a_reader_holds_it(items: Database):
    put(items, "a")
    log = items.path.with_name("items.db-wal")
    assert log.stat().st_size > 0
    assert items.checkpoint()
    assert log.stat().st_size == 0
    cursor = items.read().execute("SELECT 1 UNION ALL SELECT id FROM items")
    cursor.fetchone()
    put(items, "b")
    assert not items.checkpoint(wait_ms=1)
    cursor.close()
    assert items.checkpoint(wait_ms=1)
    assert values(items) == ["a", "b"]


def test_a_full_disk_is_named_and_nothing_is_half_written(items: Database):
    put(items, "a")
    with pytest.raises(DiskFull), items.write() as tx:
        tx.execute("PRAGMA max_page_count=1")
        tx.executemany("INSERT INTO items (value) VALUES (?)", [("x" * 1000,)] * 100)
    assert values(items) == ["a"]
    with items.write() as tx:
        tx.execute("PRAGMA max_page_count=1073741823")
    put(items, "b")
    assert values(items) == ["a", "b"]


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE])
def test_a_log_that_cannot_be_emptied_does_not_fail_what_was_committed(tmp_path: Path, monkeypatch, caplog, code):
    """The checkpoint comes after the commit; whoever wrote must not be told that nothing was kept."""
    items = Database(tmp_path / "items.db", ITEMS, log_limit=0)

    def refuse(_wait_ms: int) -> bool:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = code
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(items, "_empty_log", refuse)
        put(items, "a")
    assert values(items) == ["a"]
    assert "could not be emptied" in caplog.text
    if code == sqlite3.SQLITE_FULL:
        put(items, "b")
    else:
        with pytest.raises(StorePoisoned):
            put(items, "b")
    items.close()


def test_an_io_error_ends_all_writes_but_no_reads(tmp_path: Path):
    """After a write error no write is tried again; what was there stays readable, also for the next process."""
    child = tmp_path / "child.py"
    child.write_text(
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from memoryd.catalog.db import Database\n"
        "from memoryd.errors import StorePoisoned\n"
        f"database = Database(Path(sys.argv[1]), {ITEMS!r}, synchronous='FULL')\n"
        "def put(value):\n"
        "    with database.write() as tx:\n"
        "        tx.execute('INSERT INTO items (value) VALUES (?)', (value,))\n"
        "put('kept')\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, {resource.RLIM_INFINITY}))\n"
        "try:\n"
        "    put('x' * 100_000)\n"
        "    sys.exit('a write beyond the limit went through')\n"
        "except StorePoisoned as error:\n"
        "    print(type(error).__name__)\n"
        "try:\n"
        "    put('small')\n"
        "    sys.exit('a poisoned handle wrote')\n"
        "except StorePoisoned:\n"
        "    print(database.rows('SELECT value FROM items'))\n"
    )
    path = tmp_path / "items.db"
    done = subprocess.run([sys.executable, child, path], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "StorePoisoned\n[('kept',)]\n"), done.stderr
    database = Database(path, ITEMS)
    assert values(database) == ["kept"]
    database.close()


# --- damage


def filled(path: Path) -> Database:
    database = Database(path, ITEMS)
    for number in range(40):
        put(database, *[f"{number} " * 50] * 20)
    return database


def test_case_15_a_garbage_file_is_set_aside_and_made_again(tmp_path: Path):
    """case 15: never deleted, never silently empty; each damaged file keeps its own name."""
    path = tmp_path / "catalog.db"
    for number in (1, 2):
        garbage = random.Random(number).randbytes(20_000)
        path.write_bytes(garbage)
        database = open_catalog(path)
        assert database.recreated
        assert database.set_aside == tmp_path / f"catalog.db.damaged-{number}"
        assert database.set_aside.read_bytes() == garbage
        assert "damaged" in database.damage
        assert database.rows("SELECT count(*) FROM documents") == [(0,)]
        database.close()
    again = open_catalog(path)
    assert not again.recreated
    assert again.set_aside is None
    again.close()


@pytest.mark.parametrize("keep", [0.9, 0.5, 0.1])
def test_case_15_a_cut_file_is_set_aside(tmp_path: Path, keep: float):
    """case 15: the file lost its end."""
    path = tmp_path / "items.db"
    filled(path).close()
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep)])
    database = open_or_replace(path, ITEMS, synchronous="NORMAL")
    assert database.recreated
    assert values(database) == []
    database.close()


def test_case_15_a_damaged_page_is_found_at_the_start(tmp_path: Path):
    """case 15: the file is a database, one of its pages is not."""
    path = tmp_path / "items.db"
    filled(path).close()
    whole = bytearray(path.read_bytes())
    whole[8 * 4096 : 9 * 4096] = b"\xff" * 4096
    path.write_bytes(whole)
    database = open_or_replace(path, ITEMS, synchronous="NORMAL")
    assert database.recreated
    assert database.set_aside is not None
    assert database.set_aside.read_bytes() == whole
    database.close()


def spoil_log(path: Path, where: str) -> None:
    log = path.with_name(path.name + "-wal")
    data = bytearray(log.read_bytes())
    frames = (len(data) - 32) // 4120
    assert frames > 20
    middle = 32 + (frames // 2) * 4120
    if where == "magic":
        data[0] ^= 0xFF
    elif where == "header":
        data[20] ^= 1
    elif where == "cut header":
        data = data[:20]
    elif where == "page":
        data[middle + 24 + 100] ^= 1
    elif where == "salt":
        data[middle + 9] ^= 1
    elif where == "frame head":
        data[middle + 17] ^= 1
    elif where == "zeros":
        data[middle : middle + 4120] = bytes(4120)
    log.write_bytes(data)


@pytest.mark.parametrize("where", ["magic", "header", "cut header", "page", "salt", "frame head", "zeros"])
def test_case_15_a_malformed_log_is_set_aside_with_its_file(tmp_path: Path, where: str):
    """case 15: SQLite alone would go back to an earlier state without a word."""
    database = filled(tmp_path / "items.db")
    path = copy_unclosed(database, tmp_path / "killed")
    database.close()
    spoil_log(path, where)
    spoiled = path.with_name("items.db-wal").read_bytes()
    again = open_or_replace(path, ITEMS, synchronous="NORMAL")
    assert again.recreated
    assert again.set_aside is not None
    assert again.set_aside.exists()
    assert again.set_aside.with_name("items.db.damaged-1-wal").read_bytes() == spoiled
    assert values(again) == []
    again.close()


def test_case_15_the_whole_log_of_a_killed_process_is_replayed(tmp_path: Path):
    """case 15: a kill is not damage, and neither is a garbage shared-memory file."""
    database = filled(tmp_path / "items.db")
    expected = values(database)
    path = copy_unclosed(database, tmp_path / "killed")
    database.close()
    path.with_name("items.db-shm").write_bytes(b"\xa5" * 32768)
    again = open_or_replace(path, ITEMS, synchronous="NORMAL")
    assert not again.recreated
    assert values(again) == expected
    again.close()


def test_case_15_a_log_without_its_file_is_set_aside(tmp_path: Path):
    """case 15: SQLite would delete such a log."""
    database = filled(tmp_path / "items.db")
    path = copy_unclosed(database, tmp_path / "killed")
    database.close()
    path.unlink()
    again = open_or_replace(path, ITEMS, synchronous="NORMAL")
    assert again.recreated
    assert path.with_name("items.db.damaged-1-wal").exists()
    again.close()


def test_damage_met_while_running_is_typed_and_heals_at_the_next_start(tmp_path: Path, monkeypatch):
    """Also in a file that is too large to be checked at every start."""
    monkeypatch.setattr("memoryd.catalog.db._CHECK_LIMIT", 0)
    path = tmp_path / "items.db"
    filled(path).close()
    database = open_or_replace(path, ITEMS, synchronous="NORMAL")
    whole = bytearray(path.read_bytes())
    for page in range(2, len(whole) // 4096):
        whole[page * 4096 : page * 4096 + 100] = b"\xff" * 100
    with path.open("r+b") as stream:
        stream.write(whole)
    with pytest.raises(DatabaseDamaged) as caught:
        values(database)
    assert "Restart" in caught.value.next_step
    assert database.problems()
    database.close()
    again = open_or_replace(path, ITEMS, synchronous="NORMAL")
    assert again.recreated
    assert again.problems() == []
    again.close()
    last = open_or_replace(path, ITEMS, synchronous="NORMAL")
    assert not last.recreated
    last.close()


def test_a_killed_writer_leaves_whole_transactions(tmp_path: Path):
    """Killed at any moment: the next process finds a prefix of the transactions, each of them whole."""
    child = tmp_path / "child.py"
    child.write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "from memoryd.catalog.db import Database\n"
        f"database = Database(Path(sys.argv[1]), {ITEMS!r})\n"
        "number = 0\n"
        "while True:\n"
        "    with database.write() as tx:\n"
        "        tx.executemany('INSERT INTO items (value) VALUES (?)', [(f'{number} ' * 300,)] * 10)\n"
        "    number += 1\n"
        "    print(number, flush=True)\n"
    )
    for attempt in range(5):
        path = tmp_path / f"{attempt}" / "items.db"
        path.parent.mkdir()
        process = subprocess.Popen([sys.executable, child, path], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(5 + attempt * 30):
            acknowledged = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split("\n")
        acknowledged = max([acknowledged, *(int(line) for line in rest[:-1])])
        process.wait()
        process.stdout.close()
        database = open_or_replace(path, ITEMS, synchronous="NORMAL")
        found = [int(value.split()[0]) for value in values(database)]
        assert not database.recreated
        assert len(found) >= acknowledged * 10
        assert found == sorted(found)
        assert found == [number for number in range(len(found) // 10) for _ in range(10)]
        database.close()
