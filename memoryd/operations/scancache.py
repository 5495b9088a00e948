"""Which files of a corpus look exactly as they did when they were last read, and need no reading?"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from memoryd.catalog.statcache import Fact, Folder, StatCache, device_of
from memoryd.digest import PREFIX
from memoryd.errors import HomeError, StoreError
from memoryd.operations.home import Home
from memoryd.operations.treewalk import is_racy
from memoryd.sources.corpora import CorpusFile


class ScanCache:
    """What the stat cache knows of one corpus. Where it cannot be opened it knows nothing: every file is read."""

    def __init__(self, home: Home, root: Path, *, full: bool) -> None:
        """`full`: every file is to be read, and remembered anew. Made before the walk."""
        self._home = home
        self._full = full
        self._began = time.time_ns()
        self._place = b"corpus\0" + os.fsencode(root)
        self._packs = set(home.store.pack_ids())
        self._known: dict[bytes, Folder | None] = {}
        self._seen: dict[bytes, dict[bytes, Fact]] = {}
        self._cache: StatCache | None = None
        self._epoch = self._device = 0
        with suppress(HomeError, StoreError, OSError):
            self._device = device_of(root.stat().st_dev)
            self._cache = StatCache(home.root / "stats.db")
            self._epoch = self._cache.epoch(self._packs)

    def address(self, file: CorpusFile) -> str | None:
        """The address of a file that looks as it did when it had this content, which is still stored."""
        if self._cache is None or self._full:
            return None
        folder, _, name = file.path.rpartition(b"/")
        known = self._folder(folder)
        fact = None if known is None else known.facts.get(name)
        if known is None or fact is None or fact[:5] != file.looks:
            return None
        address = PREFIX + fact[5].hex()
        if address in self._home.store.damaged:
            return None
        if known.epoch != self._epoch and not self._home.store.held([fact[5]]):
            return None
        self._seen.setdefault(folder, {})[name] = fact
        return address

    def _folder(self, folder: bytes) -> Folder | None:
        if folder not in self._known:
            assert self._cache is not None
            self._known[folder] = self._cache.folder(self._path(folder), self._device)
        return self._known[folder]

    def _path(self, folder: bytes) -> bytes:
        return self._place + b"/" + folder

    def note(self, file: CorpusFile, address: str) -> None:
        """A file was read and has this content."""
        fact = (*file.looks, bytes.fromhex(address.removeprefix(PREFIX)))
        if not is_racy(fact, self._began):
            folder, _, name = file.path.rpartition(b"/")
            self._seen.setdefault(folder, {})[name] = fact

    def keep(self, *, complete: bool) -> None:
        """Remember what was noted, once all of it is stored; `complete`: all folders were seen. The last call."""
        if self._cache is None:
            return
        with suppress(HomeError, StoreError):  # it is but a help
            now = self._home.store.pack_ids()
            if self._packs <= set(now):
                rows = [
                    Folder(self._path(folder), self._device, facts, b"", self._epoch)
                    for folder, facts in self._seen.items()
                ]
                self._cache.keep([row for row in rows if row != self._known.get(row.path[len(self._place) + 1 :])])
                self._cache.keep_packs(now, self._epoch)
            if complete:
                self._cache.forget_below(self._place + b"/", {self._path(folder) for folder in self._seen})
        self._cache.close()
