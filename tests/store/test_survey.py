"""What a pack holds, read from the pack itself, also when parts of it are damaged."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from memoryd.digest import canonical_json
from memoryd.errors import PackDamaged
from memoryd.records import DocumentEvent, ScopeRecord, SnapshotRecord, TombstoneRecord
from memoryd.store import pack as packs
from memoryd.store.pack import PackWriter, encode_frame
from memoryd.store.shelf import Shelf
from memoryd.store.survey import manifests_in, records_in, rows_of
from tests.store import vectors


@pytest.fixture
def shelf(tmp_path: Path, golden: Path) -> Shelf:
    made = Shelf(tmp_path)
    path = made.path(vectors.PACK)
    path.parent.mkdir(parents=True)
    path.write_bytes((golden / "pack-v1.pack").read_bytes())
    return made


def sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def damage(shelf: Shelf, at: int) -> None:
    path = shelf.path(vectors.PACK)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def offsets(shelf: Shelf) -> list[int]:
    with shelf.open(vectors.PACK) as file:
        return [entry.offset for entry in file.footer().entries]


def test_golden_pack_as_rows(shelf):
    """Trees and the unknown kind have no rows; all else has."""
    rows = rows_of(shelf, vectors.PACK)
    at = offsets(shelf)
    chunks, pieces = vectors.chunks(), vectors.pieces()
    assert rows.chunks == [
        (sha(chunks[0]), at[0], 0, len(chunks[0]), True),
        (sha(chunks[1]), at[0], len(chunks[0]), 0, True),
        (sha(chunks[2]), at[0], len(chunks[0]), len(chunks[2]), True),
        (sha(pieces[0]), at[1], 0, len(pieces[0]), False),
        (sha(pieces[1]), at[1], len(pieces[0]), len(pieces[1]), False),
    ]
    manifest = vectors.manifest()
    assert rows.manifests == [(manifest.address, at[2], 0, len(manifest.encode()), manifest.size)]
    assert rows.records == [(7, at[5], 8), (9, at[6], 9), (10, at[7], 10), (11, at[8], 11)]
    assert (rows.pack, rows.last_seq, list(rows.replaces)) == (vectors.PACK, 11, vectors.REPLACED)
    assert rows.size == shelf.path(vectors.PACK).stat().st_size


def test_golden_records(shelf, golden):
    """Documents, a snapshot, a scope and a tombstone: canonical JSON with `v` and `seq`, typed without loss."""
    committed = json.loads((golden / "vectors.json").read_text())["records"]
    assert committed == [[kind, canonical_json(data).decode()] for kind, data in vectors.records()]
    found = [
        (packs.RECORD_NAMES[frame.header.kind], seq, data)
        for frame in (shelf.frame(vectors.PACK, at) for at in offsets(shelf)[5:])
        for seq, data in records_in(frame, canonical=True)
    ]
    assert [(kind, {**data, "seq": seq}) for kind, seq, data in found] == vectors.records()
    types = {"document": DocumentEvent, "snapshot": SnapshotRecord, "scope": ScopeRecord, "tombstone": TombstoneRecord}
    for kind, seq, data in found:
        typed = types[kind].from_json(data, seq)
        assert (typed.to_json(), typed.seq) == (data, seq)
    target = TombstoneRecord(None, 5, "expired")
    assert TombstoneRecord.from_json(target.to_json(), 0) == target


def test_golden_manifest_in_its_frame(shelf):
    frame = shelf.frame(vectors.PACK, offsets(shelf)[2])
    assert [manifest for _at, _length, manifest in manifests_in(frame)] == [vectors.manifest()]


def test_damage_in_a_frame_costs_that_frame(shelf):
    good = rows_of(shelf, vectors.PACK)
    damage(shelf, offsets(shelf)[0] + 30)
    rows = rows_of(shelf, vectors.PACK)
    assert rows.chunks == good.chunks[3:]
    assert (rows.manifests, rows.records, rows.replaces) == (good.manifests, good.records, good.replaces)


def test_damage_in_the_footer_costs_only_what_it_says(shelf):
    """The frames are found by scanning; a damaged list of replaced packs is not believed."""
    good = rows_of(shelf, vectors.PACK)
    damage(shelf, good.size - 20)
    rows = rows_of(shelf, vectors.PACK)
    assert (rows.chunks, rows.manifests, rows.records) == (good.chunks, good.manifests, good.records)
    assert rows.replaces == ()


def test_a_file_without_any_frame_is_damaged(shelf):
    shelf.path(vectors.PACK).write_bytes(b"")
    with pytest.raises(PackDamaged):
        rows_of(shelf, vectors.PACK)


def canonical(**data: object) -> bytes:
    return canonical_json({"v": 1, **data})


@pytest.mark.parametrize(
    "items",
    [
        [b"not json"],
        [b"[1]"],
        [canonical()],
        [canonical(seq="1")],
        [canonical(seq=0)],
        [canonical(seq=2), canonical(seq=2)],
        [canonical(seq=3)],
        [b'{"seq":2,"v":1, "space":1}'],
        [b"[" * 100_000],
    ],
    ids=["text", "list", "no seq", "seq text", "seq 0", "not ascending", "other seq", "not canonical", "deep"],
)
def test_unsound_records_are_refused(tmp_path, items):
    shelf = Shelf(tmp_path)
    writer = PackWriter(vectors.PACK)
    at = writer.append(encode_frame(packs.DOCUMENT, items, [sha(item) for item in items], seq=2))
    shelf.path(vectors.PACK).parent.mkdir(parents=True)
    shelf.path(vectors.PACK).write_bytes(b"".join(writer.finish()))
    with pytest.raises(PackDamaged):
        records_in(shelf.frame(vectors.PACK, at), canonical=True)
