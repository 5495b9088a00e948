"""Where do bytes stand in a file of any size, of which only a window is held at a time?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from memoryd.store import pack as packs

WINDOW = 8 << 20
FIRST = 64 << 10


def file_holds(path: Path, needles: Sequence[bytes]) -> bool:
    """Whether one of the needles stands in the file. Raises OSError."""
    with path.open("rb") as stream:
        return find(stream, needles) >= 0


def find(stream: BinaryIO, needles: Sequence[bytes], start: int = 0) -> int:
    """Where, from `start` on, the first needle begins; -1 where none stands there. Windows overlap, and grow."""
    wanted = [needle for needle in needles if needle]
    if not wanted:
        return 0 if needles else -1
    overlap, size = max(map(len, wanted)) - 1, FIRST
    while True:
        stream.seek(start)
        data = stream.read(size + overlap)
        found = [at for needle in wanted if (at := data.find(needle)) >= 0]
        if found:
            return start + min(found)
        if len(data) < size + overlap:
            return -1
        start += size
        size = min(4 * size, WINDOW)


def frame_items(stream: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """(SHA-256, raw bytes) of whatever lies in the frames of a file, one frame held at a time. Raises PackDamaged."""
    at = find(stream, (packs.FRAME_MAGIC,))
    while at >= 0:
        stream.seek(at)
        header = packs.parse_frame_header(stream.read(packs.FRAME_SIZE), at)
        table, payload = stream.read(header.table_len), stream.read(header.stored_len)
        packs.check_payload(header, payload, at)
        raw = packs.decode_payload(header, payload, at)
        start = 0
        for digest, length in packs.parse_items(header, table, at):
            yield digest, raw[start : start + length]
            start += length
        at = find(stream, (packs.FRAME_MAGIC,), at + header.length)
