"""To which document does a point belong, and what else is it, without asking the engine again?

Reading a point's payload from the engine's files costs five times the search for the point itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from memoryd.records import Traits

MOST = 65_536
"""Points that are remembered: 300 to 600 bytes each, the fewer the more passages a document has."""


class Remembered(NamedTuple):
    """What an index holds of one passage for ranking; `visible` is its scope and status."""

    document_id: str
    passage_id: str
    traits: Traits
    visible: str


class Memory:
    """What was read of points, by the number of their UUID. Searches may use it in any thread while one writes.

    A passage belongs to one document for ever; its traits may change by a write, between `forget` and `written` of
    which nothing is learned.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._writes = 0
        self._writing = False
        self._shared: dict[str, str] = {}
        self.known: dict[int, Remembered] = {}
        """To be read only."""

    def moment(self) -> int:
        """What `learn` wants to know: taken before the index is asked."""
        return self._writes

    def learn(self, found: Mapping[int, Remembered], moment: int) -> None:
        """Remember what the index said since `moment`, unless something was written meanwhile."""
        with self._lock:
            if self._writing or moment != self._writes:
                return
            if len(self.known) + len(found) > self._most:  # rare enough to begin anew
                self.known.clear()
                self._shared.clear()
            same = self._shared.setdefault
            for number, (document, passage, traits, visible) in found.items():
                self.known[number] = Remembered(same(document, document), passage, traits, same(visible, visible))

    def forget(self, numbers: Iterable[int]) -> None:
        """These points are about to be written."""
        with self._lock:
            self._writing = True
            self._writes += 1
            for number in numbers:
                self.known.pop(number, None)

    def written(self) -> None:
        """The write that `forget` announced is over, well or not."""
        with self._lock:
            self._writes += 1
            self._writing = False
