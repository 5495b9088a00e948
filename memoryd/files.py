"""How do bytes reach the disk so that they survive a crash, and how does a test make any step fail?

Every write of store, vault and generations goes through one `Files` object. Each step announces a named fault
point first; a test hands in a `fault` that kills the process, raises `OSError` or records the order.
An `OSError` from fsync is never retried here: the caller poisons its handle.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

Fault = Callable[[str], None]
PREALLOCATED_FROM = 1 << 20


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
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            preallocate(fd, sum(map(len, parts)))
            for part in parts:
                self.fault(f"{owner}.write")
                write_all(fd, part)
            self.fault(f"{owner}.fsync")
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, source: Path, target: Path, *, owner: str) -> None:
        """Rename and make the new name durable."""
        self.fault(f"{owner}.rename")
        source.rename(target)
        self.fsync_dir(target.parent, owner=owner)

    def replace(self, path: Path, data: bytes, *, owner: str, mode: int = 0o600) -> None:
        """Atomically give `path` new bytes: temporary file beside it, fsync, rename, directory fsync."""
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.unlink(missing_ok=True)
        self.write_new(temporary, data, owner=owner, mode=mode)
        self.rename(temporary, path, owner=owner)

    def unlink(self, path: Path, *, owner: str) -> None:
        """Remove a file (missing is fine) and make that durable."""
        self.fault(f"{owner}.unlink")
        path.unlink(missing_ok=True)
        self.fsync_dir(path.parent, owner=owner)

    def mkdir(self, path: Path, *, owner: str, mode: int = 0o700) -> None:
        """Create a directory with its parents; each new entry is made durable."""
        if path.is_dir():
            return
        self.mkdir(path.parent, owner=owner, mode=mode)
        self.fault(f"{owner}.mkdir")
        path.mkdir(mode=mode, exist_ok=True)
        self.fsync_dir(path.parent, owner=owner)

    def fsync_dir(self, path: Path, *, owner: str) -> None:
        """Make the entries of a directory durable."""
        self.fault(f"{owner}.fsync_dir")
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


def preallocate(fd: int, size: int) -> None:
    """Take the room for a file of this size, where that is worth a call and the file system can do it."""
    if size < PREALLOCATED_FROM:
        return
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENODEV):
            raise
