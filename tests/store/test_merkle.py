"""Tree nodes: golden bytes, canonical form only, equal states have equal roots."""

from __future__ import annotations

import hashlib
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.errors import PackDamaged
from memoryd.store.merkle import DIRECTORY, FILE, NODE_MOST, SYMLINK, TreeEntry, build, parse_node
from tests.store import vectors

names = st.binary(min_size=1, max_size=12).filter(
    lambda name: name not in (b".", b"..") and b"/" not in name and b"\0" not in name
)


def entry(name: bytes, content: bytes = b"") -> TreeEntry:
    return TreeEntry(name, FILE, False, len(content), hashlib.sha256(content).digest())


def listed(root: bytes, nodes: dict[bytes, bytes]) -> list[TreeEntry]:
    node = parse_node(nodes[root])
    if node.level == 0:
        return list(node.entries)
    assert not node.entries
    found = []
    for branch in node.branches:
        below = listed(branch.address, nodes)
        assert (below[0].name, len(below)) == (branch.name, branch.entries)
        assert parse_node(nodes[branch.address]).level == node.level - 1
        found += below
    return found


def test_golden_tree_node(golden):
    committed = bytes.fromhex(json.loads((golden / "vectors.json").read_text())["tree"])
    assert vectors.tree() == committed
    found = parse_node(committed).entries
    assert [(e.name, e.kind, e.exec, e.size) for e in found] == [
        (b"caf\xe9.txt", FILE, False, 0),
        (b"docs", DIRECTORY, False, 0),
        (b"link", SYMLINK, False, 6),
        (b"run.sh", FILE, True, 18),
    ]


def test_golden_root_of_a_split_directory():
    """The places where a large directory is split never move."""
    root, nodes = build([entry(b"file-%05d" % n, b"%d" % n) for n in range(5000)])
    assert (root.hex(), len(nodes)) == ("82496a8f1a63a7030ec75a0d664af960e7c27dc533fbf19d30b97cd7f5b3d3b2", 21)


@given(st.sets(names, max_size=40), st.randoms())
@settings(max_examples=50, deadline=None)
def test_the_order_of_the_entries_does_not_matter(found, source):
    entries = [entry(name, name) for name in found]
    shuffled = entries[:]
    source.shuffle(shuffled)
    root, nodes = build(shuffled)
    assert build(entries) == (root, nodes)
    assert listed(root, nodes) == sorted(entries, key=lambda e: e.name)


def test_an_empty_directory_is_a_node():
    root, nodes = build([])
    assert listed(root, nodes) == []
    assert hashlib.sha256(nodes[root]).digest() == root


def test_a_large_directory_is_split_and_one_change_touches_one_node_a_level():
    entries = [entry(b"%d" % n, b"%d" % n) for n in range(20_000)]
    root, nodes = build(entries)
    assert listed(root, nodes) == sorted(entries, key=lambda e: e.name)
    assert max(len(parse_node(node).entries) for node in nodes.values()) <= NODE_MOST
    entries[777] = entry(b"777", b"changed")
    changed_root, changed = build(entries)
    assert changed_root != root
    assert len(changed.keys() - nodes.keys()) == parse_node(nodes[root]).level + 1
    added_root, added = build([*entries, entry(b"a new name")])
    assert added_root != changed_root
    assert len(added.keys() - changed.keys()) <= 2 * (parse_node(added[added_root]).level + 1)


@pytest.mark.parametrize("name", [b"", b".", b"..", b"a/b", b"a\0b"])
def test_impossible_names_are_refused(name):
    with pytest.raises(ValueError):
        build([entry(name)])


def test_one_name_twice_is_refused():
    with pytest.raises(ValueError):
        build([entry(b"a"), entry(b"a", b"other")])


def test_only_the_canonical_form_is_read():
    good = vectors.tree()
    parse_node(good)
    swapped = bytearray(good)
    swapped[8], swapped[9] = 7, 0  # an unknown kind
    flagged = bytearray(good)
    flagged[9] = 2  # an exec bit that is neither 0 nor 1
    wrong = [good[:end] for end in range(len(good))] + [good + b"x", b"\x02" + good[1:], bytes(swapped), bytes(flagged)]
    for data in wrong:
        with pytest.raises(PackDamaged):
            parse_node(data)


def test_unordered_names_are_refused():
    _root, nodes = build([entry(b"aa"), entry(b"bb")])
    data = next(iter(nodes.values()))
    with pytest.raises(PackDamaged):
        parse_node(data.replace(b"aa", b"cc"))


@given(st.binary(max_size=120))
def test_arbitrary_bytes_never_crash_the_reader(data):
    try:
        node = parse_node(data)
    except PackDamaged:
        return
    assert len(node.entries) + len(node.branches) <= NODE_MOST


def test_inner_nodes_are_refused_when_cut():
    root, nodes = build([entry(b"%d" % random.Random(n).getrandbits(60)) for n in range(3000)])
    data = nodes[root]
    assert parse_node(data).level == 1
    for end in range(len(data)):
        with pytest.raises(PackDamaged):
            parse_node(data[:end])
