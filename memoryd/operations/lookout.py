"""What was found when a file outside the home was last looked at, and how long may a look take?

A disk that went away, or a network mount whose server does, holds whoever asks it for as long as it likes. So each look
is a thread's that may be left behind; while one hangs, its place is not asked again.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from memoryd.sources.citation import State, read, state_of

T = TypeVar("T")
KNOWN_MOST = 8192
"""Verdicts that are remembered."""
RACY_NS = 2_000_000_000
"""A file that changed so short a time ago may change once more without showing it."""
FILE_BYTES = 5_000_000
"""A larger file is not read."""
BATCH_BYTES = 16_000_000
"""Bytes that one look reads; the files beyond wait for the next one."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a citation stands: `fresh`, `changed`, `missing` or `unknown`; why, what differs, where the lines are now."""

    state: str
    hint: str = ""
    diff: tuple[str, ...] = ()
    now: str = ""


@dataclass(frozen=True, slots=True)
class _Known:
    path: str
    looks: State
    standing: Standing


@dataclass(slots=True)
class Found:
    """A file as it was read, or why it could not be."""

    data: bytes = b""
    looks: State = ()
    error: OSError | None = None


class Lookout:
    """The looks of one home. Safe from many threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()
        self._hanging: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()

    def run(self, place: str, work: Callable[[], T], seconds: float) -> T:
        """The result of `work`, which may raise OSError. Raises TimeoutError where it takes longer, or hangs still."""
        result: list[T] = []
        failure: list[OSError] = []

        def look() -> None:
            try:
                result.append(work())
            except OSError as error:
                failure.append(error)

        with self._lock:
            hanging = self._hanging.get(place)
            if hanging is not None and hanging.is_alive():
                raise TimeoutError(errno.ETIMEDOUT, "still hangs")
            self._hanging.pop(place, None)
        thread = threading.Thread(target=look, name="look", daemon=True)
        thread.start()
        thread.join(max(seconds, 0.0))
        if thread.is_alive():
            with self._lock:
                self._hanging[place] = thread
            raise TimeoutError(errno.ETIMEDOUT, "did not answer in time")
        if not result:
            raise failure[0] if failure else OSError(errno.EIO, "the look failed")
        return result[0]

    def still(self, root: Path, texts: Iterable[str], seconds: float) -> dict[str, Standing]:
        """The remembered standings of citations whose files look as they did then. Raises TimeoutError."""
        place = str(root)
        with self._lock:
            known = {text: self._known[place, text] for text in texts if (place, text) in self._known}
        if not known:
            return {}
        same = self.run(place, lambda: _same(known), seconds)
        with self._lock:
            for text in same:
                if (place, text) in self._known:
                    self._known.move_to_end((place, text))
        return {text: known[text].standing for text in same}

    def files(self, root: Path, paths: Iterable[bytes], seconds: float) -> dict[bytes, Found]:
        """These files of a project, as many as one look reads. Raises OSError where the root cannot be opened."""
        wanted = list(paths)
        return self.run(str(root), lambda: _files(root, wanted), seconds)

    def remember(self, root: Path, text: str, path: bytes, looks: State, standing: Standing) -> None:
        """Keep how it stands until the file looks otherwise; not of a file that changed this moment."""
        if not looks or max(looks[-2:]) >= time.time_ns() - RACY_NS:
            return
        with self._lock:
            self._known[str(root), text] = _Known(os.fsdecode(os.fsencode(root) + b"/" + path), looks, standing)
            while len(self._known) > KNOWN_MOST:
                self._known.popitem(last=False)


def _same(known: Mapping[str, _Known]) -> list[str]:
    found = []
    for text, one in known.items():
        try:
            looks = state_of(os.lstat(one.path))
        except OSError:
            continue
        if looks == one.looks:
            found.append(text)
    return found


def _files(root: Path, paths: list[bytes]) -> dict[bytes, Found]:
    found: dict[bytes, Found] = {}
    size = 0
    opened = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for path in paths:
            if size > BATCH_BYTES:
                break
            try:
                data, looks = read(opened, path, FILE_BYTES)
                found[path] = Found(data, looks)
                size += len(data)
            except OSError as error:
                found[path] = Found(error=error)
    finally:
        os.close(opened)
    return found
