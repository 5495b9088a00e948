"""How does a damaged pack give way to one with everything of it that is sound?

Nothing is deleted: the damaged file gets a second name in `quarantine/` first. Then a new pack with what could be
verified replaces it, by the commit of every rewrite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Protocol

from memoryd.errors import FormatUnsupported, PackDamaged
from memoryd.files import Files
from memoryd.store import pack as packs
from memoryd.store.chunkindex import ChunkIndex, Place
from memoryd.store.rewrite import NODES, PLAIN, Form, Rewrite
from memoryd.store.salvage import FrameLeft, Piece, frames_of, is_foreign, read_frame
from memoryd.store.shelf import PackFile, Shelf

OWNER = "quarantine"
SOLID = Form(4 << 20, 9)
"""Frames that were larger than usual stay large."""
Record = tuple[int, int, bytes]
"""kind, seq, canonical bytes."""
Stop = Callable[[], bool]


@dataclass(slots=True)
class Ruin:
    """A pack of which something is damaged, and what no other place of the store holds of it (32-byte addresses)."""

    pack: bytes
    problems: list[str] = field(default_factory=list)
    chunks: set[bytes] = field(default_factory=set)
    contents: set[bytes] = field(default_factory=set)
    """Those of which the manifest is lost."""
    nodes: set[bytes] = field(default_factory=set)
    records: list[tuple[int, int]] = field(default_factory=list)
    """Frames of lost records: first and last number, of which some may be sound."""
    held: set[int] = field(default_factory=set)
    """Numbers of records in these frames that could be read."""
    gone: bool = False
    """The file is not there: it is no longer counted on, but a file that comes back is taken in again."""
    why_left: str = ""
    """Why it stays as it is; empty where it can be mended."""


class Keeps(Protocol):
    """The store's own roads, for whoever mends it."""

    def rewrite(self, replaces: Sequence[bytes], *, flags: int = 0) -> Rewrite: ...


def ruins(shelf: Shelf, index: ChunkIndex, stop: Stop) -> Iterator[Ruin]:
    """Every damaged pack; each byte is read. The caller holds the store lane, or lives with what changes meanwhile."""
    listed, replaced = shelf.listing()[0], index.replaced()
    found = [_missing(index, pack) for pack in sorted(index.applied() - replaced - set(listed))]
    for pack in listed:
        if not stop() and pack not in replaced and (ruin := examine(shelf, index, pack)) is not None:
            found.append(ruin)
    for ruin in found:
        for lost, ask in ((ruin.chunks, index.chunks), (ruin.contents, index.manifests), (ruin.nodes, index.nodes)):
            places = ask(sorted(lost))
            lost -= {one for one, copies in places.items() if _sound_copy(shelf, copies)}
        yield ruin


def _missing(index: ChunkIndex, pack: bytes) -> Ruin:
    ruin = Ruin(pack, ["The pack is gone."], gone=True)
    _note_hidden(ruin, index, set())
    return ruin


def _sound_copy(shelf: Shelf, copies: Iterable[Place]) -> bool:
    return any(shelf.intact(place.pack, place.frame_off) for place in copies)


def examine(shelf: Shelf, index: ChunkIndex, pack: bytes) -> Ruin | None:
    """What is wrong with one pack, and what is lost with it; None for a sound one."""
    ruin = Ruin(pack)
    sound: set[tuple[int, bytes]] = set()
    try:
        with shelf.open(pack) as file:
            listed, problem = frames_of(file)
            ruin.problems += [problem] if problem else []
            for offset, entry in listed.items():
                left = read_frame(file, offset, entry)
                sound.update((piece.kind, piece.digest) for piece in left.pieces)
                _note(ruin, index, left)
            if problem is not None:
                _note_hidden(ruin, index, set(listed))
    except FormatUnsupported as error:
        ruin.why_left = error.message
        return ruin if ruin.problems else None
    except PackDamaged as error:
        ruin.problems.append(error.message)
        ruin.why_left = "It cannot be opened or read as a file: see to the disk or the permissions first."
    if not ruin.problems:
        return None
    for kind, lost in ((packs.CHUNK, ruin.chunks), (packs.MANIFEST, ruin.contents), (packs.TREE, ruin.nodes)):
        lost -= {digest for other, digest in sound if other == kind}
    return ruin


def _note(ruin: Ruin, index: ChunkIndex, left: FrameLeft) -> None:
    if is_foreign(left):
        ruin.why_left = "A later version of memoryd wrote a part of it, which this one cannot copy."
    if left.problem is None:
        return
    ruin.problems.append(left.problem)
    chunks, contents, nodes = index.lying_in(ruin.pack, left.offset)
    ruin.chunks.update(chunks, left.named if left.kind == packs.CHUNK else ())
    ruin.contents.update(contents)
    ruin.nodes.update(nodes, left.named if left.kind == packs.TREE else ())
    if left.seqs is not None:
        ruin.records.append(left.seqs)
        ruin.held.update(piece.seq for piece in left.pieces)


def _note_hidden(ruin: Ruin, index: ChunkIndex, found: set[int]) -> None:
    """What the index tells of frames that a scan no longer finds."""
    lost = [set(part) for part in index.lying_in(ruin.pack, None)]
    for offset in found:
        for part, here in zip(lost, index.lying_in(ruin.pack, offset), strict=True):
            part.difference_update(here)
    ruin.chunks |= lost[0]
    ruin.contents |= lost[1]
    ruin.nodes |= lost[2]
    ruin.records += [
        (frame.first_seq, frame.last_seq)
        for frame in index.record_frames(0)
        if frame.pack == ruin.pack and frame.frame_off not in found
    ]


def mend(store: Keeps, shelf: Shelf, files: Files, ruin: Ruin, records: Sequence[Record], stop: Stop) -> bool:
    """Replace a damaged pack by what is sound of it, and by these records; False where stopped (nothing was replaced).

    For a pack that is gone only the records are written; the index forgets it when it is made anew.

    The caller holds the store lane. Raises StoreError kinds, OSError; the damaged pack is in force until the end.
    """
    if ruin.gone and not records:
        return True
    if not ruin.gone:
        keep_aside(files, shelf, shelf.path(ruin.pack))
    rewrite = store.rewrite([] if ruin.gone else [ruin.pack])
    try:
        kept: dict[tuple[int, int], bytes] = {(kind, seq): raw for kind, seq, raw in records}
        for piece, form in () if ruin.gone else _sound(shelf, ruin.pack):
            if stop():
                rewrite.abandon()
                return False
            if piece.kind in packs.RECORD_NAMES:
                kept[piece.kind, piece.seq] = piece.data
            else:
                _put(rewrite, piece, form)
        for kind, seq in sorted(kept):
            rewrite.record(kind, seq, kept[kind, seq])
        rewrite.commit()
    except BaseException:  # let go of what was taken, then raised on
        rewrite.abandon()
        raise
    return True


def _sound(shelf: Shelf, pack: bytes) -> Iterator[tuple[Piece, Form]]:
    with shelf.open(pack) as file:
        for offset, entry in frames_of(file)[0].items():
            left = read_frame(file, offset, entry)
            size = sum(len(piece.data) for piece in left.pieces)
            solid = len(left.pieces) > 1 and size > packs.PIECES_BYTES
            for piece in left.pieces:
                yield piece, SOLID if solid else NODES if piece.kind == packs.TREE else PLAIN


def _put(rewrite: Rewrite, piece: Piece, form: Form) -> None:
    if piece.kind == packs.CHUNK:
        rewrite.chunk(piece.digest, piece.data, whole=bool(piece.flags & packs.FLAG_WHOLE), form=form)
    elif piece.kind == packs.MANIFEST:
        rewrite.manifest(piece.data, form=form)
    else:
        rewrite.node(piece.digest, piece.data, form=form)


def keep_aside(files: Files, shelf: Shelf, path: Path) -> Path:
    """Give a file a second name in quarantine, unless it has one there already; that name. Raises OSError."""
    for number in count(1):
        target = shelf.quarantine / (path.name if number == 1 else f"{path.stem}-{number}{path.suffix}")
        if not target.exists():
            files.keep_copy(path, target, owner=OWNER)
            return target
        if target.samefile(path) or target.read_bytes() == path.read_bytes():
            return target
    raise AssertionError


def pieces_aside(shelf: Shelf) -> Iterator[Piece]:
    """Everything sound in the packs that lie in quarantine, put there by a repair or by a person."""
    for path in sorted(shelf.quarantine.glob("*.pack")):
        with path.open("rb") as stream:
            file = PackFile(stream.fileno(), b"")
            for offset in file.scan():
                try:
                    yield from read_frame(file, offset).pieces
                except FormatUnsupported:
                    continue
