"""Was this text embedded before by this very model?

SQLite, keyed by (model fingerprint, SHA-256 of the embedded text). A view: a damaged file is set aside and begun
anew, a damaged row is no hit. A rebuild, a move or a second checkout then embeds nothing again.
"""

from __future__ import annotations

import itertools
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from memoryd.errors import DiskFull, IndexProblem

SCHEMA_VERSION = 1
LOOKUP = 500
BUSY_SECONDS = 10.0
_SCHEMA = """
CREATE TABLE models (id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE);
CREATE TABLE vectors (
  model INTEGER NOT NULL REFERENCES models (id),
  text_sha256 BLOB NOT NULL,
  crc INTEGER NOT NULL,
  vector BLOB NOT NULL,
  UNIQUE (model, text_sha256)
);
"""
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
        """The known vectors by text hash (64 hex digits). Raises IndexProblem where the file cannot be read."""
        wanted = list(dict.fromkeys(hashes))
        return self._guarded(lambda connection: _get(connection, fingerprint, wanted))

    def put_many(self, fingerprint: str, items: Mapping[str, bytes]) -> None:
        """Remember vectors by text hash, all or none. Raises DiskFull, IndexProblem."""
        if items:
            self._guarded(lambda connection: _put(connection, fingerprint, items))

    def drop(self, hashes: Iterable[str]) -> int:
        """Forget these texts (64 hex digits) whatever the model, and leave nothing of them in the file; how many rows.

        Raises DiskFull, IndexProblem.
        """
        wanted = [(bytes.fromhex(digest),) for digest in dict.fromkeys(hashes)]
        return self._guarded(lambda connection: _drop(connection, wanted))

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
            for statement in _SCHEMA.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        elif version != SCHEMA_VERSION:
            raise _ForeignSchemaError(f"schema {version}, not {SCHEMA_VERSION}")
    except BaseException:  # let go of what was taken, then raised on
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether the file itself is at fault (not a lock, the disk, or a closed connection)."""
    damaged = _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    return damaged or isinstance(error, _ForeignSchemaError) or "no such table" in str(error)


def _code(error: sqlite3.DatabaseError) -> int:
    """SQLite's primary result code; 0 for what Python itself raises (a closed connection)."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _get(connection: sqlite3.Connection, fingerprint: str, wanted: Sequence[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for start in range(0, len(wanted), LOOKUP):
        part = [bytes.fromhex(digest) for digest in wanted[start : start + LOOKUP]]
        marks = ",".join("?" * len(part))
        rows = connection.execute(
            "SELECT text_sha256, crc, vector FROM vectors JOIN models ON models.id = model"
            f" WHERE fingerprint = ? AND text_sha256 IN ({marks})",
            (fingerprint, *part),
        )
        found.update({digest.hex(): vector for digest, crc, vector in rows if zlib.crc32(vector) == crc})
    return found


def _drop(connection: sqlite3.Connection, wanted: Sequence[tuple[bytes]]) -> int:
    before = connection.total_changes
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.executemany("DELETE FROM vectors WHERE text_sha256 = ?", wanted)
    except BaseException:  # let go of what was taken, then raised on
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    dropped = connection.total_changes - before
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return dropped


def _put(connection: sqlite3.Connection, fingerprint: str, items: Mapping[str, bytes]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("INSERT OR IGNORE INTO models (fingerprint) VALUES (?)", (fingerprint,))
        (model,) = connection.execute("SELECT id FROM models WHERE fingerprint = ?", (fingerprint,)).fetchone()
        connection.executemany(
            "INSERT OR REPLACE INTO vectors (model, text_sha256, crc, vector) VALUES (?, ?, ?, ?)",
            [(model, bytes.fromhex(digest), zlib.crc32(vector), vector) for digest, vector in items.items()],
        )
    except BaseException:  # let go of what was taken, then raised on
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
