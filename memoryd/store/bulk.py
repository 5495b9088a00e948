"""How are many contents read with few look-ups, and each frame unpacked once?

The places of a whole batch are asked for together, and the contents come in the order in which they lie.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memoryd.digest import PREFIX
from memoryd.errors import MemorydError, NotFound, PackDamaged, StoreError
from memoryd.store.chunkindex import Place
from memoryd.store.manifest import Manifest, parse_manifest
from memoryd.store.reader import PIECE_BYTES, Reader
from memoryd.store.recent import Recent
from memoryd.store.shelf import Frame, Shelf

BATCH = 4096
"""Contents whose places are asked for together."""
Parts = Sequence[memoryview]
"""The verified chunks of a content, in order; views of unpacked frames, so nothing is copied."""
Content = tuple[bytes, Parts | MemorydError]
"""Address (32 bytes) and its chunks, or why they cannot be read."""


class Bulk:
    """Reads for one store; what it looked up is kept until `rest`, because states of a tree have most in common."""

    def __init__(self, reader: Reader, shelf: Shelf) -> None:
        self.reader = reader
        self.shelf = shelf
        self._chunks = Recent()
        self._manifests = Recent()
        self._moved = reader.moved

    def read_many(self, addresses: Sequence[bytes]) -> Iterator[Content]:
        """Every distinct content once, in the order in which they lie; each chunk is verified against its SHA-256."""
        wanted = list(dict.fromkeys(addresses))
        for start in range(0, len(wanted), BATCH):
            if self._moved != self.reader.moved:
                self._moved = self.reader.moved
                self.rest()
            yield from _Batch(self, wanted[start : start + BATCH]).read()

    def pieces(self, address: bytes) -> Iterator[Parts]:
        """One content in pieces of about 4 MiB, each chunk verified. Raises NotFound, ContentDamaged."""
        named = PREFIX + address.hex()
        layout = self.reader.layout(named)
        places = self.chunks(list(dict.fromkeys(digest for digest, _length in layout)))
        frames = _Frames(self.shelf)
        for part in _runs(layout):
            try:
                yield [frames.chunk(digest, length, places[digest][0]) for digest, length in part]
            except (PackDamaged, KeyError):  # look at other copies, and say what is wrong
                yield [memoryview(self.reader.chunks_of(named, part))]

    def chunks(self, hashes: list[bytes]) -> dict[bytes, list[Place]]:
        return self._chunks.ask(hashes, self.reader.chunk_places)

    def manifests(self, addresses: list[bytes]) -> dict[bytes, list[Place]]:
        return self._manifests.ask(addresses, self.reader.manifest_places)

    def rest(self) -> None:
        """Keep nothing: packs were replaced, or there is nothing to do for now."""
        self._chunks.clear()
        self._manifests.clear()


def _runs(layout: Sequence[tuple[bytes, int]]) -> Iterator[list[tuple[bytes, int]]]:
    """The chunks of a content in runs of about 4 MiB."""
    run: list[tuple[bytes, int]] = []
    size = 0
    for chunk in layout:
        run.append(chunk)
        size += chunk[1]
        if size >= PIECE_BYTES:
            yield run
            run, size = [], 0
    if run:
        yield run


class _Frames:
    """Chunks out of frames; mostly a chunk lies where the one before did, so the shelf need not be asked."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._at: tuple[bytes, int] | None = None
        self._frame: Frame | None = None

    def at(self, place: Place) -> Frame:
        """The frame of a place. Raises PackDamaged."""
        at = place[:2]
        if self._frame is None or self._at != at:
            self._frame, self._at = self._shelf.frame(*at), at
        return self._frame

    def chunk(self, digest: bytes, length: int, place: Place) -> memoryview:
        """The verified chunk at a place. Raises PackDamaged."""
        return self.at(place).view(digest, place.inner_off, length)


class _Batch:
    """Some contents with all their places."""

    def __init__(self, bulk: Bulk, wanted: list[bytes]) -> None:
        self._bulk = bulk
        self._wanted = wanted
        self._frames = _Frames(bulk.shelf)
        places = bulk.chunks(wanted)
        self._whole = {one: place for one in wanted for place in places.get(one, ())[:1] if place.whole}
        self._manifests = self._parsed([one for one in wanted if one not in self._whole])
        pieces = {digest for manifest in self._manifests.values() for digest, _length in manifest.chunks}
        self._pieces = bulk.chunks(list(pieces)) if pieces else {}

    def _parsed(self, addresses: list[bytes]) -> dict[bytes, Manifest]:
        """The manifests that can be read at their first place."""
        found = {}
        held = self._bulk.manifests(addresses) if addresses else {}
        for address, (place, *_others) in sorted(held.items(), key=lambda one: one[1][0]):
            try:
                manifest = parse_manifest(self._frames.at(place).item_at(*place[2:4]))
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

    def _one(self, address: bytes) -> Parts:
        place = self._whole.get(address)
        if place is not None:
            return [self._frames.chunk(address, place.size, place)]
        chunks = self._manifests[address].chunks
        return [self._frames.chunk(digest, length, self._pieces[digest][0]) for digest, length in chunks]

    def _carefully(self, address: bytes) -> Parts | MemorydError:
        try:
            return [memoryview(self._bulk.reader.read(PREFIX + address.hex()))]
        except (NotFound, StoreError) as error:
            return error
