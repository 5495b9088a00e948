"""The tree of a corpus is the tree of its files, whatever the order of their paths."""

from __future__ import annotations

from pathlib import Path

from memoryd.operations.corpustree import record_corpus
from memoryd.operations.ingest import Seen, store_documents
from memoryd.operations.restore import restore
from memoryd.operations.snapshots import take

PATHS = [b"a", b"a-b/x", b"a.d/y", b"b/c/d", b"b/c-/d", b"b/c/e", b"z\xff/n"]


def put(home, *paths: bytes, gone: tuple[bytes, ...] = ()) -> None:
    seen = [Seen("docs", path, "global", "document", b"of " + path, exec=path == b"a") for path in paths]
    store_documents(home, [*seen, *(Seen("docs", path, "global", "document", None) for path in gone)])


def test_a_corpus_is_kept_as_the_tree_of_its_files(home, nobody, tmp_path):
    put(home, *PATHS)
    kept = record_corpus(home, "docs", "global")
    assert kept["new"]
    assert restore(home, nobody, snapshot="docs", target=str(tmp_path / "back"))["ok"]
    assert take(home, nobody, path=str(tmp_path / "back"), label="back")["root"] == kept["root"]
    found = home.snapshots.last_of("docs")
    assert (found.files, found.size) == (7, sum(len(b"of " + path) for path in PATHS))
    assert (tmp_path / "back" / "b" / "c" / "d").read_bytes() == b"of b/c/d"
    assert (tmp_path / "back" / "a").stat().st_mode & 0o111


def test_only_another_state_is_kept(home):
    put(home, *PATHS)
    first = record_corpus(home, "docs", "global")
    again = record_corpus(home, "docs", "global")
    assert (again["seq"], again["new"]) == (first["seq"], False)
    put(home, gone=(b"a",))
    changed = record_corpus(home, "docs", "global")
    assert (changed["new"], changed["root"] != first["root"]) == (True, True)
    put(home, b"a")
    assert record_corpus(home, "docs", "global")["root"] == first["root"]
    assert len(home.snapshots.all(None)) == 3


def test_what_could_not_be_read_marks_the_snapshot(home):
    put(home, b"x")
    record_corpus(home, "docs", "global")
    assert record_corpus(home, "docs", "global", left_out=2)["new"]
    assert home.snapshots.last_of("docs").left_out == 2


def test_a_directory_in_place_of_a_file_that_was_not_seen_to_go(home, nobody, tmp_path: Path):
    put(home, b"a", b"a/b", b"a-")
    record_corpus(home, "docs", "global")
    restore(home, nobody, snapshot="docs", target=str(tmp_path / "back"))
    assert (tmp_path / "back" / "a" / "b").read_bytes() == b"of a/b"


def test_an_empty_corpus_is_an_empty_tree(home, nobody, tmp_path):
    put(home, b"x")
    put(home, gone=(b"x",))
    record_corpus(home, "docs", "global")
    assert restore(home, nobody, snapshot="docs", target=str(tmp_path / "back"))["files"] == 0
