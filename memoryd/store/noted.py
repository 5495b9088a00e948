"""Which addresses did a read find damaged, and does the next process know?

A set that is written down: the file is a view of no weight, one address a line. Losing it, or a line of it, only means
that the damage is noticed again by the next read of those bytes.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterable, Set
from pathlib import Path
from typing import Any

from memoryd.files import Files, write_all

OWNER = "damaged"
_LINE = re.compile(r"sha256:[0-9a-f]{64}\Z")


class Noted(set[str]):
    """The addresses; each change reaches the file at once, unless the disk takes none. Safe from many threads."""

    def __init__(self, path: Path, files: Files) -> None:
        """Read what an earlier process noted; lines that are no addresses are passed over."""
        super().__init__(_read(path))
        self._path = path
        self._files = files
        self._lock = threading.Lock()

    def add(self, address: str) -> None:
        with self._lock:
            if address in self:
                return
            super().add(address)
            with contextlib.suppress(OSError):
                self._append(address)

    def discard(self, address: object) -> None:
        self.difference_update((address,))

    def difference_update(self, *others: Iterable[Any]) -> None:
        with self._lock:
            gone = self.intersection({address for other in others for address in other})
            if gone:
                super().difference_update(gone)
                with contextlib.suppress(OSError):
                    self._write()

    def __isub__(self, other: Set[object]) -> Noted:
        self.difference_update(other)
        return self

    def _append(self, address: str) -> None:
        """Not waited for: a crash of the machine may cost the line."""
        self._files.fault(f"{OWNER}.append")
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            write_all(fd, f"{address}\n".encode("ascii"))
        finally:
            os.close(fd)

    def _write(self) -> None:
        if self:
            self._files.replace(self._path, "".join(f"{one}\n" for one in sorted(self)).encode("ascii"), owner=OWNER)
        else:
            self._files.unlink(self._path, owner=OWNER)


def _read(path: Path) -> set[str]:
    try:
        lines = path.read_text("ascii", "replace").splitlines()
    except OSError:
        return set()
    return {line for line in lines if _LINE.match(line)}
