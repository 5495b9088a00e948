"""What roots lead to is found, and nothing else; where that cannot be told nobody guesses."""

from __future__ import annotations

import hashlib

import pytest

from memoryd.digest import address_of
from memoryd.errors import ReachUnknown
from memoryd.store.condemned import CHUNK, MANIFEST, NODE, WHOLE
from memoryd.store.merkle import DIRECTORY, FILE, TreeEntry, build
from memoryd.store.reach import Live, Reach


def raw(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def nothing(_kind: int, _seq: int, _data: dict) -> None:
    pass


def looked(store) -> Reach:
    reach = Reach(store)
    assert reach.look(nothing)
    return reach


def add_tree(store, *contents: bytes, below: bytes | None = None) -> bytes:
    entries = [TreeEntry(b"%d" % n, FILE, False, len(data), raw(data)) for n, data in enumerate(contents)]
    if below is not None:
        entries.append(TreeEntry(b"below", DIRECTORY, False, 0, below))
    root, nodes = build(entries)
    with store.group() as group:
        for data in contents:
            group.add(data)
        group.nodes(nodes)
        group.commit()
    return root


def test_contents_lead_to_their_chunks(store, put, noise):
    long, short, other = noise(60_000, 1), b"short", noise(60_000, 2)
    put(store, long, short, other)
    reach = looked(store)
    assert reach.follow([raw(long), raw(short)], []) == {raw(short)}, "no manifest tells of it"
    ends = store._chunker.cut(long)
    pieces = {raw(long[start:end]) for start, end in zip([0, *ends], ends, strict=False)}
    assert reach.live.chunks == pieces
    for key in (MANIFEST + raw(long), CHUNK + raw(short), WHOLE + raw(short), CHUNK + next(iter(pieces))):
        assert key in reach.live
    for key in (MANIFEST + raw(other), CHUNK + raw(other), WHOLE + next(iter(pieces)), NODE + raw(long)):
        assert key not in reach.live


def test_trees_lead_to_their_nodes_and_contents(store, noise):
    long = noise(60_000, 1)
    inner = add_tree(store, long, b"x")
    root = add_tree(store, b"y", below=inner)
    add_tree(store, b"elsewhere")
    reach = looked(store)
    assert reach.follow([], [root]) == {raw(b"x"), raw(b"y")}
    assert reach.live.nodes == {inner, root}
    assert reach.live.contents == {raw(long), raw(b"x"), raw(b"y")}


def test_a_large_directory_is_followed_through_its_inner_nodes(store):
    contents = [b"%d" % number for number in range(3000)]
    root = add_tree(store, *contents)
    reach = looked(store)
    reach.follow([], [root])
    assert reach.live.contents == {raw(data) for data in contents}
    assert len(reach.live.nodes) > 3


def test_a_missing_node_means_that_nobody_can_tell(store):
    root, _nodes = build([TreeEntry(b"below", DIRECTORY, False, 0, bytes(32))])
    with store.group() as group:
        group.nodes(_nodes)
        group.commit()
    with pytest.raises(ReachUnknown):
        looked(store).follow([], [root])
    live = Live()
    looked(store).follow_loosely(live, [], [root])
    assert live.nodes == {root}


def test_what_was_forgotten_may_be_named_by_a_tree(store):
    root, nodes = build([TreeEntry(b"a", FILE, False, 1, raw(b"gone"))])
    with store.group() as group:
        group.nodes(nodes)
        group.commit()
    assert looked(store).follow([], [root]) == {raw(b"gone")}
    assert looked(store).follow([], [root], forgotten=[raw(b"gone")]) == set()


def test_what_a_key_names_directly(store, noise):
    long = noise(60_000, 1)
    root = add_tree(store, long, b"x")
    reach = looked(store)
    ends = store._chunker.cut(long)
    assert len(reach.named_by(MANIFEST + raw(long))) == len(ends)
    assert {NODE + raw(long), MANIFEST + raw(long)} & reach.named_by(NODE + root) == {MANIFEST + raw(long)}
    assert reach.named_by(CHUNK + raw(b"x")) == set()
    assert reach.node_named(bytes(32)) == (set(), [])


def test_records_are_given_out_from_the_packs_themselves(store):
    for number in range(3):
        with store.group() as group:
            group.record("document", {"v": 1, "address": address_of(b"%d" % number)})
            group.commit()
    seen: list[int] = []
    Reach(store).look(lambda _kind, seq, _data: seen.append(seq))
    assert sorted(seen) == [1, 2, 3]


def test_an_index_that_lies_is_not_believed(store, put):
    put(store, b"one")
    put(store, b"two")
    first, second = store.pack_ids()
    index = store._keeper.index
    with index._transaction() as connection:
        connection.execute("INSERT INTO replaced VALUES(?, (SELECT id FROM packs WHERE uuid = ?))", (first, second))
    with pytest.raises(ReachUnknown, match="replaced"):
        Reach(store).look(nothing)


def test_a_pack_that_is_missing_or_unreadable_stops_everything(store, put):
    put(store, b"one")
    (pack,) = store.pack_ids()
    path = store._shelf.path(pack)
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    with pytest.raises(ReachUnknown):
        Reach(store).look(nothing)
    path.unlink()
    with pytest.raises(ReachUnknown):
        Reach(store).look(nothing)
