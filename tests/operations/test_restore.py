"""Restore: complete or not at all, verified, never outside its target and never over anything."""

from __future__ import annotations

import hashlib
import os
import random
from pathlib import Path

import pytest

from memoryd.errors import ContentDamaged, DiskFull, InvalidInput, NotFound, RestoreRefused
from memoryd.files import Files
from memoryd.operations.home import Caller
from memoryd.operations.restore import restore
from memoryd.operations.snapshots import take
from memoryd.operations.treewriter import TreeWriter
from memoryd.records import SnapshotRecord
from memoryd.store import merkle
from memoryd.store.merkle import DIRECTORY, FILE, SYMLINK, TreeEntry, build
from memoryd.store.pack import FRAME_SIZE
from tests.operations.conftest import opened
from tests.operations.test_snapshots import Killed, Killer, state

LARGE = random.Random(7).randbytes(5 << 20)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "tree"
    (top / "docs").mkdir(parents=True)
    (top / "docs" / "a.txt").write_text("words\n")
    (top / "docs" / "tool").write_text("#!/bin/sh\n")
    (top / "docs" / "tool").chmod(0o755)
    (top / "docs" / "link").symlink_to("a.txt")
    (top / "large").write_bytes(LARGE)
    return top


@pytest.fixture
def kept(home, nobody, tree):
    take(home, nobody, path=str(tree), label="l")
    return home


def beside(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in tmp_path.iterdir() if path.name not in ("home", "tree"))


def test_an_empty_directory_may_be_the_target(kept, nobody, tree, tmp_path):
    (tmp_path / "back").mkdir()
    restore(kept, nobody, snapshot="l", target=str(tmp_path / "back"))
    assert state(tmp_path / "back") == state(tree)
    assert beside(tmp_path) == ["back"]


def test_a_target_relative_to_the_caller(kept, tree, tmp_path):
    report = restore(kept, Caller(directory=str(tmp_path)), snapshot="l", target="back")
    assert report["target"] == str(tmp_path / "back")


def test_parts_of_a_snapshot(kept, nobody, tree, tmp_path):
    assert restore(kept, nobody, snapshot="l", target=str(tmp_path / "d"), path="docs/")["files"] == 2
    assert state(tmp_path / "d") == state(tree / "docs")
    restore(kept, nobody, snapshot="l", target=str(tmp_path / "t"), path="docs/tool")
    assert os.access(tmp_path / "t", os.X_OK)
    restore(kept, nobody, snapshot="l", target=str(tmp_path / "k"), path="docs/link")
    assert (tmp_path / "k").readlink() == Path("a.txt")
    restore(kept, nobody, snapshot="l", target=str(tmp_path / "big"), path="large")
    assert (tmp_path / "big").read_bytes() == LARGE
    assert beside(tmp_path) == ["big", "d", "k", "t"]
    for wrong in ("nothing", "docs/nothing", "large/x"):
        with pytest.raises(NotFound):
            restore(kept, nobody, snapshot="l", target=str(tmp_path / "x"), path=wrong)


def test_nothing_is_ever_written_over(kept, nobody, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    (tmp_path / "way").symlink_to(tmp_path / "empty")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    before = state(tmp_path)
    for name in ("full", "file", "way", "nowhere", "missing/below", "."):
        with pytest.raises(RestoreRefused):
            restore(kept, nobody, snapshot="l", target=str(tmp_path / name))
    for name in ("file", "empty"):
        with pytest.raises(RestoreRefused):
            restore(kept, nobody, snapshot="l", target=str(tmp_path / name), path="docs/a.txt")
    for own in (kept.root / "back", kept.vault.path / "back"):
        with pytest.raises(RestoreRefused, match="memoryd itself"):
            restore(kept, nobody, snapshot="l", target=str(own))
    for nothing in ("", "a\0b"):
        with pytest.raises(InvalidInput):
            restore(kept, nobody, snapshot="l", target=nothing)
    assert {path: what for path, what in state(tmp_path).items() if not path.startswith(b"home")} == {
        path: what for path, what in before.items() if not path.startswith(b"home")
    }


def test_a_name_that_appears_meanwhile_is_not_written_over(kept, nobody, tmp_path, monkeypatch):
    def appears(point: str) -> None:
        if point == "restore.rename":
            (tmp_path / "back").write_text("mine")

    monkeypatch.setattr(kept.files, "fault", appears)
    for part in (None, "docs/a.txt"):
        (tmp_path / "back").unlink(missing_ok=True)
        with pytest.raises(RestoreRefused):
            restore(kept, nobody, snapshot="l", target=str(tmp_path / "back"), path=part)
        assert (tmp_path / "back").read_text() == "mine"
        assert beside(tmp_path) == ["back"]


def test_a_tree_cannot_lead_outside(home, nobody, tmp_path, monkeypatch):
    """A link and a directory of one name, and names that climb: such nodes are no sound ones."""
    monkeypatch.setattr(merkle, "_check_name", lambda _name: None)
    outside = tmp_path / "outside"
    outside.mkdir()
    target = os.fsencode(outside)
    file = TreeEntry(b"../escaped", FILE, False, 1, hashlib.sha256(b"x").digest())
    inner, nodes = build([file])
    link = TreeEntry(b"d", SYMLINK, False, len(target), hashlib.sha256(target).digest())
    root, more = build([link, TreeEntry(b"e", DIRECTORY, False, 0, inner)])
    writer = TreeWriter(home)
    writer.content(hashlib.sha256(b"x").digest(), b"x")
    writer.content(hashlib.sha256(target).digest(), target)
    writer.nodes(nodes | more)
    writer.finish(SnapshotRecord("evil", "/", "global", root.hex(), "2026-01-01T00:00:00Z"))
    monkeypatch.undo()
    report = restore(home, nobody, snapshot="evil", target=str(tmp_path / "back"))
    assert (report["ok"], report["damaged_count"]) == (False, 1)
    assert beside(tmp_path) == ["back", "outside"]
    assert list(outside.iterdir()) == []


def damage(home, data: bytes) -> None:
    """One bit of a stored content."""
    digest = hashlib.sha256(data).digest()
    for place in home.store.chunk_places([digest])[digest]:
        path = home.store._shelf.path(place.pack)
        with home.store._shelf.open(place.pack) as pack:
            payload = place.frame_off + FRAME_SIZE + pack.header(place.frame_off).table_len
        raw = bytearray(path.read_bytes())
        raw[payload + 12] ^= 1
        path.chmod(0o600)
        path.write_bytes(raw)
    home.store._shelf._cached.clear()


def test_damaged_contents_are_left_out_and_named(kept, nobody, tree, tmp_path):
    damage(kept, b"words\n")
    report = restore(kept, nobody, snapshot="l", target=str(tmp_path / "back"))
    assert not report["ok"]
    named = {one["path"] for one in report["damaged"]}
    assert "docs/a.txt" in named
    whole = state(tree)
    assert state(tmp_path / "back") == {path: what for path, what in whole.items() if path.decode() not in named}
    with pytest.raises(ContentDamaged):
        restore(kept, nobody, snapshot="l", target=str(tmp_path / "one"), path="docs/a.txt")
    assert beside(tmp_path) == ["back"]


def test_a_stopped_restore_leaves_nothing(kept, nobody, tmp_path):
    assert restore(kept, nobody, snapshot="l", target=str(tmp_path / "back"), stop=lambda: True)["stopped"]
    assert beside(tmp_path) == []


def test_a_full_disk_leaves_nothing(kept, nobody, tmp_path, monkeypatch):
    def full(point: str) -> None:
        if point == "restore.write":
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept.files, "fault", full)
    with pytest.raises(DiskFull):
        restore(kept, nobody, snapshot="l", target=str(tmp_path / "back"))
    assert beside(tmp_path) == []


def test_ended_at_any_step_the_target_is_whole_or_not_there(root, nobody, tree, tmp_path):
    with opened(root, files=Files(killer := Killer())) as home:
        take(home, nobody, path=str(tree), label="l")
        before = killer.points
        restore(home, nobody, snapshot="l", target=str(tmp_path / "count"))
        steps = killer.points - before
        assert steps >= 10
        for step in range(1, steps + 1):
            killer.at = killer.points + step
            place = tmp_path / f"back{step}"
            with pytest.raises(Killed):
                restore(home, nobody, snapshot="l", target=str(place))
            assert not place.exists() or state(place) == state(tree)


def test_what_a_killed_restore_left_is_named_and_not_touched(kept, nobody, tmp_path):
    (tmp_path / ".back.restoring").mkdir()
    (tmp_path / ".back.restoring" / "x").touch()
    with pytest.raises(RestoreRefused, match="was interrupted"):
        restore(kept, nobody, snapshot="l", target=str(tmp_path / "back"))
    assert (tmp_path / ".back.restoring" / "x").exists()
