"""Is everything that the store holds sound, and does its index say exactly what the packs hold?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Literal

from memoryd.digest import PREFIX
from memoryd.errors import FormatUnsupported, PackDamaged
from memoryd.records import Finding
from memoryd.store import pack as packs
from memoryd.store.chunkindex import ChunkIndex, PackRows, RecordFrame, sum_of
from memoryd.store.manifest import Manifest
from memoryd.store.merkle import parse_node
from memoryd.store.pack import FrameHeader, TocEntry
from memoryd.store.salvage import frames_of, not_listed
from memoryd.store.shelf import Frame, PackFile, Shelf
from memoryd.store.survey import add_items, add_lost, add_told

Level = Literal["quick", "structure", "data"]
NAMED_MOST = 50
READD = "Run `memoryd repair`; what exists nowhere else heals when it is added again."
RESCAN = "Run `memoryd repair`: the catalog still knows most of these records."
REBUILD = "Run `memoryd rebuild`."


def findings(shelf: Shelf, index: ChunkIndex, level: Level) -> Iterator[Finding]:
    """Everything that is wrong; nothing is changed.

    `quick` looks at files, footers and SQLite's own check, `structure` also at every header, table, manifest and record
    and compares them with the index, `data` unpacks and hashes every stored byte.
    """
    for problem in index.problems():
        yield Finding("index-damaged", "store/index.db", f"SQLite reports: {problem}.", REBUILD)
    listed, strays = shelf.listing()
    for stray in strays:
        yield Finding("stray-file", _shown(shelf, stray), "This is not a pack.", "Move it out of the store.")
    applied = index.packs()
    for pack in sorted(applied.keys() - set(listed)):
        if not applied[pack][1]:
            where = _shown(shelf, shelf.path(pack))
            message = f"The pack is gone; the index lists {applied[pack][0]} entries in it."
            yield Finding("pack-missing", where, message, READD, _lost(index, pack, None))
    known = _Known(index, {pack: rows for pack, (rows, gone) in applied.items() if not gone})
    for pack in listed:
        if pack not in applied or not applied[pack][1]:
            yield from _quick(shelf, known, pack) if level == "quick" else _Look(shelf, known, pack, level).findings()


class _Known:
    """What the index says, asked once for all packs. `rows`: how many it lists of each pack in force."""

    def __init__(self, index: ChunkIndex, rows: dict[bytes, int]) -> None:
        self.index = index
        self.rows = rows

    @cached_property
    def records(self) -> set[RecordFrame]:
        return set(self.index.record_frames(0))

    @cached_property
    def sums(self) -> dict[bytes, int]:
        return self.index.sums()


def _quick(shelf: Shelf, known: _Known, pack: bytes) -> Iterator[Finding]:
    where = _shown(shelf, shelf.path(pack))
    try:
        with shelf.open(pack) as file:
            file.footer()
    except PackDamaged as error:
        yield Finding("pack-damaged", where, error.message, READD, _lost(known.index, pack, None))
    except FormatUnsupported as error:
        yield Finding("pack-unsupported", where, error.message, error.next_step)
    if pack not in known.rows:
        yield Finding("pack-not-indexed", where, "The index does not know this pack.", REBUILD)


class _Look:
    """One pack, looked at from its first to its last frame, each read once."""

    def __init__(self, shelf: Shelf, known: _Known, pack: bytes, level: Level) -> None:
        self._shelf = shelf
        self._known = known
        self._pack = pack
        self._all = level == "data"
        self._where = _shown(shelf, shelf.path(pack))
        self._manifests: list[Manifest] = []
        self._whole = True

    def findings(self) -> Iterator[Finding]:
        """What is wrong with it."""
        index = self._known.index
        try:
            with self._shelf.open(self._pack) as file:
                listed, damage = frames_of(file)
                if damage is not None:
                    details = {} if listed else _lost(index, self._pack, None)
                    yield Finding("pack-damaged", self._where, damage, READD, details)
                rows = PackRows(self._pack, file.size)
                for offset, entry in listed.items():
                    problem = self._frame(rows, file, offset, entry)
                    if problem is not None:
                        yield self._damaged(offset, problem)
            if listed:
                yield from self._against_index(rows)
                yield from _open_manifests(index, self._manifests, rows, self._where)
        except PackDamaged as error:
            yield Finding("pack-damaged", self._where, error.message, READD, _lost(index, self._pack, None))
        except FormatUnsupported as error:
            yield Finding("pack-unsupported", self._where, error.message, error.next_step)

    def _frame(self, rows: PackRows, file: PackFile, offset: int, entry: TocEntry | None) -> str | None:
        """Add what a frame holds to the rows; what is wrong with it."""
        try:
            if self._all:
                header = self._read(rows, file.frame(offset, 0 if entry is None else entry.length))
            else:
                header = file.header(offset)
                if header.kind in (packs.CHUNK, packs.TREE):
                    add_items(rows, header, offset, file.items(offset, header))
                else:
                    self._read(rows, file.frame(offset))
        except PackDamaged as error:
            self._whole = False
            add_lost(rows, file, offset, entry)
            return error.message
        return not_listed(offset) if entry is not None and entry.crc != header.crc else None

    def _read(self, rows: PackRows, frame: Frame) -> FrameHeader:
        """Hash every item, and read every form that this version knows. Raises PackDamaged.

        The SHA-256 of several items together is not made again: their own cover the same bytes.
        """
        header = frame.header
        if header.kind == packs.MANIFEST or header.kind in packs.RECORD_NAMES:
            self._manifests += add_told(rows, frame, canonical=self._all)
            return header
        raw = memoryview(frame.raw)
        for digest, at, length in frame.items():
            if sha256(raw[at : at + length]).digest() != digest:
                raise PackDamaged(f"An item of the frame at byte {frame.offset} does not match its SHA-256.")
            if header.kind == packs.TREE:
                parse_node(bytes(raw[at : at + length]))
        if header.kind in (packs.CHUNK, packs.TREE):
            add_items(rows, header, frame.offset, [(digest, length) for digest, _at, length in frame.items()])
        return header

    def _damaged(self, offset: int, problem: str) -> Finding:
        """The finding with what the frame held, as far as the index knows."""
        finding = Finding("frame-damaged", self._where, problem, READD)
        held = [[at.first_seq, at.last_seq] for at in self._known.records if at[2:] == (self._pack, offset)]
        if held:
            return replace(finding, remedy=RESCAN, details={"records": held[0]})
        return replace(finding, details=_lost(self._known.index, self._pack, offset))

    def _against_index(self, rows: PackRows) -> Iterator[Finding]:
        known, indexed = self._known, self._known.rows.get(self._pack)
        if indexed is None:
            yield Finding("pack-not-indexed", self._where, "The index does not know this pack.", REBUILD)
        elif known.sums.get(self._pack, 0) != sum_of(rows):
            held = len(rows.chunks) + len(rows.manifests) + len(rows.nodes) + len(rows.records)
            missing = _missing_rows(known.index, known.records, rows)
            if not missing and not self._whole:
                return  # the index lists what a damaged frame held, too
            message = f"The pack holds {held} entries, the index lists {indexed} and lacks {missing} of them."
            yield Finding("index-differs", self._where, message, REBUILD)


def _missing_rows(index: ChunkIndex, records: set[RecordFrame], rows: PackRows) -> int:
    chunks = index.chunks([row[0] for row in rows.chunks])
    manifests = index.manifests([row[0] for row in rows.manifests])
    nodes = index.nodes([row[0] for row in rows.nodes])
    held = {
        (digest, place.frame_off, place.inner_off, place.raw_len, place.size, place.whole)
        for found in (chunks, manifests, nodes)
        for digest, places in found.items()
        for place in places
        if place.pack == rows.pack
    }
    wanted = {(digest, at, inner, length, length, whole) for digest, at, inner, length, whole in rows.chunks}
    wanted |= {(address, at, inner, length, size, True) for address, at, inner, length, size in rows.manifests}
    wanted |= {(address, at, inner, length, length, False) for address, at, inner, length in rows.nodes}
    frames = {RecordFrame(first, last, rows.pack, at) for first, at, last in rows.records}
    return len(wanted - held) + len(frames - records)


def _open_manifests(index: ChunkIndex, manifests: Sequence[Manifest], rows: PackRows, where: str) -> Iterator[Finding]:
    """Those that name a chunk which neither this pack nor, as the index says, another one holds with that length."""
    held = {(row[0], row[3]) for row in rows.chunks}
    wanted = {digest for manifest in manifests for digest, length in manifest.chunks if (digest, length) not in held}
    held |= {(digest, place.raw_len) for digest, places in index.chunks(sorted(wanted)).items() for place in places}
    for manifest in manifests:
        absent = {digest.hex() for digest, length in manifest.chunks if (digest, length) not in held}
        if absent:
            address = PREFIX + manifest.address.hex()
            message = f"{address} lacks {len(absent)} of its {len(manifest.chunks)} chunks."
            details = {"address": address, "chunks": sorted(absent)[:NAMED_MOST]}
            yield Finding("manifest-open", where, message, READD, details)


def _lost(index: ChunkIndex, pack: bytes, frame_off: int | None) -> dict[str, object]:
    """Which contents lie in the damaged place, as far as the index knows."""
    contents, pieces = index.held_in(pack, frame_off)
    named = [PREFIX + address.hex() for address in contents[:NAMED_MOST]]
    return {"contents": len(contents), "addresses": named, "pieces": pieces}


def _shown(shelf: Shelf, path: Path) -> str:
    return "store/" + path.relative_to(shelf.packs.parent).as_posix()
