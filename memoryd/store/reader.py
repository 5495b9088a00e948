"""How is a content, a tree node or a record read back, every byte verified?

Where a copy turns out damaged the next one is read; where a pack was replaced meanwhile (its survivors lie in another
one by then) the index is asked again.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from memoryd.digest import PREFIX, parse_address, sha256_hex
from memoryd.errors import BadAddress, ContentDamaged, MemorydError, NotFound, PackDamaged, StoreError
from memoryd.store import pack as packs
from memoryd.store.chunkindex import Place, RecordFrame
from memoryd.store.keeper import IndexKeeper
from memoryd.store.manifest import Manifest, parse_manifest, whole
from memoryd.store.shelf import Shelf
from memoryd.store.survey import records_in

Chunks = Sequence[tuple[bytes, int]]
Answer = TypeVar("Answer")
PIECE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as it lies in a pack: kind document, snapshot, scope or tombstone; `data` without `seq`."""

    kind: str
    seq: int
    data: dict[str, Any]


class Reader:
    """The reading half of a store; safe to use from many threads."""

    def __init__(self, shelf: Shelf, keeper: IndexKeeper) -> None:
        self._shelf = shelf
        self._keeper = keeper
        self.damaged: set[str] = set()
        """Addresses whose stored bytes a read found damaged; adding the same content again heals them."""
        self.moved = 0
        """How often packs were replaced by others since the store was opened."""

    def read(self, address: str) -> bytes:
        """The whole content, verified. Raises NotFound, ContentDamaged, BadAddress."""
        digits = _full(address)
        return self._settled(digits, lambda: self._whole(digits))

    def _whole(self, digits: str) -> bytes:
        manifest, places = self._layout(digits, self.chunk_places([bytes.fromhex(digits)]))
        data = self._chunks(digits, manifest.chunks, places)
        if len(manifest.chunks) != 1 and sha256_hex(data) != digits:
            raise self._damage(digits, "its chunks do not make up the content")
        return data

    def layout(self, address: str) -> Chunks:
        """(SHA-256, length) of the chunks of a content, in order. Raises NotFound, ContentDamaged, BadAddress."""
        digits = _full(address)
        return self._settled(digits, lambda: self._layout(digits, self._own_places(digits))[0].chunks)

    def pieces(self, address: str) -> Iterator[bytes]:
        """The content in pieces of about 4 MiB, each verified; a content of several is verified whole at its end.

        Raises NotFound, ContentDamaged, BadAddress.
        """
        digits = _full(address)
        chunks = self.layout(address)
        whole = hashlib.sha256()
        start = 0
        while start < len(chunks):
            end, size = start, 0
            while end < len(chunks) and (end == start or size + chunks[end][1] <= PIECE_BYTES):
                size += chunks[end][1]
                end += 1
            piece = self._settled(digits, lambda part=chunks[start:end]: self._chunks(digits, part, {}))  # type: ignore[misc]
            whole.update(piece)
            yield piece
            start = end
        if len(chunks) != 1 and whole.hexdigest() != digits:
            raise self._damage(digits, "its chunks do not make up the content")

    def chunks_of(self, address: str, chunks: Chunks) -> bytes:
        """These chunks of a content, joined, each verified. Raises ContentDamaged, BadAddress."""
        digits = _full(address)
        return self._settled(digits, lambda: self._chunks(digits, chunks, {}))

    def held(self, digests: Sequence[bytes]) -> set[bytes]:
        """Those contents (32-byte addresses) of which every chunk lies in a pack that is read; none is unpacked."""
        places = self.chunk_places(list(digests))
        found = {digest for digest in digests if any(place.whole for place in places.get(digest, ()))}
        layouts: dict[bytes, Chunks] = {}
        for digest in set(digests) - found:
            with contextlib.suppress(NotFound, StoreError):
                layouts[digest] = self.layout(PREFIX + digest.hex())
        there = self.chunk_places(list({one for chunks in layouts.values() for one, _length in chunks}))
        return found | {digest for digest, chunks in layouts.items() if all(one in there for one, _length in chunks)}

    def _settled(self, digits: str, look: Callable[[], Answer]) -> Answer:
        """What `look` reads; read again where packs were replaced under it. Raises NotFound, ContentDamaged."""
        while True:
            moved = self.moved
            try:
                return look()
            except ContentDamaged:
                if self.moved == moved:
                    raise
                self.damaged.discard(PREFIX + digits)

    def read_range(self, address: str, start: int, end: int) -> bytes:
        """Bytes [start, end) of a content, cut to its size; only the chunks that hold them are read, each verified.

        Raises NotFound, ContentDamaged, BadAddress.
        """
        digits = _full(address)
        return self._settled(digits, lambda: self._range(digits, start, end, self._own_places(digits)))

    def _own_places(self, digits: str) -> dict[bytes, list[Place]]:
        return self.chunk_places([bytes.fromhex(digits)])

    def read_ranges(self, wanted: Sequence[tuple[str, int, int]]) -> list[bytes | MemorydError]:
        """As `read_range` for several (address, start, end), with one look-up; what cannot be read gives its error."""
        digits = [_full(address) for address, _start, _end in wanted]
        moved = self.moved
        places = self.chunk_places([bytes.fromhex(one) for one in dict.fromkeys(digits)])
        found: list[bytes | MemorydError] = []
        for one, (address, start, end) in zip(digits, wanted, strict=True):
            try:
                found.append(self._range(one, start, end, places))
            except ContentDamaged as error:
                found.append(error if self.moved == moved else self._once_more(address, start, end))
            except (NotFound, StoreError) as error:
                found.append(error)
        return found

    def _once_more(self, address: str, start: int, end: int) -> bytes | MemorydError:
        self.damaged.discard(PREFIX + _full(address))  # its pack was replaced, which is no damage
        try:
            return self.read_range(address, start, end)
        except (NotFound, StoreError) as error:
            return error

    def _range(self, digits: str, start: int, end: int, known: dict[bytes, list[Place]]) -> bytes:
        manifest, places = self._layout(digits, known)
        start, end = max(0, start), min(end, manifest.size)
        if start >= end:
            return b""
        base, chunks = manifest.window(start, end)
        return self._chunks(digits, chunks, places)[start - base : end - base]

    def size(self, address: str) -> int | None:
        """Bytes of the content, None where it is not stored. Raises BadAddress."""
        digest = bytes.fromhex(_full(address))
        for place in self.chunk_places([digest]).get(digest, ()):
            if place.whole:
                return place.size
        manifests = self.manifest_places([digest]).get(digest)
        return manifests[0].size if manifests else None

    def chunk_places(self, hashes: list[bytes]) -> dict[bytes, list[Place]]:
        """Every known copy of these chunks (32-byte SHA-256)."""
        return self._keeper.ask(lambda index: index.chunks(hashes))

    def sound_chunks(self, digests: Sequence[bytes]) -> set[bytes]:
        """Those chunks of which a copy lies in a frame that is intact on disk."""
        places = self.chunk_places(list(digests))
        return {one for one, found in places.items() if any(self._shelf.intact(at.pack, at.frame_off) for at in found)}

    def manifest_places(self, addresses: list[bytes]) -> dict[bytes, list[Place]]:
        """Every known copy of these contents' manifests."""
        return self._keeper.ask(lambda index: index.manifests(addresses))

    def _layout(self, digits: str, places: dict[bytes, list[Place]]) -> tuple[Manifest, dict[bytes, list[Place]]]:
        """The chunks of a content, and the places of those that were looked up; `places` covers its own address.

        Raises NotFound, ContentDamaged.
        """
        digest = bytes.fromhex(digits)
        for place in places.get(digest, ()):
            if place.whole:
                return whole(digest, place.size), places
        reason = ""
        for place in self.manifest_places([digest]).get(digest, ()):
            reason = "its manifest names another content"
            try:
                manifest = parse_manifest(self._shelf.frame(place.pack, place.frame_off).item_at(*place[2:4]))
                if manifest.address == digest:
                    return manifest, places
            except PackDamaged as error:
                reason = error.message
        if reason:
            raise self._damage(digits, reason)
        raise NotFound(f"No content has the address {PREFIX}{digits}.")

    def _chunks(self, digits: str, wanted: Chunks, places: dict[bytes, list[Place]]) -> bytes:
        """These chunks of a content, joined. Raises ContentDamaged."""
        unknown = [digest for digest in dict.fromkeys(digest for digest, _length in wanted) if digest not in places]
        if unknown:
            places = {**places, **self.chunk_places(unknown)}
        parts = [self._chunk(digits, digest, length, places.get(digest, [])) for digest, length in wanted]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _chunk(self, digits: str, digest: bytes, length: int, places: list[Place]) -> bytes:
        reason = "a chunk of it is not stored"
        for place in places:
            try:
                return self._shelf.frame(place.pack, place.frame_off).checked(digest, place.inner_off, length)
            except PackDamaged as error:
                reason = error.message
        raise self._damage(digits, reason)

    def _damage(self, digits: str, reason: str) -> ContentDamaged:
        address = PREFIX + digits
        self.damaged.add(address)
        self._shelf.distrust()
        return ContentDamaged(f"{address} is stored but damaged: {reason}", address=address)

    def found_sound(self, addresses: set[bytes]) -> None:
        """Contents (32-byte addresses) that a group stored, or found undamaged on disk."""
        self.damaged.difference_update([PREFIX + address.hex() for address in addresses])

    def node_places(self, addresses: list[bytes]) -> dict[bytes, list[Place]]:
        """Every known copy of these tree nodes (32-byte addresses)."""
        return self._keeper.ask(lambda index: index.nodes(addresses))

    def node(self, address: bytes) -> bytes:
        """The verified bytes of a tree node. Raises NotFound, ContentDamaged."""
        return self._settled(address.hex(), lambda: self._node(address))

    def node_pair(self, one: bytes, other: bytes) -> tuple[bytes, bytes]:
        """As `node` for two, with one look-up."""
        places = self.node_places([one, other])
        try:
            return self._node_at(one, places), self._node_at(other, places)
        except (NotFound, ContentDamaged):  # said by whoever looks once more
            self.damaged -= {PREFIX + one.hex(), PREFIX + other.hex()}
            return self.node(one), self.node(other)

    def nodes(self, addresses: Sequence[bytes]) -> dict[bytes, bytes]:
        """Those of these nodes that can be read at once, with one look-up; `node` says what is wrong with the rest."""
        places = self.node_places(list(addresses))
        found = {}
        for address, known in places.items():
            with contextlib.suppress(NotFound, ContentDamaged):
                found[address] = self._node_at(address, {address: known})
        return found

    def _node(self, address: bytes) -> bytes:
        return self._node_at(address, self.node_places([address]))

    def _node_at(self, address: bytes, known: dict[bytes, list[Place]]) -> bytes:
        places = known.get(address)
        if not places:
            raise NotFound(f"No tree node has the address {PREFIX}{address.hex()}.")
        for place in places:
            try:
                return self._shelf.frame(place.pack, place.frame_off).checked(address, place.inner_off, place.raw_len)
            except PackDamaged as error:
                reason = error.message
        raise self._damage(address.hex(), reason)

    def records(self, after_seq: int = 0, *, lost: list[str] | None = None) -> Iterator[StoredRecord]:
        """Every record newer than `after_seq`, by sequence number.

        Records in a damaged frame are passed over where `lost` takes a sentence on them; else raises ContentDamaged.
        """
        waiting: list[tuple[int, int, str, dict[str, Any]]] = []
        last = after_seq
        for order, frame in enumerate([*self._keeper.ask(lambda index: index.record_frames(after_seq)), None]):
            while waiting and (frame is None or waiting[0][0] < frame.first_seq):
                seq, _order, kind, data = heapq.heappop(waiting)
                if seq > last:  # a second copy of a record is passed over
                    yield StoredRecord(kind, seq, data)
                    last = seq
            if frame is not None:
                for kind, seq, data in self._record_frame(frame, lost):
                    heapq.heappush(waiting, (seq, order, kind, data))

    def _record_frame(self, at: RecordFrame, lost: list[str] | None) -> list[tuple[str, int, dict[str, Any]]]:
        try:
            frame = self._shelf.frame(at.pack, at.frame_off)
            return [(packs.RECORD_NAMES[frame.header.kind], seq, data) for seq, data in records_in(frame)]
        except PackDamaged as error:
            path = self._shelf.path(at.pack)
            told = f"The records {at.first_seq} to {at.last_seq} in {path} are damaged: {error.message}"
            if lost is None:
                raise ContentDamaged(told) from error
            lost.append(told)
            return []


def _full(address: str) -> str:
    digits, is_full = parse_address(address)
    if not is_full:
        raise BadAddress(f"{address[:100]!r} is only the start of an address.")
    return digits
