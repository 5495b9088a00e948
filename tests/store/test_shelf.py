"""The shelf: which files are packs, frames read whole or not at all, and a cache that stays small."""

from __future__ import annotations

import hashlib
import random
import threading
from pathlib import Path

import pytest

from memoryd.errors import PackDamaged
from memoryd.store import pack as packs
from memoryd.store.pack import PackWriter, encode_frame
from memoryd.store.shelf import Shelf
from tests.store import vectors


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    (tmp_path / "packs").mkdir()
    return Shelf(tmp_path, cache_bytes=300_000)


def shelve(shelf: Shelf, pack: bytes, *items: bytes) -> list[int]:
    """Write a pack with one frame an item; the frames' offsets."""
    writer = PackWriter(pack)
    offsets = [
        writer.append(encode_frame(packs.CHUNK, [item], [hashlib.sha256(item).digest()], seq=0)) for item in items
    ]
    path = shelf.path(pack)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(writer.finish()))
    return offsets


def test_frames_are_read_back(shelf):
    offsets = shelve(shelf, vectors.PACK, b"one", b"two" * 100)
    assert [shelf.frame(vectors.PACK, at).raw for at in offsets] == [b"one", b"two" * 100]
    assert all(shelf.intact(vectors.PACK, at) for at in offsets)
    with shelf.open(vectors.PACK) as file:
        assert [entry.offset for entry in file.footer().entries] == offsets


def test_listing_tells_packs_from_strays(shelf):
    shelve(shelf, vectors.PACK, b"one")
    home = shelf.path(vectors.PACK).parent
    strays = [home / "notes.txt", home / ("ff" * 16 + ".pack"), home.parent / "loose.pack"]
    deep = home / "deeper"
    deep.mkdir()
    strays.append(deep / shelf.path(vectors.PACK).name)
    for stray in strays:
        stray.write_bytes(b"")
    found, others = shelf.listing()
    assert found == [vectors.PACK]
    assert sorted(others) == sorted(strays)


def test_an_unreadable_folder_is_no_empty_folder(shelf):
    shelf.packs.rmdir()
    with pytest.raises(OSError):
        shelf.listing()


def test_a_missing_pack_is_damage(shelf):
    with pytest.raises(PackDamaged, match="cannot be opened"):
        shelf.frame(vectors.PACK, packs.HEADER_SIZE)
    assert not shelf.intact(vectors.PACK, packs.HEADER_SIZE)


def test_a_pack_under_another_name_is_damage(shelf):
    shelve(shelf, vectors.PACK, b"one")
    other = b"\x05" * 16
    shelf.path(other).parent.mkdir()
    shelf.path(vectors.PACK).rename(shelf.path(other))
    with shelf.open(other) as file, pytest.raises(PackDamaged, match="name"):
        file.footer()


@pytest.mark.parametrize("offset", [0, 5, 33, 10_000, 1 << 40])
def test_an_offset_where_no_frame_starts_is_damage(shelf, offset):
    shelve(shelf, vectors.PACK, b"one" * 50)
    with pytest.raises(PackDamaged):
        shelf.frame(vectors.PACK, offset)


def test_a_frame_of_another_length_is_damage(shelf):
    [at] = shelve(shelf, vectors.PACK, random.Random(1).randbytes(500))
    path = shelf.path(vectors.PACK)
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(PackDamaged):
        shelf.frame(vectors.PACK, at)


def test_items_are_found_by_offset_and_length(shelf):
    items = [b"", b"one", b"", b"", b"three"]
    frame = encode_frame(packs.CHUNK, items, [hashlib.sha256(item).digest() for item in items], seq=0)
    writer = PackWriter(vectors.PACK)
    at = writer.append(frame)
    shelf.path(vectors.PACK).parent.mkdir()
    shelf.path(vectors.PACK).write_bytes(b"".join(writer.finish()))
    found = shelf.frame(vectors.PACK, at)
    assert [found.item_at(0, 0), found.item_at(0, 3), found.item_at(3, 5)] == [b"", b"one", b"three"]
    for wrong in [(1, 2), (0, 4), (3, 4), (8, 1), (100, 1)]:
        with pytest.raises(PackDamaged):
            found.item_at(*wrong)


def test_the_cache_is_bounded_and_right(shelf):
    contents = [random.Random(n).randbytes(50_000) for n in range(20)]
    offsets = shelve(shelf, vectors.PACK, *contents)
    for _round in range(2):
        assert [shelf.frame(vectors.PACK, at).raw for at in offsets] == contents
    kept = sum(shelf.frame(vectors.PACK, at) is shelf.frame(vectors.PACK, at) for at in offsets)
    assert kept == len(offsets)
    shelf.path(vectors.PACK).unlink()
    readable = 0
    for at in offsets:
        try:
            readable += shelf.frame(vectors.PACK, at).raw in contents
        except PackDamaged:
            continue
    assert 0 < readable <= 300_000 // 50_000


def test_a_frame_larger_than_the_cache_is_read_all_the_same(shelf):
    content = random.Random(1).randbytes(400_000)
    [at] = shelve(shelf, vectors.PACK, content)
    assert shelf.frame(vectors.PACK, at).raw == content
    assert shelf.frame(vectors.PACK, at) is not shelf.frame(vectors.PACK, at)


def test_intact_looks_at_the_disk_and_not_at_the_cache(shelf):
    [at] = shelve(shelf, vectors.PACK, b"content " * 100)
    shelf.frame(vectors.PACK, at)
    path = shelf.path(vectors.PACK)
    data = bytearray(path.read_bytes())
    data[at + packs.FRAME_SIZE + 3] ^= 1
    path.write_bytes(data)
    assert not shelf.intact(vectors.PACK, at)


def test_scanning_finds_frames_behind_damage(shelf):
    contents = [random.Random(n).randbytes(2000) for n in range(5)]
    offsets = shelve(shelf, vectors.PACK, *contents)
    path = shelf.path(vectors.PACK)
    data = bytearray(path.read_bytes())
    data[offsets[1] + 20] ^= 1
    path.write_bytes(data[: offsets[4] + 100])
    with shelf.open(vectors.PACK) as file:
        with pytest.raises(PackDamaged):
            file.footer()
        assert list(file.scan()) == [offsets[0], offsets[2], offsets[3]]


def test_many_threads_read_the_same_frames(shelf):
    contents = [random.Random(n).randbytes(40_000) for n in range(12)]
    offsets = shelve(shelf, vectors.PACK, *contents)
    wrong = []

    def read(seed: int) -> None:
        turn = random.Random(seed)
        for _ in range(100):
            n = turn.randrange(12)
            if shelf.frame(vectors.PACK, offsets[n]).raw != contents[n]:
                wrong.append(n)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_frame_found_intact_is_read_again_once_its_pack_was_touched(shelf):
    (at,) = shelve(shelf, vectors.PACK, b"content" * 100)
    assert shelf.intact(vectors.PACK, at)
    path = shelf.path(vectors.PACK)
    data = bytearray(path.read_bytes())
    data[-200] ^= 1
    path.write_bytes(data)
    (other,) = shelve(shelf, b"\x09" * 16, b"another")
    assert shelf.intact(b"\x09" * 16, other)
    data[at + packs.FRAME_SIZE + 3] ^= 1
    path.write_bytes(data)
    assert not shelf.intact(vectors.PACK, at)


def test_damage_anywhere_lets_every_frame_be_looked_at_again(shelf, monkeypatch):
    """Bits that rot do not touch the file's times: the first damage that a reader meets ends all trust."""
    (at,) = shelve(shelf, vectors.PACK, b"content" * 100)
    assert shelf.intact(vectors.PACK, at)
    path = shelf.path(vectors.PACK)
    about = path.stat()
    data = bytearray(path.read_bytes())
    data[at + packs.FRAME_SIZE + 3] ^= 1
    path.write_bytes(data)
    monkeypatch.setattr("memoryd.store.shelf._signature", lambda _path: (about.st_ino, about.st_size, 0, 0))
    shelf.distrust()
    assert not shelf.intact(vectors.PACK, at)
