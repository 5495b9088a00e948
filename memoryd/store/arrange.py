"""In which order should chunks lie so that similar ones share a frame?

Contents are laid one after the other, by path and age. A chunk that is new in a content is put where it stands in it:
beside the chunk that it shares with an earlier content, and so beside the one that it took the place of. No bytes are
looked at; what changed slowly over many versions comes to lie together, also where a path names the version.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_HEAD = b""
"""Stands before the first chunk; no chunk has this address."""


class Line:
    """Chunks (32-byte addresses) in an order that grows by insertion, each once."""

    def __init__(self) -> None:
        self._next: dict[bytes, bytes] = {_HEAD: _HEAD}
        self._before: dict[bytes, bytes] = {_HEAD: _HEAD}
        self._last = _HEAD

    def __len__(self) -> int:
        return len(self._next) - 1

    def __contains__(self, chunk: bytes) -> bool:
        return chunk in self._next

    def lay(self, chunks: Sequence[bytes]) -> None:
        """Lay the chunks of the next content; one that shares none with the line goes behind the content before."""
        at = self._last
        for chunk in chunks:
            if chunk in self._next:
                at = self._before[chunk]
                break
        for chunk in chunks:
            if chunk not in self._next:
                self._insert(chunk, at)
            at = chunk
        self._last = at

    def _insert(self, chunk: bytes, after: bytes) -> None:
        behind = self._next[after]
        self._next[after], self._before[chunk] = chunk, after
        self._next[chunk], self._before[behind] = behind, chunk

    def __iter__(self) -> Iterator[bytes]:
        at = self._next[_HEAD]
        while at != _HEAD:
            yield at
            at = self._next[at]
