"""How are bytes kept by address, and read back verified?

One open store of one home. Truth is FORMAT and the packs; index.db is a view that is caught up at open, and made anew
where it is missing or damaged. Writing goes through one `WriteGroup` at a time; reading is safe from many threads.
"""

from __future__ import annotations

import heapq
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memoryd.config import StoreConfig
from memoryd.digest import PREFIX, parse_address, sha256_hex
from memoryd.errors import (
    BadAddress,
    ContentDamaged,
    DiskFull,
    FormatDamaged,
    HomeError,
    MemorydError,
    NotFound,
    PackDamaged,
    StoreError,
)
from memoryd.files import Files
from memoryd.records import Finding
from memoryd.store import pack as packs
from memoryd.store.chunker import Chunker, chunker_of, new_format
from memoryd.store.chunkindex import PackRows, Place, RecordFrame
from memoryd.store.findings import REBUILD, findings
from memoryd.store.format import parse_format
from memoryd.store.group import WriteGroup
from memoryd.store.keeper import IndexKeeper
from memoryd.store.manifest import Manifest, parse_manifest, whole
from memoryd.store.pack import PackWriter
from memoryd.store.reserve import SMALL_BYTES, Reserve
from memoryd.store.seal import FULL, Sealer
from memoryd.store.shelf import Shelf
from memoryd.store.survey import records_in

ENCODER_THREADS = 2
"""Threads that compress the full frames of a bulk group; a small commit starts none."""
Chunks = Sequence[tuple[bytes, int]]


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as it lies in a pack: kind document, snapshot, scope or tombstone; `data` without `seq`."""

    kind: str
    seq: int
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StoreStats:
    """Sums over all packs that are read; bytes are raw (unpacked chunks) and stored (pack files)."""

    packs: int
    chunks: int
    contents: int
    raw_bytes: int
    stored_bytes: int


class ChunkStore:
    """The store of one home; made by `open`."""

    def __init__(
        self, shelf: Shelf, chunker: Chunker, sealer: Sealer, keeper: IndexKeeper, random: Callable[[int], bytes]
    ) -> None:
        self._shelf = shelf
        self._chunker = chunker
        self._sealer = sealer
        self._random = random
        self._lock = threading.RLock()
        self._group: WriteGroup | None = None
        self._encoder = ThreadPoolExecutor(ENCODER_THREADS, thread_name_prefix="memoryd-pack")
        self._keeper = keeper
        self._reserve = Reserve(shelf.packs.parent / "reserve")
        self._reserve.make()
        self.damaged: set[str] = set()
        """Addresses whose stored bytes a read found damaged; adding the same content again heals them."""
        self._last_seq = keeper.ask(lambda index: index.last_seq())

    @classmethod
    def open(
        cls,
        home: Path,
        *,
        files: Files,
        sizes: StoreConfig,
        clock: Callable[[], float] = time.time,
        random: Callable[[int], bytes] = os.urandom,
    ) -> ChunkStore:
        """Open the store of `home`, or create it. The caller owns the home.

        Raises FormatDamaged, FormatUnsupported, ConfigError (sizes of a new store), DiskFull, HomeError.
        """
        shelf = Shelf(home / "store")
        try:
            for folder in (shelf.packs, shelf.tmp, shelf.quarantine):
                files.mkdir(folder, owner="format")
            chunker = _open_format(home / "FORMAT", shelf, files, sizes)
            for torn in shelf.tmp.iterdir():
                torn.unlink()
            keeper = IndexKeeper(shelf, clock, random)
            return cls(shelf, chunker, Sealer(files, shelf), keeper, random)
        except OSError as error:
            full = DiskFull if error.errno in FULL else HomeError
            raise full(f"The store in {home} cannot be opened: {error.strerror or error}.", path=str(home)) from error

    def close(self) -> None:
        """Close the index; an open group is dropped."""
        with self._lock:
            if self._group is not None:
                self._group.abandon()
            self._encoder.shutdown()
            self._keeper.close()

    # writing

    def group(self) -> WriteGroup:
        """A new write group; one that was left uncommitted takes nothing more. Raises StorePoisoned."""
        self._sealer.require()
        with self._lock:
            if self._group is not None:
                self._group.abandon()
            pack = uuid.UUID(bytes=self._random(16), version=4).bytes
            self._group = WriteGroup(
                pack,
                self._last_seq,
                chunker=self._chunker,
                shelf=self._shelf,
                known=self,
                encoder=self._encoder,
                seal=self._seal,
            )
            return self._group

    def _seal(self, group: WriteGroup, writer: PackWriter, rows: PackRows) -> None:
        with self._lock:
            if group is not self._group:
                raise StoreError("Another write group was opened since.", next_step="Open a new group and add again.")
            pieces = writer.finish()
            rows.size = writer.size
            try:
                self._sealer.seal(rows.pack, pieces)
                self._apply(rows)
            except DiskFull:
                if rows.size > SMALL_BYTES or not self.release_reserve():
                    raise
                self._sealer.seal(rows.pack, pieces)
                self._apply(rows)
            self._last_seq = rows.last_seq
            self._reserve.make()

    def release_reserve(self) -> bool:
        """Give the space back that is held for small writes; False where none was held. A later write holds it again.

        For a small write of the caller's own that met a full disk and is tried once more.
        """
        return self._reserve.release()

    def _apply(self, rows: PackRows) -> None:
        """Tell the index of a sealed pack; where it has no room the pack is taken back."""
        try:
            self._sealer.files.fault("index.commit")
            self._keeper.ask(lambda index: index.apply(rows))
        except (OSError, StoreError) as error:
            failure = error if isinstance(error, StoreError) else self._sealer.failed(error)
            if not isinstance(failure, DiskFull):
                raise self._sealer.poison(str(failure)) from error  # the pack stays: the next open applies it
            self._sealer.undo(rows.pack)
            raise failure from error

    # reading

    def read(self, address: str) -> bytes:
        """The whole content, verified. Raises NotFound, ContentDamaged, BadAddress."""
        digits = _full(address)
        manifest, places = self._layout(digits, self.chunk_places([bytes.fromhex(digits)]))
        data = self._chunks(digits, manifest.chunks, places)
        if len(manifest.chunks) != 1 and sha256_hex(data) != digits:
            raise self._damage(digits, "its chunks do not make up the content")
        return data

    def read_range(self, address: str, start: int, end: int) -> bytes:
        """Bytes [start, end) of a content, cut to its size; only the chunks that hold them are read, each verified.

        Raises NotFound, ContentDamaged, BadAddress.
        """
        digits = _full(address)
        return self._range(digits, start, end, self.chunk_places([bytes.fromhex(digits)]))

    def read_ranges(self, wanted: Sequence[tuple[str, int, int]]) -> list[bytes | MemorydError]:
        """As `read_range` for several (address, start, end), with one look-up; what cannot be read gives its error."""
        digits = [_full(address) for address, _start, _end in wanted]
        places = self.chunk_places([bytes.fromhex(one) for one in dict.fromkeys(digits)])
        found: list[bytes | MemorydError] = []
        for one, (_address, start, end) in zip(digits, wanted, strict=True):
            try:
                found.append(self._range(one, start, end, places))
            except (NotFound, StoreError) as error:
                found.append(error)
        return found

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

    def last_seq(self) -> int:
        """The sequence number of the newest record, 0 where there is none."""
        return self._last_seq

    def stats(self) -> StoreStats:
        """Counts and sizes; a healed chunk, stored twice, counts twice."""
        totals = self._keeper.ask(lambda index: index.totals())
        return StoreStats(totals.packs, totals.chunks, totals.contents, totals.raw_bytes, totals.stored_bytes)

    def findings(self, *, read_data: bool) -> Iterator[Finding]:
        """Everything that is wrong in packs and index; call it while no group commits. `read_data`: every byte."""
        try:
            yield from findings(self._shelf, self._keeper.index, read_data=read_data)
        except sqlite3.Error as error:
            yield Finding("index-damaged", "store/index.db", f"The index cannot be read: {error}.", REBUILD)

    def chunk_places(self, hashes: list[bytes]) -> dict[bytes, list[Place]]:
        """Every known copy of these chunks (32-byte SHA-256)."""
        return self._keeper.ask(lambda index: index.chunks(hashes))

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
        return ContentDamaged(f"{address} is stored but damaged: {reason}", address=address)

    def found_sound(self, addresses: set[bytes]) -> None:
        """Contents (32-byte addresses) that a group stored, or found undamaged on disk."""
        self.damaged.difference_update([PREFIX + address.hex() for address in addresses])

    def rebuild_index(self) -> None:
        """Make the index anew from the packs; the caller holds the store lane. Raises StoreError, DiskFull."""
        with self._lock:
            self._keeper.rebuild()


def _open_format(path: Path, shelf: Shelf, files: Files, sizes: StoreConfig) -> Chunker:
    """The chunker that FORMAT fixes; a home without packs gets a new FORMAT."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        if shelf.listing()[0]:
            raise FormatDamaged(f"{path} is missing, but the store holds packs.", path=str(path)) from None
        rules = new_format(sizes)
        files.replace(path, rules.render(), owner="format")
    else:
        rules = parse_format(data, str(path))
    return chunker_of(rules)


def _full(address: str) -> str:
    digits, is_full = parse_address(address)
    if not is_full:
        raise BadAddress(f"{address[:100]!r} is only the start of an address.")
    return digits
