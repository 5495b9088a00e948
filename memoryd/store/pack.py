"""How do frames lie in a pack, and is every stored byte what was written?

    pack   = header (32 B) frame* footer
    frame  = frame header (88 B) [items table] payload
    footer = head (16 B) table-of-contents entry (40 B)* replaced pack id (16 B)* trailer (48 B)

All numbers are little-endian. A CRC-32 stands over each header, table and payload as stored, a SHA-256 over the pack
header and the footer, and frames tile the file without a gap, so no stored byte is without a check.
This file is pure: bytes in, bytes out; `shelf` does the reading.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

import zstandard

from memoryd.errors import FormatUnsupported, PackDamaged

PACK_MAGIC = b"\x93MDPACK\n"
FRAME_MAGIC = b"\x93MDF"
FOOTER_MAGIC = b"\x93MDT"
END_MAGIC = b"\x93MDEND!\n"
PACK_VERSION = 1

CHUNK, MANIFEST, TREE, DOCUMENT, SNAPSHOT, SCOPE, TOMBSTONE = range(1, 8)
RECORD_NAMES = {DOCUMENT: "document", SNAPSHOT: "snapshot", SCOPE: "scope", TOMBSTONE: "tombstone"}
RECORD_KINDS = {name: kind for kind, name in RECORD_NAMES.items()}
CODEC_RAW, CODEC_ZSTD = 0, 1
PACK_ARRANGED = 1
"""Pack flag: similar chunks lie side by side already."""
FLAG_WHOLE = 1
"""Frame flag of chunks: every item is a whole content, so its hash is a content address without a manifest."""

ZSTD_LEVEL = 3
NODE_BYTES = 16 * 1024
"""The same for tree nodes: a comparison reads single ones."""
SOLID_BYTES = 64 * 1024
"""Raw bytes up to which small items share a frame; a longer item has a frame of its own. The format allows 256 KiB:
that would be 6 % smaller on text and make a lone read four times as slow."""
PIECES_BYTES = 256 * 1024
"""The same for the pieces of contents that are longer than a chunk: they are read one after the other."""
RAW_LIMIT = 64 << 20
"""No frame holds or claims more raw bytes than this."""

_HEADER = struct.Struct("<8sHH16s")
_FRAME = struct.Struct("<4sBBHIQQQ32sII8x")
_ITEM = struct.Struct("<32sQ")
_FOOTER = struct.Struct("<4sIII")
_TOC = struct.Struct("<QQQIBBHI4x")
_TRAILER = struct.Struct("<Q32s8s")
_U32 = struct.Struct("<I")
HEADER_SIZE = _HEADER.size + 4
FRAME_SIZE = _FRAME.size + 4
TRAILER_SIZE = _TRAILER.size
_WRITE_BYTES = 1 << 20
_SALVAGE_BYTES = 512

_decompressors: list[zstandard.ZstdDecompressor] = []
_compressors: dict[int, list[zstandard.ZstdCompressor]] = {}


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """One checked frame header. Lengths in bytes; `sha256` is that of the raw bytes of all items together.

    `seq` of a record frame is that of its first record; of any other frame, the newest sequence number that was
    committed before its write group.
    """

    kind: int
    codec: int
    flags: int
    items: int
    raw_len: int
    stored_len: int
    seq: int
    sha256: bytes
    table_crc: int
    payload_crc: int
    crc: int

    @property
    def table_len(self) -> int:
        return 0 if self.items == 1 else self.items * _ITEM.size

    @property
    def length(self) -> int:
        """Bytes of the whole frame on disk."""
        return FRAME_SIZE + self.table_len + self.stored_len


@dataclass(frozen=True, slots=True)
class TocEntry:
    """A frame as the footer lists it; `crc` repeats the CRC-32 of its header."""

    offset: int
    length: int
    seq: int
    items: int
    kind: int
    codec: int
    flags: int
    crc: int


@dataclass(frozen=True, slots=True)
class Footer:
    """What ends a pack: its frames in order and the ids (16 bytes) of the packs that it replaces."""

    entries: tuple[TocEntry, ...]
    replaces: tuple[bytes, ...]


def encode_frame(
    kind: int,
    parts: Sequence[bytes | memoryview],
    hashes: Sequence[bytes],
    *,
    seq: int,
    flags: int = 0,
    level: int = ZSTD_LEVEL,
) -> bytes:
    """A frame of the items `parts` with their SHA-256 `hashes`; compressed where that is shorter."""
    raw = parts[0] if len(parts) == 1 else b"".join(parts)
    codec, payload = _compress(raw, level)
    table, digest = b"", hashes[0]
    if len(parts) > 1:
        table = b"".join([_ITEM.pack(item, len(part)) for item, part in zip(hashes, parts, strict=True)])
        digest = hashlib.sha256(raw).digest()
    head = _FRAME.pack(
        FRAME_MAGIC,
        kind,
        codec,
        flags,
        len(parts),
        len(raw),
        len(payload),
        seq,
        digest,
        crc32(table),
        crc32(payload),
    )
    return b"".join((head, _U32.pack(crc32(head)), table, payload))


def parse_frame_header(data: bytes, offset: int) -> FrameHeader:
    """Check and read the 88 bytes of a frame header that stands at `offset`. Raises PackDamaged."""
    if len(data) < FRAME_SIZE or _U32.unpack_from(data, _FRAME.size)[0] != crc32(data[: _FRAME.size]):
        raise PackDamaged(f"The frame header at byte {offset} does not match its checksum.", offset=offset)
    magic, kind, codec, flags, items, raw_len, stored_len, seq, digest, table_crc, payload_crc = _FRAME.unpack_from(
        data
    )
    if magic != FRAME_MAGIC or items < 1 or max(raw_len, stored_len, items) > RAW_LIMIT:
        raise PackDamaged(f"No frame of a sound form starts at byte {offset}.", offset=offset)
    crc = _U32.unpack_from(data, _FRAME.size)[0]
    return FrameHeader(kind, codec, flags, items, raw_len, stored_len, seq, digest, table_crc, payload_crc, crc)


def parse_items(header: FrameHeader, table: bytes, offset: int) -> list[tuple[bytes, int]]:
    """(SHA-256, length) of every item of the frame at `offset`. Raises PackDamaged."""
    if len(table) != header.table_len or crc32(table) != header.table_crc:
        raise PackDamaged(f"The items table of the frame at byte {offset} does not match its checksum.", offset=offset)
    if header.items == 1:
        return [(header.sha256, header.raw_len)]
    items = list(_ITEM.iter_unpack(table))
    if sum(length for _digest, length in items) != header.raw_len:
        raise PackDamaged(f"The items of the frame at byte {offset} do not add up to its length.", offset=offset)
    return items


def loose_items(table: bytes) -> list[tuple[bytes, int]]:
    """What a damaged items table says, none of it verified."""
    return list(_ITEM.iter_unpack(table[: len(table) // _ITEM.size * _ITEM.size]))


def check_payload(header: FrameHeader, payload: bytes | memoryview, offset: int) -> None:
    """Raises PackDamaged where the stored payload is not what the header says."""
    if len(payload) != header.stored_len or crc32(payload) != header.payload_crc:
        raise PackDamaged(f"The payload of the frame at byte {offset} does not match its checksum.", offset=offset)


def decode_payload(header: FrameHeader, payload: bytes | memoryview, offset: int) -> bytes:
    """The raw bytes of a frame's checked payload, never more than the header declares. Raises PackDamaged."""
    if header.codec == CODEC_RAW:
        raw = bytes(payload)
    elif header.codec == CODEC_ZSTD:
        raw = _decompress(payload, header.raw_len, offset)
    else:
        raise FormatUnsupported(f"The frame at byte {offset} uses the codec {header.codec}, which is not known here.")
    if len(raw) != header.raw_len:
        raise PackDamaged(f"The frame at byte {offset} does not unpack to its declared length.", offset=offset)
    return raw


def decode_left(header: FrameHeader, payload: bytes) -> bytes:
    """As many raw bytes from the start as a damaged payload still gives, none of them verified."""
    if header.codec != CODEC_ZSTD:
        return payload[: header.raw_len] if header.codec == CODEC_RAW else b""
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    raw = bytearray()
    try:
        for start in range(0, len(payload), _SALVAGE_BYTES):
            raw += decompressor.decompress(payload[start : start + _SALVAGE_BYTES])
            if len(raw) >= header.raw_len or decompressor.eof:
                break
    except zstandard.ZstdError:
        pass  # what came before it is what is left
    return bytes(raw[: header.raw_len])


def _compress(raw: bytes | memoryview, level: int) -> tuple[int, bytes]:
    idle = _compressors.setdefault(level, [])
    try:
        compressor = idle.pop()
    except IndexError:
        compressor = zstandard.ZstdCompressor(level=level)
    try:
        packed = compressor.compress(raw)
    finally:
        idle.append(compressor)
    return (CODEC_ZSTD, packed) if len(packed) < len(raw) else (CODEC_RAW, bytes(raw))


def _decompress(payload: bytes | memoryview, raw_len: int, offset: int) -> bytes:
    """One zstd frame; a stated size must be the declared one, and without one the output is bounded by it."""
    try:
        stated = zstandard.frame_content_size(payload)
        if raw_len == 0 or stated not in (-1, raw_len):
            raise PackDamaged(f"The frame at byte {offset} states another length than its header.", offset=offset)
        try:
            decompressor = _decompressors.pop()
        except IndexError:
            decompressor = zstandard.ZstdDecompressor()
        try:
            return decompressor.decompress(payload, max_output_size=raw_len, allow_extra_data=False)
        finally:
            _decompressors.append(decompressor)
    except zstandard.ZstdError as error:
        raise PackDamaged(f"The frame at byte {offset} does not unpack: {error}.", offset=offset) from error


def encode_pack_header(pack: bytes, flags: int = 0) -> bytes:
    """The first 32 bytes of the pack with this id (16 bytes)."""
    head = _HEADER.pack(PACK_MAGIC, PACK_VERSION, flags, pack)
    return head + _U32.pack(crc32(head))


def parse_pack_header(data: bytes) -> bytes:
    """The id in a checked pack header. Raises PackDamaged, FormatUnsupported."""
    if len(data) != HEADER_SIZE or _U32.unpack_from(data, _HEADER.size)[0] != crc32(data[: _HEADER.size]):
        raise PackDamaged("The pack header does not match its checksum.", offset=0)
    magic, version, _flags, pack = _HEADER.unpack_from(data)
    if magic != PACK_MAGIC:
        raise PackDamaged("The file does not start like a pack.", offset=0)
    if version != PACK_VERSION:
        raise FormatUnsupported(f"A pack has the format {version}; this memoryd reads {PACK_VERSION}.")
    return bytes(pack)


def pack_flags(data: bytes) -> int:
    """The flags in a pack header that was checked before."""
    return int(_HEADER.unpack_from(data)[2])


class PackWriter:
    """Collects the frames of one pack in memory; `finish` gives the bytes of the file."""

    def __init__(self, pack: bytes, flags: int = 0) -> None:
        self.pack = pack
        self.size = HEADER_SIZE
        self.frames = 0
        self._pieces = [encode_pack_header(pack, flags)]
        self._toc: list[bytes] = []

    def append(self, frame: bytes) -> int:
        """Add an encoded frame; its offset in the pack."""
        offset = self.size
        header = parse_frame_header(frame[:FRAME_SIZE], offset)
        self._toc.append(
            _TOC.pack(offset, len(frame), header.seq, header.items, header.kind, header.codec, header.flags, header.crc)
        )
        self._pieces.append(frame)
        self.size += len(frame)
        self.frames += 1
        return offset

    def finish(self, replaces: Sequence[bytes] = ()) -> list[bytes]:
        """The file as pieces of about 1 MiB, footer included; `self.size` is then the size of the file."""
        body = b"".join(
            [_FOOTER.pack(FOOTER_MAGIC, len(self._toc), len(replaces), 0), *self._toc, *(bytes(r) for r in replaces)]
        )
        footer = body + _TRAILER.pack(len(body), _footer_hash(self._pieces[0], body), END_MAGIC)
        self.size += len(footer)
        return list(_runs([*self._pieces, footer]))


def _runs(pieces: list[bytes]) -> Iterator[bytes]:
    run: list[bytes] = []
    size = 0
    for piece in pieces:
        run.append(piece)
        size += len(piece)
        if size >= _WRITE_BYTES:
            yield b"".join(run)
            run, size = [], 0
    if run:
        yield b"".join(run)


def _footer_hash(pack_header: bytes, body: bytes) -> bytes:
    return hashlib.sha256(pack_header + body + struct.pack("<Q", len(body))).digest()


def parse_trailer(data: bytes, size: int) -> int:
    """Length of the footer body before the last 48 bytes of a pack of `size` bytes. Raises PackDamaged."""
    if len(data) != TRAILER_SIZE:
        raise PackDamaged("The pack is too short to have a footer.", offset=size)
    body_len, _digest, magic = _TRAILER.unpack(data)
    if magic != END_MAGIC or not _FOOTER.size <= body_len <= size - HEADER_SIZE - TRAILER_SIZE:
        raise PackDamaged("The file does not end like a pack.", offset=size - TRAILER_SIZE)
    return int(body_len)


def parse_footer(pack_header: bytes, body: bytes, trailer: bytes, size: int) -> Footer:
    """Check and read the footer of a pack of `size` bytes. Raises PackDamaged."""
    at = size - TRAILER_SIZE - len(body)
    if _TRAILER.unpack(trailer)[1] != _footer_hash(pack_header, body):
        raise PackDamaged("The footer does not match its SHA-256.", offset=at)
    magic, frames, replaced, _reserved = _FOOTER.unpack_from(body)
    toc_end = _FOOTER.size + frames * _TOC.size
    if magic != FOOTER_MAGIC or toc_end + 16 * replaced != len(body):
        raise PackDamaged("The footer is not of a sound form.", offset=at)
    entries = tuple(TocEntry(*fields) for fields in _TOC.iter_unpack(body[_FOOTER.size : toc_end]))
    expected = HEADER_SIZE
    for entry in entries:
        if entry.offset != expected or entry.length < FRAME_SIZE:
            raise PackDamaged("The frames that the footer lists do not lie end to end.", offset=at)
        expected += entry.length
    if expected != at:
        raise PackDamaged("Bytes lie between the last frame and the footer.", offset=expected)
    return Footer(entries, tuple(body[start : start + 16] for start in range(toc_end, len(body), 16)))
