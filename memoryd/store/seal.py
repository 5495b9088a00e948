"""How does a finished pack become part of the store, and what is left after a failure?

Steps: temporary file, fsync, rename, fsync of the directory. The rename is the commit point. After any error of the
disk the half-made file is abandoned (an fsync is never tried again) and no further pack is sealed through this handle;
a full disk is the exception: nothing is left of the attempt, and the next one may succeed.
"""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

from memoryd.errors import DiskFull, StoreError, StorePoisoned
from memoryd.files import Files
from memoryd.store.shelf import Shelf

OWNER = "pack"
FULL = (errno.ENOSPC, errno.EDQUOT)


class Sealer:
    """Writes packs durably; knows whether writing is still allowed."""

    def __init__(self, files: Files, shelf: Shelf) -> None:
        self.files = files
        self._shelf = shelf
        self._poison: str | None = None

    def require(self) -> None:
        """Raises StorePoisoned after an earlier error of the disk."""
        if self._poison is not None:
            raise StorePoisoned(f"An earlier write failed ({self._poison}), so this process writes no more packs.")

    def seal(self, pack: bytes, pieces: list[bytes]) -> None:
        """Make the pack durable under its final name. Raises DiskFull, StorePoisoned; then nothing is left of it."""
        self.write(pack, pieces)
        self.place(pack)

    def write(self, pack: bytes, pieces: list[bytes]) -> None:
        """Make the bytes durable under a temporary name: no part of the store yet. Raises as `seal` does."""
        self.require()
        temporary = self._temporary(pack)
        try:
            self.files.mkdir(self._shelf.path(pack).parent, owner=OWNER)
            self.files.write_new(temporary, pieces, owner=OWNER)
        except OSError as error:
            self.drop(pack)
            raise self.failed(error) from error

    def place(self, pack: bytes) -> None:
        """Give what `write` wrote its final name, durably. Raises as `seal` does."""
        self.require()
        target = self._shelf.path(pack)
        try:
            self.files.rename(self._temporary(pack), target, owner=OWNER)
        except OSError as error:
            self.drop(pack)
            if target.exists():  # renamed: its sequence numbers are given out again, so it must not come back
                self.undo(pack)
            raise self.failed(error) from error

    def drop(self, pack: bytes) -> None:
        """Remove what `write` wrote; what stays is removed at the next open."""
        with contextlib.suppress(OSError):
            self.files.discard(self._temporary(pack), owner=OWNER)

    def _temporary(self, pack: bytes) -> Path:
        return self._shelf.tmp / self._shelf.path(pack).name

    def undo(self, pack: bytes) -> None:
        """Take back a sealed pack that nobody was told of, durably. Raises StorePoisoned where that fails."""
        try:
            self.files.unlink(self._shelf.path(pack), owner=OWNER)
        except OSError as error:
            raise self.poison(f"taking back a pack: {error.strerror or error}") from error

    def failed(self, error: OSError) -> StoreError:
        """The error to raise for an OSError of a write: DiskFull, else StorePoisoned for now and ever after."""
        if error.errno in FULL:
            return DiskFull(f"The disk is full ({error.strerror}); nothing of this write was kept.")
        return self.poison(error.strerror or str(error))

    def poison(self, reason: str) -> StorePoisoned:
        """Refuse all writes from now on; returns the error to raise."""
        self._poison = self._poison or reason
        return StorePoisoned(f"Writing to the store failed: {reason}.")
