"""Nonsense, and damaged sense, in every parser of what lies on disk: a typed error, bounded memory, never a crash."""

from __future__ import annotations

import hashlib
import random
import tracemalloc
from collections.abc import Callable

import pytest

from memoryd.digest import canonical_json
from memoryd.errors import MemorydError
from memoryd.records import DocumentEvent, ScopeRecord, SnapshotRecord, TombstoneRecord
from memoryd.store import pack as packs
from memoryd.store.format import StoreFormat, parse_format
from memoryd.store.manifest import Manifest, parse_manifest
from memoryd.store.merkle import FILE, TreeEntry, build, parse_node
from memoryd.store.shelf import Frame
from memoryd.store.survey import records_in
from tests.crash.scale import scaled
from tests.crash.stores import noise, text

PEAK = 16 << 20


def frame_bytes() -> bytes:
    parts = [text(number) for number in range(20)]
    return packs.encode_frame(packs.CHUNK, parts, [hashlib.sha256(part).digest() for part in parts], seq=7)


def read_frame(data: bytes) -> None:
    header = packs.parse_frame_header(data[: packs.FRAME_SIZE], 0)
    table = data[packs.FRAME_SIZE : packs.FRAME_SIZE + header.table_len]
    payload = data[packs.FRAME_SIZE + header.table_len :]
    packs.parse_items(header, table, 0)
    packs.check_payload(header, payload, 0)
    packs.decode_payload(header, payload, 0)


def read_loosely(data: bytes) -> None:
    """The salvage of damaged payloads goes on after a wrong checksum."""
    header = packs.parse_frame_header(frame_bytes()[: packs.FRAME_SIZE], 0)
    assert len(packs.decode_left(header, data)) <= header.raw_len


def footer_bytes() -> bytes:
    writer = packs.PackWriter(bytes(16))
    writer.append(frame_bytes())
    return b"".join(writer.finish([bytes(range(16))]))


def read_pack(data: bytes) -> None:
    head = data[: packs.HEADER_SIZE]
    packs.parse_pack_header(head)
    length = packs.parse_trailer(data[-packs.TRAILER_SIZE :], len(data))
    body = data[len(data) - packs.TRAILER_SIZE - length : len(data) - packs.TRAILER_SIZE]
    packs.parse_footer(head, body, data[-packs.TRAILER_SIZE :], len(data))


def record_frame(raw: bytes) -> Frame:
    encoded = packs.encode_frame(packs.DOCUMENT, [raw], [hashlib.sha256(raw).digest()], seq=1)
    header = packs.parse_frame_header(encoded[: packs.FRAME_SIZE], 0)
    return Frame(0, header, b"", raw)


def read_record(raw: bytes) -> None:
    if raw:
        records_in(record_frame(raw), canonical=True)


RECORD = canonical_json(
    {**DocumentEvent("docs", b"a.md", "global", "document", "seen", "sha256:" + "0" * 64, 3).to_json(), "seq": 1}
)
TREE = build([TreeEntry(b"f%d" % n, FILE, False, n, bytes(32)) for n in range(30)])
PARSERS: dict[str, tuple[Callable[[bytes], object], bytes]] = {
    "frame": (read_frame, frame_bytes()),
    "damaged payload": (read_loosely, frame_bytes()[packs.FRAME_SIZE + 20 * 40 :]),
    "pack": (read_pack, footer_bytes()),
    "manifest": (parse_manifest, Manifest(bytes(32), 30, tuple((bytes([n]) * 32, 3) for n in range(10))).encode()),
    "tree node": (parse_node, TREE[1][TREE[0]]),
    "record": (read_record, RECORD),
    "FORMAT": (lambda data: parse_format(data, "FORMAT"), StoreFormat(2048, 8192, 65536, 100, (50, 100)).render()),
}


def mutated(good: bytes, turn: random.Random) -> bytes:
    way = turn.random()
    data = bytearray(good)
    if way < 0.5:
        for _ in range(turn.randint(1, 4)):
            data[turn.randrange(len(data))] = turn.randrange(256)
    elif way < 0.65:
        del data[turn.randrange(len(data)) :]
    elif way < 0.8:
        at = turn.randrange(len(data))
        data[at:at] = turn.randbytes(turn.randint(1, 40))
    elif way < 0.9:
        at = turn.randrange(max(1, len(data) - 8))
        data[at : at + 8] = turn.choice((b"\xff" * 8, bytes(8), b"\x00\x00\x00\x00\x00\x00\x00\x40"))
    else:
        data = bytearray(turn.randbytes(turn.randint(0, 300)))
    return bytes(data)


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_takes_anything(name, count):
    parse, good = PARSERS[name]
    parse(good)
    turn = random.Random(hash(name) & 0xFFFF)
    rounds = scaled(1500, 20_000)
    tracemalloc.start()
    try:
        for _ in range(rounds):
            try:
                parse(mutated(good, turn))
            except MemorydError:
                pass
        assert tracemalloc.get_traced_memory()[1] < PEAK
    finally:
        tracemalloc.stop()
    count(f"fuzz: inputs of the {name} parser", rounds)


def test_a_bomb_is_not_unpacked():
    """H39: 10 KB that would unpack to a gigabyte stop at the declared length."""
    bomb = packs.encode_frame(packs.CHUNK, [bytes(1 << 20)], [hashlib.sha256(bytes(1 << 20)).digest()], seq=1)
    header = packs.parse_frame_header(bomb[: packs.FRAME_SIZE], 0)
    small = packs.FrameHeader(
        header.kind, header.codec, 0, 1, 1000, header.stored_len, 1, header.sha256, 0, header.payload_crc, 0
    )
    with pytest.raises(MemorydError):
        packs.decode_payload(small, bomb[packs.FRAME_SIZE :], 0)
    assert len(packs.decode_left(small, bomb[packs.FRAME_SIZE :])) <= 1000


@pytest.mark.parametrize("kind", [DocumentEvent, ScopeRecord, SnapshotRecord, TombstoneRecord])
def test_records_of_a_later_version_are_read(kind):
    """Fields that are not known are ignored."""
    made = {
        DocumentEvent: DocumentEvent("docs", noise(9, 1), "global", "document", "gone", None, 0),
        ScopeRecord: ScopeRecord("p-x-00000000", "x", None, None),
        SnapshotRecord: SnapshotRecord("l", "s", "global", "0" * 64, "now"),
        TombstoneRecord: TombstoneRecord(None, 4, "why"),
    }[kind]
    assert kind.from_json({**made.to_json(), "later": 1}, 0) == made
