"""What does one write group collect until it is sealed as one pack?

Small items share solid frames of at most 256 KiB, in the order in which they came: whole contents in one, pieces of
larger contents in another, manifests and records in theirs. What the store already holds is not stored again, once
its bytes on disk have been checked: adding a damaged content again heals it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Protocol

from memoryd.digest import PREFIX, canonical_json
from memoryd.errors import BadCharacters, ContentTooLarge, PackDamaged, StoreError
from memoryd.store import pack as packs
from memoryd.store.chunker import Chunker
from memoryd.store.chunkindex import PackRows, Place
from memoryd.store.manifest import Manifest, parse_manifest
from memoryd.store.pack import PackWriter
from memoryd.store.shelf import Shelf
from memoryd.store.survey import checked_item


class Known(Protocol):
    """What the store can say about what it already holds."""

    def chunk_places(self, hashes: list[bytes]) -> dict[bytes, list[Place]]: ...

    def manifest_places(self, addresses: list[bytes]) -> dict[bytes, list[Place]]: ...


class Draft:
    """A frame that still takes items; `close` writes it and tells where it lies."""

    def __init__(self, kind: int, flags: int = 0) -> None:
        self.kind = kind
        self.flags = flags
        self.parts: list[bytes | memoryview] = []
        self.hashes: list[bytes] = []
        self.size = 0

    def has_room(self, length: int) -> bool:
        return not self.parts or self.size + length <= packs.SOLID_BYTES

    def add(self, part: bytes | memoryview, digest: bytes) -> None:
        self.parts.append(part)
        self.hashes.append(digest)
        self.size += len(part)

    def close(self, writer: PackWriter, seq: int) -> tuple[int, list[tuple[bytes, int, int]]]:
        """(frame offset, [(SHA-256, inner offset, length)]); the draft is then empty."""
        frame_off = writer.append(packs.encode_frame(self.kind, self.parts, self.hashes, seq=seq, flags=self.flags))
        placed: list[tuple[bytes, int, int]] = []
        at = 0
        for digest, part in zip(self.hashes, self.parts, strict=True):
            placed.append((digest, at, len(part)))
            at += len(part)
        self.parts, self.hashes, self.size = [], [], 0
        return frame_off, placed


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
        seal: Callable[[WriteGroup, PackWriter, PackRows], None],
    ) -> None:
        self.pending_bytes = 0
        """Raw bytes of the new chunks so far; a bulk caller commits at 32 MiB."""
        self._last_seq = last_seq
        self._chunker = chunker
        self._shelf = shelf
        self._known = known
        self._seal = seal
        self._closed = False
        self._writer = PackWriter(pack)
        self._rows = PackRows(pack, 0, last_seq=last_seq)
        self._whole = Draft(packs.CHUNK, packs.FLAG_WHOLE)
        self._pieces = Draft(packs.CHUNK)
        self._manifests = Draft(packs.MANIFEST)
        self._manifest_heads: list[Manifest] = []
        self._records: Draft | None = None
        self._seqs: list[int] = []
        self._added: set[bytes] = set()
        self._chunks: set[bytes] = set()
        self._intact: dict[tuple[bytes, int], bool] = {}

    def add(self, data: bytes) -> str:
        """The address under which `data` will be readable after the commit. Raises ContentTooLarge, StoreError."""
        self._require_open()
        address = hashlib.sha256(data).digest()
        if address not in self._added:
            ends = self._chunker.cut(data)
            if len(ends) == 1:
                self._add_single(address, data)
            else:
                self._add_many(address, data, ends)
            self._added.add(address)
        return PREFIX + address.hex()

    def _add_single(self, address: bytes, data: bytes) -> None:
        if address in self._chunks:  # it is a piece of another content in this group
            self._add_manifest(Manifest(address, len(data), ((address, len(data)),)))
            return
        stored = [place for place in self._known.chunk_places([address]).get(address, ()) if self._sound(place)]
        if not stored:
            self._add_chunk(self._whole, data, address)
        elif not any(place.whole for place in stored):
            self._add_many_known(Manifest(address, len(data), ((address, len(data)),)))

    def _add_many(self, address: bytes, data: bytes, ends: list[int]) -> None:
        if len(ends) * 36 > packs.RAW_LIMIT - 1024:
            raise ContentTooLarge(f"{len(data)} bytes are too many chunks for one content.")
        view = memoryview(data)
        pieces = [view[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        hashes = [hashlib.sha256(piece).digest() for piece in pieces]
        new = [digest for digest in dict.fromkeys(hashes) if digest not in self._chunks]
        places = self._known.chunk_places(new)
        held = {digest for digest in new if any(self._sound(place) for place in places.get(digest, ()))}
        for digest, piece in zip(hashes, pieces, strict=True):
            if digest not in held and digest not in self._chunks:
                self._add_chunk(self._pieces, piece, digest)
        chunks = tuple((digest, len(piece)) for digest, piece in zip(hashes, pieces, strict=True))
        self._add_many_known(Manifest(address, len(data), chunks))

    def _add_many_known(self, manifest: Manifest) -> None:
        """Add the manifest unless the store holds a sound one of the same chunks."""
        for place in self._known.manifest_places([manifest.address]).get(manifest.address, ()):
            if self._sound(place) and self._same_manifest(place, manifest):
                return
        self._add_manifest(manifest)

    def _same_manifest(self, place: Place, manifest: Manifest) -> bool:
        try:
            frame = self._shelf.frame(place.pack, place.frame_off)
            for digest, at, length in frame.items():
                if at == place.inner_off:
                    return parse_manifest(checked_item(frame, digest, at, length)) == manifest
        except PackDamaged:
            pass
        return False

    def _sound(self, place: Place) -> bool:
        """Whether the frame at `place` is undamaged on disk; looked at once a group."""
        key = (place.pack, place.frame_off)
        if key not in self._intact:
            self._intact[key] = self._shelf.intact(*key)
        return self._intact[key]

    def _add_chunk(self, draft: Draft, part: bytes | memoryview, digest: bytes) -> None:
        if not draft.has_room(len(part)):
            self._close_chunks(draft)
        draft.add(part, digest)
        self._chunks.add(digest)
        self.pending_bytes += len(part)

    def _close_chunks(self, draft: Draft) -> None:
        if draft.parts:
            frame_off, placed = draft.close(self._writer, self._last_seq)
            is_whole = bool(draft.flags & packs.FLAG_WHOLE)
            self._rows.chunks += [(digest, frame_off, at, length, is_whole) for digest, at, length in placed]

    def _add_manifest(self, manifest: Manifest) -> None:
        data = manifest.encode()
        if not self._manifests.has_room(len(data)):
            self._close_manifests()
        self._manifests.add(data, hashlib.sha256(data).digest())
        self._manifest_heads.append(manifest)

    def _close_manifests(self) -> None:
        if self._manifests.parts:
            frame_off, placed = self._manifests.close(self._writer, self._last_seq)
            for manifest, (_digest, at, length) in zip(self._manifest_heads, placed, strict=True):
                self._rows.manifests.append((manifest.address, frame_off, at, length, manifest.size))
            self._manifest_heads = []

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
        draft = self._records
        if draft is None or draft.kind != packs.RECORD_KINDS[kind] or not draft.has_room(len(raw)):
            self._close_records()
            draft = self._records = Draft(packs.RECORD_KINDS[kind])
        draft.add(raw, hashlib.sha256(raw).digest())
        self._seqs.append(seq)

    def _close_records(self) -> None:
        if self._records is not None and self._records.parts:
            count = len(self._records.parts)
            last = self._seqs[-1]
            first = last - count + 1
            frame_off, _placed = self._records.close(self._writer, first)
            self._rows.records.append((first, frame_off, last))
            self._rows.last_seq = last

    def commit(self) -> list[int]:
        """Make everything durable as one pack; the sequence numbers of the records, in order.

        An empty group writes nothing. Raises DiskFull (the store is as if the group had never been), StorePoisoned.
        """
        self._require_open()
        self._close_chunks(self._whole)
        self._close_chunks(self._pieces)
        self._close_manifests()
        self._close_records()
        self._closed = True
        if self._writer.frames:
            self._seal(self, self._writer, self._rows)
        return self._seqs

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
