"""Where do lost contents still exist, byte for byte, and how do they get back into the store?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from memoryd.config import CorpusConfig
from memoryd.digest import PREFIX, address_of, raw_address
from memoryd.errors import NotFound, VaultError
from memoryd.operations.corpustree import CorpusTree
from memoryd.operations.home import Home
from memoryd.operations.ingest import GROUP_BYTES
from memoryd.operations.losses import Losses, readable, unread_nodes
from memoryd.records import VAULT_SOURCE, shown_path
from memoryd.sources import corpora
from memoryd.sources.git import literal
from memoryd.sources.regular import open_folder, read_regular
from memoryd.store import pack as packs
from memoryd.store.manifest import Manifest, parse_manifest
from memoryd.store.salvage import Piece

Stop = Callable[[], bool]


def still_there(home: Home, losses: Losses, stop: Stop = lambda: False) -> Iterator[tuple[str, bytes, bytes]]:
    """(where, address, bytes) of lost contents that a file of vault or corpora, or git's history, still holds.

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
        for where, data in _by_document(home, PREFIX + digest.hex()):
            if address_of(data) == PREFIX + digest.hex():
                left.discard(digest)
                yield where, digest, data
                break
    for places in in_trees.values():
        for source, path in places:
            found = _file(home, source, path) if left and not stop() else None
            if found is not None and (digest := raw_address(address_of(found))) in left:
                left.discard(digest)
                yield f"{source}/{shown_path(path)}", digest, found


def _by_document(home: Home, address: str) -> Iterator[tuple[str, bytes]]:
    for row in home.documents.ever_at(address, None):
        where = f"{row.source}/{shown_path(row.path)}"
        if row.source != VAULT_SOURCE:
            data = _file(home, row.source, row.path)
            if data is not None:
                yield where, data
            continue
        with suppress(NotFound, VaultError):
            yield where, home.vault.read(row.path)
        with suppress(VaultError):
            yield from ((f"git history of {where}", data) for data in _past(home, row.path))


def _past(home: Home, path: bytes) -> Iterator[bytes]:
    """What the vault's history held at a path, newest first. Raises VaultError."""
    told = home.vault.git.run(["log", "--all", "--format=%H", "--", literal(path)])
    for commit in told.out.decode("ascii").split():
        data = home.vault.git.blob(commit, path)
        if data is not None:
            yield data


def _file(home: Home, source: str, path: bytes) -> bytes | None:
    """The file of a corpus, or of a directory of which a snapshot was taken; None where there is none."""
    corpus: CorpusConfig | None = next((one for one in home.config.corpora if one.label == source), None)
    try:
        if corpus is not None:
            return corpora.read_file(corpus, path, base=home.loaded.path.parent)
        parts = path.split(b"/")
        if not source.startswith("/") or any(part in {b"", b".", b".."} for part in parts):
            return None
        with open_folder(Path(source), parts[:-1]) as folder:
            return read_regular(parts[-1], folder)
    except OSError:
        return None


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
    with home.store.group() as group:
        for manifest in manifests:
            group.manifest(manifest)
        group.nodes(nodes)
        group.commit()
    back = sum(readable(home, digest) for digest in losses.contents)
    return back + len(losses.nodes - unread_nodes(home, losses.nodes))


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
