"""Which items share a frame, and who encodes the frames of a write group while it still grows?"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future

from memoryd.store import pack as packs
from memoryd.store.pack import PackWriter

BEHIND_MOST = 16
"""Full frames that may wait to be encoded."""


class Draft:
    """The items of one frame to be."""

    def __init__(
        self, kind: int, flags: int = 0, *, limit: int = packs.SOLID_BYTES, level: int = packs.ZSTD_LEVEL
    ) -> None:
        self.kind = kind
        self.flags = flags
        self.limit = limit
        self.level = level
        self.parts: list[bytes | memoryview] = []
        self.hashes: list[bytes] = []
        self.lengths: list[int] = []
        self.size = 0

    def has_room(self, length: int) -> bool:
        return not self.parts or self.size + length <= self.limit

    def add(self, part: bytes | memoryview, digest: bytes) -> None:
        self.parts.append(part)
        self.hashes.append(digest)
        self.lengths.append(len(part))
        self.size += len(part)

    def encode(self, seq: int) -> bytes:
        """The frame; the raw parts are let go."""
        parts, self.parts = self.parts, []
        return packs.encode_frame(self.kind, parts, self.hashes, seq=seq, flags=self.flags, level=self.level)

    def placed(self) -> Iterator[tuple[bytes, int, int]]:
        """(SHA-256, inner offset, length) of every item."""
        at = 0
        for digest, length in zip(self.hashes, self.lengths, strict=True):
            yield digest, at, length
            at += length


class Frames:
    """The closed frames of a group, in order; full ones are encoded by other threads, a bounded number at a time."""

    def __init__(self, encoder: Executor) -> None:
        self._encoder = encoder
        self._closed: list[tuple[Draft, Future[bytes] | bytes]] = []
        self._behind: deque[Future[bytes]] = deque()

    def put(self, draft: Draft, seq: int) -> None:
        """Take a full frame."""
        future = self._encoder.submit(draft.encode, seq)
        self._closed.append((draft, future))
        self._behind.append(future)
        if len(self._behind) > BEHIND_MOST:
            self._behind.popleft().result()

    def put_last(self, draft: Draft, seq: int) -> None:
        """Take a frame that the commit closes: a small group needs no other thread."""
        if draft.hashes:
            self._closed.append((draft, draft.encode(seq)))

    def drain(self, writer: PackWriter) -> Iterator[tuple[Draft, int]]:
        """Append every frame to the pack; (draft, frame offset)."""
        for draft, frame in self._closed:
            yield draft, writer.append(frame if isinstance(frame, bytes) else frame.result())
