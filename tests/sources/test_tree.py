"""Reading a directory that may change under the reader: raw names, nothing followed, changes noticed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memoryd.sources import tree
from memoryd.sources.regular import open_folder


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "b").write_bytes(b"bytes")
    (tmp_path / "a").mkdir()
    os.symlink(b"to/\xff", os.fsencode(tmp_path) + b"/l\xe9")
    return tmp_path


def test_everything_is_listed_by_raw_name(top):
    with open_folder(top) as folder:
        found = tree.listed(folder)
        assert [name for name, _about in found] == [b"a", b"b", b"l\xe9"]
        assert [about.st_ino for _name, about in found] == [
            os.lstat(os.fsencode(top) + b"/" + n).st_ino for n, _a in found
        ]
        assert tree.read_link(b"l\xe9", folder) == b"to/\xff"


def test_a_file_that_keeps_still_is_read_once(top):
    with open_folder(top) as folder:
        data, about, steady = tree.read_steadily(b"b", folder)
        assert (data, about.st_size, steady) == (b"bytes", 5, True)
        with tree.open_steadily(b"b", folder) as (fd, before):
            assert tree.same_file(before, os.fstat(fd))
        with pytest.raises(OSError):
            tree.read_steadily(b"l\xe9", folder)
        with pytest.raises(OSError):
            tree.read_steadily(b"a", folder)


@pytest.mark.parametrize(("changes", "steady"), [(1, True), (tree.READ_AGAIN, False)])
def test_a_file_that_changes_meanwhile_is_read_again_and_told(top, monkeypatch, changes, steady):
    left = changes
    read = os.read

    def changing(fd: int, amount: int) -> bytes:
        nonlocal left
        data = read(fd, amount)
        if left:
            left -= 1
            with (top / "b").open("ab") as stream:
                stream.write(b"+")
        return data

    with open_folder(top) as folder, monkeypatch.context() as patched:
        patched.setattr(tree.os, "read", changing)
        data, about, kept_still = tree.read_steadily(b"b", folder)
    assert kept_still == steady
    assert (data == (top / "b").read_bytes(), about.st_size) == (steady, 5 + changes)


def test_only_files_can_be_run(top):
    (top / "b").chmod(0o744)
    assert tree.is_executable((top / "b").stat().st_mode)
    assert not tree.is_executable((top / "a").stat().st_mode)
    (top / "b").chmod(0o644)
    assert not tree.is_executable((top / "b").stat().st_mode)
