"""What does one write group collect until it is sealed as one pack?

Small items share solid frames, in the order in which they came: whole contents in one, pieces of
larger contents in another, manifests and records in theirs. What the store already holds is not stored again, once
its bytes on disk have been checked: adding a damaged content again heals it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from memoryd.digest import PREFIX, canonical_json
from memoryd.errors import BadCharacters, ContentTooLarge, PackDamaged, StoreError
from memoryd.store import pack as packs
from memoryd.store.chunker import Chunker
from memoryd.store.chunkindex import PackRows, Place
from memoryd.store.drafts import Draft, Frames
from memoryd.store.manifest import Manifest, parse_manifest
from memoryd.store.pack import PackWriter
from memoryd.store.shelf import Shelf

COMPARE_BYTES = 4 << 20
COMPARE_CONTENTS = 1024
"""Added contents are looked up in the index together, at the latest when this many (bytes, contents) wait."""
MANIFEST_MOST = (packs.RAW_LIMIT - 1024) // 36
"""Chunks that fit one manifest."""


class Known(Protocol):
    """What the store can say about what it already holds."""

    def chunk_places(self, hashes: list[bytes]) -> dict[bytes, list[Place]]: ...

    def manifest_places(self, addresses: list[bytes]) -> dict[bytes, list[Place]]: ...

    def node_places(self, addresses: list[bytes]) -> dict[bytes, list[Place]]: ...

    def found_sound(self, addresses: set[bytes]) -> None: ...


@dataclass(slots=True)
class Cut:
    """A content that the store does not hold, cut into chunks."""

    address: bytes
    data: bytes
    ends: list[int]
    hashes: list[bytes]

    def manifest(self) -> Manifest:
        lengths = [end - start for start, end in zip([0, *self.ends], self.ends, strict=False)]
        return Manifest(self.address, len(self.data), tuple(zip(self.hashes, lengths, strict=True)))


class WriteGroup:
    """Contents and records that become durable together, or not at all.

    Not thread-safe: its owner holds the store lane. Without `commit` nothing was written anywhere.
    """

    def __init__(
        self,
        pack: bytes,
        last_seq: int,
        *,
        chunker: Chunker,
        shelf: Shelf,
        known: Known,
        encoder: Executor,
        seal: Callable[[WriteGroup, PackWriter, PackRows], None],
    ) -> None:
        self._last_seq = last_seq
        self._chunker = chunker
        self._shelf = shelf
        self._known = known
        self._seal = seal
        self._closed = False
        self._writer = PackWriter(pack)
        self._rows = PackRows(pack, 0, last_seq=last_seq)
        self._frames = Frames(encoder)
        self._drafts = {
            key: _draft(*key)
            for key in ((packs.CHUNK, packs.FLAG_WHOLE), (packs.CHUNK, 0), (packs.MANIFEST, 0), (packs.TREE, 0))
        }
        self._manifests: list[Manifest] = []
        self._records = Draft(packs.DOCUMENT)
        self._seqs: list[int] = []
        self._waiting: list[tuple[bytes, bytes]] = []
        self._waiting_bytes = 0
        self._added: set[bytes] = set()
        self._chunks: set[bytes] = set()
        self._nodes: set[bytes] = set()
        self._intact: dict[tuple[bytes, int], bool] = {}

    def add(self, data: bytes, digest: bytes | None = None) -> str:
        """The address under which `data` will be readable after the commit; `digest` is its SHA-256, where known.

        Raises ContentTooLarge, StoreError.
        """
        self._require_open()
        address = digest or hashlib.sha256(data).digest()
        if address not in self._added:
            if len(data) // self._chunker.chunk_min > MANIFEST_MOST:
                self._cut(address, data)  # it may be too large: that is said at once
            self._added.add(address)
            self._waiting.append((address, data))
            self._waiting_bytes += len(data)
            if self._waiting_bytes >= COMPARE_BYTES or len(self._waiting) >= COMPARE_CONTENTS:
                self._compare()
        return PREFIX + address.hex()

    def _cut(self, address: bytes, data: bytes) -> Cut:
        ends = self._chunker.cut(data)
        if len(ends) == 1:
            return Cut(address, data, ends, [address])
        if len(ends) > MANIFEST_MOST:
            raise ContentTooLarge(f"{len(data)} bytes are {len(ends)} chunks, more than one manifest lists.")
        view = memoryview(data)
        hashes = [hashlib.sha256(view[start:end]).digest() for start, end in zip([0, *ends], ends, strict=False)]
        return Cut(address, data, ends, hashes)

    def _compare(self) -> None:
        """Look up the waiting contents together, and keep what the store lacks; a failure closes the group."""
        try:
            self._compare_waiting()
        except BaseException:  # let go of what was taken, then raised on
            self._closed = True
            raise

    def _compare_waiting(self) -> None:
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        held = self._held([address for address, _data in waiting])
        fresh = [self._cut(address, data) for address, data in waiting if address not in held]
        sound = self._sound_places({digest for content in fresh for digest in content.hashes})
        listed: list[Cut] = []
        for content in fresh:
            if len(content.ends) > 1:
                self._keep_pieces(content, sound)
                listed.append(content)
            elif content.address in self._chunks or sound.get(content.address):
                if not any(place.whole for place in sound.get(content.address, ())):
                    listed.append(content)  # it is but a piece of another content so far
            else:
                self._keep(packs.FLAG_WHOLE, content.data, content.address)
        self._keep_manifests([content.manifest() for content in listed])

    def _held(self, addresses: list[bytes]) -> set[bytes]:
        """Which contents the store holds whole, all their frames sound: these need not even be cut."""
        places = self._sound_places(set(addresses))
        held = {one for one, found in places.items() if any(place.whole for place in found)}
        layouts = self._layouts([one for one in addresses if one not in held])
        pieces = {digest for layout in layouts.values() for digest, _length in layout}
        there = {digest for digest, found in self._sound_places(pieces).items() if found}
        return held | {
            one for one, layout in layouts.items() if all(d in there or d in self._chunks for d, _length in layout)
        }

    def _layouts(self, addresses: list[bytes]) -> dict[bytes, Sequence[tuple[bytes, int]]]:
        """The chunks of those contents that have a sound manifest."""
        found: dict[bytes, Sequence[tuple[bytes, int]]] = {}
        for address, places in self._known.manifest_places(addresses).items() if addresses else ():
            for place in places:
                with suppress(PackDamaged):  # another place may be sound; else the content is stored anew
                    manifest = parse_manifest(self._manifest_at(place))
                    if manifest.address == address:
                        found[address] = manifest.chunks
                        break
        return found

    def _sound_places(self, digests: set[bytes]) -> dict[bytes, list[Place]]:
        """Where sound copies of these chunks lie, of those that this group has not taken itself."""
        wanted = [digest for digest in digests if digest not in self._chunks]
        places = self._known.chunk_places(wanted) if wanted else {}
        intact = self._intact
        return {
            digest: [place for place in found if intact.get(place[:2]) or self._sound(place)]
            for digest, found in places.items()
        }

    def _keep_pieces(self, content: Cut, sound: dict[bytes, list[Place]]) -> None:
        view = memoryview(content.data)
        start = 0
        for digest, end in zip(content.hashes, content.ends, strict=True):
            if digest not in self._chunks and not sound.get(digest):
                self._keep(0, view[start:end], digest)
            start = end

    def _keep(self, flags: int, part: bytes | memoryview, digest: bytes) -> None:
        self._put((packs.CHUNK, flags), part, digest)
        self._chunks.add(digest)

    def _put(self, key: tuple[int, int], part: bytes | memoryview, digest: bytes) -> None:
        draft = self._drafts[key]
        if not draft.has_room(len(part)):
            self._frames.put(draft, self._last_seq)
            draft = self._drafts[key] = _draft(*key)
        draft.add(part, digest)

    def chunks(self, chunks: Sequence[tuple[bytes, bytes]]) -> None:
        """Add chunks (SHA-256, bytes) of a content that is too large for one group; `manifest` is added in its last.

        Raises StoreError.
        """
        self._require_open()
        fresh = {digest: part for digest, part in chunks if digest not in self._chunks}
        known = self._known.chunk_places(list(fresh)) if fresh else {}
        for digest, part in fresh.items():
            if not any(self._sound(place) for place in known.get(digest, ())):
                self._keep(0, part, digest)

    def manifest(self, manifest: Manifest) -> str:
        """The address of a content whose chunks were added to this group or to groups committed before.

        Raises ContentTooLarge, StoreError.
        """
        self._require_open()
        if len(manifest.chunks) > MANIFEST_MOST:
            raise ContentTooLarge(f"{manifest.size} bytes are {len(manifest.chunks)} chunks: too many for a manifest.")
        self._added.add(manifest.address)
        self._keep_manifests([manifest])
        return PREFIX + manifest.address.hex()

    def _keep_manifests(self, manifests: Sequence[Manifest]) -> None:
        """Add the manifests that the store does not hold sound and equal."""
        known = self._known.manifest_places([manifest.address for manifest in manifests])
        for manifest in manifests:
            data = manifest.encode()
            if not any(self._same(place, data) for place in known.get(manifest.address, ())):
                self._put((packs.MANIFEST, 0), data, hashlib.sha256(data).digest())
                self._manifests.append(manifest)

    def _same(self, place: Place, manifest: bytes) -> bool:
        try:
            return self._manifest_at(place) == manifest
        except PackDamaged:
            return False

    def _manifest_at(self, place: Place) -> bytes:
        """Raises PackDamaged, also where the frame was sound when it was unpacked and is not any more."""
        if not self._sound(place):
            raise PackDamaged(f"The frame at byte {place.frame_off} is damaged.", offset=place.frame_off)
        return self._shelf.frame(place.pack, place.frame_off).item_at(place.inner_off, place.raw_len)

    def _sound(self, place: Place) -> bool:
        """Whether the frame at `place` is undamaged on disk; looked at once a group."""
        key = place[:2]
        if key not in self._intact:
            self._intact[key] = self._shelf.intact(*key)
        return self._intact[key]

    def nodes(self, nodes: Mapping[bytes, bytes]) -> None:
        """Add tree nodes by their addresses (SHA-256, 32 bytes); those that the store holds sound are not stored again.

        The nodes and contents that they name are the caller's business. Raises StoreError.
        """
        self._require_open()
        fresh = {address: data for address, data in nodes.items() if address not in self._nodes}
        known = self._known.node_places(list(fresh)) if fresh else {}
        for address, data in fresh.items():
            self._nodes.add(address)
            if not any(self._sound(place) for place in known.get(address, ())):
                self._put((packs.TREE, 0), data, address)

    def record(self, kind: str, data: dict[str, Any]) -> None:
        """Append a record of kind document, snapshot, scope or tombstone; `data` holds `v` and not `seq`.

        Raises BadCharacters for unpaired surrogates, ValueError for another kind or form.
        """
        self._require_open()
        if kind not in packs.RECORD_KINDS or "seq" in data or not isinstance(data.get("v"), int):
            raise ValueError(f"{kind!r} is no kind of record, or its data lacks `v` or brings `seq`")
        seq = self._last_seq + len(self._seqs) + 1
        try:
            raw = canonical_json({**data, "seq": seq})
        except UnicodeEncodeError as error:
            raise BadCharacters("A record cannot hold unpaired surrogates.") from error
        wanted = packs.RECORD_KINDS[kind]
        if self._records.kind != wanted or not self._records.has_room(len(raw)):
            self._close_records()
            self._records = Draft(wanted)
        self._records.add(raw, hashlib.sha256(raw).digest())
        self._seqs.append(seq)

    def _close_records(self) -> None:
        self._frames.put_last(self._records, self._last_seq + len(self._seqs) - len(self._records.hashes) + 1)

    def commit(self) -> list[int]:
        """Make everything durable as one pack; the sequence numbers of the records, in order.

        An empty group writes nothing. Raises DiskFull (the store is as if the group had never been), StorePoisoned.
        """
        self._require_open()
        self._compare()
        for draft in self._drafts.values():
            self._frames.put_last(draft, self._last_seq)
        self._close_records()
        self._closed = True
        for draft, frame_off in self._frames.drain(self._writer):
            self._list(draft, frame_off)
        if self._writer.frames:
            self._seal(self, self._writer, self._rows)
        self._known.found_sound(self._added)
        return self._seqs

    def _list(self, draft: Draft, frame_off: int) -> None:
        """Note where the items of a frame lie."""
        if draft.kind == packs.CHUNK:
            is_whole = bool(draft.flags & packs.FLAG_WHOLE)
            self._rows.chunks += [(digest, frame_off, at, length, is_whole) for digest, at, length in draft.placed()]
        elif draft.kind == packs.TREE:
            self._rows.nodes += [(address, frame_off, at, length) for address, at, length in draft.placed()]
        elif draft.kind == packs.MANIFEST:
            first = len(self._rows.manifests)
            for manifest, (_digest, at, length) in zip(self._manifests[first:], draft.placed(), strict=False):
                self._rows.manifests.append((manifest.address, frame_off, at, length, manifest.size))
        else:
            first_seq = self._rows.last_seq + 1
            self._rows.last_seq += len(draft.hashes)
            self._rows.records.append((first_seq, frame_off, self._rows.last_seq))

    def abandon(self) -> None:
        """Drop everything; the group takes nothing more."""
        self._closed = True

    def _require_open(self) -> None:
        if self._closed:
            raise StoreError("This write group is closed.", next_step="Open a new group and add everything again.")

    def __enter__(self) -> WriteGroup:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.abandon()


def _draft(kind: int, flags: int) -> Draft:
    if (kind, flags) == (packs.CHUNK, 0):
        return Draft(kind, flags, limit=packs.PIECES_BYTES)
    return Draft(kind, flags, limit=packs.NODE_BYTES if kind == packs.TREE else packs.SOLID_BYTES)
