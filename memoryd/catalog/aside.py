"""Where does a damaged file go, and how does the next start learn what a running process met?"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def beside(path: Path, suffix: str) -> Path:
    """The file `<name><suffix>` next to `path`."""
    return path.with_name(path.name + suffix)


def suspect(path: Path) -> None:
    """Leave a mark that the file was found damaged; a disk that takes no mark is not this caller's trouble."""
    with suppress(OSError):
        beside(path, ".suspect").touch()


def is_suspect(path: Path) -> bool:
    """Whether an earlier process left the mark."""
    return beside(path, ".suspect").exists()


def set_aside(path: Path) -> Path:
    """Rename the file and its log to the first free `<name>.damaged-N`, take the mark away; the new name.

    Raises OSError.
    """
    number = 1
    while (aside := beside(path, f".damaged-{number}")).exists() or beside(aside, "-wal").exists():
        number += 1
    for part in ("", "-wal"):
        with suppress(FileNotFoundError):
            beside(path, part).rename(beside(aside, part))
    beside(path, "-shm").unlink(missing_ok=True)
    beside(path, ".suspect").unlink(missing_ok=True)
    return aside
