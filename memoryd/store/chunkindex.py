"""In which pack and frame does a chunk, a manifest or a record lie?

`index.db` is a view (SQLite, WAL, synchronous NORMAL): it lists which packs it has applied, so that one that lost its
last commits, or all of them, catches up from the packs. A replaced pack has no rows. Methods raise sqlite3.Error.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

APPLICATION_ID = 0x4D444958
SCHEMA_VERSION = 2
BATCH = 256
CHECKED_AT_OPEN = 64 << 20
"""Up to this many bytes, an index is checked by SQLite at every open; a larger one after an unclean end."""
_SCHEMA = """
CREATE TABLE packs(id INTEGER PRIMARY KEY, uuid BLOB NOT NULL UNIQUE, size INTEGER NOT NULL,
    chunks INTEGER NOT NULL, contents INTEGER NOT NULL, raw_bytes INTEGER NOT NULL, last_seq INTEGER NOT NULL);
CREATE TABLE replaced(uuid BLOB NOT NULL, pack INTEGER NOT NULL, PRIMARY KEY(uuid, pack)) WITHOUT ROWID;
CREATE TABLE chunks(sha256 BLOB NOT NULL, pack INTEGER NOT NULL, frame_off INTEGER NOT NULL,
    inner_off INTEGER NOT NULL, raw_len INTEGER NOT NULL, whole INTEGER NOT NULL,
    PRIMARY KEY(sha256, pack, frame_off, inner_off)) WITHOUT ROWID;
CREATE TABLE manifests(address BLOB NOT NULL, pack INTEGER NOT NULL, frame_off INTEGER NOT NULL,
    inner_off INTEGER NOT NULL, raw_len INTEGER NOT NULL, size INTEGER NOT NULL,
    PRIMARY KEY(address, pack, frame_off, inner_off)) WITHOUT ROWID;
CREATE TABLE nodes(address BLOB NOT NULL, pack INTEGER NOT NULL, frame_off INTEGER NOT NULL,
    inner_off INTEGER NOT NULL, raw_len INTEGER NOT NULL,
    PRIMARY KEY(address, pack, frame_off, inner_off)) WITHOUT ROWID;
CREATE TABLE records(first_seq INTEGER NOT NULL, pack INTEGER NOT NULL, frame_off INTEGER NOT NULL,
    last_seq INTEGER NOT NULL, PRIMARY KEY(first_seq, pack, frame_off)) WITHOUT ROWID;
"""
_TABLES = ("chunks", "manifests", "nodes", "records")


class Place(NamedTuple):
    """Where one copy of a chunk, manifest or tree node lies. `size` is its raw length, of a manifest the content's;
    `whole` says that a chunk is a content of its own."""

    pack: bytes
    frame_off: int
    inner_off: int
    raw_len: int
    size: int
    whole: bool


class RecordFrame(NamedTuple):
    """A frame of records with sequence numbers from `first_seq` to `last_seq`."""

    first_seq: int
    last_seq: int
    pack: bytes
    frame_off: int


@dataclass(slots=True)
class PackRows:
    """What one pack adds to the index.

    chunks: (sha256, frame_off, inner_off, raw_len, whole); manifests: (address, frame_off, inner_off, raw_len, size);
    nodes: (address, frame_off, inner_off, raw_len); records: (first_seq, frame_off, last_seq);
    replaces: ids of packs that must no longer be read.
    """

    pack: bytes
    size: int
    last_seq: int = 0
    chunks: list[tuple[bytes, int, int, int, bool]] = field(default_factory=list)
    manifests: list[tuple[bytes, int, int, int, int]] = field(default_factory=list)
    nodes: list[tuple[bytes, int, int, int]] = field(default_factory=list)
    records: list[tuple[int, int, int]] = field(default_factory=list)
    replaces: tuple[bytes, ...] = ()

    def contents(self) -> int:
        return sum(1 for row in self.chunks if row[4]) + len(self.manifests)


def sum_of(rows: PackRows) -> int:
    """What `ChunkIndex.sums` says of a pack when it holds exactly these rows."""
    tables = (("chunks", rows.chunks), ("manifests", rows.manifests), ("nodes", rows.nodes), ("records", rows.records))
    return sum(hash((name, *row)) for name, found in tables for row in set(found))


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all applied packs; a second copy of a chunk counts again."""

    packs: int
    chunks: int
    contents: int
    raw_bytes: int
    stored_bytes: int


class _Ids(dict[int, bytes]):
    """Pack ids by their numbers; a row that names no listed pack is damage."""

    def __missing__(self, number: int) -> bytes:
        raise sqlite3.DatabaseError(f"index.db has rows of a pack {number} that it does not list")


class ChunkIndex:
    """One open index.db: many readers, one writer at a time."""

    def __init__(self, path: Path) -> None:
        """Open, or create where there is no file; sqlite3.DatabaseError where it is damaged or of another schema."""
        self.path = path
        self._idle: list[sqlite3.Connection] = []
        self._busy = 0
        self._closed = False
        self._state = threading.Condition()
        self._write_lock = threading.RLock()
        unclean = path.exists() and (path.stat().st_size <= CHECKED_AT_OPEN or _wal(path).exists())
        self._writer = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
        try:
            self._prepare(unclean)
            rows = self._writer.execute("SELECT id, uuid FROM packs").fetchall()
        except sqlite3.Error:
            self._writer.close()
            raise
        self._ids = _Ids(rows)  # a number is never used twice, so readers of old rows stay right
        self._next = max(self._ids, default=0) + 1

    def _prepare(self, check: bool) -> None:
        self._writer.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA journal_size_limit=16777216; "
            "PRAGMA cache_size=-4096;"
        )
        version = self._writer.execute("PRAGMA user_version").fetchone()[0]
        tables = self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if version == 0 and tables == 0:
            self._writer.executescript(
                f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA application_id={APPLICATION_ID}; "
                f"PRAGMA user_version={SCHEMA_VERSION}; COMMIT;"
            )
            return
        found = self._writer.execute("PRAGMA application_id").fetchone()[0]
        if (found, version) != (APPLICATION_ID, SCHEMA_VERSION):
            raise sqlite3.DatabaseError(f"index.db has the schema {version} of application {found:#x}")
        if check and (problems := _quick_check(self._writer)):
            raise sqlite3.DatabaseError(f"index.db is damaged: {problems[0]}")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._state:
            if self._closed:
                raise sqlite3.ProgrammingError("the index is closed")
            connection = self._idle.pop() if self._idle else None
            self._busy += 1
        try:
            if connection is None:
                uri = f"{self.path.as_uri()}?mode=rw"
                connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=30)
                connection.execute("PRAGMA cache_size=-1024")
            yield connection
        finally:
            with self._state:
                if connection is not None:
                    self._idle.append(connection)
                self._busy -= 1
                self._state.notify_all()

    def close(self) -> None:
        """Wait for the readers in flight, then close every connection (which also empties the WAL)."""
        with self._state:
            self._closed = True
            while self._busy:
                self._state.wait()
            for connection in self._idle:
                connection.close()
            self._idle.clear()
        with self._write_lock:
            self._writer.close()

    @contextmanager
    def _transaction(self, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        with self._write_lock:
            self._writer.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:  # let go of what was taken, then raised on
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    def apply(self, rows: PackRows) -> None:
        """Add one pack in one transaction; applying it again changes nothing, a replaced one adds nothing.

        A pack that replaces others is durable here before those are removed: an older index would miss them, and the
        pack that could tell why may be replaced itself by then.
        """
        with self._transaction(durable=bool(rows.replaces)) as connection:
            self._apply(connection, rows)

    def refill(self, packs: Iterable[PackRows]) -> None:
        """Replace all rows by those of `packs` in one transaction; readers see the old rows until it commits."""
        with self._transaction() as connection:
            for table in ("packs", "replaced", *_TABLES):
                connection.execute(f"DELETE FROM {table}")
            for rows in packs:
                self._apply(connection, rows)

    def _apply(self, connection: sqlite3.Connection, rows: PackRows) -> None:
        if connection.execute("SELECT 1 FROM packs WHERE uuid = ?", (rows.pack,)).fetchone():
            return
        replaced = connection.execute("SELECT 1 FROM replaced WHERE uuid = ?", (rows.pack,)).fetchone()
        number = self._next
        self._next += 1
        self._ids[number] = rows.pack  # before the commit, which makes the number visible to readers
        chunks, contents = len(rows.chunks), rows.contents()
        raw = sum(row[3] for row in rows.chunks)
        sums = (0, 0, 0) if replaced else (chunks, contents, raw)
        connection.execute(
            "INSERT INTO packs VALUES(?, ?, ?, ?, ?, ?, ?)", (number, rows.pack, rows.size, *sums, rows.last_seq)
        )
        if not replaced:
            _insert(connection, number, rows)
        self._drop_replaced(connection, number, rows.replaces)

    def _drop_replaced(self, connection: sqlite3.Connection, number: int, replaces: Sequence[bytes]) -> None:
        connection.executemany("INSERT OR IGNORE INTO replaced VALUES(?, ?)", [(uuid, number) for uuid in replaces])
        for uuid in replaces:
            old = connection.execute("SELECT id FROM packs WHERE uuid = ?", (uuid,)).fetchone()
            if old is None:
                continue
            for table in _TABLES:
                connection.execute(f"DELETE FROM {table} WHERE pack = ?", old)
            connection.execute("UPDATE packs SET chunks = 0, contents = 0, raw_bytes = 0 WHERE id = ?", old)

    def chunks(self, hashes: Sequence[bytes]) -> dict[bytes, list[Place]]:
        """Every known copy of these chunks; unknown ones have no key."""
        columns = "sha256, pack, frame_off, inner_off, raw_len, raw_len, whole"
        return self._places(f"SELECT {columns} FROM chunks WHERE sha256", hashes)

    def manifests(self, addresses: Sequence[bytes]) -> dict[bytes, list[Place]]:
        """Every known copy of these contents' manifests."""
        columns = "address, pack, frame_off, inner_off, raw_len, size, 1"
        return self._places(f"SELECT {columns} FROM manifests WHERE address", addresses)

    def nodes(self, addresses: Sequence[bytes]) -> dict[bytes, list[Place]]:
        """Every known copy of these tree nodes."""
        columns = "address, pack, frame_off, inner_off, raw_len, raw_len, 0"
        return self._places(f"SELECT {columns} FROM nodes WHERE address", addresses)

    def _places(self, select: str, keys: Sequence[bytes]) -> dict[bytes, list[Place]]:
        found: dict[bytes, list[Place]] = {}
        with self._reading() as connection:
            for start in range(0, len(keys), BATCH):
                batch = list(keys[start : start + BATCH])
                batch += batch[-1:] * ((1 << (len(batch) - 1).bit_length()) - len(batch))  # few distinct statements
                marks = ",".join("?" * len(batch))
                where = "= ?" if len(batch) == 1 else f"IN ({marks})"
                for row in connection.execute(f"{select} {where}", batch):
                    place = Place(self._ids[row[1]], row[2], row[3], row[4], row[5], bool(row[6]))
                    found.setdefault(row[0], []).append(place)
        return found

    def record_frames(self, after_seq: int) -> list[RecordFrame]:
        """Frames that hold a record newer than `after_seq`, by their first sequence number."""
        query = "SELECT first_seq, last_seq, pack, frame_off FROM records WHERE last_seq > ? ORDER BY first_seq, pack"
        with self._reading() as connection:
            rows = connection.execute(query, (after_seq,)).fetchall()
        return [RecordFrame(first, last, self._ids[pack], at) for first, last, pack, at in rows]

    def packs(self) -> dict[bytes, tuple[int, bool]]:
        """id -> (number of rows that the index holds of it, whether it is replaced) for every applied pack."""
        query = "SELECT p.uuid, p.id, EXISTS(SELECT 1 FROM replaced r WHERE r.uuid = p.uuid) FROM packs p"
        with self._reading() as connection:
            counts: dict[int, int] = {}
            for table in _TABLES:
                for number, rows in connection.execute(f"SELECT pack, count(*) FROM {table} GROUP BY pack"):
                    counts[number] = counts.get(number, 0) + rows
            return {uuid: (counts.get(number, 0), bool(gone)) for uuid, number, gone in connection.execute(query)}

    def sums(self) -> dict[bytes, int]:
        """A number for each pack that stands for all rows of it, equal to `sum_of` what the pack holds."""
        columns = {
            "chunks": "sha256, frame_off, inner_off, raw_len, whole",
            "manifests": "address, frame_off, inner_off, raw_len, size",
            "nodes": "address, frame_off, inner_off, raw_len",
            "records": "first_seq, frame_off, last_seq",
        }
        sums: dict[int, int] = {}
        with self._reading() as connection:
            for table in _TABLES:
                for number, *row in connection.execute(f"SELECT pack, {columns[table]} FROM {table}"):
                    sums[number] = sums.get(number, 0) + hash((table, *row))
        return {self._ids[number]: value for number, value in sums.items()}

    def applied(self) -> set[bytes]:
        """Ids of all applied packs, replaced ones included."""
        with self._reading() as connection:
            return {row[0] for row in connection.execute("SELECT uuid FROM packs")}

    def replaced(self) -> set[bytes]:
        """Ids of the packs that others replace, applied or not."""
        with self._reading() as connection:
            return {row[0] for row in connection.execute("SELECT uuid FROM replaced")}

    def held_in(self, pack: bytes, frame_off: int | None) -> tuple[list[bytes], int]:
        """Addresses of the contents in one frame (None: anywhere in the pack), and the number of pieces and nodes."""
        where = "pack = (SELECT id FROM packs WHERE uuid = ?1) AND (?2 IS NULL OR frame_off = ?2)"
        query = (
            f"SELECT sha256 FROM chunks WHERE {where} AND whole UNION SELECT address FROM manifests WHERE {where} "
            "ORDER BY 1"
        )
        with self._reading() as connection:
            contents = [row[0] for row in connection.execute(query, (pack, frame_off))]
            pieces = (
                f"SELECT (SELECT count(*) FROM chunks WHERE {where} AND NOT whole) "
                f"+ (SELECT count(*) FROM nodes WHERE {where})"
            )
            return contents, int(connection.execute(pieces, (pack, frame_off)).fetchone()[0])

    def lying_in(self, pack: bytes, frame_off: int | None) -> tuple[list[bytes], list[bytes], list[bytes]]:
        """(chunks, contents told by manifests, tree nodes) in one frame (None: anywhere in the pack)."""
        where = "pack = (SELECT id FROM packs WHERE uuid = ?1) AND (?2 IS NULL OR frame_off = ?2)"
        with self._reading() as connection:
            chunks, manifests, nodes = (
                [row[0] for row in connection.execute(f"SELECT {key} FROM {table} WHERE {where}", (pack, frame_off))]
                for table, key in (("chunks", "sha256"), ("manifests", "address"), ("nodes", "address"))
            )
        return chunks, manifests, nodes

    def all_manifests(self) -> Iterator[Place]:
        """Where every manifest lies, pack by pack."""
        with self._reading() as connection:
            numbers = [row[0] for row in connection.execute("SELECT id FROM packs ORDER BY id")]
        query = "SELECT frame_off, inner_off, raw_len, size FROM manifests WHERE pack = ? ORDER BY frame_off, inner_off"
        for number in numbers:
            with self._reading() as connection:
                rows = connection.execute(query, (number,)).fetchall()
            yield from (Place(self._ids[number], at, inner, length, size, True) for at, inner, length, size in rows)

    def last_seq(self) -> int:
        """The newest sequence number that any applied pack names."""
        with self._reading() as connection:
            return int(connection.execute("SELECT coalesce(max(last_seq), 0) FROM packs").fetchone()[0])

    def totals(self) -> Totals:
        """Sums over the packs that are not replaced."""
        query = (
            "SELECT count(*), coalesce(sum(chunks), 0), coalesce(sum(contents), 0), coalesce(sum(raw_bytes), 0), "
            "coalesce(sum(size), 0) FROM packs p WHERE NOT EXISTS(SELECT 1 FROM replaced r WHERE r.uuid = p.uuid)"
        )
        with self._reading() as connection:
            return Totals(*connection.execute(query).fetchone())

    def problems(self) -> list[str]:
        """What SQLite itself finds wrong with the file."""
        with self._reading() as connection:
            return _quick_check(connection)


def _insert(connection: sqlite3.Connection, number: int, rows: PackRows) -> None:
    connection.executemany(
        "INSERT OR IGNORE INTO chunks VALUES(?, ?, ?, ?, ?, ?)",
        [(sha, number, at, inner, length, whole) for sha, at, inner, length, whole in sorted(rows.chunks)],
    )
    connection.executemany(
        "INSERT OR IGNORE INTO manifests VALUES(?, ?, ?, ?, ?, ?)",
        [(address, number, at, inner, length, size) for address, at, inner, length, size in rows.manifests],
    )
    connection.executemany(
        "INSERT OR IGNORE INTO nodes VALUES(?, ?, ?, ?, ?)",
        [(address, number, at, inner, length) for address, at, inner, length in rows.nodes],
    )
    connection.executemany(
        "INSERT OR IGNORE INTO records VALUES(?, ?, ?, ?)",
        [(first, number, at, last) for first, at, last in rows.records],
    )


def _quick_check(connection: sqlite3.Connection) -> list[str]:
    found = [str(row[0]) for row in connection.execute("PRAGMA quick_check(5)")]
    return [] if found == ["ok"] else found


def _wal(path: Path) -> Path:
    return path.with_name(path.name + "-wal")
