"""Is everything that the store holds sound, and does its index say exactly what the packs hold?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from memoryd.digest import PREFIX
from memoryd.errors import FormatUnsupported, PackDamaged
from memoryd.records import Finding
from memoryd.store import pack as packs
from memoryd.store.chunkindex import ChunkIndex, PackRows, RecordFrame
from memoryd.store.manifest import Manifest
from memoryd.store.merkle import parse_node
from memoryd.store.shelf import Frame, PackFile, Shelf
from memoryd.store.survey import manifests_in, records_in, rows_of

NAMED_MOST = 50
READD = "Add the named contents again, or restore the pack from a backup."
RESCAN = (
    "Restore the pack from a backup. Without one: vault files are taken in again by themselves. Scan the corpora too; "
    "only the history in these records is lost."
)
REBUILD = "Run `memoryd rebuild`."


def findings(shelf: Shelf, index: ChunkIndex, *, read_data: bool) -> Iterator[Finding]:
    """Everything that is wrong; nothing is changed. `read_data` also unpacks and hashes every stored byte."""
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
    records = set(index.record_frames(0))
    for pack in listed:
        if pack not in applied or not applied[pack][1]:
            entries = applied.get(pack, (None, False))[0]
            yield from _pack_findings(shelf, index, records, pack, entries, read_data)


def _pack_findings(
    shelf: Shelf, index: ChunkIndex, records: set[RecordFrame], pack: bytes, indexed: int | None, read_data: bool
) -> Iterator[Finding]:
    where = _shown(shelf, shelf.path(pack))
    try:
        with shelf.open(pack) as file:
            offsets, damage = _frames(file)
            if damage is not None:
                yield Finding("pack-damaged", where, damage, READD, {} if offsets else _lost(index, pack, None))
            for offset in offsets:
                problem = _frame_problem(file, offset, read_data)
                if problem is not None:
                    yield _damaged_frame(index, records, pack, offset, Finding("frame-damaged", where, problem, READD))
        if offsets:
            yield from _index_findings(index, records, rows_of(shelf, pack), indexed, where)
            yield from _open_manifests(shelf, index, pack, where)
    except PackDamaged as error:
        yield Finding("pack-damaged", where, error.message, READD, _lost(index, pack, None))
    except FormatUnsupported as error:
        yield Finding("pack-unsupported", where, error.message, error.next_step)


def _damaged_frame(index: ChunkIndex, records: set[RecordFrame], pack: bytes, offset: int, finding: Finding) -> Finding:
    """The finding with what the frame held, as far as the index knows."""
    held = [[at.first_seq, at.last_seq] for at in records if (at.pack, at.frame_off) == (pack, offset)]
    if held:
        return replace(finding, remedy=RESCAN, details={"records": held[0]})
    return replace(finding, details=_lost(index, pack, offset))


def _frames(file: PackFile) -> tuple[list[int], str | None]:
    """Offsets of the frames, and what is wrong with header or footer."""
    try:
        return [entry.offset for entry in file.footer().entries], None
    except PackDamaged as error:
        return list(file.scan()), error.message


def _frame_problem(file: PackFile, offset: int, read_data: bool) -> str | None:
    try:
        header = file.header(offset)
        if read_data:
            _check_data(file.frame(offset))
        else:
            file.items(offset, header)
    except PackDamaged as error:
        return error.message
    return None


def _check_data(frame: Frame) -> None:
    """Hash every item and read every form that this version knows. Raises PackDamaged."""
    frame.checked(frame.header.sha256, 0, frame.header.raw_len)
    for digest, at, length in frame.items():
        raw = frame.checked(digest, at, length)
        if frame.header.kind == packs.TREE:
            parse_node(raw)
    if frame.header.kind == packs.MANIFEST:
        list(manifests_in(frame))
    elif frame.header.kind in packs.RECORD_NAMES:
        records_in(frame, canonical=True)


def _index_findings(
    index: ChunkIndex, records: set[RecordFrame], rows: PackRows, indexed: int | None, where: str
) -> Iterator[Finding]:
    if indexed is None and rows.pack not in index.applied():
        yield Finding("pack-not-indexed", where, "The index does not know this pack.", REBUILD)
        return
    missing = _missing_rows(index, records, rows)
    held = len(rows.chunks) + len(rows.manifests) + len(rows.nodes) + len(rows.records)
    if missing or (indexed is not None and indexed != held):
        message = f"The pack holds {held} entries, the index lists {indexed} and lacks {missing} of them."
        yield Finding("index-differs", where, message, REBUILD)


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


def _open_manifests(shelf: Shelf, index: ChunkIndex, pack: bytes, where: str) -> Iterator[Finding]:
    """Manifests of this pack that name a chunk which the index does not hold with that length."""
    with shelf.open(pack) as file:
        for offset in _frames(file)[0]:
            try:
                if file.header(offset).kind != packs.MANIFEST:
                    continue
                found = [manifest for _at, _length, manifest in manifests_in(file.frame(offset))]
            except PackDamaged:
                continue  # named as a damaged frame already
            for manifest in found:
                yield from _open_manifest(index, manifest, where)


def _open_manifest(index: ChunkIndex, manifest: Manifest, where: str) -> Iterator[Finding]:
    places = index.chunks(list({digest for digest, _length in manifest.chunks}))
    absent = {
        digest.hex()
        for digest, length in manifest.chunks
        if not any(place.raw_len == length for place in places.get(digest, ()))
    }
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
