"""The disk refuses the nth operation, once or for ever, for every n: an error is told, and nothing told before is lost."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from memoryd.digest import address_of
from memoryd.errors import MemorydError
from memoryd.files import Files
from tests.crash.scale import LONG
from tests.crash.stores import WORK, Promise, examine, filled, hurt, open_store


class Failing(Files):
    """Refuses the nth step; `short` writes the half of it first."""

    def __init__(self, nth: int, code: int, *, ever: bool, short: bool) -> None:
        super().__init__(self._step)
        self._nth = nth
        self.code = code
        self._ever = ever
        self._short = short
        self.seen = 0
        self.points: list[str] = []

    def _step(self, point: str) -> None:
        self.seen += 1
        if (self.seen == self._nth or (self._ever and self.seen > self._nth)) and not self._is_short(point):
            self._refuse(point)

    def _is_short(self, point: str) -> bool:
        return self._short and point.endswith(".write")

    def _refuse(self, point: str) -> None:
        self.points.append(point)
        raise OSError(self.code, os.strerror(self.code))

    def _write(self, fd: int, data: bytes) -> None:
        if self._short and (self.seen == self._nth or (self._ever and self.seen > self._nth)):
            os.write(fd, data[: len(data) // 2])
            self._refuse("short write")
        super()._write(fd, data)


WAYS = [
    (errno.EIO, False, False),
    (errno.ENOSPC, False, False),
    (errno.EIO, True, False),
    (errno.ENOSPC, True, False),
    (errno.ENOSPC, True, True),
    (errno.EIO, False, True),
]
SILENT = ("discard", "hold", "replaced", "condemned")
"""Steps of which a failure may pass unsaid: leftovers, held-back room, packs that are ignored anyway, a view."""


@pytest.mark.parametrize("name", WORK)
def test_every_nth_failure(name, ram, count):
    """H38: also while room is made (gc) and while damage is mended (repair)."""
    template = ram / "template"
    before = filled(template)
    if name == "repair":
        hurt(template)
    tried = 0
    for code, ever, short in WAYS if LONG else (WAYS[0], WAYS[4]):
        nth = 0
        while True:
            nth += 1
            home = ram / "home"
            shutil.copytree(template, home)
            files, finished = attempt(name, home, before, Failing(nth, code, ever=ever, short=short))
            shutil.rmtree(home)
            if files.seen < nth:
                break
            tried += 1
        assert nth > 5
    count(f"errors on the nth call: of {name}", tried)


def attempt(name: str, home: Path, before: Promise, files: Failing) -> tuple[Failing, bool]:
    """Do the work on a failing disk and examine what is left with a good one."""
    told = [Promise(set(before.must), set(before.gone), dict(before.nodes), before.seq)]
    promise = Promise(set(before.must), set(before.gone), dict(before.nodes), before.seq)
    finished = False
    try:
        store = open_store(home, files)
        try:
            WORK[name](store, promise, told.append)
            finished = True
        finally:
            for content in told[0].must & promise.must:
                if name != "repair":
                    assert store.read(address_of(content)) == content, "not readable on the failing disk"
            store.close()
    except (MemorydError, OSError):
        pass
    said = [point for point in files.points if not any(word in point for word in SILENT)]
    if files.code == errno.EIO:  # a full disk is met once more out of the reserve, and then all may be well
        assert not (finished and said), f"{said} failed, and nobody was told"
    last = told[-1]
    if name == "gc":
        last = Promise(last.must - promise.gone, promise.gone, last.nodes, last.seq)
    examine(home, last, damaged=name == "repair")
    return files, finished
