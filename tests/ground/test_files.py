"""Does a write survive, and can every step of it be made to fail?"""

from __future__ import annotations

import os

import pytest

from memoryd.files import Files


class Broken(Exception):
    pass


def breaking_at(point: str, seen: list[str]):
    def fault(name: str) -> None:
        seen.append(name)
        if name == point:
            raise Broken(name)

    return fault


def test_replace_announces_every_step_in_durable_order(tmp_path):
    seen: list[str] = []
    Files(seen.append).replace(tmp_path / "f", b"new", owner="x")
    assert seen == ["x.create", "x.write", "x.fsync", "x.rename", "x.fsync_dir"]
    assert (tmp_path / "f").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize("point", ["x.create", "x.write", "x.fsync", "x.rename"])
def test_a_failure_before_the_rename_leaves_the_old_bytes(tmp_path, point):
    (tmp_path / "f").write_bytes(b"old")
    with pytest.raises(Broken):
        Files(breaking_at(point, [])).replace(tmp_path / "f", b"new", owner="x")
    assert (tmp_path / "f").read_bytes() == b"old"
    Files().replace(tmp_path / "f", b"newer", owner="x")
    assert (tmp_path / "f").read_bytes() == b"newer", "a torn temporary file does not block the next write"


def test_write_new_never_overwrites(tmp_path):
    (tmp_path / "f").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        Files().write_new(tmp_path / "f", b"new", owner="x")
    assert (tmp_path / "f").read_bytes() == b"old"


def test_pieces_are_written_in_order_and_private(tmp_path):
    Files().write_new(tmp_path / "f", [b"a", b"", b"bc"], owner="x")
    assert (tmp_path / "f").read_bytes() == b"abc"
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600


def test_mkdir_makes_parents_and_is_idempotent(tmp_path):
    seen: list[str] = []
    files = Files(seen.append)
    files.mkdir(tmp_path / "a" / "b", owner="x")
    files.mkdir(tmp_path / "a" / "b", owner="x")
    assert (tmp_path / "a" / "b").is_dir()
    assert seen == ["x.mkdir", "x.fsync_dir"] * 2


def test_unlink_of_a_missing_file_is_fine(tmp_path):
    Files().unlink(tmp_path / "none", owner="x")
