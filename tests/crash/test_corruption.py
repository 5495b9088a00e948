"""Every flipped, cut or swapped byte is noticed, costs one frame at most, and never becomes a wrong answer."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard

from memoryd.config import StoreConfig
from memoryd.digest import address_of
from memoryd.errors import ContentDamaged, MemorydError, NotFound
from memoryd.files import Files
from memoryd.store import pack as packs
from memoryd.store.chunkstore import ChunkStore, _open_format
from memoryd.store.rewrite import Form
from memoryd.store.shelf import Shelf
from tests.crash.scale import scaled
from tests.crash.stores import noise, open_store, put, text

CONTENTS = [text(number) * (1 + number % 9) for number in range(120)] + [noise(150_000, 1), noise(3_000, 2), b""]


def filled(home: Path, *, arranged: bool) -> None:
    store = open_store(home)
    for start in range(0, len(CONTENTS), 50):
        put(store, CONTENTS[start : start + 50])
    if arranged:
        large(store)
    store.close()


def large(store: ChunkStore) -> None:
    """All of it in large frames, as after `memoryd optimize`."""
    form = Form(4 << 20, 9)
    old = store.pack_ids()
    again = store.rewrite(old, flags=packs.PACK_ARRANGED)
    records = []
    for pack in old:
        rows = store.survey(pack)
        for digest, at, inner, length, whole in rows.chunks:
            again.chunk(digest, store.item(pack, at, inner, length, digest), whole=whole, form=form)
        for _address, at, inner, length, _size in rows.manifests:
            again.manifest(store.item(pack, at, inner, length), form=form)
        records += [one for _first, at, _last in rows.records for one in store.record_items(pack, at)]
    for kind, seq, raw in sorted(records, key=lambda one: one[1]):
        again.record(kind, seq, raw)
    again.commit()


def regions(store: ChunkStore, pack: bytes) -> dict[str, list[range]]:
    """Every byte of a pack by what it is."""
    found: dict[str, list[range]] = {"pack header": [range(packs.HEADER_SIZE)]}
    with store._shelf.open(pack) as file:
        footer = file.footer()
        end = packs.HEADER_SIZE
        for entry in footer.entries:
            header = file.header(entry.offset)
            table = entry.offset + packs.FRAME_SIZE
            payload = table + header.table_len
            end = payload + header.stored_len
            found.setdefault("frame header", []).append(range(entry.offset, table))
            found.setdefault("items table", []).append(range(table, payload))
            kind = "records" if header.kind in packs.RECORD_NAMES else "payload"
            found.setdefault(kind, []).append(range(payload, end))
        lists = end + 16
        replaces = lists + 40 * len(footer.entries)
        found["footer head"] = [range(end, lists)]
        found["table of contents"] = [range(lists, replaces)]
        found["replaced packs"] = [range(replaces, file.size - packs.TRAILER_SIZE)]
        found["trailer"] = [range(file.size - packs.TRAILER_SIZE, file.size)]
    return {name: [part for part in parts if len(part)] for name, parts in found.items() if any(map(len, parts))}


def damages(data: bytes, place: range, turn: random.Random) -> bytes:
    """One flip, run of zeros, or swap of two pieces that begins in this place; never the same bytes."""
    while True:
        wrong = bytearray(data)
        at = turn.choice(place)
        way = turn.random()
        if way < 0.7:
            wrong[at] ^= 1 << turn.randrange(8)
        elif way < 0.85:
            size = min(turn.choice((1, 16, 512)), len(data) - at)
            wrong[at : at + size] = bytes(size)
        else:
            other = turn.randrange(len(data))
            size = min(turn.choice((1, 8, 88)), len(data) - max(at, other))
            one, two = data[at : at + size], data[other : other + size]
            wrong[at : at + size] = two
            wrong[other : other + size] = one
        if wrong != data and len(wrong) == len(data):
            return bytes(wrong)


def quiet_flips(data: bytes, frames: list[int]) -> Iterator[bytes]:
    """The pack with one bit of a payload turned, each so that the frame still unpacks to the very same bytes."""
    for at in frames:
        header = packs.parse_frame_header(data[at : at + packs.FRAME_SIZE], at)
        start = at + packs.FRAME_SIZE + header.table_len
        payload = data[start : start + header.stored_len]
        if header.codec != packs.CODEC_ZSTD:
            continue
        raw = zstandard.ZstdDecompressor().decompress(payload, max_output_size=header.raw_len)
        for bit in range(8 * len(payload)):
            turned = bytearray(payload)
            turned[bit // 8] ^= 1 << bit % 8
            with suppress(zstandard.ZstdError):
                if zstandard.ZstdDecompressor().decompress(bytes(turned), max_output_size=header.raw_len) == raw:
                    yield data[:start] + bytes(turned) + data[start + header.stored_len :]
                    break  # one a frame is enough


def test_a_flip_that_unpacks_to_the_same_bytes_is_found(ram, count):
    """Only the checksum over the stored bytes sees it, so the next flip is not the first one that anybody notices."""
    filled(ram, arranged=False)
    store = open_store(ram)
    tried = 0
    for pack in store.pack_ids():
        path = store._shelf.path(pack)
        data = path.read_bytes()
        with store._shelf.open(pack) as file:
            frames = list(file.scan())
        for wrong in quiet_flips(data, frames):
            path.write_bytes(wrong)
            assert list(store.findings(read_data=True)), "not noticed"
            tried += 1
        path.write_bytes(data)
    store.close()
    assert tried, "no such flip was met"
    count("corruption: flips that unpack to the same bytes, all found", tried)


@pytest.mark.parametrize("arranged", [False, True], ids=["before optimize", "after optimize"])
def test_every_damaged_byte_of_a_pack_is_found(ram, count, arranged):
    """case 5, H37: 100 % of the damages in every byte class; a damaged payload costs one frame at most."""
    filled(ram, arranged=arranged)
    store = open_store(ram)
    turn = random.Random(11)
    tried, hits, lost = 0, [], []
    for pack in store.pack_ids():
        path = store._shelf.path(pack)
        data = path.read_bytes()
        for name, places in regions(store, pack).items():
            for _ in range(scaled(30, 300)):
                path.write_bytes(damages(data, turn.choice(places), turn))
                found = list(store.findings(read_data=True))
                assert found, f"{name} of {path.name}: not noticed"
                tried += 1
                if name == "payload" and all(one.code == "frame-damaged" for one in found):
                    hits.append(len(found))
                    lost.append(sum(one.details.get("contents", 0) for one in found))
        for cut in [turn.randrange(len(data)) for _ in range(scaled(20, 300))]:
            path.write_bytes(data[:cut])
            assert list(store.findings(read_data=True)), f"cut at {cut}: not noticed"
            tried += 1
        for more in (b"\0", b"x" * 600):
            path.write_bytes(data + more)
            assert list(store.findings(read_data=True))
            tried += 1
        path.write_bytes(data)
    assert not list(store.findings(read_data=True))
    store.close()
    state = "after" if arranged else "before"
    count(f"corruption: damages of packs {state} optimize, all found", tried)
    count(f"corruption: most contents in a damaged frame {state} optimize (of {len(CONTENTS)})", max(lost))


@pytest.mark.parametrize("arranged", [False, True], ids=["before optimize", "after optimize"])
def test_one_flip_costs_one_frame_and_no_answer_is_wrong(ram, count, arranged):
    filled(ram, arranged=arranged)
    store = open_store(ram)
    spots = [
        (store._shelf.path(pack), turn)
        for pack in store.pack_ids()
        for name, places in regions(store, pack).items()
        if name == "payload"
        for turn in places
    ]
    frames = {(path, part.start): held(store, path, part.start) for path, part in spots}
    store.close()
    turn = random.Random(3)
    losses = []
    for _ in range(scaled(30, 300)):
        path, part = turn.choice(spots)
        data = path.read_bytes()
        wrong = bytearray(data)
        wrong[turn.choice(part)] ^= 1 << turn.randrange(8)
        path.write_bytes(wrong)
        store = open_store(ram)
        lost = {one for one in CONTENTS if not same(store, one)}
        losses.append(len(lost))
        if not any(len(one) > 60_000 for one in lost):
            assert {address_of(one) for one in lost} <= frames[path, part.start], "more than one frame is lost"
        store.close()
        path.write_bytes(data)
    state = "after" if arranged else "before"
    count(f"corruption: single flips read back {state} optimize", len(losses))
    count(f"corruption: contents lost by these flips {state} optimize, in all", sum(losses))
    count(f"corruption: most contents lost by one flip {state} optimize", max(losses))


def held(store: ChunkStore, path: Path, payload: int) -> set[str]:
    pack = bytes.fromhex(path.stem)
    with store._shelf.open(pack) as file:
        for entry in file.footer().entries:
            header = file.header(entry.offset)
            if entry.offset + packs.FRAME_SIZE + header.table_len == payload:
                return {"sha256:" + digest.hex() for digest, _length in file.items(entry.offset, header)}
    raise AssertionError


def same(store: ChunkStore, content: bytes) -> bool:
    try:
        found = store.read(address_of(content))
    except (ContentDamaged, NotFound):
        return False
    assert found == content, "wrong bytes were handed out"
    return True


def test_every_flipped_bit_of_format_is_refused(ram, count):
    filled(ram, arranged=False)
    path = ram / "FORMAT"
    data = path.read_bytes()
    shelf = Shelf(ram / "store")
    tried = 0
    for at in range(len(data)):
        for bit in range(8):
            wrong = bytearray(data)
            wrong[at] ^= 1 << bit
            refused(path, shelf, wrong)
            tried += 1
    for cut in range(len(data)):
        refused(path, shelf, data[:cut])
        tried += 1
    path.unlink()
    refused(path, shelf, None)
    count("corruption: damages of FORMAT, all refused", tried + 1)


def refused(path: Path, shelf: Shelf, data: bytes | bytearray | None) -> None:
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(MemorydError):
        _open_format(path, shelf, Files(), StoreConfig())


def test_damage_of_the_index_changes_no_answer(ram, count):
    """case 15: flips, cuts and zeroed pages of index.db are noticed at open, or have no effect on any answer."""
    filled(ram / "good", arranged=False)
    store = open_store(ram / "good")
    wanted = answers(store)
    store.close()
    data = (ram / "good" / "store" / "index.db").read_bytes()
    turn = random.Random(17)
    noticed = 0
    rounds = scaled(60, 600)
    for number in range(rounds):
        home = ram / "hurt"
        shutil.copytree(ram / "good", home)
        wrong = bytearray(data)
        way = number % 4
        if way < 2:
            wrong[turn.randrange(len(wrong))] ^= 1 << turn.randrange(8)
        elif way == 2:
            page = turn.randrange(len(wrong) // 4096) * 4096
            wrong[page : page + 4096] = turn.choice((bytes(4096), os.urandom(4096)))
        else:
            del wrong[turn.randrange(len(wrong)) :]
        (home / "store" / "index.db").write_bytes(wrong)
        store = open_store(home)
        told = list(store.findings(read_data=True))
        if told or list((home / "store" / "quarantine").iterdir()):
            noticed += 1
            store.rebuild_index()
        assert answers(store) == wanted
        assert not list(store.findings(read_data=True))
        store.close()
        shutil.rmtree(home)
    count("corruption: damages of index.db", rounds)
    count("corruption: of these noticed (the others change no answer)", noticed)


def answers(store: ChunkStore) -> list[object]:
    records = [(record.seq, record.kind, record.data) for record in store.records()]
    return [*records, *(store.read(address_of(one)) for one in CONTENTS), store.last_seq(), store.stats()]
