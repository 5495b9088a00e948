"""How is a content cut that is too large to be held whole, so that its chunks are those of the whole?

The chunker looks at nothing behind a cut that it made, so every chunk of a window but the last one is final; the last
one waits for the next window.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

from memoryd.store.chunker import Chunker
from memoryd.store.manifest import Manifest

WINDOW = 8 << 20
"""Bytes that are cut together."""

Chunk = tuple[bytes, bytes]
"""SHA-256 and bytes."""


class Stream:
    """A content that is read once, from its beginning to its end."""

    def __init__(self, chunker: Chunker, read: Callable[[int], bytes], *, window: int = WINDOW) -> None:
        """`read(n)` gives at most n bytes, and none at the end."""
        self._chunker = chunker
        self._read = read
        self._window = max(window, 2 * chunker.chunk_max)
        self._whole = hashlib.sha256()
        self._size = 0
        self._listed: list[tuple[bytes, int]] = []

    def windows(self) -> Iterator[list[Chunk]]:
        """The chunks in order, about a window at a time. Raises what `read` raises."""
        rest = b""
        ended = False
        while not ended:
            data, ended = self._fill(rest)
            ends = self._chunker.cut(data)
            final = ends if ended else ends[:-1]
            yield self._taken(data, final)
            rest = data[final[-1] :] if final else data

    def _fill(self, rest: bytes) -> tuple[bytes, bool]:
        parts = [rest]
        missing = self._window - len(rest)
        while missing > 0:
            part = self._read(missing)
            if not part:
                return b"".join(parts), True
            self._whole.update(part)
            parts.append(part)
            missing -= len(part)
        return b"".join(parts), False

    def _taken(self, data: bytes, ends: list[int]) -> list[Chunk]:
        found = []
        start = 0
        for end in ends:
            part = data[start:end]
            digest = hashlib.sha256(part).digest()
            self._listed.append((digest, len(part)))
            self._size += len(part)
            found.append((digest, part))
            start = end
        return found

    def manifest(self) -> Manifest:
        """The content's manifest, once all windows were taken."""
        return Manifest(self._whole.digest(), self._size, tuple(self._listed))
