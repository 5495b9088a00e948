"""What may a disk hold after the power went off at any moment?

`Recorder` notes every operation of the one I/O layer. `Disk` plays a beginning of that log and gives every state that a
POSIX file system with atomic renames may show afterwards: data that was not synced is dropped, torn at a sector, filled
with zeros, or there; names whose directory was not synced are there or not, in any combination.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from memoryd.files import Files

SECTOR = 512
NAMES_EXHAUSTIVE = 5
"""Up to so many unsynced name changes every subset is played; of more, a sample."""
Op = tuple[str, ...] | tuple[str, int] | tuple[str, int, bytes] | tuple[str, str, int]


class Recorder(Files):
    """Does everything for real, below `root`, and keeps the log. `mark` notes what the caller was told."""

    def __init__(self, root: Path, fault=None) -> None:
        super().__init__(fault or (lambda _point: None))
        self.root = root
        self.base: dict[str, bytes] = {}
        self.base_dirs: set[str] = set()
        self.log: list[tuple] = []
        self._inodes = itertools.count(1)
        self._fds: dict[int, int] = {}
        self.begin()

    def begin(self) -> None:
        """What lies there now is durable; the log starts here."""
        self.log.clear()
        for folder, _names, files in os.walk(self.root):
            self.base_dirs.add(self._name(Path(folder)))
            for name in files:
                path = Path(folder, name)
                if path.suffix == ".pack" or name in {"FORMAT", "condemned", "CURRENT"}:
                    self.base[self._name(path)] = path.read_bytes()

    def mark(self, label: object) -> None:
        self.log.append(("mark", label))

    def _name(self, path: Path) -> str:
        return os.path.relpath(path, self.root)

    def _create(self, path: Path, mode: int) -> int:
        fd = super()._create(path, mode)
        self._fds[fd] = next(self._inodes)
        self.log.append(("create", self._name(path), self._fds[fd]))
        return fd

    def _write(self, fd: int, data: bytes) -> None:
        super()._write(fd, data)
        self.log.append(("write", self._fds[fd], bytes(data)))

    def _fsync(self, fd: int) -> None:
        super()._fsync(fd)
        if fd in self._fds:
            self.log.append(("fsync", self._fds[fd]))

    def _rename(self, source: Path, target: Path) -> None:
        super()._rename(source, target)
        self.log.append(("rename", self._name(source), self._name(target)))

    def _link(self, source: Path, target: Path) -> None:
        super()._link(source, target)
        self.log.append(("link", self._name(source), self._name(target)))

    def _unlink(self, path: Path) -> None:
        super()._unlink(path)
        self.log.append(("unlink", self._name(path)))

    def _mkdir(self, path: Path, mode: int) -> None:
        super()._mkdir(path, mode)
        self.log.append(("mkdir", self._name(path)))

    def _fsync_dir(self, path: Path) -> None:
        super()._fsync_dir(path)
        self.log.append(("dirsync", self._name(path)))


@dataclass
class Change:
    """One operation on names that is not durable whole: (directory, name, inode or None) entries still to be synced."""

    entries: list[tuple[str, str, int | None]]


@dataclass
class Disk:
    """The file system after the first operations of a log."""

    data: dict[int, bytes] = field(default_factory=dict)
    synced: dict[int, bytes] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    durable: dict[str, int] = field(default_factory=dict)
    dirs: set[str] = field(default_factory=set)
    durable_dirs: set[str] = field(default_factory=set)
    changes: list[Change] = field(default_factory=list)
    told: list[object] = field(default_factory=list)

    @classmethod
    def of(cls, recorder: Recorder) -> Disk:
        disk = cls()
        for number, (name, data) in enumerate(sorted(recorder.base.items())):
            inode = -number - 1
            disk.data[inode] = disk.synced[inode] = data
            disk.names[name] = disk.durable[name] = inode
        disk.dirs |= recorder.base_dirs
        disk.durable_dirs |= recorder.base_dirs
        return disk

    def play(self, op: tuple) -> None:
        kind = op[0]
        if kind == "mark":
            self.told.append(op[1])
        elif kind == "create":
            self.data[op[2]], self.synced[op[2]] = b"", b""
            self._change((op[1], op[2]))
        elif kind == "write":
            self.data[op[1]] += op[2]
        elif kind == "fsync":
            self.synced[op[1]] = self.data[op[1]]
        elif kind == "rename" and op[1] in self.names:
            self._change((op[2], self.names[op[1]]), (op[1], None))
        elif kind == "link" and op[1] in self.names:
            self._change((op[2], self.names[op[1]]))
        elif kind == "unlink" and op[1] in self.names:
            self._change((op[1], None))
        elif kind == "mkdir":
            self.dirs.add(op[1])
        elif kind == "dirsync":
            self._sync(op[1])

    def _change(self, *entries: tuple[str, int | None]) -> None:
        change = []
        for name, inode in entries:
            folder, base = os.path.split(name)
            change.append((folder or ".", base, inode))
            if inode is None:
                self.names.pop(name, None)
            else:
                self.names[name] = inode
        self.changes.append(Change(change))

    def _sync(self, folder: str) -> None:
        self.durable_dirs |= {one for one in self.dirs if (os.path.split(one)[0] or ".") == folder}
        for change in self.changes:
            for entry in [one for one in change.entries if one[0] == folder]:
                _apply(self.durable, entry)
                change.entries.remove(entry)
        self.changes = [change for change in self.changes if change.entries]

    def states(self, turn: random.Random) -> Iterator[dict[str, bytes]]:
        """Every legal content of the disk by name, once the power is back."""
        seen: set[tuple[tuple[str, int], ...]] = set()
        for chosen in _subsets(len(self.changes), turn):
            names = dict(self.durable)
            for number in chosen:
                for entry in self.changes[number].entries:
                    _apply(names, entry)
            for kept in self._kept(names):
                key = tuple(sorted(kept.items()))
                if key not in seen:
                    seen.add(key)
                    yield from self._contents(kept)

    def _kept(self, names: dict[str, int]) -> Iterator[dict[str, int]]:
        """With the folders that were just made, and without those that nobody synced."""
        yield names
        fresh = tuple(f"{folder}/" for folder in self.dirs - self.durable_dirs)
        if fresh:
            yield {name: inode for name, inode in names.items() if not name.startswith(fresh)}

    def _contents(self, names: dict[str, int]) -> Iterator[dict[str, bytes]]:
        open_ones = sorted({inode for inode in names.values() if self.data[inode] != self.synced[inode]})
        for choice in _choices([list(_torn(self.synced[one], self.data[one])) for one in open_ones]):
            picked = dict(zip(open_ones, choice, strict=True))
            yield {name: picked.get(inode, self.data[inode]) for name, inode in names.items()}


def _choices(options: list[list[bytes]]) -> Iterator[tuple[bytes, ...]]:
    """Every combination for two files at most; of more, each file alone in every way, beside none or all of the rest."""
    if len(options) <= 2:
        yield from itertools.product(*options)
        return
    for rest in (0, 1):  # the first two ways are: nothing of it, all of it
        for number, ways in enumerate(options):
            for way in ways:
                yield tuple(way if other == number else options[other][rest] for other in range(len(options)))


def _apply(names: dict[str, int], entry: tuple[str, str, int | None]) -> None:
    folder, base, inode = entry
    name = base if folder == "." else f"{folder}/{base}"
    if inode is None:
        names.pop(name, None)
    else:
        names[name] = inode


def _torn(synced: bytes, data: bytes) -> Iterator[bytes]:
    """What may be left of data of which only a beginning was synced."""
    fresh = len(data) - len(synced)
    yield synced
    yield data
    yield synced + bytes(fresh)  # the length was written, the bytes were not
    for cut in sorted({SECTOR, (fresh // SECTOR // 2) * SECTOR, (fresh - 1) // SECTOR * SECTOR}):
        if 0 < cut < fresh:
            yield data[: len(synced) + cut]
            yield data[: len(synced) + cut] + bytes(fresh - cut)  # the first sectors only
            yield synced + bytes(cut) + data[len(synced) + cut :]  # the last ones only


def _subsets(count: int, turn: random.Random) -> Iterator[tuple[int, ...]]:
    everything = tuple(range(count))
    if count <= NAMES_EXHAUSTIVE:
        for size in range(count + 1):
            yield from itertools.combinations(everything, size)
        return
    yield ()
    yield everything
    for one in everything:
        yield (one,)
        yield tuple(other for other in everything if other != one)
    for _ in range(16):
        yield tuple(other for other in everything if turn.random() < 0.5)


def build(state: dict[str, bytes], dirs: set[str], target: Path) -> None:
    """Make a folder that holds this state."""
    for name in sorted(dirs):
        (target / name).mkdir(parents=True, exist_ok=True)
    for name, data in state.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
