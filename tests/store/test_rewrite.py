"""Packs give way to new ones without a moment in which something is missing."""

from __future__ import annotations

import errno
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from memoryd.config import StoreConfig
from memoryd.digest import address_of
from memoryd.errors import DiskFull, NotFound, StoreError, StorePoisoned
from memoryd.files import Files
from memoryd.store import pack as packs
from memoryd.store.chunkstore import ChunkStore
from memoryd.store.merkle import FILE, TreeEntry, build
from memoryd.store.rewrite import Form

LONG = random.Random(3).randbytes(300_000)
TEXTS = [f"note {number}\n".encode() * 20 for number in range(30)]


def open_store(home: Path, fault: Callable[[str], None] | None = None) -> ChunkStore:
    return ChunkStore.open(home, files=Files(fault) if fault else Files(), sizes=StoreConfig())


def filled(store: ChunkStore) -> tuple[bytes, dict[bytes, bytes]]:
    """Several packs: one with a long content, one a text, one with a tree."""
    for data in (LONG, *TEXTS[:10]):
        with store.group() as group:
            group.record("document", {"v": 1, "address": group.add(data)})
            group.commit()
    root, nodes = build([TreeEntry(b"a", FILE, False, len(LONG), bytes.fromhex(address_of(LONG)[7:]))])
    with store.group() as group:
        group.nodes(nodes)
        for data in TEXTS[10:]:
            group.record("document", {"v": 1, "address": group.add(data)})
        group.commit()
    return root, nodes


def merge(store: ChunkStore, *, without: frozenset[str] = frozenset(), form: Form = Form()) -> None:
    """Everything into one new pack, but for these contents."""
    old = store.pack_ids()
    rewrite = store.rewrite(old)
    for pack in old:
        rows = store.survey(pack)
        for digest, at, inner, length, whole in rows.chunks:
            if "sha256:" + digest.hex() not in without:
                rewrite.chunk(digest, store.item(pack, at, inner, length, digest), whole=whole, form=form)
        for _address, at, inner, length, _size in rows.manifests:
            rewrite.manifest(store.item(pack, at, inner, length))
        for address, at, inner, length in rows.nodes:
            rewrite.node(address, store.item(pack, at, inner, length, address))
    kept = [one for pack in old for _f, at, _l in store.survey(pack).records for one in store.record_items(pack, at)]
    for kind, seq, raw in sorted(kept, key=lambda one: one[1]):
        rewrite.record(kind, seq, raw)
    rewrite.commit()


def whole_state(store: ChunkStore) -> list[object]:
    records = [(record.seq, record.kind, record.data) for record in store.records()]
    return [*records, *(store.read(address_of(data)) for data in (LONG, *TEXTS)), store.last_seq()]


def check_sound(store: ChunkStore) -> None:
    assert list(store.findings(read_data=True)) == []


def test_a_merge_keeps_every_content_record_and_node(tmp_path):
    store = open_store(tmp_path)
    root, nodes = filled(store)
    before = whole_state(store)
    merge(store, form=Form(4 << 20, 9))
    assert len(list((tmp_path / "store" / "packs").rglob("*.pack"))) == 1
    assert whole_state(store) == before
    assert store.node(root) == nodes[root]
    check_sound(store)
    store.close()
    (tmp_path / "store" / "index.db").unlink()
    store = open_store(tmp_path)
    assert whole_state(store) == before
    assert store.node(root) == nodes[root]
    check_sound(store)
    store.close()


def test_what_was_left_out_is_gone_and_the_rest_is_there(tmp_path):
    store = open_store(tmp_path)
    filled(store)
    merge(store, without=frozenset([address_of(TEXTS[3])]))
    with pytest.raises(NotFound):
        store.read(address_of(TEXTS[3]))
    assert store.read(address_of(TEXTS[4])) == TEXTS[4]
    store.close()


def test_a_reader_that_looked_up_before_the_merge_reads_on(tmp_path):
    store = open_store(tmp_path)
    filled(store)
    frame = store._shelf.frame
    merged = []

    def slow(pack: bytes, offset: int) -> object:
        if not merged:
            merged.append(True)
            merge(store)
        return frame(pack, offset)

    store._shelf.frame = slow  # type: ignore[method-assign, assignment]
    assert store.read(address_of(LONG)) == LONG
    assert merged
    assert store.damaged == set()
    store.close()


def test_killed_at_any_step_of_a_merge_nothing_is_lost(tmp_path):
    """SIGKILL in a forked child at every announced step, then everything is read again."""
    nth, finished = 0, False
    while not finished:
        nth += 1
        home = tmp_path / str(nth)
        store = open_store(home)
        filled(store)
        before = whole_state(store)
        store.close()
        child = os.fork()
        if child == 0:
            seen = [0]

            def fault(_point: str, seen: list[int] = seen, nth: int = nth) -> None:
                seen[0] += 1
                if seen[0] == nth:
                    os.kill(os.getpid(), signal.SIGKILL)

            try:
                merge(open_store(home, fault))
            finally:
                os._exit(0)
        finished = not os.WIFSIGNALED(os.waitpid(child, 0)[1])
        store = open_store(home)
        assert whole_state(store) == before
        check_sound(store)
        assert len(list((home / "store" / "packs").rglob("*.pack"))) in (1, 12)
        store.close()
    assert nth > 20


def test_a_long_rewrite_fills_several_packs(tmp_path, monkeypatch):
    monkeypatch.setattr("memoryd.store.rewrite.PACK_BYTES", 100_000)
    store = open_store(tmp_path)
    filled(store)
    before = whole_state(store)
    merge(store)
    assert len(store.pack_ids()) > 1
    assert whole_state(store) == before
    check_sound(store)
    store.close()


def test_nodes_are_stored_once(tmp_path):
    store = open_store(tmp_path)
    _root, nodes = filled(store)
    with store.group() as group:
        group.nodes(nodes)
        assert group.commit() == []
    assert len(store.pack_ids()) == 12
    assert packs.NODE_BYTES < packs.SOLID_BYTES
    with pytest.raises(NotFound):
        store.node(bytes(32))
    store.close()


def test_a_replaced_pack_that_could_not_be_removed_never_comes_back(tmp_path, monkeypatch):
    """The pack that replaced it is replaced as well: then the next one names both."""
    store = open_store(tmp_path)
    filled(store)
    old = store.pack_ids()
    monkeypatch.setattr(store, "_remove", lambda _replaced: None)
    merge(store, without=frozenset([address_of(TEXTS[3])]))
    between = store.pack_ids()
    merge(store)
    assert all(set(old) <= set(store.items(pack)[0]) for pack in store.pack_ids())
    for pack in between:
        store._shelf.path(pack).unlink()
    store.close()
    (tmp_path / "store" / "index.db").unlink()
    store = open_store(tmp_path)
    with pytest.raises(NotFound):
        store.read(address_of(TEXTS[3]))
    assert store.read(address_of(TEXTS[4])) == TEXTS[4]
    check_sound(store)
    store.close()


def raised_at(point: str, nth: int, number: int) -> Callable[[str], None]:
    """A fault that raises once, at the nth announcement of a step."""
    seen = [0]

    def fault(announced: str) -> None:
        if announced == point:
            seen[0] += 1
            if seen[0] == nth:
                raise OSError(number, os.strerror(number))

    return fault


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_rewrite_that_fails_on_the_way_leaves_no_second_copies(tmp_path, monkeypatch, nth):
    """A full disk at any rename: the packs are those of before, however often it is tried, and the next one works."""
    monkeypatch.setattr("memoryd.store.rewrite.PACK_BYTES", 100_000)
    store = open_store(tmp_path)
    filled(store)
    before = whole_state(store)
    packs_before = store.pack_ids()
    for _time in range(3):
        monkeypatch.setattr(store._sealer.files, "fault", raised_at("pack.rename", nth, errno.ENOSPC))
        with pytest.raises(DiskFull):
            merge(store)
        assert store.pack_ids() == packs_before
        assert list((tmp_path / "store" / "tmp").iterdir()) == []
        assert len(list((tmp_path / "store" / "packs").rglob("*.pack"))) == len(packs_before)
    monkeypatch.setattr(store._sealer.files, "fault", lambda _point: None)
    merge(store)
    assert whole_state(store) == before
    check_sound(store)
    store.close()


def test_an_index_without_room_follows_at_the_next_open(tmp_path):
    """The packs stand once they are renamed: reads go on from the old ones, and the next open takes the new ones."""
    store = open_store(tmp_path, raised_at("index.commit", 13, errno.EIO))
    filled(store)
    before = whole_state(store)
    with pytest.raises(StorePoisoned):
        merge(store)
    assert whole_state(store) == before
    store.close()
    store = open_store(tmp_path)
    assert len(store.pack_ids()) == 1
    assert whole_state(store) == before
    check_sound(store)
    store.close()


def test_a_second_copy_of_a_record_is_passed_over_and_a_wrong_order_refused(tmp_path):
    store = open_store(tmp_path)
    filled(store)
    before = whole_state(store)
    old = store.pack_ids()
    kept = [one for pack in old for _f, at, _l in store.survey(pack).records for one in store.record_items(pack, at)]
    kept.sort(key=lambda one: one[1])
    rewrite = store.rewrite([])
    for kind, seq, raw in [*kept[:3], kept[2], *kept[2:]]:
        rewrite.record(kind, seq, raw)
    with pytest.raises(StoreError, match="behind"):
        rewrite.record(*kept[0])
    rewrite.commit()
    assert whole_state(store) == before
    check_sound(store)
    merge(store)  # two copies of every record are in force now
    assert whole_state(store) == before
    check_sound(store)
    store.close()
