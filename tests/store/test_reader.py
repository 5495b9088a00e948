"""Two nodes with one look-up: the same bytes and the same errors as one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoryd.config import StoreConfig
from memoryd.errors import ContentDamaged, NotFound
from memoryd.files import Files
from memoryd.store.chunkstore import ChunkStore
from memoryd.store.merkle import FILE, TreeEntry, build
from memoryd.store.pack import FRAME_SIZE


@pytest.fixture
def store(tmp_path: Path):
    opened = ChunkStore.open(tmp_path, files=Files(), sizes=StoreConfig())
    yield opened
    opened.close()


def put(store: ChunkStore, name: bytes) -> bytes:
    root, nodes = build([TreeEntry(name, FILE, False, 1, b"a" * 32)])
    with store.group() as group:
        group.nodes(nodes)
        group.commit()
    return root


def test_a_pair_is_both_nodes(store):
    one, other = put(store, b"one"), put(store, b"other")
    assert store.node_pair(one, other) == (store.node(one), store.node(other))
    assert store.node_pair(other, other) == (store.node(other), store.node(other))
    with pytest.raises(NotFound):
        store.node_pair(one, b"x" * 32)


def test_a_pair_that_is_damaged_says_so(store):
    one, other = put(store, b"one"), put(store, b"other")
    (place,) = store.node_places([other])[other]
    path = store._shelf.path(place.pack)
    with store._shelf.open(place.pack) as pack:
        payload = place.frame_off + FRAME_SIZE + pack.header(place.frame_off).table_len
    raw = bytearray(path.read_bytes())
    raw[payload + 20] ^= 1
    path.chmod(0o600)
    path.write_bytes(raw)
    with pytest.raises(ContentDamaged):
        store.node_pair(one, other)
    assert store.damaged == {"sha256:" + other.hex()}


def test_a_pair_is_found_where_its_packs_were_replaced_meanwhile(store, monkeypatch):
    one, other = put(store, b"one"), put(store, b"other")
    places = store.node_places

    def merged_after_the_look(addresses):
        found = places(addresses)
        monkeypatch.setattr(store, "node_places", places)
        old = store.pack_ids()
        rewrite = store.rewrite(old)
        for pack in old:
            for address, at, inner, length in store.survey(pack).nodes:
                rewrite.node(address, store.item(pack, at, inner, length, address))
        rewrite.commit()
        return found

    expected = store.node(one), store.node(other)
    store._shelf._cached.clear()
    monkeypatch.setattr(store, "node_places", merged_after_the_look)
    assert store.node_pair(one, other) == expected
    assert store.damaged == set()
