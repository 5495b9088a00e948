"""How do packs give way to new ones that hold what is to stay of them?

Items are put in the order in which they should lie. Packs that fill up on the way wait under temporary names. At the
end they are renamed, and hold but second copies for a moment; the last one names all replaced packs in its footer, and
its rename is the only commit point: from then on the replaced packs are ignored, whether or not they were removed. A
crash at any step leaves all items there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol

from memoryd.errors import StoreError
from memoryd.store import pack as packs
from memoryd.store.chunkindex import PackRows
from memoryd.store.drafts import Draft, Frames
from memoryd.store.manifest import parse_manifest
from memoryd.store.pack import PackWriter

PACK_BYTES = 32 << 20
"""Raw bytes after which the next item begins another pack."""


@dataclass(frozen=True, slots=True)
class Form:
    """How items are laid: raw bytes a frame at most (a longer item has its own), zstd level."""

    limit: int = packs.SOLID_BYTES
    level: int = packs.ZSTD_LEVEL


PLAIN = Form()
NODES = Form(packs.NODE_BYTES)


class Desk(Protocol):
    """Where finished packs go."""

    def hold(self, writer: PackWriter, rows: PackRows) -> None:
        """Keep a pack that is no part of the store yet."""

    def publish(self, held: Sequence[PackRows], writer: PackWriter, rows: PackRows, replaces: Sequence[bytes]) -> None:
        """Make the held packs part of the store and, with the last one, the replaced packs none."""

    def drop(self, held: Sequence[PackRows]) -> None:
        """Remove held packs."""


class Rewrite:
    """One replacement of packs; made by `ChunkStore.rewrite`. Not thread-safe: its owner holds the store lane.

    Without `commit` every replaced pack stays in force.
    """

    def __init__(
        self,
        replaces: Sequence[bytes],
        last_seq: int,
        *,
        new_pack: Callable[[], bytes],
        encoder: Executor,
        desk: Desk,
        flags: int,
    ) -> None:
        self._replaces = tuple(replaces)
        self._last_seq = last_seq
        self._new_pack = new_pack
        self._encoder = encoder
        self._desk = desk
        self._flags = flags
        self._held: list[PackRows] = []
        self._closed = False
        self._last_of: dict[int, int] = {}
        self._begin()

    def _begin(self) -> None:
        pack = self._new_pack()
        self._writer = PackWriter(pack, self._flags)
        self._rows = PackRows(pack, 0, last_seq=self._last_seq)
        self._frames = Frames(self._encoder)
        self._drafts: dict[tuple[int, int, Form], Draft] = {}
        self._seqs: dict[int, list[int]] = {}
        self._sizes: dict[int, list[tuple[bytes, int]]] = {}
        self._size = 0

    def chunk(self, digest: bytes, data: bytes, *, whole: bool, form: Form = PLAIN) -> None:
        """Put a chunk whose SHA-256 is `digest`; `whole`: it is a content of its own. Raises StoreError kinds."""
        self._put(packs.CHUNK, packs.FLAG_WHOLE if whole else 0, form, data, digest)

    def manifest(self, data: bytes, *, form: Form = PLAIN) -> None:
        """Put the bytes of a manifest. Raises PackDamaged where they are none, StoreError kinds."""
        about = parse_manifest(data)
        draft = self._put(packs.MANIFEST, 0, form, data, hashlib.sha256(data).digest())
        self._sizes.setdefault(id(draft), []).append((about.address, about.size))

    def node(self, address: bytes, data: bytes, *, form: Form = NODES) -> None:
        """Put a tree node. Raises StoreError kinds."""
        self._put(packs.TREE, 0, form, data, address)

    def record(self, kind: int, seq: int, raw: bytes) -> None:
        """Put the canonical bytes of a record, `seq` and all; in one kind the numbers ascend. Raises StoreError kinds.

        Sequence numbers survive: a record keeps its own. A second copy of the last one is passed over: a frame that
        held one number twice could not be read.
        """
        last = self._last_of.get(kind, 0)
        if seq < last:
            raise StoreError(f"The record {seq} was put behind the record {last}.", next_step="Report this.")
        if seq == last:
            return
        self._last_of[kind] = seq
        draft = self._put(kind, 0, PLAIN, raw, hashlib.sha256(raw).digest())
        self._seqs.setdefault(id(draft), []).append(seq)

    def _put(self, kind: int, flags: int, form: Form, data: bytes, digest: bytes) -> Draft:
        if self._closed:
            raise StoreError("This rewrite is closed.", next_step="Begin a new one.")
        if self._size >= PACK_BYTES:
            self._finish(last=False)
            self._begin()
        key = (kind, flags, form)
        draft = self._drafts.get(key)
        if draft is None or not draft.has_room(len(data)):
            if draft is not None:
                self._frames.put(draft, self._seq_of(draft))
            draft = self._drafts[key] = Draft(kind, flags, limit=form.limit, level=form.level)
        draft.add(data, digest)
        self._size += len(data)
        return draft

    def _seq_of(self, draft: Draft) -> int:
        seqs = self._seqs.get(id(draft))
        return seqs[0] if seqs else self._last_seq

    def commit(self) -> tuple[int, int]:
        """Seal the last pack, and with it replace the old ones; (packs that were replaced, bytes of the last pack).

        Raises DiskFull (nothing was replaced), StorePoisoned.
        """
        if self._closed:
            raise StoreError("This rewrite is closed.", next_step="Begin a new one.")
        self._closed = True
        self._finish(last=True)
        return len(self._replaces), self._rows.size

    def abandon(self) -> None:
        """Drop everything; the packs that were to be replaced stay in force."""
        self._closed = True
        held, self._held = self._held, []
        self._desk.drop(held)

    def _finish(self, *, last: bool) -> None:
        try:
            self._encode()
            if last:
                self._rows.replaces = self._replaces
                self._desk.publish(self._held, self._writer, self._rows, self._replaces)
            else:
                self._desk.hold(self._writer, self._rows)
                self._held.append(self._rows)
        except BaseException:  # let go of what was taken, then raised on
            self.abandon()
            raise

    def _encode(self) -> None:
        for draft in self._drafts.values():
            self._frames.put_last(draft, self._seq_of(draft))
        for draft, frame_off in self._frames.drain(self._writer):
            self._list(draft, frame_off)

    def _list(self, draft: Draft, frame_off: int) -> None:
        if draft.kind == packs.CHUNK:
            whole = bool(draft.flags & packs.FLAG_WHOLE)
            self._rows.chunks += [(digest, frame_off, at, size, whole) for digest, at, size in draft.placed()]
        elif draft.kind == packs.TREE:
            self._rows.nodes += [(address, frame_off, at, size) for address, at, size in draft.placed()]
        elif draft.kind == packs.MANIFEST:
            self._rows.manifests += list(self._manifests(draft, frame_off))
        else:
            seqs = self._seqs[id(draft)]
            self._rows.records.append((seqs[0], frame_off, seqs[-1]))
            self._rows.last_seq = max(self._rows.last_seq, seqs[-1])

    def _manifests(self, draft: Draft, frame_off: int) -> Iterator[tuple[bytes, int, int, int, int]]:
        for (address, size), (_digest, at, length) in zip(self._sizes[id(draft)], draft.placed(), strict=True):
            yield address, frame_off, at, length, size
