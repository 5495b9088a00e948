"""Contents and nodes become durable in groups, and a tree's losses are named."""

from __future__ import annotations

import io
import random

import pytest

from memoryd.digest import address_of
from memoryd.errors import SnapshotError
from memoryd.operations import treewriter
from memoryd.operations.treewriter import TreeWriter, lost
from memoryd.records import SnapshotRecord
from memoryd.store.merkle import DIRECTORY, FILE, TreeEntry, build

TEXT, OTHER = b"some text", random.Random(3).randbytes(100_000)


def digest(data: bytes) -> bytes:
    return bytes.fromhex(address_of(data)[7:])


def leaf(name: bytes, data: bytes) -> TreeEntry:
    return TreeEntry(name, FILE, False, len(data), digest(data))


def record(root: bytes, seq: int = 0) -> SnapshotRecord:
    return SnapshotRecord("l", "/w", "global", root.hex(), "2026-01-01T00:00:00Z", seq)


def test_nothing_is_written_before_it_must_be_and_the_record_comes_last(home, monkeypatch):
    monkeypatch.setattr(treewriter, "CONTENTS_MOST", 2)
    writer = TreeWriter(home)
    before = home.store.pack_ids()
    writer.content(digest(TEXT), TEXT)
    assert home.store.pack_ids() == before
    writer.content(digest(OTHER), OTHER)
    assert home.store.read(address_of(OTHER)) == OTHER
    root, nodes = build([leaf(b"a", TEXT), leaf(b"b", OTHER)])
    writer.nodes(nodes)
    kept = writer.finish(record(root))
    assert kept.seq == home.store.last_seq()
    assert home.snapshots.all(None) == [kept]
    assert home.store.node(root) == nodes[root]
    assert writer.stored == len(TEXT) + len(OTHER)
    assert lost(home, root) == []


def test_what_is_written_already_is_not_written_again(home):
    root, nodes = build([leaf(b"a", TEXT)])
    for seq in (0, 1):
        writer = TreeWriter(home)
        writer.content(digest(TEXT), TEXT)
        writer.nodes(nodes)
        kept = writer.finish(record(root, seq))
    assert (kept.seq, len(home.snapshots.all(None)), home.store.last_seq()) == (1, 1, 1)


def test_a_stream_of_several_groups_is_one_content(home, monkeypatch):
    monkeypatch.setattr(treewriter, "GROUP_BYTES", 1 << 20)
    data = random.Random(4).randbytes(20 << 20)
    before = len(home.store.pack_ids())
    assert TreeWriter(home).stream(io.BytesIO(data).read) == (digest(data), len(data))
    assert home.store.read(address_of(data)) == data
    assert len(home.store.pack_ids()) >= before + 3


def test_a_tree_tells_which_contents_the_store_lacks(home):
    inner, inner_nodes = build([leaf(b"x", b"not stored"), leaf(b"y", TEXT)])
    root, nodes = build([TreeEntry(b"d", DIRECTORY, False, 0, inner), leaf(b"z", b"nor this")])
    writer = TreeWriter(home)
    writer.content(digest(TEXT), TEXT)
    writer.nodes(inner_nodes | nodes)
    writer.flush()
    assert sorted(lost(home, root)) == sorted([address_of(b"not stored"), address_of(b"nor this")])


def test_a_record_of_a_tree_whose_packs_went_meanwhile_is_refused(home):
    with home.store.group() as group:
        group.add(TEXT)
        group.commit()
    writer = TreeWriter(home)
    home.store.rewrite(home.store.pack_ids()).commit()
    root, nodes = build([leaf(b"a", TEXT)])
    writer.nodes(nodes)
    with pytest.raises(SnapshotError, match="removed from the store"):
        writer.finish(record(root))
    assert home.snapshots.all(None) == []
