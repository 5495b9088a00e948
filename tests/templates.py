"""What was made once and is wanted often: kept in memory, and laid into a folder for every test that begins with it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

Make = Callable[[Path], None]
PAGE = 4096


@dataclass
class Kept:
    """A folder: the modes of the folders in it, and its files."""

    folders: dict[str, int] = field(default_factory=dict)
    files: list[tuple[str, int, int, list[tuple[int, bytes]]]] = field(default_factory=list)
    """Path, mode, size, and the bytes that are not zero with where they lie: the engine's files are mostly holes."""


def lay(make: Make, folder: Path) -> None:
    """Put what `make` makes of a folder into `folder`, which may hold other files."""
    kept = _kept(make)
    for name, mode in kept.folders.items():
        place = f"{folder}/{name}"
        os.makedirs(place, exist_ok=True)
        os.chmod(place, mode)
    for name, mode, size, parts in kept.files:
        with open(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb", 0) as stream:
            for start, data in parts:
                os.pwrite(stream.fileno(), data, start)
            os.ftruncate(stream.fileno(), size)


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
    """The pages of a file that are not all zeros; neighbours as one."""
    parts: list[tuple[int, bytes]] = []
    at, nothing = 0, bytes(PAGE)
    with path.open("rb") as stream:
        while page := stream.read(PAGE):
            if page == nothing[: len(page)]:
                pass
            elif parts and parts[-1][0] + len(parts[-1][1]) == at:
                parts[-1] = (parts[-1][0], parts[-1][1] + page)
            else:
                parts.append((at, page))
            at += len(page)
    return parts
