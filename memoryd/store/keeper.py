"""Who keeps index.db in step with the packs, and makes it anew when it is missing or damaged?"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from memoryd.errors import DiskFull, PackDamaged, StoreError
from memoryd.files import Files
from memoryd.store.chunkindex import ChunkIndex, PackRows
from memoryd.store.shelf import Shelf
from memoryd.store.survey import rows_of

Answer = TypeVar("Answer")
_REPAIRABLE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_ERROR}


class IndexKeeper:
    """Holds the open index of a store. A damaged one is moved to `quarantine/` and refilled from the packs."""

    def __init__(self, shelf: Shelf, files: Files, clock: Callable[[], float], random: Callable[[int], bytes]) -> None:
        """Open the index and apply the packs that it lacks. Raises StoreError, DiskFull, OSError."""
        self._shelf = shelf
        self._files = files
        self._clock = clock
        self._random = random
        self._lock = threading.RLock()
        self._closed = False
        self.index = self._open()

    def ask(self, question: Callable[[ChunkIndex], Answer]) -> Answer:
        """Ask the index; one that turns out damaged is made anew and asked again, once. Raises StoreError, DiskFull."""
        index = self.index
        try:
            return question(index)
        except sqlite3.Error as error:
            if self._closed or not _repairable(error):
                raise _unusable(error) from error
        with self._lock:
            if self.index is index and not self._closed:
                self._replace()
        try:
            return question(self.index)
        except sqlite3.Error as error:
            raise _unusable(error) from error

    def rebuild(self) -> None:
        """Fill the index anew from all packs; readers see the old rows meanwhile. Raises StoreError, DiskFull."""
        with self._lock:
            try:
                if not self.index.problems():
                    self.index.refill(self._surveyed(self._listed()))
                    return
            except sqlite3.Error as error:
                if self._closed or not _repairable(error):
                    raise _unusable(error) from error
            self._replace()

    def close(self) -> None:
        """Close the index after the readers in flight."""
        with self._lock:
            self._closed = True
            self.index.close()

    def _open(self) -> ChunkIndex:
        path = self._shelf.packs.parent / "index.db"
        try:
            return self._caught_up(ChunkIndex(path))
        except sqlite3.Error as error:
            if not _repairable(error):
                raise _unusable(error) from error
        self._set_aside()
        try:
            return self._caught_up(ChunkIndex(path))
        except sqlite3.Error as error:
            raise _unusable(error) from error

    def _caught_up(self, index: ChunkIndex) -> ChunkIndex:
        try:
            applied = index.applied()
            for rows in self._surveyed([pack for pack in self._listed() if pack not in applied]):
                index.apply(rows)
        except BaseException:  # let go of what was taken, then raised on
            index.close()
            raise
        return index

    def _replace(self) -> None:
        self.index.close()
        self._set_aside()
        self.index = self._open()

    def _set_aside(self) -> None:
        stamp = f"{int(self._clock())}-{self._random(4).hex()}"
        for suffix in ("", "-wal", "-shm"):
            part = self._shelf.packs.parent / f"index.db{suffix}"
            if part.exists():
                self._files.rename(part, self._shelf.quarantine / f"index-{stamp}.db{suffix}", owner="index")

    def _listed(self) -> list[bytes]:
        return self._shelf.listing()[0]

    def _surveyed(self, listed: list[bytes]) -> Iterator[PackRows]:
        for pack in listed:
            try:
                yield rows_of(self._shelf, pack)
            except PackDamaged:
                continue  # nothing of it can be read: `findings` names it


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _repairable(error: sqlite3.Error) -> bool:
    return _code(error) in _REPAIRABLE


def _lacks_memory_file(error: sqlite3.Error) -> bool:
    """SQLite found no room for the file that readers and writer share."""
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHMSIZE


def _unusable(error: sqlite3.Error) -> StoreError:
    if _code(error) == sqlite3.SQLITE_FULL or _lacks_memory_file(error):
        return DiskFull("The disk is full; the index took nothing.")
    return StoreError(f"The chunk index cannot be used: {error}.")
