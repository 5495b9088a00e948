"""How do many threads share one SQLite file with one writer, and what happens when the file is damaged?

Readers have one connection a thread and never wait for the writer (write-ahead log). A damaged file is never deleted:
it is renamed to `<name>.damaged-N`, and a new one is made in its place.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NoReturn

from memoryd.catalog.aside import beside, is_suspect, set_aside, suspect
from memoryd.catalog.journal import log_damage
from memoryd.catalog.schema import CATALOG, DERIVED, expected_shape, migrate, shape
from memoryd.errors import DatabaseDamaged, DiskFull, FormatUnsupported, HomeError, MemorydError, StorePoisoned

LOG_LIMIT = 16 << 20
"""Bytes of write-ahead log after which a commit waits a moment for readers and empties it."""
_CHECK_LIMIT = 16 << 20
"""A file up to this size is checked at every start, a larger one only when it was not closed."""
_BUSY_MS = 5000
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_log = logging.getLogger(__name__)
_REFUSED = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_BUSY}


class _Reader:
    """One thread's read connection; the lock keeps close() from pulling it away under a running query."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.lock = threading.Lock()
        self.thread = weakref.ref(threading.current_thread())

    def abandoned(self) -> bool:
        thread = self.thread()
        return thread is None or not thread.is_alive()

    def close(self) -> None:
        with self.lock:
            self.connection.close()


class Database:
    """One SQLite file in WAL mode. `recreated`, `set_aside` and `damage` tell whether the opener had to replace it.

    Raises FormatUnsupported (a newer version wrote it), DatabaseDamaged, DiskFull, HomeError at construction.
    """

    def __init__(
        self,
        path: Path,
        migrations: Sequence[str],
        *,
        synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
        log_limit: int = LOG_LIMIT,
    ) -> None:
        self.path = path
        self.recreated = False
        self.set_aside: Path | None = None
        self.damage = ""
        self._synchronous = synchronous
        self._migrations = tuple(migrations)
        self._log_limit = log_limit
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._poisoned = False
        self._closed = False
        self._local = threading.local()
        self._readers: list[_Reader] = []
        self._readers_lock = threading.Lock()
        self._writer = self._open()

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """One transaction (BEGIN IMMEDIATE); commits at the end, rolls back on any exception. Waits for its turn.

        What is read through `rows` meanwhile is the state before it, also in this thread.
        `durable=False` commits without waiting for the disk, whatever `synchronous` says. A thread must not open a
        second one inside (RuntimeError). Raises DiskFull and StorePoisoned (after an I/O error no write is tried
        again), DatabaseDamaged, HomeError after close().
        """
        if self._owner == threading.get_ident():
            raise RuntimeError("a write transaction is already open in this thread")
        with self._lock:
            self._check_writable()
            self._owner = threading.get_ident()
            try:
                yield from self._transaction(durable)
            except sqlite3.Error as error:
                self._raise(error)
            finally:
                self._owner = None
            self._bound_log()

    def _transaction(self, durable: bool) -> Iterator[sqlite3.Connection]:
        level = self._synchronous if durable else "NORMAL"
        self._writer.execute(f"PRAGMA synchronous={level}")
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield self._writer
            self._writer.execute("COMMIT")
        except BaseException:  # let go of what was taken, then raised on
            # Some errors (a full disk) have rolled back already.
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise

    def read(self) -> sqlite3.Connection:
        """This thread's read-only connection, in autocommit mode; whoever uses it is done before close()."""
        return self._reader().connection

    @contextmanager
    def one_moment(self) -> Iterator[None]:
        """What this thread reads within is the state of one moment, whatever is written meanwhile. Raises as `rows`."""
        reader = self._reader()
        began = not reader.connection.in_transaction
        if began:
            self.rows("BEGIN")
        try:
            yield
        finally:
            if began and not self._closed:
                self.rows("COMMIT")

    def rows(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        """All rows of one query, read at one moment. Raises DatabaseDamaged, HomeError after close()."""
        reader = self._reader()
        with reader.lock:
            try:
                return reader.connection.execute(sql, parameters).fetchall()
            except sqlite3.Error as error:
                self._raise(error)

    def row(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> Any | None:
        """The first row of one query, or None."""
        found = self.rows(sql, parameters)
        return found[0] if found else None

    def meta(self, key: str) -> str | None:
        """What the file says about itself under `key`."""
        found = self.row("SELECT value FROM meta WHERE key = ?", (key,))
        return None if found is None else str(found[0])

    def set_meta(self, tx: sqlite3.Connection, key: str, value: str) -> None:
        """Set `key`, inside the caller's transaction."""
        tx.execute(
            "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (key, value),
        )

    def take_over(self, other: Path) -> None:
        """Hold exactly the derived rows (and marks) of another catalog of this version, in one transaction.

        Readers go on with the former rows until then. Raises as `write` does.
        """
        self._alone("ATTACH DATABASE ? AS other", str(other))
        try:
            with self.write() as tx:
                for table in reversed(DERIVED):
                    tx.execute(f"DELETE FROM main.{table}")
                tx.execute("DELETE FROM main.tallies")
                for table in DERIVED:
                    tx.execute(f"INSERT INTO main.{table} SELECT * FROM other.{table}")
                tx.execute("REPLACE INTO main.meta SELECT * FROM other.meta")
        finally:
            self._alone("DETACH DATABASE other")

    def _alone(self, sql: str, *parameters: str) -> None:
        """A statement that SQLite takes outside transactions only."""
        with self._lock:
            self._check_writable()
            try:
                self._writer.execute(sql, parameters)
            except sqlite3.Error as error:
                self._raise(error)

    def compact(self) -> None:
        """Write the file anew, so that nothing of deleted rows is left in it or its log. Raises as `write` does."""
        self._alone("VACUUM")
        self.checkpoint()

    def checkpoint(self, *, wait_ms: int = _BUSY_MS) -> bool:
        """Move the whole log into the file and empty it; False where readers held it longer than `wait_ms`."""
        with self._lock:
            self._check_writable()
            try:
                return self._empty_log(wait_ms)
            except sqlite3.Error as error:
                self._raise(error)

    def problems(self) -> list[str]:
        """What SQLite's full integrity check finds; empty when the file is whole. Slow on large files."""
        try:
            found = [str(row[0]) for row in self.rows("PRAGMA integrity_check")]
        except DatabaseDamaged as error:
            return [error.message]
        return [] if found == ["ok"] else found

    def close(self) -> None:
        """Wait for the writer, empty the log, close every connection of every thread. Twice is fine."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            with self._readers_lock:
                for reader in self._readers:
                    reader.close()
                self._readers.clear()
            with suppress(sqlite3.Error):  # the log is replayed at the next start
                self._empty_log(0)
            self._writer.close()

    def _open(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = None
        try:
            left_behind = self._inspect()
            connection = self._connect()
            self._prepare(connection, left_behind)
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, sqlite3.Error):
                self._raise(error)
            if isinstance(error, OSError):
                raise HomeError(f"{self.path} cannot be opened: {error.strerror}.", path=str(self.path)) from error
            raise
        return connection

    def _inspect(self) -> bool:
        """Look at the files before SQLite touches them; True when an earlier process did not close them."""
        if is_suspect(self.path):
            raise self._damaged("an earlier process found it damaged")
        found = log_damage(self.path)
        if found is not None:
            raise self._damaged(found)
        # Made here, not by SQLite, so that it (and the log beside it) is the owner's alone.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        log = beside(self.path, "-wal")
        return log.exists() and log.stat().st_size > 0

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=_BUSY_MS / 1000, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        connection.execute("PRAGMA foreign_keys=ON")
        return connection

    def _prepare(self, connection: sqlite3.Connection, left_behind: bool) -> None:
        mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":
            raise HomeError(f"{self.path} lies on a file system without shared memory.", path=str(self.path))
        connection.execute(f"PRAGMA journal_size_limit={self._log_limit}")
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version > len(self._migrations):
            raise FormatUnsupported(
                f"{self.path} has version {version}; this memoryd knows {len(self._migrations)}.", path=str(self.path)
            )
        if left_behind or self.path.stat().st_size <= _CHECK_LIMIT:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise self._damaged(str(found))
        migrate(connection, self._migrations, version)
        if shape(connection) != expected_shape(self._migrations):
            raise self._damaged("its tables are not those of its version")

    def _reader(self) -> _Reader:
        reader: _Reader | None = getattr(self._local, "reader", None)
        if reader is not None and not self._closed:
            return reader
        with self._readers_lock:
            if self._closed:
                raise HomeError(f"{self.path.name} is closed.", path=str(self.path))
            for gone in [known for known in self._readers if known.abandoned()]:
                gone.close()
                self._readers.remove(gone)
            try:
                connection = self._connect()
                connection.execute("PRAGMA query_only=ON")
                connection.execute("PRAGMA cache_size=-2048")  # a search looks at some hundred pages of 4 kB
            except sqlite3.Error as error:
                self._raise(error)
            reader = _Reader(connection)
            self._readers.append(reader)
        self._local.reader = reader
        return reader

    def _bound_log(self) -> None:
        """SQLite's own checkpoints starve under readers that overlap; past the limit, wait a moment for them.

        The transaction is committed by now: what fails here (a full disk) is not its failure, and is tried again after
        the next one.
        """
        try:
            if beside(self.path, "-wal").stat().st_size > self._log_limit:
                self._empty_log(250)
        except (OSError, sqlite3.Error) as error:
            if isinstance(error, sqlite3.Error):
                self._explained(error)  # damage and I/O errors are kept in mind
            _log.warning("the log of %s could not be emptied: %s", self.path, error)

    def _empty_log(self, wait_ms: int) -> bool:
        self._writer.execute(f"PRAGMA busy_timeout={wait_ms}")
        try:
            busy = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        finally:
            self._writer.execute(f"PRAGMA busy_timeout={_BUSY_MS}")
        return not busy

    def _check_writable(self) -> None:
        if self._closed:
            raise HomeError(f"{self.path.name} is closed.", path=str(self.path))
        if self._poisoned:
            raise StorePoisoned(f"{self.path} takes no writes after an I/O error.", path=str(self.path))

    def _damaged(self, why: str) -> DatabaseDamaged:
        return DatabaseDamaged(f"{self.path} is damaged: {why}.", path=str(self.path))

    def _raise(self, error: sqlite3.Error) -> NoReturn:
        """Raise the typed error for what SQLite reports; the caller's own faults (constraints) stay as they are."""
        explained = self._explained(error)
        if explained is None:
            raise error
        raise explained from error

    def _explained(self, error: sqlite3.Error) -> MemorydError | None:
        extended = getattr(error, "sqlite_errorcode", 0)
        code = extended & 0xFF
        if code in _DAMAGED:
            suspect(self.path)
            return self._damaged(str(error))
        if code == sqlite3.SQLITE_FULL or extended == sqlite3.SQLITE_IOERR_SHMSIZE:  # no room beside the file either
            return DiskFull(f"{self.path}: no space left.", path=str(self.path))
        if code == sqlite3.SQLITE_IOERR:
            self._poisoned = True
            return StorePoisoned(f"{self.path}: {error}.", path=str(self.path))
        if code in _REFUSED:
            return HomeError(f"{self.path}: {error}.", path=str(self.path))
        if self._closed:
            return HomeError(f"{self.path.name} is closed.", path=str(self.path))
        return None


def open_catalog(path: Path) -> Database:
    """catalog.db, a view: a damaged one is set aside and begun anew (`recreated`), to be filled again by the caller.

    Raises FormatUnsupported, DiskFull, HomeError.
    """
    return open_or_replace(path, CATALOG, synchronous="NORMAL")


def open_or_replace(path: Path, migrations: Sequence[str], *, synchronous: Literal["NORMAL", "FULL"]) -> Database:
    """Open the file; a damaged one is renamed to `<name>.damaged-N` (with its log) and a new one is made."""
    try:
        return Database(path, migrations, synchronous=synchronous)
    except DatabaseDamaged as error:
        aside = set_aside(path)
        database = Database(path, migrations, synchronous=synchronous)
        database.recreated, database.set_aside, database.damage = True, aside, error.message
        return database
