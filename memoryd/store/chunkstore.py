"""How are bytes kept by address, and read back verified?

One open store of one home. Truth is FORMAT and the packs; index.db is a view that is caught up at open, and made anew
where it is missing or damaged. Writing goes through one `WriteGroup` at a time; reading is safe from many threads.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from memoryd.config import StoreConfig
from memoryd.errors import (
    DiskFull,
    FormatDamaged,
    HomeError,
    StoreError,
)
from memoryd.files import Files
from memoryd.records import Finding
from memoryd.store.bulk import Bulk, Content, Parts
from memoryd.store.chunker import Chunker, chunker_of, new_format
from memoryd.store.chunkindex import PackRows
from memoryd.store.condemned import Condemned
from memoryd.store.findings import REBUILD, findings
from memoryd.store.format import parse_format
from memoryd.store.group import WriteGroup
from memoryd.store.inventory import Inventory
from memoryd.store.keeper import IndexKeeper
from memoryd.store.mend import Record, Ruin, keep_aside, mend, pieces_aside, ruins
from memoryd.store.pack import PackWriter
from memoryd.store.reader import StoredRecord
from memoryd.store.recent import Held
from memoryd.store.reserve import REPLACING_BYTES, SMALL_BYTES, Reserve
from memoryd.store.rewrite import Rewrite
from memoryd.store.salvage import Piece
from memoryd.store.seal import FULL, Sealer
from memoryd.store.shelf import Shelf
from memoryd.store.stream import Stream

__all__ = ["ChunkStore", "StoreStats", "StoredRecord"]

ENCODER_THREADS = 2
"""Threads that compress the full frames of a bulk group; a small commit starts none."""


@dataclass(frozen=True, slots=True)
class StoreStats:
    """Sums over all packs that are read; bytes are raw (unpacked chunks) and stored (pack files)."""

    packs: int
    chunks: int
    contents: int
    raw_bytes: int
    stored_bytes: int


class ChunkStore(Inventory):
    """The store of one home; made by `open`."""

    def __init__(
        self, shelf: Shelf, chunker: Chunker, sealer: Sealer, keeper: IndexKeeper, random: Callable[[int], bytes]
    ) -> None:
        super().__init__(shelf, keeper)
        self._chunker = chunker
        self._sealer = sealer
        self._random = random
        self._group: WriteGroup | None = None
        self._encoder = ThreadPoolExecutor(ENCODER_THREADS, thread_name_prefix="memoryd-pack")
        self.condemned = Condemned(shelf.packs.parent / "condemned", sealer.files)
        """What nobody needs, by the last collection; whoever changes it holds the store lane."""
        self._held = Held(self, self.condemned.revive)
        self._bulk = Bulk(self, shelf)
        self._readers = 0
        self._reserve = Reserve(shelf.packs.parent / "reserve", sealer.files)
        self._replacing = Reserve(shelf.packs.parent / "reserve-replacing", sealer.files, REPLACING_BYTES)
        self._replacing.make()
        self._reserve.make()
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
                files.discard(torn, owner="pack")
            keeper = IndexKeeper(shelf, files, clock, random)
            store = cls(shelf, chunker, Sealer(files, shelf), keeper, random)
            store.sweep_replaced()
            return store
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
            self._group = WriteGroup(
                self._new_pack(),
                self._last_seq,
                chunker=self._chunker,
                shelf=self._shelf,
                known=self._held,
                encoder=self._encoder,
                seal=self._seal,
            )
            return self._group

    def stream(self, read: Callable[[int], bytes]) -> Stream:
        """A content that comes in pieces, cut as if it were whole; `read(n)` gives at most n bytes, none at the end."""
        return Stream(self._chunker, read)

    def _seal(self, group: WriteGroup, writer: PackWriter, rows: PackRows) -> None:
        with self._lock:
            if group is not self._group:
                raise StoreError("Another write group was opened since.", next_step="Open a new group and add again.")
            self._keep(writer, rows)
            self._held.note(rows)

    def _keep(self, writer: PackWriter, rows: PackRows) -> None:
        """Seal a pack and tell the index; once more out of the reserve where a small one meets a full disk."""
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
        self._last_seq = max(self._last_seq, rows.last_seq)
        self._reserve.make()

    def _new_pack(self) -> bytes:
        return uuid.UUID(bytes=self._random(16), version=4).bytes

    def rewrite(self, replaces: Sequence[bytes], *, flags: int = 0) -> Rewrite:
        """Begin to replace these packs: what is to stay of them is put into the answer. Raises StorePoisoned.

        `flags` are those of the new packs.
        The caller holds the store lane until the commit, after which the replaced packs are gone.
        """
        self._sealer.require()
        self.sweep_replaced()
        left = self._leftover() - set(replaces)  # nothing else may say so soon
        return Rewrite(
            [*replaces, *sorted(left)],
            self._last_seq,
            new_pack=self._new_pack,
            encoder=self._encoder,
            desk=self,
            flags=flags,
        )

    def hold(self, writer: PackWriter, rows: PackRows) -> None:
        """Write a pack of a rewrite that is no part of the store yet."""
        pieces = writer.finish()
        rows.size = writer.size
        self._sealer.write(rows.pack, pieces)

    def publish(self, held: Sequence[PackRows], writer: PackWriter, rows: PackRows, replaces: Sequence[bytes]) -> None:
        """Make the packs of a rewrite part of the store, and the replaced ones none."""
        pieces = writer.finish(replaces)
        rows.size = writer.size
        everything = [*held, rows]
        with self._lock:
            self._with_reserve(lambda: self._sealer.write(rows.pack, pieces), rows.size)
            self._place(everything)
            self._tell_index(everything)
            self._last_seq = max(self._last_seq, rows.last_seq)
            self.moved += 1
            self._held.clear()
            self._remove(replaces)
            self._replacing.make()
            self._reserve.make()

    def _place(self, everything: Sequence[PackRows]) -> None:
        """Give all packs of a rewrite their names, the one that replaces others last; where one fails, none has it."""
        placed: list[PackRows] = []
        try:
            for one in everything:
                self._sealer.place(one.pack)
                placed.append(one)
        except StoreError:
            for one in placed:
                self._sealer.undo(one.pack)
            for one in everything:
                self._sealer.drop(one.pack)
            raise

    def _tell_index(self, everything: Sequence[PackRows]) -> None:
        """The packs stand whatever the index says: one that has no room for them follows at the next open."""

        def tell() -> None:
            for one in everything:
                self._sealer.files.fault("index.commit")
                self._keeper.ask(lambda index, one=one: index.apply(one))  # type: ignore[misc]

        try:
            self._with_reserve(tell, 0)
        except (OSError, StoreError) as error:
            raise self._sealer.poison(f"the index did not take a rewrite: {error}") from error

    def _with_reserve(self, work: Callable[[], None], size: int) -> None:
        """Do it; once more out of the reserves where something small meets a full disk: it is how room comes back."""
        try:
            work()
        except (DiskFull, OSError) as error:
            full = isinstance(error, DiskFull) or error.errno in FULL
            released = full and size <= SMALL_BYTES and (self.release_reserve(), self._replacing.release())
            if not released or not any(released):
                raise
            work()

    def drop(self, held: Sequence[PackRows]) -> None:
        """Remove the packs of a rewrite that came to nothing."""
        for one in held:
            self._sealer.drop(one.pack)

    @contextlib.contextmanager
    def reading_much(self, size: int) -> Iterator[None]:
        """Keep up to `size` bytes of unpacked frames meanwhile, and what was looked up, until a later `rest`."""
        with self._lock:
            self._readers += 1
            self._shelf.widen(size)
        try:
            yield
        finally:
            with self._lock:
                self._readers -= 1

    def read_many(self, addresses: Sequence[bytes]) -> Iterator[Content]:
        """(address, verified chunks or error) of contents, each once, in the order in which they lie."""
        return self._bulk.read_many(addresses)

    def pieces_of(self, address: bytes) -> Iterator[Parts]:
        """A content in pieces of about 4 MiB, each chunk verified. Raises NotFound, ContentDamaged."""
        return self._bulk.pieces(address)

    def _remove(self, replaced: Sequence[bytes]) -> None:
        """Take replaced packs away; one that stays because of an error is ignored, and removed at the next open."""
        for pack in replaced:
            with contextlib.suppress(OSError):
                self._sealer.files.unlink(self._shelf.path(pack), owner="replaced")

    def sweep_replaced(self) -> int:
        """Remove the packs that a crash left behind after they were replaced; how many. The caller holds the lane."""
        with self._lock:
            there = self._leftover()
            self._remove(sorted(there))
            return len(there)

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

    def last_seq(self) -> int:
        """The sequence number of the newest record, 0 where there is none."""
        return self._last_seq

    def stats(self) -> StoreStats:
        """Counts and sizes; a healed chunk, stored twice, counts twice."""
        totals = self._keeper.ask(lambda index: index.totals())
        return StoreStats(totals.packs, totals.chunks, totals.contents, totals.raw_bytes, totals.stored_bytes)

    def findings(self, *, read_data: bool = False, quick: bool = False) -> Iterator[Finding]:
        """Everything that is wrong in packs and index; call it while no group commits.

        `read_data`: every byte; `quick`: files and footers only.
        """
        try:
            yield from findings(
                self._shelf, self._keeper.index, "data" if read_data else "quick" if quick else "structure"
            )
        except sqlite3.Error as error:
            yield Finding("index-damaged", "store/index.db", f"The index cannot be read: {error}.", REBUILD)

    def ruins(self, stop: Callable[[], bool] = lambda: False) -> list[Ruin]:
        """Every pack of which something is damaged, with what is lost of it; each byte is read. Raises StoreError."""
        return self._keeper.ask(lambda index: list(ruins(self._shelf, index, stop)))

    def mend(self, ruin: Ruin, records: Sequence[Record], stop: Callable[[], bool] = lambda: False) -> bool:
        """Keep a damaged pack aside and replace it by what is sound of it and these records; False where stopped.

        The caller holds the store lane. Raises StoreError kinds.
        """
        try:
            return mend(self, self._shelf, self._sealer.files, ruin, records, stop)
        except OSError as error:
            raise self._sealer.failed(error) from error

    def put_aside(self, path: Path) -> Path:
        """Move what is no pack out of the packs' folders, into quarantine; its new place. Raises StoreError kinds."""
        try:
            target = keep_aside(self._sealer.files, self._shelf, path)
            self._sealer.files.unlink(path, owner="quarantine")
        except OSError as error:
            raise self._sealer.failed(error) from error
        return target

    def pieces_aside(self) -> Iterator[Piece]:
        """Everything sound in the packs that lie in quarantine."""
        return pieces_aside(self._shelf)

    def rest(self) -> None:
        """Nothing is to be done for now: give back what only a bulk of work needs. The caller holds the lane."""
        with self._lock:
            self._held.clear()
            if not self._readers:
                self._bulk.rest()
                self._shelf.rest()

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
