"""Of which chunks, in which order, does a content consist?

Bytes (little-endian): version u16, reserved u16, count u32, size u64, content address 32 B, then per chunk
SHA-256 32 B and length u32. A content that is one chunk of its own needs no manifest.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from memoryd.errors import PackDamaged

VERSION = 1
_HEAD = struct.Struct("<HHIQ32s")
_ENTRY = struct.Struct("<32sI")


@dataclass(frozen=True, slots=True)
class Manifest:
    """`address` (32 bytes) = `chunks` laid end to end; `size` in bytes; chunks are (SHA-256, length)."""

    address: bytes
    size: int
    chunks: tuple[tuple[bytes, int], ...]

    def encode(self) -> bytes:
        """The manifest's bytes."""
        head = _HEAD.pack(VERSION, 0, len(self.chunks), self.size, self.address)
        return head + b"".join([_ENTRY.pack(digest, length) for digest, length in self.chunks])

    def window(self, start: int, end: int) -> tuple[int, Sequence[tuple[bytes, int]]]:
        """Offset of the first chunk that holds a byte of [start, end), and the chunks that do."""
        ends = list(accumulate(length for _digest, length in self.chunks))
        first = bisect_right(ends, start)
        last = first
        while last < len(ends) and (ends[last - 1] if last else 0) < end:
            last += 1
        return (ends[first - 1] if first else 0), self.chunks[first:last]


def whole(address: bytes, size: int) -> Manifest:
    """The manifest of a content that is stored as one chunk."""
    return Manifest(address, size, ((address, size),))


def parse_manifest(data: bytes) -> Manifest:
    """Read a manifest's bytes. Raises PackDamaged."""
    if len(data) < _HEAD.size:
        raise PackDamaged("A manifest is shorter than its head.")
    version, _reserved, count, size, address = _HEAD.unpack_from(data)
    if version != VERSION or len(data) != _HEAD.size + count * _ENTRY.size:
        raise PackDamaged("A manifest is not of a sound form.")
    chunks = tuple(_ENTRY.iter_unpack(data[_HEAD.size :]))
    if sum(length for _digest, length in chunks) != size:
        raise PackDamaged("The chunks of a manifest do not add up to its size.")
    return Manifest(address, size, chunks)
