"""What does one pack hold, to the last item, and what may not be told of it?

For decisions that remove something. Nothing is passed over: a damaged header, manifest or record, and a kind of frame
that this version does not know, are errors, because something that cannot be read may name what must stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from memoryd.errors import FormatUnsupported
from memoryd.store import pack as packs
from memoryd.store.manifest import Manifest
from memoryd.store.pack import FrameHeader
from memoryd.store.shelf import PackFile, Shelf
from memoryd.store.survey import manifests_in, records_in


class Item(NamedTuple):
    """One item of a pack. `digest`: SHA-256 of a chunk or node, a manifest's content address, empty for a record.

    `solid`: raw bytes of its frame where it shares it with others, else 0.
    """

    kind: int
    frame_off: int
    inner_off: int
    length: int
    digest: bytes
    whole: bool
    solid: int
    manifest: Manifest | None = None
    record: tuple[int, dict[str, object]] | None = None


def items_of(shelf: Shelf, pack: bytes) -> tuple[tuple[bytes, ...], list[Item]]:
    """(packs that it replaces, its items in order). Raises PackDamaged, FormatUnsupported."""
    with shelf.open(pack) as file:
        footer = file.footer()
        found: list[Item] = []
        for entry in footer.entries:
            found += _frame_items(file, entry.offset, file.header(entry.offset))
        return footer.replaces, found


def _frame_items(file: PackFile, offset: int, header: FrameHeader) -> Iterator[Item]:
    solid = header.raw_len if header.items > 1 else 0
    if header.kind in (packs.CHUNK, packs.TREE):
        whole = header.kind == packs.CHUNK and bool(header.flags & packs.FLAG_WHOLE)
        at = 0
        for digest, length in file.items(offset, header):
            yield Item(header.kind, offset, at, length, digest, whole, solid)
            at += length
    elif header.kind == packs.MANIFEST:
        for at, length, manifest in manifests_in(file.frame(offset)):
            yield Item(header.kind, offset, at, length, manifest.address, False, solid, manifest)
    elif header.kind in packs.RECORD_NAMES:
        frame = file.frame(offset)
        for (_digest, at, length), record in zip(frame.items(), records_in(frame), strict=True):
            yield Item(header.kind, offset, at, length, b"", False, solid, record=record)
    else:
        raise FormatUnsupported(f"A pack holds a frame of the kind {header.kind}, which is not known here.")
