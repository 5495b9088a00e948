"""Differences of two trees: as a comparison of every path says, and read only where the trees differ."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.errors import PackDamaged
from memoryd.store.merkle import DIRECTORY, FILE, SYMLINK, TreeEntry, build, parse_node
from memoryd.store.treediff import differences, entries, listing

Tree = Mapping[bytes, object]
"""A directory: each name holds a Tree, or (kind, exec, content)."""

names = st.sampled_from([b"a", b"b", b"c", b"d", b"caf\xe9", b"a-b", b"a.b", b"\xff"])
leaves = st.tuples(st.sampled_from([FILE, SYMLINK]), st.booleans(), st.sampled_from([b"", b"x", b"yy", b"zzz"]))
trees = st.recursive(
    st.dictionaries(names, leaves, max_size=4), lambda below: st.dictionaries(names, leaves | below, max_size=5)
)


class Nodes(dict[bytes, bytes]):
    """Nodes by address, counting what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[bytes] = []

    def node(self, address: bytes) -> bytes:
        self.read.append(address)
        return self[address]

    def add(self, tree: Tree) -> bytes:
        found = []
        for name, what in tree.items():
            if isinstance(what, dict):
                found.append(TreeEntry(name, DIRECTORY, False, 0, self.add(what)))
            else:
                found.append(leaf(name, *what))
        return self.build(found)

    def build(self, found: list[TreeEntry]) -> bytes:
        root, nodes = build(found)
        self.update(nodes)
        return root


def leaf(name: bytes, kind: int = FILE, executable: bool = False, content: bytes = b"") -> TreeEntry:
    return TreeEntry(name, kind, executable, len(content), hashlib.sha256(content).digest())


def flattened(tree: Tree, prefix: bytes = b"") -> dict[bytes, object]:
    """Every path with what stands there; a directory is None."""
    found: dict[bytes, object] = {}
    for name, what in tree.items():
        found[prefix + name] = None if isinstance(what, dict) else what
        if isinstance(what, dict):
            found |= flattened(what, prefix + name + b"/")
    return found


def spread(nodes: Nodes, before: bytes, after: bytes) -> set[bytes]:
    """Every path that differs, directories of one side unfolded."""
    found = set()
    for path, old, new in differences(nodes.node, before, after):
        found.add(path)
        for entry in (old, new):
            if entry is not None and entry.kind == DIRECTORY:
                found |= {inner for inner, _entry in listing(nodes.node, entry.address, path + b"/")}
    return found


@given(trees, trees)
@settings(max_examples=200, deadline=None)
def test_differences_are_those_of_a_plain_comparison(one, other):
    nodes = Nodes()
    before, after = nodes.add(one), nodes.add(other)
    old, new = flattened(one), flattened(other)
    assert spread(nodes, before, after) == {path for path in old | new if old.get(path, 0) != new.get(path, 0)}


@given(trees)
@settings(max_examples=50, deadline=None)
def test_a_listing_names_everything_once_and_equal_trees_are_not_read(tree):
    nodes = Nodes()
    root = nodes.add(tree)
    assert list(differences(nodes.node, root, root)) == []
    assert nodes.read == []
    found = [path for path, _entry in listing(nodes.node, root)]
    assert (sorted(found), len(found)) == (sorted(flattened(tree)), len(set(found)))


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_large_directories_of_any_split_differ_as_a_plain_comparison_says(data):
    """Names and contents are changed in runs, so that nodes appear, vanish and end elsewhere, and levels differ."""
    source = random.Random(data.draw(st.integers(0, 1 << 32)))
    amount = data.draw(st.sampled_from([3, 300, 3000]))
    one = {b"%06d" % source.randrange(1 << 18): b"x" for _ in range(amount)}
    other = dict(one)
    for _ in range(data.draw(st.integers(0, 4))):
        start, length = source.randrange(1 << 18), source.choice([1, 40, 1 << 12, 1 << 17])
        for number in range(start, start + length, source.choice([1, 7, 500])):
            name = b"%06d" % number
            change = source.randrange(3)
            if change == 0:
                other.pop(name, None)
            elif change == 1 or name in other:
                other[name] = b"changed"
    nodes = Nodes()
    roots = [nodes.build([leaf(name, content=content) for name, content in side.items()]) for side in (one, other)]
    found = [path for path, _old, _new in differences(nodes.node, *roots)]
    assert found == sorted(name for name in one | other if one.get(name) != other.get(name))
    back = [(path, new, old) for path, old, new in differences(nodes.node, *reversed(roots))]
    assert back == list(differences(nodes.node, *roots))


def test_one_change_in_a_flat_directory_reads_one_path_of_nodes_a_side():
    nodes = Nodes()
    found = [leaf(b"file-%06d" % number) for number in range(100_000)]
    before = nodes.build(found)
    found[77_777] = leaf(b"file-077777", content=b"changed")
    after = nodes.build(found)
    nodes.read.clear()
    assert [one.path for one in differences(nodes.node, before, after)] == [b"file-077777"]
    assert len(nodes.read) == 2 * (parse_node(nodes[before]).level + 1)
    assert sum(len(nodes[address]) for address in nodes.read) <= 200_000


@pytest.mark.parametrize("where", [0, 50_000, 99_999])
def test_an_inserted_name_costs_hardly_more(where):
    nodes = Nodes()
    found = [leaf(b"file-%06d" % number) for number in range(100_000)]
    before = nodes.build(found)
    added = leaf(b"file-%06d-more" % where, content=b"new")
    after = nodes.build([*found, added])
    nodes.read.clear()
    assert list(differences(nodes.node, before, after)) == [(added.name, None, added)]
    assert len(nodes.read) <= 4 * (parse_node(nodes[before]).level + 1)


def test_only_directories_on_the_way_to_a_change_are_read():
    nodes = Nodes()
    tree = {b"%d" % n: {b"%d" % m: {b"x": (FILE, False, b"%d" % (n * m))} for m in range(10)} for n in range(10)}
    before = nodes.add(tree)
    tree[b"3"][b"4"][b"x"] = (FILE, True, b"12")
    after = nodes.add(tree)
    nodes.read.clear()
    (found,) = differences(nodes.node, before, after)
    assert (found.path, found.before.exec, found.after.exec) == (b"3/4/x", False, True)
    assert len(nodes.read) == 6


def test_a_directory_of_one_side_is_named_once():
    nodes = Nodes()
    before = nodes.add({b"a": (FILE, False, b"x")})
    after = nodes.add({b"a": {b"b": {b"c": (FILE, False, b"x")}}})
    (found,) = differences(nodes.node, before, after)
    assert (found.path, found.before.kind, found.after.kind) == (b"a", FILE, DIRECTORY)
    (found,) = differences(nodes.node, nodes.add({}), after)
    assert (found.path, found.before) == (b"a", None)


def test_a_node_of_another_level_than_said_is_refused():
    nodes = Nodes()
    before = nodes.build([leaf(b"%06d" % number) for number in range(5000)])
    after = nodes.build([leaf(b"%06d" % number, content=b"x") for number in range(5000)])
    inner = parse_node(nodes[before])
    assert inner.level == 1
    wrong = nodes[after]  # an inner node where a leaf belongs
    nodes[inner.branches[2].address] = wrong
    with pytest.raises(PackDamaged):
        list(differences(nodes.node, before, after))
    with pytest.raises(PackDamaged):
        list(entries(nodes.node, before))


def test_a_listing_of_a_deep_tree_does_not_run_out_of_stack():
    nodes = Nodes()
    root = nodes.build([leaf(b"end")])
    for _ in range(3000):
        root = nodes.build([TreeEntry(b"d", DIRECTORY, False, 0, root)])
    assert [path for path, _entry in listing(nodes.node, root)][-1] == b"d/" * 3000 + b"end"
