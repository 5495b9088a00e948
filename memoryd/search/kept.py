"""Was this asked a moment ago, and does the answer of then still hold?

An answer is kept under a key that names all that was asked, with a stamp that names all that it was made from. It is
handed out again only under an equal key while every part of the stamp is still the very same object or value.
"""

from __future__ import annotations

import marshal
import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

MOST = 256
"""Answers that are kept, the last ones asked for."""
MOST_BYTES = 4_000_000
"""Of answers as they are kept, all together."""


class Kept:
    """A bounded memory of answers; any thread may use it. What is handed out is the caller's own to change."""

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self.hits = 0
        self.misses = 0
        self._most = most
        self._room = most_bytes
        self._bytes = 0
        self._lock = threading.Lock()
        self._answers: OrderedDict[Hashable, tuple[tuple[Any, ...], bytes]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: Hashable, stamp: tuple[Any, ...]) -> Any | None:
        """What was kept under this key with the same stamp, else None; an answer whose stamp differs is let go."""
        with self._lock:
            found = self._answers.get(key)
            if found is None or not same(found[0], stamp):
                self.misses += 1
                self._drop(key)
                return None
            self.hits += 1
            self._answers.move_to_end(key)
            data = found[1]
        return marshal.loads(data)

    def put(self, key: Hashable, stamp: tuple[Any, ...], answer: Any) -> None:
        """Keep an answer (of plain data) in place of what the key had; the longest unused ones make room."""
        data = marshal.dumps(answer)  # of all ways to copy plain data the fastest; it never leaves this process
        if len(data) > self._room:
            return
        with self._lock:
            self._drop(key)
            self._answers[key] = (stamp, data)
            self._bytes += len(data)
            while len(self._answers) > self._most or self._bytes > self._room:
                self._drop(next(iter(self._answers)))

    def _drop(self, key: Hashable) -> None:
        found = self._answers.pop(key, None)
        if found is not None:
            self._bytes -= len(found[1])


def same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether two stamps say the same.

    Numbers and texts count by value, everything else by identity: an equal object made anew may stand for other data.
    """
    return len(one) == len(other) and all(
        a == b if isinstance(a, (int, str)) and isinstance(b, (int, str)) else a is b
        for a, b in zip(one, other, strict=True)
    )
