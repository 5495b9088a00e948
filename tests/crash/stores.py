"""Small pieces of work on a store, and the one question after each crash: is what was told still true?"""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from memoryd.config import StoreConfig
from memoryd.digest import address_of
from memoryd.errors import ContentDamaged, NotFound
from memoryd.files import Files
from memoryd.store import pack as packs
from memoryd.store import rewrite
from memoryd.store.chunkstore import ChunkStore
from memoryd.store.condemned import CHUNK
from memoryd.store.merkle import FILE, TreeEntry, build

Tell = Callable[[object], None]


def noise(size: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(size)


def text(number: int) -> bytes:
    return f"note {number} of the store\n".encode() * (5 + number % 7)


OLD = [text(number) for number in range(8)] + [noise(90_000, 1)]
NEW = [[b"", text(100), noise(70_000, 2)], [OLD[0], text(101), bytes(30_000)], [text(102)]]


@dataclass
class Promise:
    """What whoever wrote was told: `must` be readable; `gone` may be missing (it was being removed)."""

    must: set[bytes] = field(default_factory=set)
    gone: set[bytes] = field(default_factory=set)
    nodes: dict[bytes, bytes] = field(default_factory=dict)
    seq: int = 0


def open_store(home: Path, files: Files | None = None) -> ChunkStore:
    return ChunkStore.open(home, files=files or Files(), sizes=StoreConfig())


def put(store: ChunkStore, contents: list[bytes]) -> list[int]:
    with store.group() as group:
        for content in contents:
            group.record("document", {"v": 1, "address": group.add(content)})
        return group.commit()


def filled(home: Path) -> Promise:
    """A store of several packs; what it promises."""
    store = open_store(home)
    for start in range(0, len(OLD), 3):
        put(store, OLD[start : start + 3])
    root, nodes = build([TreeEntry(b"a", FILE, False, len(OLD[0]), bytes.fromhex(address_of(OLD[0])[7:]))])
    with store.group() as group:
        group.nodes(nodes)
        group.record("snapshot", {"v": 1, "root": root.hex()})
        seq = group.commit()[-1]
    store.close()
    return Promise(set(OLD), nodes=nodes, seq=seq)


def write_again(store: ChunkStore, *, without: frozenset[bytes] = frozenset()) -> None:
    """Every pack into new ones, but for these contents: what optimize, gc and forget do."""
    old = store.pack_ids()
    again = store.rewrite(old)
    records = []
    for pack in old:
        rows = store.survey(pack)
        for digest, at, inner, length, whole in rows.chunks:
            if digest not in without:
                again.chunk(digest, store.item(pack, at, inner, length, digest), whole=whole)
        for _address, at, inner, length, _size in rows.manifests:
            again.manifest(store.item(pack, at, inner, length))
        for address, at, inner, length in rows.nodes:
            again.node(address, store.item(pack, at, inner, length, address))
        records += [one for _first, at, _last in rows.records for one in store.record_items(pack, at)]
    for kind, seq, raw in sorted(records, key=lambda one: one[1]):
        again.record(kind, seq, raw)
    again.commit()


def hurt(home: Path) -> None:
    """One pack whose footer is torn off: everything in it is sound and must stay."""
    path = sorted((home / "store" / "packs").rglob("*.pack"))[0]
    path.write_bytes(path.read_bytes()[:-30])


# the work: each gets an open store and a promise, and tells what it was told


def add(store: ChunkStore, promise: Promise, tell: Tell) -> None:
    for contents in NEW:
        seqs = put(store, contents)
        promise.must |= set(contents)
        promise.seq = seqs[-1]
        tell(_copy(promise))


def bulk(store: ChunkStore, promise: Promise, tell: Tell) -> None:
    for start in (0, 1):
        contents = [text(number) + b"bulk" for number in range(start * 90, start * 90 + 90)]
        contents.append(noise(1_100_000, start))
        promise.seq = put(store, contents)[-1]
        promise.must |= set(contents)
        tell(_copy(promise))


def optimize(store: ChunkStore, promise: Promise, tell: Tell) -> None:
    with small_packs():
        write_again(store)
    tell(_copy(promise))


def gc(store: ChunkStore, promise: Promise, tell: Tell) -> None:
    dead = {OLD[2], OLD[5]}
    store.condemned.settle({CHUNK + bytes.fromhex(address_of(one)[7:]): 1.0 for one in dead})
    promise.must -= dead
    promise.gone |= dead
    tell(_copy(promise))
    write_again(store, without=frozenset(bytes.fromhex(address_of(one)[7:]) for one in dead))
    store.condemned.settle({})


def snapshot(store: ChunkStore, promise: Promise, tell: Tell) -> None:
    entries = [
        TreeEntry(b"f%03d" % n, FILE, False, len(text(n)), bytes.fromhex(address_of(text(n))[7:])) for n in range(40)
    ]
    root, nodes = build(entries)
    put(store, [text(number) for number in range(40)])
    with store.group() as group:
        group.nodes(nodes)
        group.record("snapshot", {"v": 1, "root": root.hex()})
        promise.seq = group.commit()[-1]
    promise.must |= {text(number) for number in range(40)}
    promise.nodes = {**promise.nodes, **nodes}
    tell(_copy(promise))


def repair(store: ChunkStore, promise: Promise, tell: Tell) -> None:
    for ruin in store.ruins():
        store.mend(ruin, ())
    tell(_copy(promise))


def life(store: ChunkStore, promise: Promise, tell: Tell) -> None:
    """A long one: of its states only a sample is examined."""
    for step in (add, snapshot, optimize, bulk, gc, optimize):
        step(store, promise, tell)


WORK: dict[str, Callable[[ChunkStore, Promise, Tell], None]] = {
    "add": add,
    "bulk": bulk,
    "optimize": optimize,
    "gc": gc,
    "snapshot": snapshot,
    "repair": repair,
}
LONG_WORK = {"life": life}


@contextlib.contextmanager
def small_packs():
    """A rewrite fills several packs."""
    usual, rewrite.PACK_BYTES = rewrite.PACK_BYTES, 60_000
    try:
        yield
    finally:
        rewrite.PACK_BYTES = usual


def _copy(promise: Promise) -> Promise:
    return Promise(set(promise.must), set(promise.gone), dict(promise.nodes), promise.seq)


class Broken(AssertionError):
    """A promise that was not kept."""


def examine(home: Path, promise: Promise, *, damaged: bool = False, goes_on: bool = True) -> None:
    """Raises Broken where the store of `home` does not keep the promise, is not sound, or takes nothing new.

    `damaged`: it was before the work began, and may be still, but then a repair makes it sound.
    """
    try:
        store = open_store(home)
    except Exception as error:
        raise Broken(f"it does not open: {error!r}") from error
    try:
        _read(store, promise)
        if damaged:
            for ruin in store.ruins():
                store.mend(ruin, ())
            _read(store, promise)
        found = list(store.findings(read_data=True))
        _require(not found, f"check: {found[:2]}")
        _require(not list((home / "store" / "tmp").iterdir()), "a temporary file is left")
        if goes_on:
            seqs = put(store, [b"and it goes on"])
            _require(seqs[0] > promise.seq, "a number is given out again")
            _require(store.read(address_of(b"and it goes on")) == b"and it goes on", "the next write")
    finally:
        store.close()


def _read(store: ChunkStore, promise: Promise) -> None:
    for content in promise.must:
        try:
            _require(store.read(address_of(content)) == content, "wrong bytes")
        except (NotFound, ContentDamaged) as error:
            raise Broken(f"lost: {error}") from error
    for content in promise.gone:
        with contextlib.suppress(NotFound):
            _require(store.read(address_of(content)) == content, "wrong bytes")
    for address, data in promise.nodes.items():
        try:
            _require(store.node(address) == data, "wrong node")
        except (NotFound, ContentDamaged) as error:
            raise Broken(f"lost: {error}") from error
    seqs = [record.seq for record in store.records()]
    _require(set(range(1, promise.seq + 1)) <= set(seqs), f"records are lost: {promise.seq} told, {len(seqs)} there")
    for record in store.records():
        if record.kind == "document" and record.data["address"] not in {address_of(one) for one in promise.gone}:
            try:
                store.read(record.data["address"])
            except (NotFound, ContentDamaged) as error:
                raise Broken(f"a record without its content: {error}") from error


def _require(kept: bool, what: str) -> None:
    if not kept:
        raise Broken(what)


def fresh_copy(template: Path, target: Path) -> Path:
    shutil.copytree(template, target)
    return target


def flip_payload(path: Path) -> None:
    """Flip a bit of the first frame's payload."""
    data = bytearray(path.read_bytes())
    data[packs.HEADER_SIZE + packs.FRAME_SIZE + 40] ^= 1
    path.write_bytes(data)
