"""How does a snapshot become a directory again, complete or not at all, and never outside its target?

Everything is made in a directory beside the target, reached step by step without following links, every content
verified; one rename then gives it the target's name. What is damaged is named and left out.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memoryd.digest import PREFIX
from memoryd.errors import ContentDamaged, DiskFull, InvalidInput, MemorydError, NotFound, RestoreRefused, StoreError
from memoryd.files import write_parts
from memoryd.operations import callers
from memoryd.operations.calm import rarely_collected
from memoryd.operations.home import Caller, Home
from memoryd.operations.kept import entry_at, find, place_text, shown
from memoryd.records import shown_path
from memoryd.sources.regular import open_folder
from memoryd.store.merkle import DIRECTORY, SYMLINK, TreeEntry
from memoryd.store.seal import FULL
from memoryd.store.treediff import entries

OWNER = "restore"
PIECES_FROM = 4 << 20
"""Larger contents are written piece by piece."""
BATCH_FILES = 4096
"""Smaller ones are read together, so many at a time."""
FOLDERS_OPEN = 64
NODES_TOGETHER = 256
"""So many directories are looked up together."""
READ_CACHE = 128 << 20
"""Bytes of unpacked frames kept while many contents are read."""
PROGRESS_EVERY = 200
NAMED_MOST = 100
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
Progress = Callable[[int, int, str], None]
Parts = tuple[bytes, ...]


class Stopped(Exception):
    """The restore was asked to end."""


@dataclass(slots=True)
class Made:
    """What was written."""

    files: int = 0
    directories: int = 0
    links: int = 0
    size: int = 0
    damaged_count: int = 0
    damaged: list[dict[str, str]] = field(default_factory=list)

    def not_whole(self, path: bytes, reason: str) -> None:
        """Something could not be read from the store."""
        self.damaged_count += 1
        if len(self.damaged) < NAMED_MOST:
            self.damaged.append({"path": shown_path(path), "reason": reason})


def restore(
    home: Home,
    caller: Caller,
    *,
    snapshot: str,
    target: str,
    path: str | None = None,
    scope: str | None = None,
    progress: Progress = lambda _done, _total, _note: None,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Write a snapshot (or what it holds at `path`) to a target that does not exist or is an empty directory.

    `ok` is False where damaged contents were left out. Stopped, or after an error, nothing is left of it. Raises
    NotFound, InvalidInput, RestoreRefused, DiskFull, ContentDamaged (a part of the tree itself).
    """
    record = find(home, snapshot, callers.readable(home, caller, scope))
    parts = [part for part in os.fsencode(path or "").split(b"/") if part]
    root = TreeEntry(b"root", DIRECTORY, False, 0, bytes.fromhex(record.root))
    wanted = entry_at(home.store.node, root.address, parts) if parts else root
    if wanted is None:
        raise NotFound(f"This snapshot holds nothing at {path!r}.", next_step="`memoryd diff` shows paths as they are.")
    place = _place(home, caller, target, folder=wanted.kind == DIRECTORY)
    work = place.with_name(f".{place.name}.restoring")
    writing = _Writing(home, work, record.files if not parts else 0, progress, stop)
    try:
        done = writing.all(wanted, place)
    except OSError as error:
        full = DiskFull if error.errno in FULL else RestoreRefused
        raise full(f"{place_text(place)} cannot be written: {error.strerror}.") from error
    if not done:
        return {"stopped": True, "target": place_text(place)}
    made = writing.made
    return {
        "ok": not made.damaged_count,
        "snapshot": shown(record),
        "target": place_text(place),
        "files": made.files,
        "directories": made.directories,
        "links": made.links,
        "size": made.size,
        "damaged_count": made.damaged_count,
        "damaged": made.damaged,
    }


def _place(home: Home, caller: Caller, target: str, *, folder: bool) -> Path:
    """The target's path, its parent resolved; nothing but an empty directory may lie there. Raises RestoreRefused."""
    if not target or "\0" in target:
        raise InvalidInput("`target` must be a path.", parameter="target")
    given = Path(os.path.normpath(Path(caller.directory or "/") / target))
    place = Path(os.path.realpath(given.parent)) / given.name
    if not given.name or not place.parent.is_dir():
        raise RestoreRefused(
            f"{place_text(place.parent)} is no directory.", next_step="Make it, or name another target."
        )
    if any(place.is_relative_to(os.path.realpath(own)) for own in home.reserved):
        raise RestoreRefused(f"{place_text(place)} belongs to memoryd itself.")
    if os.path.lexists(place):
        empty = folder and place.is_dir() and not place.is_symlink() and not any(os.scandir(place))
        if not empty:
            raise RestoreRefused(f"{place_text(place)} is there already.")
    return place


@dataclass(slots=True)
class _Batch:
    """Small files that are read together: by content, the places where it goes."""

    files: dict[bytes, list[tuple[Parts, TreeEntry]]] = field(default_factory=dict)
    count: int = 0

    def add(self, parts: Parts, entry: TreeEntry) -> None:
        self.files.setdefault(entry.address, []).append((parts, entry))
        self.count += 1

    def full(self) -> bool:
        return self.count >= BATCH_FILES


class _Folders:
    """Directories below the work directory, a few of them open at a time."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._open: dict[Parts, tuple[ExitStack, int]] = {}

    def __enter__(self) -> _Folders:
        return self

    def __exit__(self, *_exc: object) -> None:
        for stack, _fd in self._open.values():
            stack.close()

    def open(self, parts: Parts) -> int:
        """A descriptor of the directory, reached without following a link. Raises OSError."""
        found = self._open.pop(parts, None)
        if found is None:
            while len(self._open) >= FOLDERS_OPEN:
                self._open.pop(next(iter(self._open)))[0].close()
            stack = ExitStack()
            found = (stack, stack.enter_context(open_folder(self._root, parts)))
        self._open[parts] = found  # the one used last goes last
        return found[1]


def _prefix(parts: Parts) -> bytes:
    return b"".join([part + b"/" for part in parts])


class _Writing:
    """One restore under way, in the directory `work` beside its target."""

    def __init__(self, home: Home, work: Path, total: int, progress: Progress, stop: Callable[[], bool]) -> None:
        self._home = home
        self._work = work
        self._total = total
        self._progress = progress
        self._stop = stop
        self.made = Made()

    def all(self, wanted: TreeEntry, place: Path) -> bool:
        """Write everything and give it its name; False where stopped. Raises OSError, StoreError kinds, NotFound."""
        fault = self._home.files.fault
        fault(f"{OWNER}.mkdir")
        try:
            self._work.mkdir()
        except FileExistsError:
            raise RestoreRefused(
                f"{place_text(self._work)} is there: a restore to this target runs, or was interrupted.",
                next_step="If none runs, remove that directory and restore again.",
            ) from None
        try:
            if wanted.kind == DIRECTORY:
                with self._home.store.reading_much(READ_CACHE), rarely_collected():
                    self._tree(wanted.address)
                self._home.files.rename(self._work, place, owner=OWNER)
            else:
                self._alone(wanted, place)
        except Stopped:
            self._discard()
            return False
        except BaseException:  # nothing half is left, then raised on
            self._discard()
            raise
        return True

    def _discard(self) -> None:
        with suppress(OSError, RecursionError):  # a next restore to this target names what is left
            shutil.rmtree(self._work)

    def _alone(self, entry: TreeEntry, place: Path) -> None:
        """A single file or link, which takes its name only where nothing has it. Raises ContentDamaged."""
        with open_folder(self._work) as folder:
            self._put(entry, b"", folder)
            if self.made.damaged_count:
                raise ContentDamaged(self.made.damaged[0]["reason"], address=PREFIX + entry.address.hex())
            self._home.files.fault(f"{OWNER}.rename")
            os.link(entry.name, place, src_dir_fd=folder, follow_symlinks=False)
        shutil.rmtree(self._work)
        self._home.files.fsync_dir(place.parent, owner=OWNER)

    def _tree(self, root: bytes) -> None:
        waiting: list[tuple[Parts, bytes]] = [((), root)]
        batch = _Batch()
        while waiting:
            some, waiting = waiting[-NODES_TOGETHER:], waiting[:-NODES_TOGETHER]
            nodes = self._home.store.nodes([address for _parts, address in some])
            for parts, address in reversed(some):
                waiting += self._folder(parts, address, nodes, batch)
                if batch.full():
                    self._put_batch(batch)
                    batch = _Batch()
        self._put_batch(batch)

    def _folder(
        self, parts: Parts, address: bytes, nodes: Mapping[bytes, bytes], batch: _Batch
    ) -> list[tuple[Parts, bytes]]:
        """Make the directories of one directory, and note its files; the directories, last one first."""
        prefix = _prefix(parts)
        below = []
        with open_folder(self._work, parts) as folder:
            for entry in self._entries(prefix, address, nodes):
                if entry.kind == DIRECTORY:
                    self._home.files.fault(f"{OWNER}.mkdir")
                    os.mkdir(entry.name, dir_fd=folder)
                    self.made.directories += 1
                    below.append(((*parts, entry.name), entry.address))
                elif entry.kind == SYMLINK or entry.size > PIECES_FROM:
                    self._put(entry, prefix, folder)
                else:
                    batch.add(parts, entry)
        return below[::-1]

    def _put_batch(self, batch: _Batch) -> None:
        """Write small files in the order in which their contents lie in the store."""
        with _Folders(self._work) as folders:
            for address, data in self._home.store.read_many(list(batch.files)):
                for parts, entry in batch.files[address]:
                    self._pace(parts)
                    if isinstance(data, MemorydError):
                        self.made.not_whole(_prefix(parts) + entry.name, data.message)
                    else:
                        self._file(entry, folders.open(parts), data)

    def _entries(self, prefix: bytes, address: bytes, nodes: Mapping[bytes, bytes]) -> list[TreeEntry]:
        node = self._home.store.node
        try:
            return list(entries(lambda one: nodes.get(one) or node(one), address))
        except (StoreError, NotFound) as error:
            if not prefix:
                raise
            self.made.not_whole(prefix, error.message)
            return []

    def _put(self, entry: TreeEntry, prefix: bytes, folder: int) -> None:
        self._pace((prefix.rstrip(b"/"),))
        try:
            if entry.kind == SYMLINK:
                target = self._home.store.read(PREFIX + entry.address.hex())
                self._home.files.fault(f"{OWNER}.create")
                os.symlink(target, entry.name, dir_fd=folder)
                self.made.links += 1
            else:
                self._file(entry, folder)
        except (ContentDamaged, NotFound) as error:
            with suppress(FileNotFoundError):
                os.unlink(entry.name, dir_fd=folder)
            self.made.not_whole(prefix + entry.name, error.message)

    def _pace(self, parts: Parts) -> None:
        if self._stop():
            raise Stopped
        done = self.made.files + self.made.links
        if done % PROGRESS_EVERY == 0:
            self._progress(done, self._total, shown_path(b"/".join(parts)))

    def _file(self, entry: TreeEntry, folder: int, data: Sequence[memoryview] | None = None) -> None:
        store, address = self._home.store, PREFIX + entry.address.hex()
        if data is None and entry.size <= PIECES_FROM:
            data = [memoryview(store.read(address))]
        self._home.files.fault(f"{OWNER}.create")
        fd = os.open(entry.name, _NEW, 0o777 if entry.exec else 0o666, dir_fd=folder)
        try:
            for piece in (data,) if data is not None else store.pieces_of(entry.address):
                self._home.files.fault(f"{OWNER}.write")
                write_parts(fd, piece)
        finally:
            os.close(fd)
        self.made.files += 1
        self.made.size += entry.size
