"""How are many contents read with few look-ups, and each frame unpacked once?

The places of a whole batch are asked for together, and the contents come in the order in which they lie.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memoryd.digest import PREFIX
from memoryd.errors import MemorydError, NotFound, PackDamaged, StoreError
from memoryd.store.chunkindex import Place
from memoryd.store.manifest import Manifest, parse_manifest
from memoryd.store.reader import Reader
from memoryd.store.shelf import Shelf

BATCH = 4096
"""Contents whose places are asked for together."""
Content = tuple[bytes, bytes | MemorydError]
"""Address (32 bytes) and verified bytes, or why they cannot be read."""


def read_many(reader: Reader, shelf: Shelf, addresses: Sequence[bytes]) -> Iterator[Content]:
    """Every distinct content once, in no order that the caller chose; each chunk is verified against its SHA-256."""
    wanted = list(dict.fromkeys(addresses))
    for start in range(0, len(wanted), BATCH):
        yield from _Batch(reader, shelf, wanted[start : start + BATCH]).read()


class _Batch:
    """Some contents with all their places."""

    def __init__(self, reader: Reader, shelf: Shelf, wanted: list[bytes]) -> None:
        self._reader = reader
        self._shelf = shelf
        self._wanted = wanted
        places = reader.chunk_places(wanted)
        self._whole = {one: place for one in wanted for place in places.get(one, ())[:1] if place.whole}
        self._manifests = self._parsed([one for one in wanted if one not in self._whole])
        pieces = {digest for manifest in self._manifests.values() for digest, _length in manifest.chunks}
        self._pieces = reader.chunk_places(list(pieces)) if pieces else {}

    def _parsed(self, addresses: list[bytes]) -> dict[bytes, Manifest]:
        """The manifests that can be read at their first place."""
        found = {}
        held = self._reader.manifest_places(addresses) if addresses else {}
        for address, (place, *_others) in sorted(held.items(), key=lambda one: one[1][0]):
            try:
                manifest = parse_manifest(self._shelf.frame(place.pack, place.frame_off).item_at(*place[2:4]))
            except PackDamaged:
                continue  # the careful road looks at the other places, and says what is wrong
            if manifest.address == address:
                found[address] = manifest
        return found

    def read(self) -> Iterator[Content]:
        """All contents, by the place of their first chunk."""
        for address in sorted(self._wanted, key=self._first):
            try:
                yield address, self._one(address)
            except (PackDamaged, KeyError):
                yield address, self._carefully(address)

    def _first(self, address: bytes) -> tuple[bytes, int, int]:
        place = self._whole.get(address)
        if place is None and address in self._manifests:
            digest = self._manifests[address].chunks[0][0]
            place = next(iter(self._pieces.get(digest, ())), None)
        return (b"", 0, 0) if place is None else (place.pack, place.frame_off, place.inner_off)

    def _one(self, address: bytes) -> bytes:
        place = self._whole.get(address)
        if place is not None:
            return self._chunk(address, place.size, place)
        chunks = self._manifests[address].chunks
        return b"".join([self._chunk(digest, length, self._pieces[digest][0]) for digest, length in chunks])

    def _chunk(self, digest: bytes, length: int, place: Place) -> bytes:
        return self._shelf.frame(place.pack, place.frame_off).checked(digest, place.inner_off, length)

    def _carefully(self, address: bytes) -> bytes | MemorydError:
        try:
            return self._reader.read(PREFIX + address.hex())
        except (NotFound, StoreError) as error:
            return error
