"""Everything that a pack holds is told, or nothing."""

from __future__ import annotations

import pytest

from memoryd.digest import address_of
from memoryd.errors import FormatUnsupported, PackDamaged
from memoryd.store import pack as packs
from memoryd.store.census import items_of
from memoryd.store.merkle import FILE, TreeEntry, build
from memoryd.store.pack import PackWriter, encode_frame


def filled(store, noise) -> tuple[bytes, dict]:
    tree, nodes = build([TreeEntry(b"a", FILE, False, 3, bytes(32))])
    with store.group() as group:
        group.add(b"one")
        group.add(noise(60_000, 1))
        group.nodes(nodes)
        for number in range(3):
            group.record("document", {"v": 1, "number": number})
        group.record("tombstone", {"v": 1, "target": 1, "reason": "r"})
        group.commit()
    (pack,) = store.pack_ids()
    return pack, {"tree": tree}


def test_every_item_is_told_with_its_place(store, noise):
    pack, about = filled(store, noise)
    replaces, items = store.items(pack)
    assert replaces == ()
    kinds = [item.kind for item in items]
    assert kinds.count(packs.DOCUMENT) == 3 and kinds.count(packs.TOMBSTONE) == 1
    assert [item.digest.hex() for item in items if item.whole] == [address_of(b"one")[7:]]
    (manifest,) = [item for item in items if item.kind == packs.MANIFEST]
    assert manifest.digest.hex() == address_of(noise(60_000, 1))[7:]
    pieces = [(item.digest, item.length) for item in items if item.kind == packs.CHUNK and not item.whole]
    assert list(manifest.manifest.chunks) == pieces
    assert [item.digest for item in items if item.kind == packs.TREE] == [about["tree"]]
    assert [item.record[0] for item in items if item.record is not None] == [1, 2, 3, 4]
    for item in items:
        if item.kind == packs.CHUNK:
            data = store.item(pack, item.frame_off, item.inner_off, item.length, item.digest)
            assert len(data) == item.length
            assert item.solid == 0 or item.solid > item.length


def test_what_a_pack_replaces_is_told(store, put):
    put(store, b"one")
    old = store.pack_ids()
    rewrite = store.rewrite(old)
    rewrite.commit()
    assert store.items(store.pack_ids()[0]) == (tuple(old), [])


def test_damage_where_names_are_is_an_error(store, noise):
    pack, _about = filled(store, noise)
    path = store._shelf.path(pack)
    whole = path.read_bytes()
    items = store.items(pack)[1]
    spots = [item.frame_off + 20 for item in items]  # headers
    unpacked = [item for item in items if item.record is not None or item.manifest is not None]
    spots += [item.frame_off + 90 for item in unpacked]
    spots += [len(whole) - 60, 10]  # footer, pack header
    for spot in spots:
        broken = bytearray(whole)
        broken[spot] ^= 1
        path.write_bytes(bytes(broken))
        with pytest.raises(PackDamaged):
            items_of(store._shelf, pack)
    path.write_bytes(whole)
    assert items_of(store._shelf, pack)[1] == items


def test_a_kind_from_a_later_version_is_an_error(store, put):
    put(store, b"one")
    (pack,) = store.pack_ids()
    writer = PackWriter(pack)
    writer.append(encode_frame(9, [b"new"], [bytes(32)], seq=1))
    store._shelf.path(pack).write_bytes(b"".join(writer.finish()))
    with pytest.raises(FormatUnsupported):
        items_of(store._shelf, pack)
