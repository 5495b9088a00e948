"""Packs: golden bytes, exact round trips, and no byte whose change goes unnoticed."""

from __future__ import annotations

import hashlib
import random
import struct
import tracemalloc
import zlib
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.errors import FormatUnsupported, PackDamaged, StoreError
from memoryd.store import pack as packs
from memoryd.store.pack import (
    CODEC_RAW,
    CODEC_ZSTD,
    FRAME_SIZE,
    FrameHeader,
    PackWriter,
    check_payload,
    decode_payload,
    encode_frame,
    encode_pack_header,
    parse_footer,
    parse_frame_header,
    parse_items,
    parse_pack_header,
    parse_trailer,
)
from tests.store import vectors


def sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def unpack(data: bytes) -> tuple[bytes, list[tuple[FrameHeader, list[bytes]]], tuple[bytes, ...]]:
    """(id, [(header, items)], replaces) of the bytes of a pack, every check made. Raises PackDamaged."""
    head = data[: packs.HEADER_SIZE]
    pack = parse_pack_header(head)
    trailer = data[-packs.TRAILER_SIZE :]
    length = parse_trailer(trailer, len(data))
    end = len(data) - packs.TRAILER_SIZE
    footer = parse_footer(head, data[end - length : end], trailer, len(data))
    frames = [open_frame(data[entry.offset : entry.offset + entry.length]) for entry in footer.entries]
    for (header, _items), entry in zip(frames, footer.entries, strict=True):
        assert (header.length, header.seq, header.items) == (entry.length, entry.seq, entry.items)
        assert (header.kind, header.codec, header.flags, header.crc) == (
            entry.kind,
            entry.codec,
            entry.flags,
            entry.crc,
        )
    return pack, frames, footer.replaces


def open_frame(frame: bytes) -> tuple[FrameHeader, list[bytes]]:
    header = parse_frame_header(frame[:FRAME_SIZE], 0)
    table, payload = frame[FRAME_SIZE : FRAME_SIZE + header.table_len], frame[FRAME_SIZE + header.table_len :]
    items = parse_items(header, table, 0)
    check_payload(header, payload, 0)
    raw = decode_payload(header, payload, 0)
    found, at = [], 0
    for digest, length in items:
        found.append(raw[at : at + length])
        if sha(found[-1]) != digest:
            raise PackDamaged("hash")
        at += length
    return header, found


def frame_of(*items: bytes, kind: int = packs.CHUNK, seq: int = 0) -> bytes:
    return encode_frame(kind, items, [sha(item) for item in items], seq=seq)


def reheaded(frame: bytes, **changes: int) -> bytes:
    """The frame with changed header fields and a header checksum that is right again."""
    fields = {"codec": (5, "<B"), "items": (8, "<I"), "raw_len": (12, "<Q"), "stored_len": (20, "<Q")}
    fields |= {"table_crc": (68, "<I"), "payload_crc": (72, "<I")}
    head = bytearray(frame[: FRAME_SIZE - 4])
    for name, value in changes.items():
        struct.pack_into(fields[name][1], head, fields[name][0], value)
    return bytes(head) + struct.pack("<I", zlib.crc32(head)) + frame[FRAME_SIZE:]


def with_payload(payload: bytes, raw_len: int, codec: int = CODEC_ZSTD) -> bytes:
    """A frame of one item that holds this payload, with all checksums right."""
    made = frame_of(b"x" * 10)[:FRAME_SIZE] + payload
    return reheaded(made, codec=codec, raw_len=raw_len, stored_len=len(payload), payload_crc=zlib.crc32(payload))


def test_golden_pack_is_read_as_it_was_written(golden: Path):
    """All kinds, an unknown kind and `replaces`, from the committed bytes."""
    pack, frames, replaces = unpack((golden / "pack-v1.pack").read_bytes())
    assert pack == vectors.PACK
    assert list(replaces) == vectors.REPLACED
    kinds = [packs.CHUNK, packs.CHUNK, packs.MANIFEST, packs.TREE, 200]
    kinds += [packs.DOCUMENT, packs.SNAPSHOT, packs.SCOPE, packs.TOMBSTONE]
    assert [header.kind for header, _items in frames] == kinds
    assert [header.flags for header, _items in frames] == [packs.FLAG_WHOLE] + [0] * 8
    assert [header.seq for header, _items in frames] == [6, 6, 6, 6, 6, 7, 9, 10, 11]
    assert [items for _header, items in frames[:3]] == [
        vectors.chunks(),
        vectors.pieces(),
        [vectors.manifest().encode()],
    ]


def test_golden_pack_is_written_byte_for_byte(golden: Path):
    """Header, footer and uncompressed frames have fixed bytes (zstd's own output may differ between versions)."""
    committed = (golden / "pack-v1.pack").read_bytes()
    at = packs.HEADER_SIZE
    for frame in vectors.raw_frames():
        assert committed[at : at + len(frame)] == frame
        at += len(frame)
    writer = PackWriter(vectors.PACK)
    _pack, frames, _replaces = unpack(committed)
    at = packs.HEADER_SIZE
    for header, _items in frames:
        assert writer.append(committed[at : at + header.length]) == at
        at += header.length
    assert b"".join(writer.finish(vectors.REPLACED)) == committed
    assert writer.size == len(committed)


def test_every_flipped_bit_of_a_pack_is_noticed(golden: Path):
    """Each byte class: pack header, frame headers, tables, payloads, footer, trailer."""
    committed = (golden / "pack-v1.pack").read_bytes()
    unpack(committed)
    for at in range(len(committed)):
        wrong = bytearray(committed)
        wrong[at] ^= 1 << (at % 8)
        with pytest.raises((PackDamaged, FormatUnsupported)):
            unpack(bytes(wrong))


def test_every_bit_of_a_compressed_payload_is_noticed():
    """A zstd frame has bits whose flip decodes to the same data: the checksum stands over the stored bytes."""
    frame = frame_of(b"the same line again\n" * 40)
    assert parse_frame_header(frame[:FRAME_SIZE], 0).codec == CODEC_ZSTD
    for at in range(len(frame) * 8):
        wrong = bytearray(frame)
        wrong[at // 8] ^= 1 << (at % 8)
        with pytest.raises((PackDamaged, FormatUnsupported)):
            open_frame(bytes(wrong))


def test_h37_every_truncation_and_trailing_bytes_are_noticed(golden: Path):
    """H37: a pack that was cut anywhere, or that grew, is damaged."""
    committed = (golden / "pack-v1.pack").read_bytes()
    for wrong in [committed[:end] for end in range(len(committed))] + [committed + b"\0", committed * 2]:
        with pytest.raises(PackDamaged):
            unpack(wrong)


@given(st.binary(max_size=400))
@settings(max_examples=200, deadline=None)
def test_arbitrary_bytes_are_never_a_pack(data):
    with pytest.raises(PackDamaged):
        unpack(data)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_changed_stretch_of_a_pack_is_noticed(data):
    """Overwritten, removed or repeated stretches, checksummed by chance or not, are refused without a crash."""
    good = vectors.assemble(vectors.raw_frames() + vectors.record_frames())
    start = data.draw(st.integers(0, len(good) - 1))
    end = data.draw(st.integers(start, len(good)))
    wrong = good[:start] + data.draw(st.binary(max_size=60)) + good[end:]
    if wrong == good:
        return
    with pytest.raises((PackDamaged, FormatUnsupported)):
        unpack(wrong)


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=12), st.integers(0, 2**63))
@settings(max_examples=60, deadline=None)
def test_items_come_back_exact(items, seq):
    header, found = open_frame(frame_of(*items, seq=seq))
    assert found == items
    assert (header.seq, header.items, header.raw_len) == (seq, len(items), sum(len(item) for item in items))
    assert header.sha256 == sha(b"".join(items))


@pytest.mark.parametrize(
    "content",
    [b"", b"x", packs.FRAME_MAGIC * 20, packs.PACK_MAGIC, packs.END_MAGIC * 3, zstandard.compress(b"abc" * 400)],
    ids=["case 10 empty", "one byte", "frame magic", "pack magic", "end magic", "case 11 compressed"],
)
def test_case_11_content_that_looks_like_the_format_comes_back_exact(content):
    """case 11: data whose first bytes equal a magic (ours or zstd's) is stored and read back exact."""
    writer = PackWriter(vectors.PACK)
    writer.append(frame_of(content))
    _pack, frames, _replaces = unpack(b"".join(writer.finish()))
    assert frames[0][1] == [content]


def test_noise_is_stored_as_it_is():
    noise = random.Random(1).randbytes(5000)
    frame = frame_of(noise)
    assert parse_frame_header(frame[:FRAME_SIZE], 0).codec == CODEC_RAW
    assert frame.endswith(noise)


def test_a_pack_without_frames_is_sound():
    data = b"".join(PackWriter(vectors.PACK).finish([vectors.REPLACED[0]]))
    assert unpack(data) == (vectors.PACK, [], (vectors.REPLACED[0],))


def test_h39_a_chunk_written_by_the_streaming_api_is_read():
    """H39: a zstd frame that does not state its size is read up to the declared length."""
    content = b"streamed " * 500
    streaming = zstandard.ZstdCompressor().compressobj()
    payload = streaming.compress(content) + streaming.flush()
    assert zstandard.frame_content_size(payload) == -1
    header = parse_frame_header(with_payload(payload, len(content))[:FRAME_SIZE], 0)
    assert decode_payload(header, payload, 0) == content


@pytest.mark.parametrize("streamed", [False, True])
def test_h39_a_small_frame_that_unpacks_to_a_gigabyte_is_refused(streamed):
    """H39: the declared length is enforced before (stated size) or while (no stated size) unpacking."""
    if streamed:
        streaming = zstandard.ZstdCompressor().compressobj()
        payload = b"".join(streaming.compress(bytes(1 << 20)) for _ in range(64)) + streaming.flush()
    else:
        payload = zstandard.compress(bytes(64 << 20))
    assert len(payload) < 20_000
    header = parse_frame_header(with_payload(payload, 10_000)[:FRAME_SIZE], 0)
    tracemalloc.start()
    try:
        with pytest.raises(PackDamaged):
            decode_payload(header, payload, 0)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_h39_a_declared_gigabyte_is_refused_by_its_header():
    """H39: no header makes the reader allocate more than the limit."""
    for changes in ({"raw_len": 1 << 30}, {"stored_len": 1 << 40}, {"items": 1 << 31}):
        with pytest.raises(PackDamaged):
            parse_frame_header(reheaded(frame_of(b"x"), **changes)[:FRAME_SIZE], 0)


def test_bytes_behind_the_compressed_data_are_refused():
    payload = zstandard.compress(b"abc" * 100) + b"more"
    header = parse_frame_header(with_payload(payload, 300)[:FRAME_SIZE], 0)
    with pytest.raises(PackDamaged):
        decode_payload(header, payload, 0)


def test_a_payload_of_another_length_than_declared_is_refused():
    for payload, raw_len, codec in [(b"abc", 4, CODEC_RAW), (zstandard.compress(b"abc"), 4, CODEC_ZSTD)]:
        header = parse_frame_header(with_payload(payload, raw_len, codec)[:FRAME_SIZE], 0)
        with pytest.raises(PackDamaged):
            decode_payload(header, payload, 0)


def test_an_unknown_codec_is_unsupported_not_damaged():
    header = parse_frame_header(with_payload(b"abc", 3, codec=9)[:FRAME_SIZE], 0)
    with pytest.raises(FormatUnsupported):
        decode_payload(header, b"abc", 0)


def test_a_newer_pack_version_is_unsupported():
    head = bytearray(encode_pack_header(vectors.PACK)[:-4])
    struct.pack_into("<H", head, 8, 2)
    with pytest.raises(FormatUnsupported):
        parse_pack_header(bytes(head) + struct.pack("<I", zlib.crc32(head)))


def test_every_flipped_bit_of_an_items_table_is_noticed_without_unpacking():
    """The index is made from tables alone, so a table must not lie even where its payload is never looked at."""
    frame = frame_of(b"one", b"four")
    header = parse_frame_header(frame[:FRAME_SIZE], 0)
    table = frame[FRAME_SIZE : FRAME_SIZE + header.table_len]
    assert [length for _digest, length in parse_items(header, table, 0)] == [3, 4]
    for at in range(len(table) * 8):
        wrong = bytearray(table)
        wrong[at // 8] ^= 1 << (at % 8)
        with pytest.raises(PackDamaged):
            parse_items(header, bytes(wrong), 0)


def test_items_that_do_not_add_up_are_refused():
    frame = frame_of(b"one", b"two")
    table = frame[FRAME_SIZE : FRAME_SIZE + 80]
    wrong = table[:72] + struct.pack("<Q", 9)
    header = parse_frame_header(reheaded(frame, table_crc=zlib.crc32(wrong))[:FRAME_SIZE], 0)
    with pytest.raises(PackDamaged, match="add up"):
        parse_items(header, wrong, 0)


@pytest.mark.parametrize("part", ["gap", "count", "magic", "cover"])
def test_a_footer_with_a_right_hash_and_a_wrong_form_is_refused(part):
    """The form is checked, not only the checksum: a footer written by a faulty program is refused."""
    head = encode_pack_header(vectors.PACK)
    frame = frame_of(b"content")
    at = {"gap": 40, "cover": 32}.get(part, 32)
    length = len(frame) - (1 if part == "cover" else 0)
    entry = struct.pack("<QQQIBBHI4x", at, length, 0, 1, 1, 0, 0, 0)
    count = 2 if part == "count" else 1
    body = struct.pack("<4sIII", b"nope" if part == "magic" else packs.FOOTER_MAGIC, count, 0, 0) + entry
    digest = sha(head + body + struct.pack("<Q", len(body)))
    trailer = struct.pack("<Q32s8s", len(body), digest, packs.END_MAGIC)
    with pytest.raises(PackDamaged):
        parse_footer(head, body, trailer, len(head + frame + body + trailer))


def test_long_packs_are_written_in_pieces_of_bounded_size():
    writer = PackWriter(vectors.PACK)
    source = random.Random(2)
    for _ in range(40):
        writer.append(frame_of(source.randbytes(100_000)))
    pieces = writer.finish()
    assert len(pieces) >= 3
    assert max(len(piece) for piece in pieces) < 2 << 20
    assert sum(len(piece) for piece in pieces) == writer.size


def test_pack_errors_are_store_errors_with_a_next_step():
    with pytest.raises(StoreError) as caught:
        parse_pack_header(b"")
    assert caught.value.code == "pack-damaged"
    assert caught.value.next_step
