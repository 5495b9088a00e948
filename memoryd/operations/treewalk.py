"""How does a directory become a tree in the store, each file read once and none that has not changed?

Directories are walked depth first, each reached from the one above it, or from the root, without following a link. What
cannot be read is named, never silently left out.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from memoryd.catalog.statcache import ASKED_TOGETHER, Fact, Folder, StatCache, device_of
from memoryd.digest import PREFIX
from memoryd.errors import ContentTooLarge
from memoryd.operations.home import Home
from memoryd.operations.treewriter import TreeWriter
from memoryd.records import shown_path
from memoryd.sources.regular import opened_folder, opened_inner, reason_of
from memoryd.sources.tree import fingerprint, is_executable, listed, open_steadily, read_link, read_steadily, same_file
from memoryd.store.merkle import DIRECTORY, FILE, SYMLINK, TreeEntry, build

STREAM_FROM = 32 << 20
"""Larger files are cut while they are read, and never held whole."""
READ_BYTES = 1 << 20
OPEN_MOST = 32
"""Directories down to this depth stay open while what is below them is walked."""
RACY_NS = 20_000_000
RACY_WHOLE_SECONDS_NS = 2_000_000_000
NAMED_MOST = 100
PROGRESS_EVERY = 500

Stop = Callable[[], bool]
Progress = Callable[[int, int, str], None]


class Stopped(Exception):
    """The walk was asked to end."""


@dataclass(slots=True)
class Seen:
    """What a walk met; paths are relative to its root."""

    files: int = 0
    size: int = 0
    read_files: int = 0
    reused_files: int = 0
    directories: int = 0
    unread: list[dict[str, str]] = field(default_factory=list)
    unread_count: int = 0
    skipped: list[dict[str, str]] = field(default_factory=list)
    unsteady: list[str] = field(default_factory=list)

    def not_read(self, path: bytes, reason: str) -> None:
        """Something that belongs into the tree could not be read."""
        self.unread_count += 1
        if len(self.unread) < NAMED_MOST:
            self.unread.append({"path": shown_path(path) or ".", "reason": reason})

    def skip(self, path: bytes, reason: str) -> None:
        """Something that no tree can hold, or that is memoryd's own."""
        if len(self.skipped) < NAMED_MOST:
            self.skipped.append({"path": shown_path(path), "reason": reason})


@dataclass(slots=True)
class _Level:
    """A directory under way: `facts` of what was dealt with, in name order but for directories, which come last.

    `place` is its path; `fd` stays open while what is below is walked, but far down; `ahead`: what the cache knows of
    some of its directories.
    """

    parts: tuple[bytes, ...]
    place: bytes
    fd: int | None
    device: int
    began: int
    known: Folder | None
    ahead: dict[bytes, Folder] = field(default_factory=dict)
    folders: list[bytes] = field(default_factory=list)
    facts: dict[bytes, Fact] = field(default_factory=dict)
    racy: set[bytes] = field(default_factory=set)
    changed: bool = False


class TreeWalk:
    """One walk over one directory."""

    def __init__(
        self,
        home: Home,
        root: Path,
        writer: TreeWriter,
        *,
        cache: StatCache | None,
        full: bool = False,
        forgotten: frozenset[bytes] = frozenset(),
        progress: Progress = lambda _done, _total, _note: None,
        stop: Stop = lambda: False,
    ) -> None:
        """`full`: read every file, whatever the cache says; contents in `forgotten` (32 bytes) are left out."""
        self._home = home
        self._root = root
        self._place = os.fsencode(root)
        self._writer = writer
        self._cache = cache
        self._epoch = writer.epoch
        self._full = full
        self._forgotten = forgotten
        self._progress = progress
        self._stop = stop
        self._own = {os.path.realpath(os.fsencode(folder)) for folder in home.reserved}
        self.seen = Seen()

    def take(self) -> bytes:
        """The root address of the tree. Raises Stopped, OSError where the root itself cannot be read, StoreError."""
        stack = [self._enter((), None)]
        try:
            while True:
                level = stack[-1]
                if level.folders:
                    self._descend(stack, level.folders.pop())
                    continue
                address = self._leave(level)
                _close(stack.pop())
                if not stack:
                    return address
                stack[-1].facts[level.parts[-1]] = (0, 0, 0, 0, stat.S_IFDIR, address)
        finally:
            for level in stack:
                _close(level)

    def _descend(self, stack: list[_Level], name: bytes) -> None:
        above = stack[-1]
        parts = (*above.parts, name)
        if _below(above.place, name) in self._own:
            self.seen.skip(b"/".join(parts), "memoryd's own")
            above.changed = True
            return
        try:
            stack.append(self._enter(parts, above))
        except OSError as error:
            above.changed = True
            if reason_of(error) != "gone":
                self.seen.not_read(b"/".join(parts), error.strerror or "it cannot be read")

    def _enter(self, parts: tuple[bytes, ...], above: _Level | None) -> _Level:
        """Read a directory and everything in it but its directories. Raises Stopped, OSError, StoreError."""
        began = time.time_ns()
        place = self._place if above is None else _below(above.place, parts[-1])
        folder = self._open(parts, above)
        try:
            device = device_of(os.fstat(folder).st_dev)
            level = _Level(parts, place, folder, device, began, self._known(place, device, above))
            self._look(level, folder)
        except BaseException:  # nothing stays open, then raised on
            os.close(folder)
            raise
        if not level.folders or len(parts) >= OPEN_MOST:
            _close(level)
        self.seen.directories += 1
        return level

    def _open(self, parts: tuple[bytes, ...], above: _Level | None) -> int:
        if above is None or above.fd is None:
            return opened_folder(self._root, parts)
        return opened_inner(parts[-1], above.fd)

    def _look(self, level: _Level, folder: int) -> None:
        """Deal with everything in a directory but its directories."""
        found = listed(folder)
        reusable = self._reusable(level, found)
        level.folders = [name for name, about in reversed(found) if stat.S_ISDIR(about.st_mode)]
        if not self._forgotten and len(reusable) + len(level.folders) == len(found):
            self._as_it_was(level, reusable)
            return
        for name, about in found:
            if not stat.S_ISDIR(about.st_mode):
                self._leaf(level, folder, name, about, reusable)

    def _as_it_was(self, level: _Level, facts: dict[bytes, Fact]) -> None:
        """Nothing in this directory but its directories may have changed."""
        level.facts = facts
        self.seen.reused_files += len(facts)
        self._count(level, len(facts), sum(fact[0] for fact in facts.values()))

    def _known(self, place: bytes, device: int, above: _Level | None) -> Folder | None:
        """What the cache knows of a directory; asked together with those that follow beside it."""
        if self._cache is None or self._full:
            return None
        if above is None:
            return self._cache.folder(place, device)
        if place not in above.ahead:
            following = above.folders[:-ASKED_TOGETHER:-1]
            above.ahead = self._cache.folders([place, *(_below(above.place, name) for name in following)])
        found = above.ahead.get(place)
        return found if found is not None and found.device == device else None

    def _reusable(self, level: _Level, found: list[tuple[bytes, os.stat_result]]) -> dict[bytes, Fact]:
        """What the cache knows of this directory and that still holds."""
        if level.known is None:
            return {}
        known = level.known.facts
        same = {name: known[name] for name, about in found if name in known and known[name][:5] == fingerprint(about)}
        damaged = self._home.store.damaged
        if damaged:
            same = {name: fact for name, fact in same.items() if PREFIX + fact[5].hex() not in damaged}
        if level.known.epoch != self._epoch:
            held = self._home.store.held([fact[5] for fact in same.values()])
            same = {name: fact for name, fact in same.items() if fact[5] in held}
        return same

    def _leaf(
        self, level: _Level, folder: int, name: bytes, about: os.stat_result, reusable: dict[bytes, Fact]
    ) -> None:
        fact = reusable.get(name)
        if fact is not None:
            self.seen.reused_files += 1
        elif stat.S_ISREG(about.st_mode) or stat.S_ISLNK(about.st_mode):
            level.changed = True
            fact = self._read(level, folder, name, about)
        else:
            level.changed = True
            self.seen.skip(b"/".join((*level.parts, name)), "no regular file, directory or link")
        if fact is None:
            return
        if self._forgotten and fact[5] in self._forgotten:
            level.changed = True
            self.seen.not_read(b"/".join((*level.parts, name)), "this content was erased with `memoryd forget`")
            return
        level.facts[name] = fact
        self._count(level, 1, fact[0])

    def _count(self, level: _Level, files: int, size: int) -> None:
        """Note what was met, and look now and then whether to go on. Raises Stopped."""
        before = self.seen.files // PROGRESS_EVERY
        self.seen.files += files
        self.seen.size += size
        if self.seen.files // PROGRESS_EVERY > before:
            self._progress(self.seen.files, 0, shown_path(b"/".join(level.parts)))
            if self._stop():
                raise Stopped

    def _read(self, level: _Level, folder: int, name: bytes, about: os.stat_result) -> Fact | None:
        """Store one file or link; None where that cannot be."""
        path = b"/".join((*level.parts, name))
        try:
            if stat.S_ISLNK(about.st_mode):
                target = read_link(name, folder)
                fact, steady = self._stored(target, about), len(target) == about.st_size
            elif about.st_size > STREAM_FROM:
                fact, steady = self._streamed(name, folder)
            else:
                data, after, steady = read_steadily(name, folder)
                fact = self._stored(data, after)
        except OSError as error:
            if reason_of(error) != "gone":
                self.seen.not_read(path, error.strerror or "it cannot be read")
            return None
        except ContentTooLarge as error:
            self.seen.not_read(path, error.message)
            return None
        self.seen.read_files += 1
        if not steady and len(self.seen.unsteady) < NAMED_MOST:
            self.seen.unsteady.append(shown_path(path))
        if not steady or is_racy(fact, level.began):
            level.racy.add(name)
        return fact

    def _stored(self, data: bytes, about: os.stat_result) -> Fact:
        digest = hashlib.sha256(data).digest()
        if digest not in self._forgotten:
            self._writer.content(digest, data)
        _size, mtime, ctime, inode, mode = fingerprint(about)
        return len(data), mtime, ctime, inode, mode, digest

    def _streamed(self, name: bytes, folder: int) -> tuple[Fact, bool]:
        def read(amount: int) -> bytes:
            if self._stop():
                raise Stopped
            return os.read(fd, amount)

        with open_steadily(name, folder) as (fd, before):
            digest, size = self._erased(read) or (b"", 0)
            if not digest:
                os.lseek(fd, 0, os.SEEK_SET)
                digest, size = self._writer.stream(read)
            after = os.fstat(fd)
        expected, mtime, ctime, inode, mode = fingerprint(after)
        steady = same_file(before, after) and size == expected
        return (size, mtime, ctime, inode, mode, digest), steady

    def _erased(self, read: Callable[[int], bytes]) -> tuple[bytes, int] | None:
        """SHA-256 and size, where that content was erased: a stream stores pieces before anybody could tell."""
        if not self._forgotten:
            return None
        digest, size = hashlib.sha256(), 0
        while piece := read(READ_BYTES):
            digest.update(piece)
            size += len(piece)
        return (digest.digest(), size) if digest.digest() in self._forgotten else None

    def _leave(self, level: _Level) -> bytes:
        """The address of a directory whose entries are all there."""
        known = level.known
        current = known is not None and known.epoch == self._epoch and not level.changed
        if known is not None and current and known.root and known.facts == level.facts:
            return known.root
        found = [_entry(name, fact) for name, fact in level.facts.items()]
        root, nodes = build(found)
        self._writer.nodes(nodes)
        if self._cache is not None:
            kept = {name: fact for name, fact in level.facts.items() if name not in level.racy}
            self._writer.remember(Folder(level.place, level.device, kept, b"" if level.racy else root, self._epoch))
        return root


def _below(place: bytes, name: bytes) -> bytes:
    return place.rstrip(b"/") + b"/" + name


def _close(level: _Level) -> None:
    if level.fd is not None:
        os.close(level.fd)
        level.fd = None


def is_racy(fact: Fact, began: int) -> bool:
    """Whether a file changed so shortly before it was read that a later change might leave the same times.

    Where a time is a whole second, the file system may know no finer ones.
    """
    for when in (fact[1], fact[2]):
        slack = RACY_NS if when % 1_000_000_000 else RACY_WHOLE_SECONDS_NS
        if when >= began - slack:
            return True
    return False


def _entry(name: bytes, fact: Fact) -> TreeEntry:
    mode = fact[4]
    if stat.S_ISDIR(mode):
        return TreeEntry(name, DIRECTORY, False, 0, fact[5])
    kind = SYMLINK if stat.S_ISLNK(mode) else FILE
    return TreeEntry(name, kind, is_executable(mode), fact[0], fact[5])
