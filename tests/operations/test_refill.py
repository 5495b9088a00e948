"""Lost contents come back from where their very bytes lie, whatever their size, and from nobody's word alone."""

from __future__ import annotations

import hashlib
import os
import shutil
import tracemalloc
from pathlib import Path

import pytest

from memoryd.config import StoreConfig
from memoryd.digest import PREFIX, address_of
from memoryd.errors import NotFound
from memoryd.files import Files
from memoryd.operations import snapshots
from memoryd.operations.home import Caller
from memoryd.operations.losses import Losses, find
from memoryd.operations.refill import LARGE, still_there
from memoryd.operations.repair import repair
from memoryd.operations.scan import scan_corpora
from memoryd.store import pack as packs
from memoryd.store.chunkstore import ChunkStore
from memoryd.store.manifest import Manifest
from tests.operations.conftest import configure, opened
from tests.operations.test_repair import hurt_all

HERE = Caller()


def large_file(path: Path) -> bytes:
    """2.5 times what is held whole, made of one repeated block; its SHA-256."""
    block, whole = os.urandom(1 << 20), hashlib.sha256()
    with path.open("wb") as stream:
        for _ in range(5 * LARGE // 2 // len(block)):
            stream.write(block)
            whole.update(block)
    return whole.digest()


def test_a_large_file_of_a_snapshot_comes_back_and_is_never_held_whole(root, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    digest = large_file(tree / "image.bin")
    with opened(root) as home:
        snapshots.take(home, HERE, path=str(tree), label="mine", scope="global")
    hurt_all(root, packs.CHUNK)
    with opened(root) as home:
        losses = find(home, home.store.ruins())
        assert digest in losses.contents
        tracemalloc.start()
        found = [copy for copy in still_there(home, losses) if copy.digest == digest]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert [copy.data for copy in found] == [None]
        assert peak < LARGE
        done = repair(home, apply=True)
        assert done["ok"] and [one["address"] for one in done["restored"]] == [PREFIX + digest.hex()], done
        whole = hashlib.sha256()
        for piece in home.store.pieces(PREFIX + digest.hex()):
            whole.update(piece)
        assert whole.digest() == digest


def test_a_large_file_that_changed_brings_nothing_back(root, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    large_file(tree / "image.bin")
    with opened(root) as home:
        snapshots.take(home, HERE, path=str(tree), label="mine", scope="global")
    hurt_all(root, packs.CHUNK)
    with (tree / "image.bin").open("r+b") as stream:
        stream.write(b"another")
    with opened(root) as home:
        done = repair(home, apply=True)
        assert done["restored"] == [] and len(done["lost"]["contents"]) == 1


@pytest.mark.parametrize("honest", [True, False])
def test_a_manifest_in_quarantine_is_believed_only_where_its_chunks_are_the_content(root, tmp_path, honest):
    folder = tmp_path / "docs"
    folder.mkdir()
    text = b"A page that is lost.\n" * 30
    (folder / "page.md").write_bytes(text)
    configure(root, corpora=[{"label": "docs", "path": str(folder), "scope": "global"}])
    with opened(root) as home:
        scan_corpora(home)
    hurt_all(root, packs.CHUNK)
    shutil.rmtree(folder)
    foreign = ChunkStore.open(tmp_path / "foreign", files=Files(), sizes=StoreConfig())
    parts = [text[:200], text[200:]] if honest else [b"w" * 200, b"x" * (len(text) - 200)]
    named = [(hashlib.sha256(part).digest(), part) for part in parts]
    with foreign.group() as group:
        group.chunks(named)
        listed = tuple((digest, len(part)) for digest, part in named)
        group.manifest(Manifest(hashlib.sha256(text).digest(), len(text), listed))
        group.commit()
    foreign.close()
    with opened(root) as home:
        for path in (tmp_path / "foreign" / "store" / "packs").rglob("*.pack"):
            shutil.copy(path, root / "store" / "quarantine" / f"given-{path.name}")
        done = repair(home, apply=True)
        if honest:
            assert done["lost"]["contents"] == []
            assert home.store.read(address_of(text)) == text
        else:
            assert done["lost"]["contents"] == [address_of(text)]
            with pytest.raises(NotFound):
                home.store.read(address_of(text))


def test_nothing_is_looked_for_where_nothing_is_lost(root):
    with opened(root) as home:
        assert list(still_there(home, Losses())) == []
