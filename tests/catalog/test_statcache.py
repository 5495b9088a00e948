"""The stat cache gives back what it was told, whole or not at all, and knows when the store lost something."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from memoryd.catalog.statcache import Folder, StatCache

FILE, DIRECTORY = stat.S_IFREG | 0o644, stat.S_IFDIR
FACTS = {
    b"a": (1 << 40, 1_700_000_000_123_456_789, -5, 1 << 63, FILE, b"a" * 32),
    b"\xff sub": (0, 0, 0, 0, DIRECTORY, b"s" * 32),
}


def folder(path: bytes, facts=FACTS, epoch: int = 1) -> Folder:
    return Folder(path, 7, dict(facts), b"r" * 32, epoch)


@pytest.fixture
def cache(tmp_path: Path):
    opened = StatCache(tmp_path / "stats.db")
    yield opened
    opened.close()


def test_a_folder_comes_back_as_it_was_kept(cache):
    one, empty = folder(b"/a/\xff"), Folder(b"/empty", 7, {}, b"", 3)
    cache.keep([one, empty])
    assert cache.folder(one.path, 7) == one
    assert cache.folder(empty.path, 7) == empty
    assert cache.folder(one.path, 8) is None, "another device is another folder"
    assert cache.folder(b"/b", 7) is None


def test_what_lies_below_a_name_that_went_is_forgotten(cache):
    below = b"/a/\xff sub"
    cache.keep([folder(b"/a"), folder(below), folder(below + b"/deep"), folder(below + b"-beside")])
    cache.keep([folder(b"/a", {b"a": FACTS[b"a"]})])
    assert cache.folder(below, 7) is None
    assert cache.folder(below + b"/deep", 7) is None
    assert cache.folder(below + b"-beside", 7) is not None


@pytest.mark.parametrize("column", ["names", "facts", "root", "epoch"])
def test_a_flipped_bit_is_noticed(cache, tmp_path, column):
    cache.keep([folder(b"/a")])
    with sqlite3.connect(tmp_path / "stats.db") as raw:
        (value,) = raw.execute(f"SELECT {column} FROM folders").fetchone()
        flipped = value ^ 4 if isinstance(value, int) else bytes([value[0] ^ 4]) + value[1:]
        raw.execute(f"UPDATE folders SET {column} = ?", (flipped,))
    raw.close()
    assert cache.folder(b"/a", 7) is None


def test_a_new_epoch_begins_when_a_pack_is_gone(cache):
    one, two, three = (bytes([n]) * 16 for n in (1, 2, 3))
    first = cache.epoch({one, two})
    assert cache.epoch({one, two, three}) == first
    assert cache.epoch({two, three}) == first + 1
    assert cache.epoch({two, three}) == first + 1
    cache.keep_packs({two}, first + 1)
    assert cache.epoch({two}) == first + 1


def test_cleared_nothing_is_left_but_the_epoch(cache):
    epoch = cache.epoch({b"p" * 16})
    cache.keep([folder(b"/a")])
    cache.clear()
    assert cache.folder(b"/a", 7) is None
    assert cache.epoch(set()) == epoch + 1
