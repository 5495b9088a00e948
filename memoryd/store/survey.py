"""What does one pack hold, as rows of the index, read from the pack itself?

Chunks and tree nodes come from headers and tables without unpacking; manifests and records are unpacked. Where the
footer is damaged the frames are found by scanning, and a damaged frame is left out, so that damage costs what it hit
and no more.
A damaged frame of records keeps its row, so that its sequence numbers are not given out again and its loss is told.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from memoryd.digest import read_canonical
from memoryd.errors import PackDamaged
from memoryd.store import pack as packs
from memoryd.store.chunkindex import PackRows
from memoryd.store.manifest import Manifest, parse_manifest
from memoryd.store.pack import FrameHeader, TocEntry
from memoryd.store.shelf import Frame, PackFile, Shelf


def rows_of(shelf: Shelf, pack: bytes) -> PackRows:
    """The rows of one pack. Raises PackDamaged where nothing of it can be read, FormatUnsupported."""
    with shelf.open(pack) as file:
        try:
            footer = file.footer()
            listed: dict[int, TocEntry | None] = {entry.offset: entry for entry in footer.entries}
            rows = PackRows(pack, file.size, replaces=footer.replaces)
        except PackDamaged:
            listed = dict.fromkeys(file.scan())
            if not listed:
                raise
            rows = PackRows(pack, file.size)
        for offset, entry in listed.items():
            try:
                add_frame(rows, file, offset)
            except PackDamaged:
                add_lost(rows, file, offset, entry)
    return rows


def add_lost(rows: PackRows, file: PackFile, offset: int, entry: TocEntry | None) -> None:
    """Note which records a damaged frame held, as its own header or the footer says."""
    try:
        about = entry or file.header(offset)
    except PackDamaged:
        return
    if about.kind in packs.RECORD_NAMES:
        last = about.seq + about.items - 1
        rows.records.append((about.seq, offset, last))
        rows.last_seq = max(rows.last_seq, last)
    rows.last_seq = max(rows.last_seq, about.seq)


def add_frame(rows: PackRows, file: PackFile, offset: int) -> FrameHeader:
    """Add what the frame at `offset` holds; only manifests and records are unpacked. Raises PackDamaged."""
    header = file.header(offset)
    if header.kind in (packs.CHUNK, packs.TREE):
        add_items(rows, header, offset, file.items(offset, header))
    elif header.kind == packs.MANIFEST or header.kind in packs.RECORD_NAMES:
        add_told(rows, file.frame(offset))
    else:
        rows.last_seq = max(rows.last_seq, header.seq)
    return header


def add_items(rows: PackRows, header: FrameHeader, offset: int, items: Sequence[tuple[bytes, int]]) -> None:
    """Add the chunks or tree nodes of a frame."""
    at = 0
    if header.kind == packs.CHUNK:
        whole = bool(header.flags & packs.FLAG_WHOLE)
        for digest, length in items:
            rows.chunks.append((digest, offset, at, length, whole))
            at += length
    else:
        for digest, length in items:
            rows.nodes.append((digest, offset, at, length))
            at += length
    rows.last_seq = max(rows.last_seq, header.seq)


def add_told(rows: PackRows, frame: Frame, *, canonical: bool = False) -> list[Manifest]:
    """Add the manifests or records of a frame, each verified; the manifests. Raises PackDamaged."""
    found = []
    if frame.header.kind == packs.MANIFEST:
        for at, length, manifest in manifests_in(frame):
            rows.manifests.append((manifest.address, frame.offset, at, length, manifest.size))
            found.append(manifest)
    else:
        seqs = [seq for seq, _data in records_in(frame, canonical=canonical)]
        rows.records.append((seqs[0], frame.offset, seqs[-1]))
        rows.last_seq = max(rows.last_seq, seqs[-1])
    rows.last_seq = max(rows.last_seq, frame.header.seq)
    return found


def manifests_in(frame: Frame) -> Iterator[tuple[int, int, Manifest]]:
    """(offset in the raw bytes, length, manifest) of a manifest frame. Raises PackDamaged."""
    for digest, at, length in frame.items():
        yield at, length, parse_manifest(frame.checked(digest, at, length))


def records_in(frame: Frame, *, canonical: bool = False) -> list[tuple[int, dict[str, Any]]]:
    """(seq, data without seq) of a record frame, by ascending seq. Raises PackDamaged for any other form.

    `canonical` also checks that the bytes are the canonical form, which a check does and a replay need not.
    """
    found: list[tuple[int, dict[str, Any]]] = []
    for digest, at, length in frame.items():
        raw = frame.checked(digest, at, length)
        try:
            data = read_canonical(raw) if canonical else json.loads(raw)
            sound = isinstance(data, dict)
        except (ValueError, TypeError, RecursionError) as error:
            raise PackDamaged(f"A record of the frame at byte {frame.offset} is not JSON of the right form.") from error
        seq = data.pop("seq", None) if sound else None
        if not isinstance(seq, int) or seq <= (found[-1][0] if found else 0):
            raise PackDamaged(f"The records of the frame at byte {frame.offset} are not of a sound form.")
        found.append((seq, data))
    if found[0][0] != frame.header.seq:
        raise PackDamaged(f"The frame at byte {frame.offset} names another first record than it holds.")
    return found
