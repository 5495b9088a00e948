"""How does the store become small, and fast to read in order, without a moment in which something is missing?

Small packs are merged. Chunks are laid by path and age, so that similar ones share a frame: large frames for what is
read rarely (artifacts, snapshots, past contents), smaller ones for memories and documents of today. Packs that were
arranged before stay as they are, unless they are small or everything is to be arranged anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from memoryd.digest import raw_address
from memoryd.errors import NotFound, PackDamaged, StoreError
from memoryd.operations.home import Home
from memoryd.records import DocumentEvent, SnapshotRecord
from memoryd.store import pack as packs
from memoryd.store.arrange import Line
from memoryd.store.census import Item
from memoryd.store.chunkstore import ChunkStore
from memoryd.store.merkle import DIRECTORY, parse_node
from memoryd.store.rewrite import Form, Rewrite

SMALL_PACK = 8 << 20
"""An arranged pack smaller than this is merged with what came after it."""
STEP_BYTES = 1 << 30
"""Raw bytes that are arranged together; more goes in several steps, each with a commit of its own."""
LEVEL = 9
HOT = Form(256 << 10, LEVEL)
COLD = Form(4 << 20, LEVEL)
LISTS = Form(256 << 10, LEVEL)
"""Manifests and tree nodes."""
READ_CACHE = 64 << 20
"""Bytes of unpacked frames kept while old packs are read in the new order."""
Progress = Callable[[int, int, str], None]
Place = tuple[bytes, int, int, int]
"""pack, frame offset, inner offset, length."""


def optimize(
    home: Home,
    *,
    everything: bool = False,
    progress: Progress = lambda _done, _total, _note: None,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Arrange what came since the last time (or all packs); returns sizes before and after. The caller holds no lane.

    Packs that cannot be read whole are left as they are and named. Stopping keeps the steps that were finished.
    Raises DiskFull, StorePoisoned.
    """
    before = home.store.stats()
    damaged: list[str] = []
    done, stopped = 0, False
    with home.store_lane:
        waiting = _candidates(home.store, everything, damaged)
    if waiting:
        order = _Order(home.store)  # without the lane: what comes meanwhile only lies less well
    while waiting and not (stopped := stopped or stop()):
        progress(done, done + len(waiting), "packs")
        with home.store_lane:  # writes of memories are acknowledged meanwhile; their packs follow
            taken, waiting = _step(home.store, waiting)
            stopped = not _arrange(home.store, taken, order, stop)
        done += 0 if stopped else len(taken)
    progress(done, done + len(waiting), "packs")
    after = home.store.stats()
    return {
        "stopped": stopped,
        "packs_replaced": done,
        "packs_before": before.packs,
        "packs_after": after.packs,
        "stored_before": before.stored_bytes,
        "stored_after": after.stored_bytes,
        "damaged": damaged,
    }


def _candidates(store: ChunkStore, everything: bool, damaged: list[str]) -> list[tuple[bytes, int]]:
    """Packs to arrange, with their raw bytes, oldest records first; none where there is nothing to gain."""
    fresh: list[tuple[int, bytes, int]] = []
    small: list[tuple[int, bytes, int]] = []
    for pack in store.pack_ids():
        try:
            arranged = store.is_arranged(pack) and not everything
            size = store.pack_size(pack)
            if arranged and size >= SMALL_PACK:
                continue
            items = store.items(pack)[1]
            if not store.is_intact(pack):
                raise PackDamaged(f"The pack {pack.hex()} holds a damaged frame.")
        except StoreError:
            damaged.append(f"{pack.hex()}.pack")
            continue
        first = min((item.record[0] for item in items if item.record is not None), default=0)
        (small if arranged else fresh).append((first, pack, sum(item.length for item in items)))
    if not fresh and len(small) < 2:
        return []
    return [(pack, size) for _first, pack, size in sorted(fresh + small)]


def _step(store: ChunkStore, waiting: list[tuple[bytes, int]]) -> tuple[list[bytes], list[tuple[bytes, int]]]:
    """The next packs that are arranged together, and the rest; what was replaced meanwhile is passed over."""
    current = set(store.pack_ids())
    taken: list[bytes] = []
    size = 0
    for number, (pack, raw) in enumerate(waiting):
        if taken and size + raw > STEP_BYTES:
            return taken, waiting[number:]
        if pack in current:
            taken.append(pack)
            size += raw
    return taken, []


@dataclass(slots=True)
class _Stock:
    """What the packs of a step hold: one place for every item."""

    chunks: dict[bytes, tuple[Place, bool]] = field(default_factory=dict)
    manifests: dict[bytes, tuple[Place, tuple[bytes, ...]]] = field(default_factory=dict)
    nodes: dict[bytes, Place] = field(default_factory=dict)
    frames: dict[tuple[bytes, int], None] = field(default_factory=dict)
    """Frames of records, in order."""

    def take(self, pack: bytes, items: Iterable[Item]) -> None:
        for item in items:
            place = (pack, item.frame_off, item.inner_off, item.length)
            if item.kind == packs.CHUNK:
                known = self.chunks.get(item.digest)
                if known is None or item.whole > known[1]:
                    self.chunks[item.digest] = (place, item.whole)
            elif item.kind == packs.MANIFEST and item.manifest is not None:
                chunks = tuple(digest for digest, _length in item.manifest.chunks)
                self.manifests.setdefault(item.digest, (place, chunks))
            elif item.kind == packs.TREE:
                self.nodes.setdefault(item.digest, place)
            else:
                self.frames[pack, item.frame_off] = None


def _arrange(store: ChunkStore, taken: Sequence[bytes], order: _Order, stop: Callable[[], bool]) -> bool:
    """Write these packs again in a better order; False where stopped. The caller holds the store lane."""
    stock = _Stock()
    for pack in taken:
        stock.take(pack, store.items(pack)[1])
    rewrite = store.rewrite(taken, flags=packs.PACK_ARRANGED)
    try:
        with store.reading_much(READ_CACHE):
            for _ in _put_all(store, stock, order, rewrite):
                if stop():
                    rewrite.abandon()
                    return False
            rewrite.commit()
    except BaseException:  # let go of what was taken, then raised on
        rewrite.abandon()
        raise
    return True


def _put_all(store: ChunkStore, stock: _Stock, order: _Order, rewrite: Rewrite) -> Iterator[None]:
    """Put everything, item by item."""
    line = Line()
    hot: set[bytes] = set()
    for address in order.contents:
        chunks = stock.manifests[address][1] if address in stock.manifests else (address,)
        chunks = tuple(chunk for chunk in chunks if chunk in stock.chunks)
        line.lay(chunks)
        if address in order.current:
            hot.update(chunks)
    for chunk in [*line, *(chunk for chunk in stock.chunks if chunk not in line)]:
        place, whole = stock.chunks[chunk]
        data, form = store.item(*place, chunk), HOT if chunk in hot else COLD
        rewrite.chunk(chunk, data, whole=whole, form=form)
        yield
    for address in _first_these(order.contents, stock.manifests):
        data = store.item(*stock.manifests[address][0])
        rewrite.manifest(data, form=LISTS)
        yield
    for address in _first_these(order.nodes, stock.nodes):
        data = store.item(*stock.nodes[address], address)
        rewrite.node(address, data, form=LISTS)
        yield
    records = {one[:2]: one[2] for pack, at in stock.frames for one in store.record_items(pack, at)}
    for kind, seq in sorted(records, key=lambda one: one[1]):  # a second copy of a record goes
        rewrite.record(kind, seq, records[kind, seq])
        yield


def _first_these(ordered: Iterable[bytes], all_of: dict[bytes, Any]) -> Iterator[bytes]:
    """Every key of `all_of` once, first those that `ordered` names, in its order."""
    seen = dict.fromkeys(address for address in ordered if address in all_of)
    yield from seen
    yield from (address for address in all_of if address not in seen)


class _Order:
    """Contents and tree nodes by path and age, as records and trees name them; `current`: documents of today."""

    def __init__(self, store: ChunkStore) -> None:
        self._store = store
        self._found: dict[tuple[bytes, bytes], int] = {}
        self._nodes: dict[tuple[bytes, bytes], int] = {}
        newest: dict[tuple[str, bytes], str | None] = {}
        for record in store.records(lost=[]):
            if record.kind == "document":
                event = DocumentEvent.from_json(record.data, record.seq)
                newest[event.source, event.path] = event.address
                if event.address is not None:
                    self._found.setdefault((event.path, raw_address(event.address)), record.seq)
            elif record.kind == "snapshot":
                self._walk(b"", bytes.fromhex(SnapshotRecord.from_json(record.data, record.seq).root), record.seq)
        self.current = {raw_address(address) for address in newest.values() if address is not None}
        self.contents = _by_path_and_age(self._found)
        self.nodes = _by_path_and_age(self._nodes)

    def _walk(self, path: bytes, address: bytes, seq: int) -> None:
        """Note what lies below a node; a subtree that was met at this path before holds nothing new."""
        waiting = [(path, address)]
        while waiting:
            path, address = waiting.pop()
            if (path, address) in self._nodes:
                continue
            self._nodes[path, address] = seq
            try:
                node = parse_node(self._store.node(address))
            except (NotFound, StoreError):
                continue  # what it names keeps its old order
            waiting += [(path, branch.address) for branch in node.branches]
            for entry in node.entries:
                below = path + b"/" + entry.name if path else entry.name
                if entry.kind == DIRECTORY:
                    waiting.append((below, entry.address))
                else:
                    self._found.setdefault((below, entry.address), seq)


def _by_path_and_age(found: dict[tuple[bytes, bytes], int]) -> list[bytes]:
    ordered = sorted((path, seq, address) for (path, address), seq in found.items())
    return list(dict.fromkeys(address for _path, _seq, address in ordered))
