"""How does work that makes very many small objects keep the garbage collector from looking at them again and again?

The collector goes through what lives after every so many new objects; bulk work makes hundreds of thousands and no
circles. Its rate is the process's, so whoever works at the same time shares it, and the last one to end sets it back.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

NEW_OBJECTS = 50_000
"""The collector runs after this many (CPython: 700 to 2000)."""
_lock = threading.Lock()
_usual: list[tuple[int, int, int]] = []
"""What was set before, once for each work under way."""


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Let the collector run rarely meanwhile."""
    with _lock:
        _usual.append(_usual[0] if _usual else gc.get_threshold())
        gc.set_threshold(NEW_OBJECTS, *_usual[0][1:])
    try:
        yield
    finally:
        with _lock:
            before = _usual.pop()
            if not _usual:
                gc.set_threshold(*before)
