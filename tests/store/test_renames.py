"""What moved: nothing is lost or doubled by joining, the largest thing that moved whole is named."""

from __future__ import annotations

import random

from hypothesis import given, settings

from memoryd.errors import NotFound
from memoryd.store.merkle import DIRECTORY, FILE, SYMLINK, TreeEntry
from memoryd.store.renames import COUNTED_MOST, SIMILAR_MOST, TreeDiff, compare
from memoryd.store.treediff import listing
from tests.store.test_treediff import Nodes, flattened, leaf, trees


def unfolded(nodes: Nodes, path: bytes, entry: TreeEntry) -> set[bytes]:
    if entry.kind != DIRECTORY:
        return {path}
    return {path} | {inner for inner, _entry in listing(nodes.node, entry.address, path + b"/")}


@given(trees, trees)
@settings(max_examples=300, deadline=None)
def test_with_moves_unfolded_the_diff_is_a_plain_comparison(one, other):
    nodes = Nodes()
    diff = compare(nodes.node, nodes.add(one), nodes.add(other), lambda _address: ())
    old, new = flattened(one), flattened(other)
    added, removed = [path for path, _e in diff.added], [path for path, _e in diff.removed]
    for moved in diff.renamed:
        assert (moved.before.kind, moved.before.address) == (moved.after.kind, moved.after.address)
        added += unfolded(nodes, moved.path, moved.after)
        removed += unfolded(nodes, moved.old_path, moved.before)
    assert sorted(added) == sorted(new.keys() - old.keys())
    assert sorted(removed) == sorted(old.keys() - new.keys())
    assert [one.path for one in diff.modified] == sorted(p for p in old.keys() & new.keys() if old[p] != new[p])
    for listed in (diff.added, diff.removed, diff.modified, diff.renamed):
        assert [found[0] for found in listed] == sorted(found[0] for found in listed)


def moves(diff: TreeDiff) -> list[tuple[bytes, bytes, int]]:
    return [(one.old_path, one.path, one.entries) for one in diff.renamed]


def test_a_directory_that_moved_whole_is_one_move_with_its_count():
    nodes = Nodes()
    inner = {b"src": {b"a": (FILE, False, b"1"), b"b": (FILE, False, b"2")}, b"c": (FILE, False, b"3")}
    before = nodes.add({b"old": inner, b"stays": (FILE, False, b"s")})
    after = nodes.add({b"new": {b"deep": inner}, b"stays": (FILE, False, b"s")})
    diff = compare(nodes.node, before, after)
    assert moves(diff) == [(b"old", b"new/deep", 4)]
    assert [path for path, _entry in diff.added] == [b"new"]
    assert (diff.removed, diff.modified) == ([], [])


def test_a_huge_directory_that_moved_is_not_read_whole():
    nodes = Nodes()
    inner = {b"%d" % n: {b"%d" % m: (FILE, False, b"%d %d" % (n, m)) for m in range(100)} for n in range(200)}
    before, after = nodes.add({b"old": inner}), nodes.add({b"new": inner})
    nodes.read.clear()
    assert moves(compare(nodes.node, before, after)) == [(b"old", b"new", COUNTED_MOST)]
    assert len(nodes.read) < 110


def test_of_several_equal_directories_the_one_of_the_same_name_moved():
    nodes = Nodes()
    part = {b"x": (FILE, False, b"1")}
    before = nodes.add({b"a": part, b"b": part, b"c": {}})
    after = nodes.add({b"c": {b"b": part, b"z": part}})
    assert moves(compare(nodes.node, before, after)) == [(b"b", b"c/b", 1), (b"a", b"c/z", 1)]


def test_a_part_of_a_removed_directory_that_moved_is_found():
    nodes = Nodes()
    part = {b"a": (FILE, False, b"1"), b"b": (FILE, False, b"2")}
    before = nodes.add({b"old": {b"part": part, b"x": (FILE, False, b"x")}})
    diff = compare(nodes.node, before, nodes.add({b"elsewhere": part}))
    assert moves(diff) == [(b"old/part", b"elsewhere", 2)]
    assert [path for path, _entry in diff.removed] == [b"old", b"old/x"]


def test_of_several_equals_the_one_of_the_same_name_moved():
    nodes = Nodes()
    before = nodes.add(
        {b"a": {b"x": (FILE, False, b"1")}, b"b": {b"y": (FILE, False, b"1"), b"keep": (FILE, True, b"k")}}
    )
    after = nodes.add({b"c": {b"y": (FILE, False, b"1")}, b"b": {b"keep": (FILE, True, b"k")}, b"a": {}})
    assert moves(compare(nodes.node, before, after)) == [(b"b/y", b"c/y", 0)]


def test_links_move_and_the_exec_bit_of_a_moved_file_is_told():
    nodes = Nodes()
    before = nodes.add({b"l": (SYMLINK, False, b"target"), b"f": (FILE, False, b"run")})
    diff = compare(nodes.node, before, nodes.add({b"m": (SYMLINK, False, b"target"), b"g": (FILE, True, b"run")}))
    assert moves(diff) == [(b"f", b"g", 0), (b"l", b"m", 0)]
    assert [(one.before.exec, one.after.exec) for one in diff.renamed] == [(False, True), (False, False)]


def test_empty_files_and_directories_do_not_move():
    nodes = Nodes()
    before = nodes.add({b"a": (FILE, False, b""), b"d": {}})
    diff = compare(nodes.node, before, nodes.add({b"b": (FILE, False, b""), b"e": {}}))
    assert (diff.renamed, [p for p, _e in diff.added], [p for p, _e in diff.removed]) == (
        [],
        [b"b", b"e"],
        [b"a", b"d"],
    )


def chunked(**files: list[str]) -> tuple[list[TreeEntry], dict[bytes, list[tuple[bytes, int]]]]:
    """Files as lists of chunks of 1000 bytes each."""
    found, manifests = [], {}
    for name, parts in files.items():
        entry = leaf(name.encode(), content="".join(part.ljust(1000, "_") for part in parts).encode())
        manifests[entry.address] = [(part.encode(), 1000) for part in parts]
        found.append(entry)
    return found, manifests


def test_a_file_that_changed_while_it_moved_is_found_by_its_chunks():
    nodes = Nodes()
    old, manifests = chunked(one=["a", "b", "c", "d"], two=["p", "q", "r"], other=["z"])
    new, more = chunked(uno=["a", "b", "c", "X"], dos=["p", "Y", "Z"], fresh=["n"])
    diff = compare(nodes.node, nodes.build(old), nodes.build(new), (manifests | more).__getitem__)
    assert [(one.old_path, one.path, one.shared) for one in diff.renamed] == [(b"one", b"uno", 0.75)]
    assert [path for path, _entry in diff.added] == [b"dos", b"fresh"]
    assert not diff.capped


def test_the_best_pairs_are_joined_first_and_each_file_once():
    nodes = Nodes()
    old, manifests = chunked(base=["a", "b", "c", "d"], copy=["a", "b", "c", "e"])
    new, more = chunked(next=["a", "b", "c", "e", "f"])
    diff = compare(nodes.node, nodes.build(old), nodes.build(new), (manifests | more).__getitem__)
    assert [(one.old_path, one.path) for one in diff.renamed] == [(b"copy", b"next")]
    assert [path for path, _entry in diff.removed] == [b"base"]


def test_a_content_whose_manifest_cannot_be_read_costs_nothing_but_its_own_join():
    nodes = Nodes()

    def gone(_address: bytes) -> list[tuple[bytes, int]]:
        raise NotFound("gone")

    diff = compare(nodes.node, nodes.add({b"a": (FILE, False, b"1")}), nodes.add({b"b": (FILE, False, b"2")}), gone)
    assert (len(diff.added), len(diff.removed), diff.renamed) == (1, 1, [])


def test_more_files_than_are_compared_are_told():
    nodes = Nodes()
    source = random.Random(1)
    many = [leaf(b"%d" % number, content=source.randbytes(9)) for number in range(SIMILAR_MOST + 1)]
    diff = compare(nodes.node, nodes.build(many), nodes.build([leaf(b"x", content=b"x")]), lambda _address: ())
    assert diff.capped
