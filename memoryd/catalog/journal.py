"""Did the write-ahead log that a killed process left behind lose a commit?

SQLite drops everything behind the first frame that does not verify, without a word. That is right for a frame torn by
the kill itself and for the remains of a rolled-back transaction, which hold no commit. A commit that stands behind the
first broken frame was whole once: it is lost, and the caller must not go on as if nothing had happened.
"""

from __future__ import annotations

import sqlite3
import struct
import sys
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_MAGIC = 0x377F0682
"""Checksums over little-endian words; the next number says big-endian ones."""
_ACCEPTED_AT = 16
"""Where the shared-memory file holds the number of frames that recovery took."""
_WRAP = 0xFFFFFFFF


def log_damage(path: Path) -> str | None:
    """What is wrong with the log of the database at `path`, or None; a missing or empty log is whole.

    Nothing is changed on disk but the shared-memory file. Raises OSError and sqlite3.Error where a file cannot be read.
    """
    try:
        stream = path.with_name(path.name + "-wal").open("rb")
    except FileNotFoundError:
        return None
    with stream:
        raw = stream.read(_HEADER.size)
        if not raw:
            return None
        if not path.exists() or not path.stat().st_size:
            return "its log is there without it"
        return _header_damage(raw) or _lost_commit(path, stream, raw)


def _header_damage(raw: bytes) -> str | None:
    if len(raw) < _HEADER.size:
        return "the log ends inside its header"
    magic, _format, page_size = _HEADER.unpack(raw)[:3]
    if magic not in (_MAGIC, _MAGIC + 1) or not 512 <= page_size <= 65536 or page_size & (page_size - 1):
        return "the log's header is not one of SQLite"
    if _checksum(raw[:24], _order(raw), 0, 0) != _HEADER.unpack(raw)[6:]:
        return "the log's header does not match its checksum"
    return None


def _lost_commit(path: Path, stream: BinaryIO, header: bytes) -> str | None:
    page_size = _HEADER.unpack(header)[2]
    last = _last_commit(stream, page_size, header[16:24])
    accepted = _accepted(path) if last else 0
    if accepted >= last:
        return None
    sums = _HEADER.unpack(header)[6:]
    if accepted:
        stream.seek(_place(accepted, page_size))
        sums = _FRAME.unpack(stream.read(_FRAME.size))[4:]
    for number in range(accepted + 1, last):
        stream.seek(_place(number, page_size))
        raw = stream.read(_FRAME.size + page_size)
        sums = _checksum(raw[:8] + raw[_FRAME.size :], _order(header), *sums)
        if raw[8:16] != header[16:24] or sums != _FRAME.unpack_from(raw)[4:]:
            return f"frame {number} of the log does not match its checksum, and a commit follows it"
    return None  # the last frame itself is torn


def _last_commit(stream: BinaryIO, page_size: int, salts: bytes) -> int:
    """The number (from 1) of the last frame of this run that ends a transaction; 0 without any."""
    number = last = 0
    while len(raw := stream.read(_FRAME.size)) == _FRAME.size:
        number += 1
        if raw[8:16] == salts and raw[4:8] != b"\0\0\0\0":
            last = number
        stream.seek(page_size, 1)
    return last


def _accepted(path: Path) -> int:
    """How many frames SQLite's own recovery takes; a read-only connection leaves the log as it is."""
    connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        with path.with_name(path.name + "-shm").open("rb") as shared:
            shared.seek(_ACCEPTED_AT)
            return int.from_bytes(shared.read(4), sys.byteorder)
    finally:
        connection.close()


def _place(number: int, page_size: int) -> int:
    return _HEADER.size + (number - 1) * (_FRAME.size + page_size)


def _order(header: bytes) -> str:
    return ">" if header[3] & 1 else "<"


def _checksum(data: bytes, order: str, first: int, second: int) -> tuple[int, ...]:
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for low, high in zip(words[::2], words[1::2], strict=True):
        first = (first + low + second) & _WRAP
        second = (second + high + first) & _WRAP
    return first, second
