"""How do bytes reach the disk so that they survive a crash, and how does a test make any step fail?

Every write of store, vault and generations goes through one `Files` object. Each step announces a named fault
point first; a test hands in a `fault` that kills the process, raises `OSError` or records the order, or a subclass
whose primitives (the methods at the end) note down what they do, or do less than they are asked.
An `OSError` from fsync is never retried here: the caller poisons its handle.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

Fault = Callable[[str], None]
PREALLOCATED_FROM = 1 << 20
_TOGETHER = 512
"""Parts that are handed to the system in one call (it takes 1024)."""


def no_fault(_point: str) -> None:
    """The production fault hook: nothing happens."""


class Files:
    """File operations with fault points `<owner>.<step>`; `owner` names the caller's write (e.g. `pack`)."""

    def __init__(self, fault: Fault = no_fault) -> None:
        self.fault = fault

    def write_new(self, path: Path, pieces: list[bytes] | bytes, *, owner: str, mode: int = 0o600) -> None:
        """Create `path` (must not exist), write all pieces, fsync. Raises OSError; leaves the torn file behind.

        Room for a large file is taken before its first byte: it lies in one place, and a full disk is met at once.
        """
        parts = [pieces] if isinstance(pieces, bytes) else pieces
        self.fault(f"{owner}.create")
        fd = self._create(path, mode)
        try:
            preallocate(fd, sum(map(len, parts)))
            for part in parts:
                self.fault(f"{owner}.write")
                self._write(fd, part)
            self.fault(f"{owner}.fsync")
            self._fsync(fd)
        finally:
            os.close(fd)

    def rename(self, source: Path, target: Path, *, owner: str) -> None:
        """Rename and make the new name durable."""
        self.fault(f"{owner}.rename")
        self._rename(source, target)
        self.fsync_dir(target.parent, owner=owner)

    def replace(self, path: Path, data: bytes, *, owner: str, mode: int = 0o600) -> None:
        """Atomically give `path` new bytes: temporary file beside it, fsync, rename, directory fsync."""
        temporary = path.with_name(f".{path.name}.tmp")
        self.discard(temporary, owner=owner)
        self.write_new(temporary, data, owner=owner, mode=mode)
        self.rename(temporary, path, owner=owner)

    def keep_copy(self, source: Path, target: Path, *, owner: str) -> None:
        """Give the bytes of `source` a second name (a copy where links cannot be), durably; `target` must not exist."""
        self.fault(f"{owner}.link")
        try:
            self._link(source, target)
        except FileExistsError:
            raise
        except OSError:
            self.replace(target, source.read_bytes(), owner=owner)
        else:
            self.fsync_dir(target.parent, owner=owner)

    def unlink(self, path: Path, *, owner: str) -> None:
        """Remove a file (missing is fine) and make that durable."""
        self.fault(f"{owner}.unlink")
        self._unlink(path)
        self.fsync_dir(path.parent, owner=owner)

    def discard(self, path: Path, *, owner: str) -> None:
        """Remove a leftover that nobody reads, if it is there; that it is gone need not be durable."""
        if os.path.lexists(path):
            self.fault(f"{owner}.discard")
            self._unlink(path)

    def discard_tree(self, path: Path, *, owner: str) -> None:
        """The same for a folder with everything in it."""
        if os.path.lexists(path):
            self.fault(f"{owner}.discard")
            self._remove_tree(path)

    def mkdir(self, path: Path, *, owner: str, mode: int = 0o700) -> None:
        """Create a directory with its parents; each new entry is made durable."""
        if path.is_dir():
            return
        self.mkdir(path.parent, owner=owner, mode=mode)
        self.fault(f"{owner}.mkdir")
        self._mkdir(path, mode)
        self.fsync_dir(path.parent, owner=owner)

    def fsync_dir(self, path: Path, *, owner: str) -> None:
        """Make the entries of a directory durable."""
        self.fault(f"{owner}.fsync_dir")
        self._fsync_dir(path)

    def fsync_file(self, path: Path, *, owner: str) -> None:
        """Make the bytes of a file durable that somebody else wrote."""
        self.fault(f"{owner}.fsync")
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._fsync(fd)
        finally:
            os.close(fd)

    def hold_room(self, path: Path, size: int, *, owner: str) -> None:
        """Let the file at `path` take up `size` bytes of the disk; what they are is nobody's business."""
        self.fault(f"{owner}.hold")
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, size)
        finally:
            os.close(fd)

    # the primitives: one call of the system each

    def _create(self, path: Path, mode: int) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)

    def _write(self, fd: int, data: bytes) -> None:
        write_all(fd, data)

    def _fsync(self, fd: int) -> None:
        os.fsync(fd)

    def _rename(self, source: Path, target: Path) -> None:
        source.rename(target)

    def _link(self, source: Path, target: Path) -> None:
        target.hardlink_to(source)

    def _unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def _remove_tree(self, path: Path) -> None:
        shutil.rmtree(path)

    def _mkdir(self, path: Path, mode: int) -> None:
        path.mkdir(mode=mode, exist_ok=True)

    def _fsync_dir(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write every byte (a short write is continued)."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_parts(fd: int, parts: Sequence[memoryview]) -> None:
    """Write these one after the other, without joining them."""
    for start in range(0, len(parts), _TOGETHER):
        some = parts[start : start + _TOGETHER]
        written = os.writev(fd, some)
        for part in some:  # what a short write left
            if written < len(part):
                write_all(fd, part[written:])
            written = max(0, written - len(part))


def preallocate(fd: int, size: int) -> None:
    """Take the room for a file of this size, where that is worth a call and the file system can do it."""
    if size < PREALLOCATED_FROM:
        return
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENODEV):
            raise
