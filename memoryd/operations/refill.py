"""Where do lost contents still exist, byte for byte, and how do they get back into the store?"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from memoryd.config import CorpusConfig
from memoryd.digest import PREFIX
from memoryd.errors import NotFound, StoreError, VaultError
from memoryd.operations.corpustree import CorpusTree
from memoryd.operations.home import Home
from memoryd.operations.ingest import GROUP_BYTES
from memoryd.operations.losses import Losses, readable, unread_nodes
from memoryd.operations.treewriter import TreeWriter
from memoryd.records import VAULT_SOURCE, shown_path
from memoryd.sources import corpora
from memoryd.sources.git import literal
from memoryd.sources.regular import open_folder, open_regular
from memoryd.store import pack as packs
from memoryd.store.manifest import Manifest, parse_manifest
from memoryd.store.salvage import Piece

LARGE = 32 << 20
"""Larger files are never held whole."""
WINDOW = 8 << 20
READ_TOGETHER = 32
"""Chunks of one manifest that are read in one go."""
Stop = Callable[[], bool]


class Place(NamedTuple):
    """A file below a folder; none of `parts` leads out of it."""

    top: Path
    parts: list[bytes]


@dataclass(frozen=True, slots=True)
class Copy:
    """Where the bytes of a content (32-byte address) lie. `data` None: in a file that is too large to be held."""

    where: str
    digest: bytes
    data: bytes | None
    place: Place | None = None


def still_there(home: Home, losses: Losses, stop: Stop = lambda: False) -> Iterator[Copy]:
    """Copies of lost contents in a file of vault or corpora, or in git's history.

    Only bytes with the very SHA-256 are given out, each content once.
    """
    in_trees: dict[bytes, list[tuple[str, bytes]]] = {}
    for record, paths in losses.snapshots:
        for path in paths:
            in_trees.setdefault(path, []).append((record.source, path))
    left = set(losses.contents)
    for digest in sorted(losses.contents):
        if stop():
            return
        for copy in _by_document(home, PREFIX + digest.hex()):
            if copy.digest == digest:
                left.discard(digest)
                yield copy
                break
    for places in in_trees.values():
        for source, path in places:
            found = _file(home, source, path) if left and not stop() else None
            if found is not None and found.digest in left:
                left.discard(found.digest)
                yield found


def store_large(home: Home, copy: Copy) -> bool:
    """Store a file that is too large to be held, piece by piece; False where it is another one by now.

    The caller holds no lane. Raises StoreError kinds.
    """
    assert copy.place is not None
    try:
        with _opened(copy.place) as fd:
            digest, _size = TreeWriter(home).stream(lambda amount: os.read(fd, amount))
    except OSError:
        return False
    return digest == copy.digest


def _by_document(home: Home, address: str) -> Iterator[Copy]:
    for row in home.documents.ever_at(address, None):
        if row.source != VAULT_SOURCE:
            copy = _file(home, row.source, row.path)
            if copy is not None:
                yield copy
            continue
        where = f"{row.source}/{shown_path(row.path)}"
        with suppress(NotFound, VaultError):
            yield _held(where, home.vault.read(row.path))
        with suppress(VaultError):
            yield from (_held(f"git history of {where}", data) for data in _past(home, row.path))


def _held(where: str, data: bytes) -> Copy:
    return Copy(where, hashlib.sha256(data).digest(), data)


def _past(home: Home, path: bytes) -> Iterator[bytes]:
    """What the vault's history held at a path, newest first. Raises VaultError."""
    told = home.vault.git.run(["log", "--all", "--format=%H", "--", literal(path)])
    for commit in told.out.decode("ascii").split():
        data = home.vault.git.blob(commit, path)
        if data is not None:
            yield data


def _file(home: Home, source: str, path: bytes) -> Copy | None:
    """The file of a corpus, or of a directory of which a snapshot was taken; None where there is none."""
    where = f"{source}/{shown_path(path)}"
    try:
        place = _place(home, source, path)
        if place is None:
            return None
        with _opened(place) as fd:
            small = os.fstat(fd).st_size <= LARGE
            data = _read(fd, LARGE + 1) if small else b""
            if small and len(data) <= LARGE:
                return _held(where, data)
            whole = hashlib.sha256(data)
            del data
            while piece := os.read(fd, WINDOW):
                whole.update(piece)
            return Copy(where, whole.digest(), None, place)
    except OSError:
        return None


def _place(home: Home, source: str, path: bytes) -> Place | None:
    """Raises OSError where the corpus has no root."""
    parts = path.split(b"/")
    if any(part in {b"", b".", b".."} for part in parts):
        return None
    corpus: CorpusConfig | None = next((one for one in home.config.corpora if one.label == source), None)
    if corpus is not None:
        return Place(corpora.resolve_root(corpus.path, base=home.loaded.path.parent), parts)
    return Place(Path(source), parts) if source.startswith("/") else None


@contextmanager
def _opened(place: Place) -> Iterator[int]:
    """The descriptor of a regular file that no link leads to. Raises OSError."""
    with open_folder(place.top, place.parts[:-1]) as folder, open_regular(place.parts[-1], folder) as fd:
        yield fd


def _read(fd: int, most: int) -> bytes:
    pieces, left = [], most
    while left and (piece := os.read(fd, min(left, WINDOW))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def nodes_of_corpora(home: Home, losses: Losses) -> dict[bytes, bytes]:
    """Lost tree nodes that follow from what the catalog says of the corpora today."""
    found = _Wanted(losses.nodes)
    if losses.nodes:
        for label in sorted({record.source for record, _paths in losses.snapshots}):
            tree = CorpusTree(found)
            tree.add(home.documents.current(label))
            tree.root()
    return found.found


class _Wanted:
    """Takes of many nodes those that are wanted."""

    def __init__(self, wanted: set[bytes]) -> None:
        self._wanted = wanted
        self.found: dict[bytes, bytes] = {}

    def nodes(self, nodes: Mapping[bytes, bytes]) -> None:
        self.found.update((address, data) for address, data in nodes.items() if address in self._wanted)


def take_from_quarantine(home: Home, losses: Losses) -> int:
    """Store again what packs in quarantine still hold of the losses; how many contents and nodes could be read then.

    The caller holds the store lane. Raises StoreError kinds.
    """
    manifests: list[Manifest] = []
    nodes: dict[bytes, bytes] = {}
    for piece in home.store.pieces_aside():
        if piece.kind == packs.MANIFEST and piece.digest in losses.contents:
            manifests.append(parse_manifest(piece.data))
        elif piece.kind == packs.TREE and piece.digest in losses.nodes:
            nodes[piece.digest] = piece.data
    known = [one for one in home.store.manifests() if one.address in losses.contents]
    wanted = losses.contents | {digest for one in (*known, *manifests) for digest, _length in one.chunks}
    _store_chunks(home, (one for one in home.store.pieces_aside() if one.kind == packs.CHUNK), wanted, losses)
    true = [one for one in manifests if _makes_up(home, one)]
    with home.store.group() as group:
        for manifest in true:
            group.manifest(manifest)
        group.nodes(nodes)
        group.commit()
    back = sum(readable(home, digest) for digest in losses.contents)
    return back + len(losses.nodes - unread_nodes(home, losses.nodes))


def _makes_up(home: Home, manifest: Manifest) -> bool:
    """Whether its chunks are all there, and together the content that it names: its own word is worth nothing."""
    address, whole = PREFIX + manifest.address.hex(), hashlib.sha256()
    try:
        for start in range(0, len(manifest.chunks), READ_TOGETHER):
            whole.update(home.store.chunks_of(address, manifest.chunks[start : start + READ_TOGETHER]))
    except StoreError:
        return False
    return whole.digest() == manifest.address


def lies_in_quarantine(home: Home, losses: Losses) -> int:
    """How many lost items, or pieces of them, packs in quarantine hold sound."""
    known = [one for one in home.store.manifests() if one.address in losses.contents]
    wanted = losses.contents | losses.nodes | {digest for one in known for digest, _length in one.chunks}
    there = {one.digest for one in home.store.pieces_aside() if one.digest in wanted}
    return len(there - home.store.sound_chunks(sorted(there)))


def _store_chunks(home: Home, pieces: Iterable[Piece], wanted: set[bytes], losses: Losses) -> None:
    """Whole contents as such, the rest as chunks; in groups, so that memory stays bounded."""
    group, size = home.store.group(), 0
    for piece in pieces:
        if piece.digest not in wanted:
            continue
        if piece.digest in losses.contents and piece.flags & packs.FLAG_WHOLE:
            group.add(piece.data)
        else:
            group.chunks([(piece.digest, piece.data)])
        size += len(piece.data)
        if size >= GROUP_BYTES:
            group.commit()
            group, size = home.store.group(), 0
    group.commit()
