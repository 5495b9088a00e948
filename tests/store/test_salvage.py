"""Whatever of a damaged frame still matches its own SHA-256 is found, and nothing else."""

from __future__ import annotations

import random

import pytest

from memoryd.store import pack as packs
from memoryd.store.salvage import frames_of, read_frame


@pytest.fixture
def one_pack(store, put, noise, prose):
    """(store, pack id, frames): small texts in a solid frame, a long content, its manifest, records."""
    with store.group() as group:
        for number in range(60):
            group.record("document", {"v": 1, "address": group.add(prose(2000, number))})
        group.add(noise(300_000))
        group.commit()
    (pack,) = store.pack_ids()
    return store, pack


def everything(store, pack):
    with store._shelf.open(pack) as file:
        listed, problem = frames_of(file)
        return [read_frame(file, offset, entry) for offset, entry in listed.items()], problem


def test_a_sound_pack_gives_all_of_it(one_pack):
    store, pack = one_pack
    frames, problem = everything(store, pack)
    assert problem is None
    assert [left.problem for left in frames] == [None] * len(frames)
    rows = store.survey(pack)
    found = {piece.digest for left in frames for piece in left.pieces if piece.kind == packs.CHUNK}
    assert found == {row[0] for row in rows.chunks}
    assert sorted(piece.seq for left in frames for piece in left.pieces if piece.seq) == list(range(1, 61))


def test_damage_in_a_solid_frame_costs_what_comes_after_it(one_pack):
    store, pack = one_pack
    before, _ = everything(store, pack)
    target = next(left for left in before if len(left.pieces) > 10 and left.kind == packs.CHUNK)
    path = store._shelf.path(pack)
    data = bytearray(path.read_bytes())
    with store._shelf.open(pack) as file:
        header = file.header(target.offset)
    data[target.offset + header.length - 20] ^= 0x10
    path.write_bytes(data)
    after, _ = everything(store, pack)
    hurt = next(left for left in after if left.offset == target.offset)
    assert hurt.problem is not None
    assert set(hurt.pieces) <= set(target.pieces)
    assert hurt.named == target.named, "the table still says what was in it"
    others = [left for left in after if left.offset != target.offset]
    assert all(left.problem is None for left in others)


def test_frames_are_found_without_a_footer(one_pack):
    store, pack = one_pack
    before, _ = everything(store, pack)
    path = store._shelf.path(pack)
    path.write_bytes(path.read_bytes()[:-100])
    after, problem = everything(store, pack)
    assert problem is not None
    assert [left.pieces for left in after] == [left.pieces for left in before]


def test_case_flips_never_give_a_wrong_item(one_pack):
    """200 flips anywhere: what is given back is always a part of what was there."""
    store, pack = one_pack
    before, _ = everything(store, pack)
    known = {piece for left in before for piece in left.pieces}
    path = store._shelf.path(pack)
    data = path.read_bytes()
    turn = random.Random(5)
    for _ in range(200):
        hurt = bytearray(data)
        hurt[turn.randrange(len(data))] ^= 1 << turn.randrange(8)
        path.write_bytes(hurt)
        after, _problem = everything(store, pack)
        assert {(p.kind, p.digest, p.seq, p.data) for left in after for p in left.pieces} <= {
            (p.kind, p.digest, p.seq, p.data) for p in known
        }


@pytest.mark.parametrize("at", [3, 33, 40 + 5, 40 + 34])
def test_a_damaged_table_costs_nothing_while_the_bytes_are_whole(one_pack, at):
    """A flipped hash is made again, a flipped length follows from the others: found by killing a repair at its steps."""
    store, pack = one_pack
    before, _ = everything(store, pack)
    target = next(left for left in before if len(left.pieces) > 10 and left.kind == packs.CHUNK)
    path = store._shelf.path(pack)
    data = bytearray(path.read_bytes())
    data[target.offset + packs.FRAME_SIZE + at] ^= 0x04
    path.write_bytes(data)
    after, _ = everything(store, pack)
    hurt = next(left for left in after if left.offset == target.offset)
    assert hurt.problem is not None
    assert hurt.pieces == target.pieces
