"""What of a damaged pack can still be read, item by item, each one verified?

A damaged payload may still hold whole items: whatever matches its own SHA-256 is sound. Frames are found by the footer,
and where that is damaged by their marks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from memoryd.digest import read_canonical
from memoryd.errors import PackDamaged
from memoryd.store import pack as packs
from memoryd.store.manifest import parse_manifest
from memoryd.store.merkle import parse_node
from memoryd.store.pack import FrameHeader
from memoryd.store.shelf import PackFile

KNOWN = {packs.CHUNK, packs.MANIFEST, packs.TREE, *packs.RECORD_NAMES}


class Piece(NamedTuple):
    """One verified item. `digest`: of a chunk or node its own address, of a manifest its content's, of a record b"".

    `seq` is a record's number, else 0; `flags` those of its frame.
    """

    kind: int
    flags: int
    digest: bytes
    seq: int
    data: bytes


@dataclass(slots=True)
class FrameLeft:
    """What one frame still gives. `problem` is None for a whole frame; `named`: the items that its table lists."""

    offset: int
    problem: str | None = None
    kind: int = 0
    pieces: list[Piece] = field(default_factory=list)
    named: list[bytes] = field(default_factory=list)
    seqs: tuple[int, int] | None = None
    """First and last number of a record frame, as its header or the footer tells."""


def frames_of(file: PackFile) -> tuple[dict[int, packs.TocEntry | None], str | None]:
    """The frames by offset, with the footer's entry where it is sound, and what is wrong with header or footer."""
    try:
        return {entry.offset: entry for entry in file.footer().entries}, None
    except PackDamaged as error:
        return dict.fromkeys(file.scan()), error.message


def read_frame(file: PackFile, offset: int, entry: packs.TocEntry | None = None) -> FrameLeft:
    """Everything of one frame that is sound. Raises FormatUnsupported for a codec that is not known."""
    left = FrameLeft(offset)
    if entry is not None and entry.kind in packs.RECORD_NAMES:
        left.seqs = (entry.seq, entry.seq + entry.items - 1)
    try:
        header = file.header(offset)
        left.kind = header.kind
        if entry is not None and entry.crc != header.crc:
            left.problem = not_listed(offset)
        if header.kind in packs.RECORD_NAMES:
            left.seqs = (header.seq, header.seq + header.items - 1)
        try:
            items = file.items(offset, header)
            raw = _raw(file, header, offset, left)
        except PackDamaged as error:
            left.problem = error.message
            raw = _raw(file, header, offset, left)
            items = _without_table(header, file.read_at(offset + packs.FRAME_SIZE, header.table_len), raw)
        left.named = [digest for digest, _length in items]
        left.pieces = list(_verified(header, items, raw, left))
        seqs = [piece.seq for piece in left.pieces if piece.kind in packs.RECORD_NAMES]
        if any(one >= other for one, other in pairwise(seqs)):
            left.problem = left.problem or f"The records of the frame at byte {offset} are not in order."
    except (PackDamaged, OSError) as error:
        left.problem = left.problem or (error.message if isinstance(error, PackDamaged) else str(error.strerror))
    return left


def _without_table(header: FrameHeader, table: bytes, raw: bytes) -> list[tuple[bytes, int]]:
    """The items of a frame whose table is damaged: raw bytes that are whole need but their lengths from it.

    A length that was hit follows from the others.
    """
    told = packs.loose_items(table)
    if hashlib.sha256(raw).digest() != header.sha256:
        return told
    lengths = [length for _digest, length in told]
    for number, (digest, length) in enumerate(told):
        start, end = sum(lengths[:number]), header.raw_len - sum(lengths[number + 1 :])
        if sum(lengths) == header.raw_len:
            break
        if start <= end and hashlib.sha256(raw[start:end]).digest() == digest and end - start != length:
            lengths[number] = end - start
    found, at = [], 0
    for length in lengths:
        found.append((hashlib.sha256(raw[at : at + length]).digest(), length))
        at += length
    return found if at == header.raw_len else told


def _raw(file: PackFile, header: FrameHeader, offset: int, left: FrameLeft) -> bytes:
    payload = file.read_at(offset + packs.FRAME_SIZE + header.table_len, header.stored_len)
    try:
        packs.check_payload(header, payload, offset)
        return packs.decode_payload(header, payload, offset)
    except PackDamaged as error:
        left.problem = left.problem or error.message
        return packs.decode_left(header, payload)


def _verified(header: FrameHeader, items: list[tuple[bytes, int]], raw: bytes, left: FrameLeft) -> Iterator[Piece]:
    at = 0
    for digest, length in items:
        data = raw[at : at + length]
        at += length
        if len(data) != length or hashlib.sha256(data).digest() != digest:
            left.problem = left.problem or f"An item of the frame at byte {left.offset} does not match its SHA-256."
            continue
        try:
            yield _piece(header, digest, data)
        except PackDamaged as error:
            left.problem = left.problem or error.message


def _piece(header: FrameHeader, digest: bytes, data: bytes) -> Piece:
    """Raises PackDamaged where the bytes are not of the form that the kind says."""
    if header.kind == packs.MANIFEST:
        return Piece(header.kind, header.flags, parse_manifest(data).address, 0, data)
    if header.kind in packs.RECORD_NAMES:
        return Piece(header.kind, header.flags, b"", _seq(data), data)
    if header.kind == packs.TREE:
        parse_node(data)
    return Piece(header.kind, header.flags, digest, 0, data)


def _seq(raw: bytes) -> int:
    try:
        data = read_canonical(raw)
        if isinstance(data, dict) and isinstance(data.get("seq"), int):
            return int(data["seq"])
    except (ValueError, RecursionError):
        pass
    raise PackDamaged("A record is not canonical JSON with a number.")


def not_listed(offset: int) -> str:
    """What is wrong where a sound frame lies in the place of another one."""
    return f"The frame at byte {offset} is not the one that the footer lists."


def is_foreign(left: FrameLeft) -> bool:
    """Whether a later version wrote this frame: it is kept as it is."""
    return left.kind != 0 and left.kind not in KNOWN
