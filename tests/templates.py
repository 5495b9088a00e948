"""What was made once and is wanted often: laid into a folder from memory, or copied from another one; holes stay holes.

The engine's files are more than a hundred megabytes of holes; whoever writes them as zeros pays for each.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

Make = Callable[[Path], None]
PIECE = 1 << 16


@dataclass
class Kept:
    """A folder: the modes of the folders in it, and its files."""

    folders: dict[str, int] = field(default_factory=dict)
    files: list[tuple[str, int, int, list[tuple[int, bytes]]]] = field(default_factory=list)
    """Path, mode, size, and the pieces that are not all zeros, with where they lie."""


def lay(make: Make, folder: Path) -> None:
    """Put what `make` makes of a folder into `folder`, which may hold other files."""
    kept = _kept(make)
    for name, mode in kept.folders.items():
        place = f"{folder}/{name}"
        os.makedirs(place, exist_ok=True)
        os.chmod(place, mode)
    for name, mode, size, parts in kept.files:
        with open(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb", 0) as stream:
            _fill(stream.fileno(), size, parts)


def copy(source: Path, target: Path) -> Path:
    """`source` at another place, as shutil.copytree would, links as links; returns `target`."""
    return shutil.copytree(source, target, symlinks=True, copy_function=_copy_file)


def written(path: Path) -> bytes:
    """What a file holds; a stretch of zeros, however long, may stand there as one."""
    pieces, end = [], 0
    for at, data in _parts(path):
        pieces += [data] if at == end else [b"\0", data]
        end = at + len(data)
    return b"".join(pieces)


def _copy_file(source: str, target: str) -> None:
    size = os.stat(source).st_size
    with open(target, "xb", 0) as stream:
        _fill(stream.fileno(), size, _parts(Path(source)))
    shutil.copystat(source, target)


def _fill(descriptor: int, size: int, parts: list[tuple[int, bytes]]) -> None:
    for start, data in parts:
        os.pwrite(descriptor, data, start)
    os.ftruncate(descriptor, size)


@cache
def _kept(make: Make) -> Kept:
    kept = Kept()
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch, "made")
        make(made)
        for folder, _names, files in os.walk(made):
            kept.folders[os.path.relpath(folder, made)] = os.stat(folder).st_mode & 0o777
            for name in files:
                path = Path(folder, name)
                found = path.stat()
                kept.files.append((str(path.relative_to(made)), found.st_mode & 0o777, found.st_size, _parts(path)))
    return kept


def _parts(path: Path) -> list[tuple[int, bytes]]:
    """The pieces of a file that are not all zeros, with where they lie."""
    parts: list[tuple[int, bytes]] = []
    with path.open("rb", 0) as stream:
        end, at = os.fstat(stream.fileno()).st_size, 0
        while at < end:
            try:
                at = os.lseek(stream.fileno(), at, os.SEEK_DATA)
            except OSError:  # nothing but a hole up to the end
                break
            data = os.pread(stream.fileno(), PIECE, at)
            if data.count(0) != len(data):
                parts.append((at, data))
            at += len(data)
    return parts
