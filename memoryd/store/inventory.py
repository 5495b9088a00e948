"""What lies in which pack, item by item, for those who lay packs anew, weigh them or mend them?"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from memoryd.errors import PackDamaged, ReachUnknown
from memoryd.store import pack as packs
from memoryd.store.census import Item, items_of
from memoryd.store.chunkindex import PackRows
from memoryd.store.keeper import IndexKeeper
from memoryd.store.manifest import Manifest, parse_manifest
from memoryd.store.reader import Reader
from memoryd.store.shelf import Shelf
from memoryd.store.survey import records_in, rows_of


class Inventory(Reader):
    """The part of a store that tells of packs; safe to use from many threads."""

    def __init__(self, shelf: Shelf, keeper: IndexKeeper) -> None:
        super().__init__(shelf, keeper)
        self._lock = threading.RLock()
        """Held while packs and index are brought from one state to the next."""

    def pack_ids(self) -> list[bytes]:
        """Ids of the packs that are read, sorted; replaced ones are left out."""
        return sorted(self._keeper.ask(lambda index: index.applied() - index.replaced()))

    def in_force(self) -> tuple[list[bytes], set[bytes]]:
        """(packs in force, replaced packs that still lie there), sorted. The folder and the index must tell the same.

        Raises ReachUnknown where they do not: a pack is missing, or cannot be read at all.
        """
        with self._lock:  # between the rename of a new pack and its rows they differ for a moment
            listed = set(self._shelf.listing()[0])
            applied, replaced = self._keeper.ask(lambda index: (index.applied(), index.replaced()))
        if odd := (listed - replaced) ^ (applied - replaced):
            message = f"{len(odd)} pack(s) are missing or unreadable, first {min(odd).hex()}; nothing was removed."
            raise ReachUnknown(message, pack=min(odd).hex())
        return sorted(listed - replaced), listed & replaced

    def _leftover(self) -> set[bytes]:
        """Replaced packs that could not be removed."""
        return {pack for pack in self._keeper.ask(lambda index: index.replaced()) if self._shelf.path(pack).exists()}

    def items(self, pack: bytes) -> tuple[tuple[bytes, ...], list[Item]]:
        """(packs that it replaces, its items), nothing passed over. Raises PackDamaged, FormatUnsupported."""
        return items_of(self._shelf, pack)

    def survey(self, pack: bytes) -> PackRows:
        """What a pack holds, read from its own headers, tables, manifests and records. Raises PackDamaged."""
        return rows_of(self._shelf, pack)

    def item(self, pack: bytes, frame_off: int, inner_off: int, length: int, digest: bytes | None = None) -> bytes:
        """The verified raw bytes of one item of a pack (`digest` None: as the frame's own table says).

        Raises PackDamaged.
        """
        frame = self._shelf.frame(pack, frame_off)
        if digest is None:
            return frame.item_at(inner_off, length)
        return frame.checked(digest, inner_off, length)

    def record_items(self, pack: bytes, frame_off: int) -> list[tuple[int, int, bytes]]:
        """(kind, seq, canonical bytes) of every record of a frame. Raises PackDamaged."""
        frame = self._shelf.frame(pack, frame_off)
        numbers = [seq for seq, _data in records_in(frame)]
        raw = [frame.checked(digest, at, length) for digest, at, length in frame.items()]
        return [(frame.header.kind, seq, data) for seq, data in zip(numbers, raw, strict=True)]

    def pack_size(self, pack: bytes) -> int:
        """Bytes of a pack's file. Raises PackDamaged."""
        with self._shelf.open(pack) as file:
            return file.size

    def is_intact(self, pack: bytes) -> bool:
        """Whether every stored byte of a pack's frames matches its checksums; damage is told by `findings`."""
        with self._shelf.open(pack) as file:
            offsets = [entry.offset for entry in file.footer().entries]
        return all(self._shelf.intact(pack, offset) for offset in offsets)

    def is_arranged(self, pack: bytes) -> bool:
        """Whether similar chunks lie side by side in a pack. Raises PackDamaged."""
        with self._shelf.open(pack) as file:
            return bool(packs.pack_flags(file.check_header()) & packs.PACK_ARRANGED)

    def manifests(self) -> Iterator[Manifest]:
        """Every manifest that can be read."""
        for place in self._keeper.ask(lambda index: list(index.all_manifests())):
            with contextlib.suppress(PackDamaged):
                yield parse_manifest(self._shelf.frame(place.pack, place.frame_off).item_at(*place[2:4]))
