"""Snapshots and artifacts from a shell: with a daemon and without, the same answers."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "work"
    (top / "src").mkdir(parents=True)
    (top / "src" / "a.txt").write_text("first\n" * 300)
    (top / "run").write_text("#!/bin/sh\n")
    (top / "run").chmod(0o755)
    Path(os.fsdecode(os.fsencode(top) + b"/n\xe9")).write_text("latin")
    return top


def change(tree: Path) -> None:
    (tree / "src" / "a.txt").write_text("second\n")
    (tree / "src").rename(tree / "lib")
    (tree / "run").rename(tree / "start")


@pytest.mark.parametrize("daemon", [True, False], ids=["with a daemon", "without"])
def test_keep_change_compare_restore(shell, tree, tmp_path, daemon):
    if daemon:
        shell.said("start")
    first = shell.json("snapshot", tree, "--label", "w")
    assert (first["outcome"], first["files"], first["scope"]) == ("added", 3, "global")
    change(tree)
    said = shell.said("snapshot", tree, "--label", "w", "--full")
    assert said.startswith("added: ") and "3 files" in said
    listed = shell.json("snapshots")["snapshots"]
    assert [one["label"] for one in listed] == ["w", "w"]
    assert "left_out" in shell.said("snapshots", "--label", "w")
    told = shell.json("diff", "w@1")
    assert told["counts"] == {"added": 2, "removed": 2, "modified": 0, "renamed": 1}
    lines = shell.said("diff", "w@1", "w@2").splitlines()
    assert "R run -> start" in lines
    assert {"A lib/", "A lib/a.txt", "D src/", "D src/a.txt"} < set(lines)
    assert shell.run("diff", "w@1", "--exit-code").code == 1
    assert shell.run("diff", "w", "w@2", "--exit-code").code == 0
    assert shell.said("get", f"snapshot:{first['seq']}/src/a.txt") == "first\n" * 300
    assert shell.json("diff", "w@1", "--path", "src")["counts"]["removed"] == 2
    back = tmp_path / "back"
    assert shell.json("restore", str(first["seq"]), back)["ok"]
    assert (back / "src" / "a.txt").read_text() == "first\n" * 300
    assert os.access(back / "run", os.X_OK)
    assert os.fsencode("n\udce9") in os.listdir(os.fsencode(back))
    assert "Restored 1 files" in shell.said("restore", "w@1", tmp_path / "part", "--path", "src")
    assert (tmp_path / "part" / "a.txt").exists()
    assert shell.error("restore", "w", back)["code"] == "restore-refused"
    assert shell.error("restore", "nothing", tmp_path / "x")["code"] == "not-found"
    assert shell.error("diff", "nothing")["code"] == "not-found"


def test_directories_that_are_no_utf8_go_the_same_way(shell, tmp_path):
    shell.said("start")
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/o\xffdd"))
    odd.mkdir()
    (odd / "f").write_text("x")
    assert shell.json("snapshot", odd, "--label", "l")["source"].endswith("o\\xffdd")
    assert shell.json("restore", "l", Path(f"{odd}-back"))["files"] == 1
    assert (Path(f"{odd}-back") / "f").read_text() == "x"
    assert json.loads(shell.run("job", "list", "--json").out)["jobs"]


@pytest.mark.parametrize("daemon", [True, False], ids=["with a daemon", "without"])
def test_add_takes_files_standard_input_and_directories(shell, tree, daemon):
    if daemon:
        shell.said("start")
    (shell.directory / "build.log").write_text("the flux capacitor overheated\n")
    added = shell.json("add", "build.log", "--scope", "global", "--tag", "ci")
    assert (added["outcome"], added["source"]) == ("added", "artifact/global/build.log")
    assert shell.json("add", "build.log", "--scope", "global", "--tag", "ci")["outcome"] == "exists"
    piped = shell.json("add", "-", "--name", "piped/out.bin", "--scope", "global", stdin=bytes(range(256)) * 5000)
    assert (piped["size"], piped["findable"]) == (256 * 5000, False)
    assert "found by search" in shell.said("add", "-", "--name", "t", "--scope", "global", stdin=b"some words\n")
    kept = shell.json("add", tree, "--label", "w")
    assert (kept["label"], kept["files"]) == ("w", 3)
    assert shell.error("add", "build.log")["code"] == "scope-required"
    assert shell.error("add", "missing.log", "--scope", "global")["code"] == "not-found"
    for wrong in (["-"], [tree, "--name", "x"], ["build.log", "--label", "x"]):
        assert shell.run("add", *wrong).code == 2
    assert sources_of(shell, "flux capacitor") == ["artifact/global/build.log"]


def sources_of(shell, query: str) -> list[str]:
    """What a search finds once the index has followed."""
    for _ in range(100):
        found = shell.json("search", query, "--mode", "keyword", "--scope", "global")
        if not found["index"]["pending"]:
            break
        time.sleep(0.1)
    return [one["source"] for one in found["memories"]]


def test_a_restore_that_lacks_something_says_so_in_its_exit_code(shell, tree, tmp_path):
    taken = shell.json("snapshot", tree, "--label", "w")
    for pack in (shell.home / "store" / "packs").rglob("*.pack"):
        data = bytearray(pack.read_bytes())
        at = data.find(b"latin")
        if at >= 0:
            data[at] ^= 1
            pack.write_bytes(data)
    answer = shell.json("restore", "w", tmp_path / "back", code=1)
    assert not answer["ok"]
    assert answer["damaged_count"] >= 1
    assert answer["files"] + answer["damaged_count"] == taken["files"]
    assert "left out" in shell.run("restore", "w", tmp_path / "again").out
