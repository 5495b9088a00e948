"""The difference of two snapshots as a person or a program reads it."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from memoryd.errors import InvalidInput, NotFound
from memoryd.operations.changes import diff
from memoryd.operations.kept import entry_at, find
from memoryd.operations.snapshots import take
from memoryd.store.merkle import DIRECTORY, FILE

TEXT = random.Random(9)
LONG = b"\n".join(b"line %d of a long text" % TEXT.getrandbits(40) for _ in range(5000))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "tree"
    (top / "pkg" / "inner").mkdir(parents=True)
    (top / "pkg" / "inner" / "one").write_text("1")
    (top / "pkg" / "two").write_text("2")
    (top / "long.txt").write_bytes(LONG)
    (top / "tool").write_text("run")
    (top / "becomes").write_text("a file")
    return top


def paths(listed):
    return [one["path"] for one in listed]


@pytest.fixture
def changed(home, nobody, tree):
    """Two snapshots, and everything that can happen to a name between them."""
    take(home, nobody, path=str(tree), label="l")
    (tree / "pkg").rename(tree / "lib")
    (tree / "long.txt").unlink()
    (tree / "longer.txt").write_bytes(b"a new first line\n" + LONG)
    (tree / "tool").chmod(0o755)
    (tree / "becomes").unlink()
    (tree / "becomes").mkdir()
    (tree / "becomes" / "new").write_text("new")
    Path(os.fsdecode(os.fsencode(tree) + b"/odd\xff")).touch()
    take(home, nobody, path=str(tree), label="l")
    return home


def test_everything_that_changed_is_told_once(changed, nobody):
    told = diff(changed, nobody, since="l@1")
    assert told["counts"] == {"added": 2, "removed": 0, "modified": 2, "renamed": 2}
    assert (told["same"], told["cut"], told["similarity_capped"]) == (False, False, False)
    assert paths(told["added"]) == ["becomes/new", "odd\\xff"]
    kind, tool = told["modified"]
    assert (kind["path"], kind["old_kind"], kind["kind"]) == ("becomes", "file", "directory")
    assert (tool["path"], tool["old_kind"], tool["kind"]) == ("tool", "file", "executable")
    assert "old_address" not in tool, "its content is the same"
    whole, similar = told["renamed"]
    assert (whole["old_path"], whole["path"], whole["entries"], whole["shared"]) == ("pkg", "lib", 3, 1.0)
    assert (similar["old_path"], similar["path"]) == ("long.txt", "longer.txt")
    assert 0.9 < similar["shared"] < 1
    assert similar["old_size"] == len(LONG)
    assert changed.store.read(similar["old_address"]) == LONG


def test_the_other_way_round_is_the_mirror(changed, nobody):
    there, back = diff(changed, nobody, since="l@1", until="l@2"), diff(changed, nobody, since="l@2", until="l@1")
    assert paths(there["added"]) == paths(back["removed"])
    assert {(one["old_path"], one["path"]) for one in there["renamed"]} == {
        (one["path"], one["old_path"]) for one in back["renamed"]
    }


def test_a_snapshot_is_the_same_as_itself(changed, nobody):
    assert diff(changed, nobody, since="l")["same"]


def test_a_part_of_the_tree(changed, nobody):
    told = diff(changed, nobody, since="l@1", path_prefix="lib/")
    assert (told["counts"]["added"], told["counts"]["modified"]) == (4, 0)
    told = diff(changed, nobody, since="l@1", path_prefix="becomes")
    assert (paths(told["modified"]), paths(told["added"])) == (["becomes"], ["becomes/new"])
    assert diff(changed, nobody, since="l@2", until="l@2", path_prefix="lib/inner")["same"]
    with pytest.raises(NotFound):
        diff(changed, nobody, since="l@1", path_prefix="nowhere")


def test_a_part_below_directories_that_both_have(home, nobody, tree):
    take(home, nobody, path=str(tree), label="l")
    (tree / "pkg" / "two").write_text("changed")
    (tree / "tool").write_text("changed too")
    take(home, nobody, path=str(tree), label="l", full=True)
    assert paths(diff(home, nobody, since="l@1", path_prefix="pkg")["modified"]) == ["pkg/two"]


def test_long_lists_are_cut_and_counts_are_whole(changed, nobody):
    told = diff(changed, nobody, since="l@1", limit=1)
    assert (len(told["added"]), told["counts"]["added"], told["cut"]) == (1, 2, True)


def test_a_path_below_a_root(changed):
    root = bytes.fromhex(find(changed, "l@1", None).root)
    node = changed.store.node
    assert entry_at(node, root, [b"pkg", b"inner", b"one"]).kind == FILE
    assert entry_at(node, root, [b"pkg", b"inner"]).kind == DIRECTORY
    for nothing in ([b"pkg", b"none"], [b"tool", b"x"], [b"none", b"x"]):
        assert entry_at(node, root, nothing) is None


def test_a_root_beginning_that_means_several_is_refused(home, nobody, monkeypatch):
    found = home.snapshots.rooted
    one, other = (take(home, nobody, path=str(path), label="l") for path in two_trees(home.root.parent))
    records = [found(taken["root"], None)[0] for taken in (one, other)]
    monkeypatch.setattr(home.snapshots, "rooted", lambda _prefix, _scopes: records)
    with pytest.raises(InvalidInput, match="several"):
        find(home, "abcdef01", None)


def two_trees(place: Path):
    for name in ("x", "y"):
        (place / name).mkdir()
        (place / name / name).write_text(name)
        yield place / name
