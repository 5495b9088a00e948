"""How does a finished pack become part of the store, and what is left after a failure?

Steps: temporary file, fsync, rename, fsync of the directory. The rename is the commit point. After any error of the
disk the half-made file is abandoned (an fsync is never tried again) and no further pack is sealed through this handle;
a full disk is the exception: nothing is left of the attempt, and the next one may succeed.
"""

from __future__ import annotations

import contextlib
import errno

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
        self.require()
        target = self._shelf.path(pack)
        temporary = self._shelf.tmp / target.name
        try:
            self.files.mkdir(target.parent, owner=OWNER)
            self.files.write_new(temporary, pieces, owner=OWNER)
            self.files.rename(temporary, target, owner=OWNER)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            if target.exists():  # renamed: its sequence numbers are given out again, so it must not come back
                self.undo(pack)
            raise self.failed(error) from error

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
