"""A damaged pack gives way to one with everything of it that is sound; the damaged file stays in quarantine."""

from __future__ import annotations

import errno
import os

import pytest

from memoryd.digest import address_of, canonical_json
from memoryd.errors import ContentDamaged, NotFound, StoreError
from memoryd.files import Files
from memoryd.store import pack as packs


@pytest.fixture
def texts(prose):
    return [prose(1500, number) for number in range(40)]


@pytest.fixture
def filled(store, texts, noise):
    with store.group() as group:
        for text in texts:
            group.record("document", {"v": 1, "address": group.add(text)})
        group.record("document", {"v": 1, "address": group.add(noise(200_000, 1))})
        group.commit()
    return store


def flip(store, kind, *, at=30, pack=None):
    """Flip a bit of a payload of the first frame of this kind; the pack."""
    (pack,) = [pack] if pack else store.pack_ids()
    path = store._shelf.path(pack)
    with store._shelf.open(pack) as file:
        offset = next(entry.offset for entry in file.footer().entries if entry.kind == kind)
        header = file.header(offset)
    data = bytearray(path.read_bytes())
    data[offset + packs.FRAME_SIZE + header.table_len + at] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    return pack


def readable(store, contents):
    found = []
    for content in contents:
        try:
            found.append(store.read(address_of(content)) == content)
        except (ContentDamaged, NotFound):
            found.append(False)
    return found


def test_a_sound_store_has_no_ruins(filled):
    assert filled.ruins() == []


def test_case_6_what_is_sound_stays_and_the_rest_heals_when_added_again(filled, texts, put):
    """case 6, H37: the frame that was hit is lost, everything else of the pack is there; adding again heals."""
    pack = flip(filled, packs.CHUNK)
    before = filled._shelf.path(pack).read_bytes()
    (ruin,) = filled.ruins()
    assert ruin.pack == pack and ruin.chunks and not ruin.why_left
    there = readable(filled, texts)
    assert filled.mend(ruin, ())
    after = readable(filled, texts)
    assert all(now or not then for then, now in zip(there, after, strict=True)), "mending loses nothing"
    lost = [text for text, there in zip(texts, after, strict=True) if not there]
    assert {bytes.fromhex(address_of(text)[7:]) for text in lost} == ruin.chunks
    assert (filled._shelf.quarantine / f"{pack.hex()}.pack").read_bytes() == before
    assert filled.ruins() == []
    assert list(filled.findings(read_data=True)) == []
    assert [record.seq for record in filled.records()] == list(range(1, 42))
    put(filled, *lost)
    assert all(readable(filled, texts))


def test_a_cut_footer_costs_nothing(filled, texts):
    (pack,) = filled.pack_ids()
    path = filled._shelf.path(pack)
    path.write_bytes(path.read_bytes()[:-60])
    (ruin,) = filled.ruins()
    assert (ruin.chunks, ruin.contents, ruin.nodes, ruin.records) == (set(), set(), set(), [])
    assert filled.mend(ruin, ())
    assert all(readable(filled, texts))
    assert list(filled.findings(read_data=True)) == []


def test_an_empty_file_names_everything_that_it_held(filled, texts):
    """H37: a pack of zero bytes after a crash of something else."""
    (pack,) = filled.pack_ids()
    os.truncate(filled._shelf.path(pack), 0)
    (ruin,) = filled.ruins()
    assert {bytes.fromhex(address_of(text)[7:]) for text in texts} <= ruin.chunks
    assert ruin.records == [(1, 41)]
    assert filled.mend(ruin, ())
    assert filled.ruins() == [] and list(filled.findings(read_data=True)) == []
    assert list(filled.records()) == []
    assert filled.last_seq() == 41, "numbers are not given out again"


def test_lost_records_come_back_from_who_knows_them(filled):
    pack = flip(filled, packs.DOCUMENT)
    known = {record.seq: record for record in filled.records(lost=[])}
    (ruin,) = filled.ruins()
    assert ruin.pack == pack
    ((first, last),) = ruin.records
    given = [
        (packs.DOCUMENT, seq, canonical_json({"v": 1, "address": "x", "seq": seq})) for seq in range(first, last + 1)
    ]
    assert filled.mend(ruin, [one for one in given if one[1] not in ruin.held])
    assert [record.seq for record in filled.records()] == list(range(1, 42))
    assert known.keys() <= set(range(1, 42))


def test_a_copy_in_another_pack_makes_it_no_loss(filled, texts, put):
    pack = flip(filled, packs.CHUNK)
    put(filled, *texts)  # what is damaged is stored once more
    (ruin,) = filled.ruins()
    assert ruin.pack == pack and ruin.chunks == set()
    assert filled.mend(ruin, ())
    assert all(readable(filled, texts))


def test_stopped_in_the_middle_the_pack_stays(filled, texts):
    pack = flip(filled, packs.CHUNK)
    (ruin,) = filled.ruins()
    there = readable(filled, texts)
    assert not filled.mend(ruin, (), stop=lambda: True)
    assert filled.pack_ids() == [pack]
    assert readable(filled, texts) == there


def test_a_pack_that_cannot_be_opened_is_left_alone(filled, texts, monkeypatch):
    real = os.open

    def denied(path, *arguments, **options):
        if str(path).endswith(".pack"):
            raise OSError(errno.EACCES, "Permission denied")
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", denied)
    (ruin,) = filled.ruins()
    assert ruin.why_left


def test_sound_copies_are_found_in_quarantine(filled, texts):
    (pack,) = filled.pack_ids()
    filled._shelf.path(pack).rename(filled._shelf.quarantine / "from-backup.pack")
    found = {piece.digest for piece in filled.pieces_aside() if piece.kind == packs.CHUNK}
    assert {bytes.fromhex(address_of(text)[7:]) for text in texts} <= found


def test_every_failing_step_leaves_the_old_pack_or_the_new_one(opened, texts, tmp_path, put):
    """EIO at the nth step of a repair, for every n: nothing readable gets lost."""
    nth, finished = 0, False
    while not finished:
        nth += 1
        home = tmp_path / str(nth)
        store = opened(home)
        put(store, *texts)
        flip(store, packs.CHUNK)
        there = readable(store, texts)
        store.close()
        seen = [0]

        def fault(point, seen=seen, nth=nth):
            if point.startswith(("quarantine", "pack", "index", "replaced")):
                seen[0] += 1
                if seen[0] == nth:
                    raise OSError(errno.EIO, "Input/output error")

        store = opened(home, files=Files(fault))
        (ruin,) = store.ruins()
        try:
            store.mend(ruin, ())
            finished = seen[0] < nth
        except StoreError:
            pass
        store.close()
        store = opened(home)
        assert all(now or not then for then, now in zip(there, readable(store, texts), strict=True))
        for ruin in store.ruins():
            store.mend(ruin, ())
        assert list(store.findings(read_data=True)) == []
        store.close()
    assert nth > 8
