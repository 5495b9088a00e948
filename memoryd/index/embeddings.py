"""Was this text embedded before by this very model?

SQLite, keyed by (model fingerprint, SHA-256 of the embedded text). A view: a damaged file is set aside and begun
anew, a damaged row is no hit. A rebuild, a move or a second checkout then embeds nothing again. Dense vectors stay
float32, so that what is read back is what was made (float16 would halve a row and reorder 1 of 60 lists of ten).
"""

from __future__ import annotations

import itertools
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from memoryd.errors import DiskFull, IndexProblem
from memoryd.records import Encoded

SCHEMA_VERSION = 2
PAGE_BYTES = 8192
"""Five dense rows of the embedded model a page; pages of 4096 hold two, and waste a fifth."""
LOOKUP = 500
BUSY_SECONDS = 10.0
_TOKENS = """
CREATE TABLE tokens (
  model INTEGER NOT NULL REFERENCES models (id),
  text_sha256 BLOB NOT NULL,
  crc INTEGER NOT NULL,
  tokens BLOB NOT NULL,
  UNIQUE (model, text_sha256)
);
"""
_SCHEMA = """
CREATE TABLE models (id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE);
CREATE TABLE vectors (
  model INTEGER NOT NULL REFERENCES models (id),
  text_sha256 BLOB NOT NULL,
  crc INTEGER NOT NULL,
  vector BLOB NOT NULL,
  sparse BLOB NOT NULL DEFAULT x'',
  UNIQUE (model, text_sha256)
);
"""
_SINCE_1 = f"ALTER TABLE vectors ADD COLUMN sparse BLOB NOT NULL DEFAULT x'';{_TOKENS}"
"""What a file of version 1 lacks."""
_UNKNOWN = b"\0"
"""In the place of a sparse vector that nobody asked the model for; no sparse vector has one byte."""
_TABLES = {"vectors": "vector, sparse", "tokens": "tokens"}
Result = TypeVar("Result")


class EmbeddingCache:
    """Vectors as float32 little-endian bytes. Every method may be called from any thread."""

    def __init__(self, path: Path) -> None:
        """Open or create the file; one that is no database of ours is renamed to `<name>.damaged-N`."""
        self.path = path
        self.recreated = False
        self._lock = threading.Lock()
        self._connection = self._open()

    def get_many(self, fingerprint: str, hashes: Iterable[str]) -> dict[str, bytes]:
        """The known dense vectors by text hash (64 hex digits). Raises IndexProblem where the file cannot be read."""
        return {digest: one.dense for digest, one in self.get_encoded(fingerprint, hashes, sparse=False).items()}

    def get_encoded(self, fingerprint: str, hashes: Iterable[str], *, sparse: bool) -> dict[str, Encoded]:
        """Dense and, where asked for, sparse vectors of the texts of which they are known. Raises IndexProblem."""
        wanted = list(dict.fromkeys(hashes))
        found = self._guarded(lambda connection: _get(connection, "vectors", fingerprint, wanted))
        if sparse:
            return {digest: Encoded(*parts) for digest, parts in found.items() if parts[1] != _UNKNOWN}
        return {digest: Encoded(vector) for digest, (vector, _) in found.items()}

    def get_tokens(self, fingerprint: str, hashes: Iterable[str]) -> dict[str, bytes]:
        """Token vectors of the texts of which they are known. Raises IndexProblem."""
        wanted = list(dict.fromkeys(hashes))
        found = self._guarded(lambda connection: _get(connection, "tokens", fingerprint, wanted))
        return {digest: tokens for digest, (tokens,) in found.items()}

    def with_tokens(self, fingerprint: str, hashes: Iterable[str]) -> set[str]:
        """The texts of which token vectors are known; none is read. Raises IndexProblem."""
        wanted = list(dict.fromkeys(hashes))
        return self._guarded(
            lambda connection: {one for one, *_ in _rows(connection, "tokens", "", fingerprint, wanted)}
        )

    def put_many(self, fingerprint: str, items: Mapping[str, bytes]) -> None:
        """Remember dense vectors by text hash, all or none. Raises DiskFull, IndexProblem."""
        self.put_encoded(fingerprint, {digest: Encoded(vector, _UNKNOWN) for digest, vector in items.items()})

    def put_encoded(self, fingerprint: str, items: Mapping[str, Encoded]) -> None:
        """Remember what a model made of texts, token vectors where there are any, all or none.

        Raises DiskFull, IndexProblem.
        """
        dense = {digest: (one.dense, one.sparse) for digest, one in items.items()}
        tokens = {digest: (one.tokens,) for digest, one in items.items() if one.tokens}
        if dense:
            self._guarded(lambda connection: _put(connection, fingerprint, {"vectors": dense, "tokens": tokens}))

    def put_tokens(self, fingerprint: str, items: Mapping[str, bytes]) -> None:
        """Remember token vectors alone. Raises DiskFull, IndexProblem."""
        rows = {"tokens": {digest: (tokens,) for digest, tokens in items.items()}}
        if items:
            self._guarded(lambda connection: _put(connection, fingerprint, rows))

    def drop(self, hashes: Iterable[str]) -> int:
        """Forget these texts (64 hex digits) whatever the model, and leave nothing of them in the file; how many rows.

        Raises DiskFull, IndexProblem.
        """
        wanted = [(bytes.fromhex(digest),) for digest in dict.fromkeys(hashes)]
        return self._guarded(lambda connection: _drop(connection, wanted))

    def retain(self, known: Callable[[list[str]], set[str]], stop: Callable[[], bool] = lambda: False) -> int:
        """Forget texts that `known` (some of the hashes it is given) does not name; how many rows that were.

        Raises DiskFull, IndexProblem.
        """
        dropped, last = 0, b""
        while not stop():
            page = self._guarded(partial(_texts_after, last=last))
            if not page:
                break
            last = page[-1]
            kept = known([digest.hex() for digest in page])
            gone = [(digest,) for digest in page if digest.hex() not in kept]
            dropped += self._guarded(partial(_delete, gone=gone)) if gone else 0
        if dropped:
            self._guarded(lambda connection: connection.executescript("PRAGMA incremental_vacuum"))  # steps to its end
        return dropped

    def sizes(self, fingerprint: str) -> dict[str, int]:
        """Bytes that one model's vectors and token vectors take, and of how many texts: reads every row's length."""
        found: dict[str, int] = {}
        for table, column in (("vectors", "length(vector) + length(sparse)"), ("tokens", "length(tokens)")):
            query = f"SELECT count(*), coalesce(sum({column}), 0) FROM {table} JOIN models ON models.id = model"
            count, size = self._guarded(partial(_row, query=f"{query} WHERE fingerprint = ?", values=(fingerprint,)))
            found |= {table: int(count), f"{table}_bytes": int(size)}
        return found

    def count(self, fingerprint: str) -> int:
        """How many vectors of one model there are."""
        query = "SELECT count(*) FROM vectors JOIN models ON models.id = model WHERE fingerprint = ?"
        return self._guarded(lambda connection: int(connection.execute(query, (fingerprint,)).fetchone()[0]))

    def close(self) -> None:
        """Close the file; safe to call twice."""
        with self._lock:
            self._connection.close()

    def _guarded(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        with self._lock:
            try:
                return work(self._connection)
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise self._explained(error) from error
            self._set_aside()
            try:
                return work(self._connection)
            except sqlite3.DatabaseError as error:
                raise self._explained(error) from error

    def _explained(self, error: sqlite3.DatabaseError) -> IndexProblem | DiskFull:
        if _code(error) == sqlite3.SQLITE_FULL:
            return DiskFull(f"{self.path} cannot grow: {error}.", path=str(self.path))
        return IndexProblem(f"{self.path} failed: {error}.", path=str(self.path))

    def _open(self) -> sqlite3.Connection:
        try:
            return _connect(self.path)
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise self._explained(error) from error
        self._rename()
        return _connect(self.path)

    def _set_aside(self) -> None:
        self._connection.close()
        self._rename()
        self._connection = _connect(self.path)

    def _rename(self) -> None:
        self.recreated = True
        for number in itertools.count(1):
            aside = self.path.with_name(f"{self.path.name}.damaged-{number}")
            if not aside.exists():
                break
        self.path.rename(aside)
        for suffix in ("-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)


class _ForeignSchemaError(sqlite3.DatabaseError):
    """A database, but not this one."""


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # these two count only while the file is empty
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        _ensure_schema(connection)
    except BaseException:  # let go of what was taken, then raised on
        connection.close()
        raise
    return connection


def _ensure_schema(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if version == 0 and tables == 0:
            _change(connection, _SCHEMA + _TOKENS)
        elif version == 1:
            _change(connection, _SINCE_1)
        elif version != SCHEMA_VERSION:
            raise _ForeignSchemaError(f"schema {version}, not {SCHEMA_VERSION}")
    except BaseException:  # let go of what was taken, then raised on
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _change(connection: sqlite3.Connection, statements: str) -> None:
    for statement in statements.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether the file itself is at fault (not a lock, the disk, or a closed connection)."""
    damaged = _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    return damaged or isinstance(error, _ForeignSchemaError) or "no such table" in str(error)


def _code(error: sqlite3.DatabaseError) -> int:
    """SQLite's primary result code; 0 for what Python itself raises (a closed connection)."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _get(
    connection: sqlite3.Connection, table: str, fingerprint: str, wanted: Sequence[str]
) -> dict[str, tuple[bytes, ...]]:
    rows = _rows(connection, table, f", crc, {_TABLES[table]}", fingerprint, wanted)
    return {digest: tuple(parts) for digest, crc, *parts in rows if _crc(parts) == crc}


def _rows(
    connection: sqlite3.Connection, table: str, columns: str, fingerprint: str, wanted: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    for start in range(0, len(wanted), LOOKUP):
        part = [bytes.fromhex(digest) for digest in wanted[start : start + LOOKUP]]
        marks = ",".join("?" * len(part))
        rows = connection.execute(
            f"SELECT text_sha256{columns} FROM {table} JOIN models ON models.id = model"
            f" WHERE fingerprint = ? AND text_sha256 IN ({marks})",
            (fingerprint, *part),
        )
        for digest, *parts in rows:
            yield (digest.hex(), *parts)


def _crc(parts: Sequence[bytes]) -> int:
    """Over all parts in order, so that a row without a sparse vector has the number it always had."""
    value = 0
    for part in parts:
        value = zlib.crc32(part, value)
    return value


def _row(connection: sqlite3.Connection, query: str, values: tuple[str, ...]) -> tuple[Any, ...]:
    found: tuple[Any, ...] = connection.execute(query, values).fetchone()
    return found


def _texts_after(connection: sqlite3.Connection, last: bytes) -> list[bytes]:
    query = " UNION ".join(f"SELECT text_sha256 FROM {table} WHERE text_sha256 > ?1" for table in _TABLES)
    return [row[0] for row in connection.execute(f"{query} ORDER BY 1 LIMIT {LOOKUP}", (last,))]


def _delete(connection: sqlite3.Connection, gone: Sequence[tuple[bytes]]) -> int:
    before = connection.total_changes
    connection.execute("BEGIN IMMEDIATE")
    try:
        for table in _TABLES:
            connection.executemany(f"DELETE FROM {table} WHERE text_sha256 = ?", gone)
    except BaseException:  # let go of what was taken, then raised on
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return connection.total_changes - before


def _drop(connection: sqlite3.Connection, wanted: Sequence[tuple[bytes]]) -> int:
    dropped = _delete(connection, wanted)
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return dropped


def _put(
    connection: sqlite3.Connection, fingerprint: str, items: Mapping[str, Mapping[str, tuple[bytes, ...]]]
) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("INSERT OR IGNORE INTO models (fingerprint) VALUES (?)", (fingerprint,))
        (model,) = connection.execute("SELECT id FROM models WHERE fingerprint = ?", (fingerprint,)).fetchone()
        for table, rows in items.items():
            columns = _TABLES[table]
            marks = ", ".join("?" * (columns.count(",") + 1))
            connection.executemany(
                f"INSERT OR REPLACE INTO {table} (model, text_sha256, crc, {columns}) VALUES (?, ?, ?, {marks})",
                [(model, bytes.fromhex(digest), _crc(parts), *parts) for digest, parts in rows.items()],
            )
    except BaseException:  # let go of what was taken, then raised on
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
