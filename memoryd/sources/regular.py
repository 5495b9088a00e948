"""How is a file read that nobody vouches for: a link, a pipe, a device, or one that vanishes meanwhile?

Every step is opened relative to the one before it and never through a link, so that a tree that changes under the
reader cannot lead it outside.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LEAST = 4096
_MOST = 64 << 20
_REASONS = {
    errno.ENOENT: "gone",
    errno.ELOOP: "link",
    errno.ENOTDIR: "link",
    errno.ENXIO: "special",
    errno.EACCES: "denied",
    errno.EPERM: "denied",
    errno.EFBIG: "large",
}


@contextmanager
def open_folder(folder: Path, below: Sequence[bytes] = ()) -> Iterator[int]:
    """The descriptor of a folder, reached from `folder` (itself no link) step by step. Raises OSError."""
    opened = opened_folder(folder, below)
    try:
        yield opened
    finally:
        os.close(opened)


def opened_folder(folder: Path, below: Sequence[bytes] = ()) -> int:
    """As `open_folder`, for a caller that closes it."""
    opened = os.open(folder, _FOLDER)
    for name in below:
        try:
            inner = opened_inner(name, opened)
        finally:
            os.close(opened)
        opened = inner
    return opened


def opened_inner(name: bytes, folder: int) -> int:
    """The descriptor of a folder in an open one; the caller closes it. Raises OSError."""
    return os.open(name, _FOLDER, dir_fd=folder)


def read_regular(name: bytes, folder: int, *, limit: int | None = None) -> bytes:
    """The bytes of a regular file in an open folder; anything else is not even opened.

    Raises OSError: ELOOP for a link, ENXIO for a pipe, device or socket, EFBIG over `limit` bytes.
    """
    with open_regular(name, folder) as fd:
        return _read_all(fd, os.fstat(fd).st_size, limit)


@contextmanager
def open_regular(name: bytes, folder: int) -> Iterator[int]:
    """The descriptor of a regular file in an open folder. Raises OSError as `read_regular` does."""
    _expect_regular(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    fd = os.open(name, _FILE, dir_fd=folder)
    try:
        _expect_regular(os.fstat(fd).st_mode)
        yield fd
    finally:
        os.close(fd)


@contextmanager
def open_listed(name: bytes, folder: int) -> Iterator[tuple[int, os.stat_result]]:
    """As `open_regular`, for what was just listed as a regular file; besides, what is known of it now."""
    fd = os.open(name, _FILE, dir_fd=folder)
    try:
        about = os.fstat(fd)
        _expect_regular(about.st_mode)
        yield fd, about
    finally:
        os.close(fd)


def reason_of(error: OSError) -> str:
    """gone, link, special, denied, large or failed."""
    return _REASONS.get(error.errno or 0, "failed")


def _expect_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise OSError(errno.ELOOP if stat.S_ISLNK(mode) else errno.ENXIO, "not a regular file")


def _read_all(fd: int, expected: int, limit: int | None) -> bytes:
    if limit is not None and expected > limit:
        raise OSError(errno.EFBIG, "too large")
    pieces: list[bytes] = []
    size = 0
    while piece := os.read(fd, min(max(expected - size, _LEAST), _MOST) + 1):
        pieces.append(piece)
        size += len(piece)
        if limit is not None and size > limit:
            raise OSError(errno.EFBIG, "too large")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
