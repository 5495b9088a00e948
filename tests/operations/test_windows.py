"""Bytes are found wherever they stand in a file, and the file is never held whole."""

from __future__ import annotations

import hashlib
import os
import tracemalloc

import pytest

from memoryd.config import StoreConfig
from memoryd.errors import PackDamaged
from memoryd.files import Files
from memoryd.operations.erase import Traces, quarantined, remains
from memoryd.operations.windows import FIRST, WINDOW, file_holds, find, frame_items
from memoryd.store.chunkstore import ChunkStore
from tests.operations.conftest import opened

NEEDLE = b"hunter2-correct-horse"


@pytest.mark.parametrize("at", [0, 1, FIRST - 5, FIRST, 5 * FIRST - 3, 5 * FIRST + WINDOW // 2, 2 * WINDOW])
def test_a_needle_is_found_also_across_the_border_of_two_windows(tmp_path, at):
    path = tmp_path / "file"
    path.write_bytes(b"." * at + NEEDLE + b"." * 100)
    assert file_holds(path, [b"absent", NEEDLE])
    assert not file_holds(path, [b"absent", NEEDLE + b"!"])
    with path.open("rb") as stream:
        assert find(stream, [NEEDLE]) == at
        assert find(stream, [NEEDLE], at + 1) == -1


def test_a_needle_at_the_very_end_and_files_without_bytes(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"." * (FIRST + 7) + NEEDLE)
    assert file_holds(path, [NEEDLE])
    path.write_bytes(b"")
    assert not file_holds(path, [NEEDLE])


def test_the_items_of_a_packs_frames_are_all_seen_and_damage_is_told(tmp_path):
    contents = [os.urandom(90_000) for _ in range(30)]
    store = ChunkStore.open(tmp_path, files=Files(), sizes=StoreConfig())
    with store.group() as group:
        for data in contents:
            group.add(data)
        group.commit()
    pieces = {digest for data in contents for digest, _ in store.layout("sha256:" + hashlib.sha256(data).hexdigest())}
    store.close()
    (path,) = (tmp_path / "store" / "packs").rglob("*.pack")
    with path.open("rb") as stream:
        items = list(frame_items(stream))
    assert pieces <= {digest for digest, _raw in items}
    assert all(hashlib.sha256(raw).digest() == digest for digest, raw in items)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with path.open("rb") as stream, pytest.raises(PackDamaged):
        list(frame_items(stream))


def test_what_remains_and_what_lies_in_quarantine_is_looked_for_in_bounded_memory(root):
    """A file of ten windows in the home, as a database that was set aside may be."""
    with opened(root) as home:
        path = root / "store" / "quarantine" / "index.db"
        with path.open("wb") as stream:
            stream.truncate(10 * WINDOW)
            stream.seek(9 * WINDOW)
            stream.write(NEEDLE)
        tracemalloc.start()
        left = remains(home, [NEEDLE])
        suspects = quarantined(home, Traces(secret=(NEEDLE,)))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert left == [str(path)] and suspects == [path]
        assert peak < 4 * WINDOW
