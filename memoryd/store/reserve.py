"""How does a small write still find room on a full disk?

A file of zeros holds some space back. A small write that meets a full disk removes it and tries once more; it is made
again when there is room for more than it. A second, smaller one is for starts alone, because opening a database needs
room too; a third for packs that take the place of others, which is how room comes back. They hold no data: losing
them, or half of them, costs nothing.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from memoryd.files import Files

RESERVE_BYTES = 4 << 20
SMALL_BYTES = RESERVE_BYTES // 4
"""A write up to this many bytes may have the reserve; more would use up what the next small ones need."""
OPENING_BYTES = 1 << 20
"""What databases and indexes need to be opened and read: SQLite's shared memory above all, a few marks."""
REPLACING_BYTES = 1 << 20
"""What a pack that replaces others may have when small writes used up the rest."""
BLOCK = 4096
OWNER = "reserve"


class Reserve:
    """The held-back space of one store."""

    def __init__(self, path: Path, files: Files, size: int = RESERVE_BYTES) -> None:
        self._path = path
        self._files = files
        self._size = size
        self._held = False

    def make(self) -> bool:
        """Hold the space back, unless it is held already or the disk has too little; whether it is held now."""
        if not self._held:
            try:
                self._held = self._filled()
            except OSError:
                self.release()
        return self._held

    def _filled(self) -> bool:
        if self._path.exists() and self._path.stat().st_blocks * 512 >= self._size:
            return True
        about = os.statvfs(self._path.parent)
        if about.f_bavail * about.f_frsize < 2 * self._size:
            return False
        self._fill(self._size)
        return True

    def _fill(self, size: int) -> None:
        self._files.hold_room(self._path, size, owner=OWNER)

    def hold(self) -> None:
        """Hold back what there is, up to the size, even where nothing is left for others then."""
        with contextlib.suppress(OSError):
            held = self._path.stat().st_blocks * 512 if self._path.exists() else 0
            about = os.statvfs(self._path.parent)
            size = min(self._size, held + about.f_bavail * about.f_frsize) // BLOCK * BLOCK
            if size > held:
                self._fill(size)

    def release(self) -> bool:
        """Give the space back; False where none was held."""
        self._held = False
        with contextlib.suppress(OSError):
            held = self._path.exists()
            self._files.discard(self._path, owner=OWNER)
            return held
        return False


def room_to_open(store: Path, files: Files) -> Reserve:
    """Make sure of the room that a start needs, from what is held back where the disk is full.

    Returns the reserve of starts, to be held again once everything is open, and once more when all is closed.
    """
    opening = Reserve(store / "reserve-open", files, OPENING_BYTES)
    for reserve in (opening, Reserve(store / "reserve", files)):
        with contextlib.suppress(FileNotFoundError):
            about = os.statvfs(store)
            if about.f_bavail * about.f_frsize < OPENING_BYTES:
                reserve.release()
    return opening
