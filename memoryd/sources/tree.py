"""What does any directory hold, name by name, while it may change under the reader?

Nothing is followed and nothing but a regular file is opened; names are raw bytes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from memoryd.sources.regular import open_listed, open_regular

READ_AGAIN = 3
"""So often is a file read that changes meanwhile."""


def listed(folder: int) -> list[tuple[bytes, os.stat_result]]:
    """(name, what is known of it without following it) of everything in an open folder, by name. Raises OSError."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                found.append((os.fsencode(entry.name), entry.stat(follow_symlinks=False)))
            except FileNotFoundError:
                continue  # it went meanwhile
    found.sort(key=lambda one: one[0])
    return found


def read_link(name: bytes, folder: int) -> bytes:
    """Where a link leads, as its bytes say. Raises OSError."""
    return os.readlink(name, dir_fd=folder)


def read_steadily(name: bytes, folder: int) -> tuple[bytes, os.stat_result, bool]:
    """The bytes of a file that was listed as a regular one, what is known of it, and whether it kept still while it
    was read. Raises OSError."""
    for attempt in range(READ_AGAIN):
        with open_listed(name, folder) as (fd, before):
            data = os.read(fd, before.st_size + 1)  # less than asked: it ends there; more: it grows
            after = os.fstat(fd)
        steady = same_file(before, after) and len(data) == after.st_size
        if steady or attempt == READ_AGAIN - 1:
            break
    return data, after, steady


@contextmanager
def open_steadily(name: bytes, folder: int) -> Iterator[tuple[int, os.stat_result]]:
    """A regular file to be read in pieces, and what is known of it at its opening. Raises OSError."""
    with open_regular(name, folder) as fd:
        yield fd, os.fstat(fd)


def same_file(one: os.stat_result, other: os.stat_result) -> bool:
    """Whether nothing tells that the content is another one."""
    return fingerprint(one) == fingerprint(other)


def fingerprint(about: os.stat_result) -> tuple[int, int, int, int, int]:
    """size, mtime_ns, ctime_ns, inode and mode."""
    return about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino, about.st_mode


def is_executable(mode: int) -> bool:
    """Whether a file counts as one that can be run."""
    return stat.S_ISREG(mode) and bool(mode & 0o111)
