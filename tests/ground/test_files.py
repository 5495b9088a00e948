"""Does a write survive, and can every step of it be made to fail?"""

from __future__ import annotations

import errno
import os
import random
import re
from pathlib import Path

import pytest

from memoryd import files as files_module
from memoryd.files import PREALLOCATED_FROM, Files, write_parts


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


def test_room_for_a_large_file_is_taken_first(tmp_path, monkeypatch):
    asked = []
    take = os.posix_fallocate

    def spy(fd, offset, size):
        asked.append((os.fstat(fd).st_size, offset, size))
        take(fd, offset, size)

    monkeypatch.setattr(os, "posix_fallocate", spy)
    large = bytes(range(256)) * (PREALLOCATED_FROM // 256)
    Files().write_new(tmp_path / "large", [large, b"end"], owner="t")
    Files().write_new(tmp_path / "small", b"small", owner="t")
    assert asked == [(0, 0, len(large) + 3)]
    assert (tmp_path / "large").read_bytes() == large + b"end"


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.ENOSPC])
def test_a_file_system_that_takes_no_room_beforehand_is_written_all_the_same(tmp_path, monkeypatch, code):
    """And a full one is told before the first byte."""

    def refuse(*_arguments):
        raise OSError(code, "injected")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    large = bytes(PREALLOCATED_FROM)
    if code == errno.ENOSPC:
        with pytest.raises(OSError, match="injected"):
            Files().write_new(tmp_path / "large", large, owner="t")
        assert (tmp_path / "large").stat().st_size == 0
    else:
        Files().write_new(tmp_path / "large", large, owner="t")
        assert (tmp_path / "large").read_bytes() == large


def test_a_second_name_stays_when_the_first_one_goes(tmp_path):
    (tmp_path / "f").write_bytes(b"words")
    seen: list[str] = []
    files = Files(seen.append)
    files.keep_copy(tmp_path / "f", tmp_path / "g", owner="x")
    assert seen == ["x.link", "x.fsync_dir"]
    files.unlink(tmp_path / "f", owner="x")
    assert (tmp_path / "g").read_bytes() == b"words"
    (tmp_path / "f").write_bytes(b"others")
    with pytest.raises(FileExistsError):
        files.keep_copy(tmp_path / "f", tmp_path / "g", owner="x")


def test_a_copy_where_links_cannot_be(tmp_path):
    class NoLinks(Files):
        def _link(self, source, target):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    (tmp_path / "f").write_bytes(b"words")
    NoLinks().keep_copy(tmp_path / "f", tmp_path / "g", owner="x")
    assert (tmp_path / "g").read_bytes() == b"words"


def test_leftovers_are_announced_only_where_there_are_some(tmp_path):
    seen: list[str] = []
    files = Files(seen.append)
    files.discard(tmp_path / "none", owner="x")
    files.discard_tree(tmp_path / "none", owner="x")
    assert seen == []
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "f").write_bytes(b"")
    files.discard_tree(tmp_path / "tree", owner="x")
    assert seen == ["x.discard"] and os.listdir(tmp_path) == []


BYPASS = re.compile(
    r"(?<!files)\.(unlink|rename|hardlink_to|touch|write_bytes|write_text|rmdir)\("
    r"|os\.(rename|replace|unlink|remove|link|fsync|truncate|ftruncate)\(|shutil\.(rmtree|move|copy\w*)\("
)
APART = {
    "index/embeddings.py": "a cache in SQLite",
    "index/vector.py": "the engine writes its log itself; it is synced behind `generation.vector-flush`",
    "sources/folder.py": "empty folders that an undo takes back",
}
"""What is written past the layer, and why."""


@pytest.mark.parametrize("room", ["store", "sources", "index"])
def test_nothing_of_store_vault_and_generations_is_written_past_the_layer(room):
    folder = Path(files_module.__file__).parent / room
    found = {
        f"{room}/{path.name}"
        for path in folder.glob("*.py")
        if any(BYPASS.search(line.split("#")[0]) for line in path.read_text().splitlines())
    }
    assert found == {name for name in APART if name.startswith(f"{room}/")}


def test_parts_are_written_in_order_also_where_the_system_takes_few_at_a_time(tmp_path, monkeypatch):
    chance = random.Random(7)
    parts = [chance.randbytes(chance.choice((0, 1, 700, 5000))) for _ in range(1500)]
    whole = os.writev

    def short(fd, some):
        return os.write(fd, b"".join(some)[: chance.randrange(1, 3000)])

    for name, call in (("whole", whole), ("short", short)):
        monkeypatch.setattr(os, "writev", call)
        fd = os.open(tmp_path / name, os.O_CREAT | os.O_WRONLY)
        write_parts(fd, [memoryview(part) for part in parts])
        os.close(fd)
        assert (tmp_path / name).read_bytes() == b"".join(parts)
