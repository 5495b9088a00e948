"""Where do packs lie, and how is one frame read from them?

Layout below `<home>/store`: `packs/xx/<id>.pack` (xx = first two hex digits of the id), `tmp/`, `quarantine/`.
Decoded frames are kept in a bounded cache, because neighbours in a solid frame are read one after the other.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from pathlib import Path

from memoryd.errors import PackDamaged
from memoryd.store import pack as packs

CACHE_BYTES = 8 << 20
CHECKED_PACKS = 4096
"""Packs whose intact frames are remembered."""
Signature = tuple[int, int, int, int]
_NAME = re.compile(r"[0-9a-f]{32}\.pack\Z")


@dataclass(slots=True)
class Frame:
    """A frame whose checksums held, unpacked; `table` is its items table as stored."""

    offset: int
    header: packs.FrameHeader
    table: bytes
    raw: bytes
    _items: list[tuple[bytes, int, int]] | None = None
    _verified: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """Items of `raw` that were hashed already, with their SHA-256: these bytes do not change any more."""

    def items(self) -> list[tuple[bytes, int, int]]:
        """(SHA-256, offset in the raw bytes, length) of every item, in order. Raises PackDamaged."""
        if self._items is None:
            at = 0
            found = []
            for digest, length in packs.parse_items(self.header, self.table, self.offset):
                found.append((digest, at, length))
                at += length
            self._items = found
        return self._items

    def checked(self, digest: bytes, at: int, length: int) -> bytes:
        """The raw bytes of the item at `at`, verified against `digest`. Raises PackDamaged."""
        return bytes(self.view(digest, at, length))

    def view(self, digest: bytes, at: int, length: int) -> memoryview:
        """As `checked`, without a copy."""
        raw = memoryview(self.raw)[at : at + length]
        if self._verified.get((at, length)) != digest:
            if len(raw) != length or hashlib.sha256(raw).digest() != digest:
                raise PackDamaged(f"An item of the frame at byte {self.offset} does not match its SHA-256.")
            self._verified[at, length] = digest
        return raw

    def item_at(self, at: int, length: int) -> bytes:
        """The raw bytes of the item that starts at `at`, verified against the items table. Raises PackDamaged."""
        items = self.items()
        first = bisect_left(items, at, key=itemgetter(1))
        for digest, start, size in islice(items, first, None):  # empty items share an offset with the next one
            if start != at:
                break
            if size == length:
                return self.checked(digest, at, length)
        raise PackDamaged(f"No item of the frame at byte {self.offset} lies where the index says.")


class PackFile:
    """An open pack; every read is checked and raises PackDamaged where bytes are missing or wrong."""

    def __init__(self, fd: int, pack: bytes) -> None:
        self.pack = pack
        self.size = os.fstat(fd).st_size
        self._fd = fd

    def read_at(self, offset: int, length: int) -> bytes:
        """Exactly these bytes."""
        data = os.pread(self._fd, length, offset)
        while len(data) < length:
            more = os.pread(self._fd, length - len(data), offset + len(data))
            if not more:
                raise PackDamaged(f"The pack ends at byte {self.size}, before byte {offset + length}.", offset=offset)
            data += more
        return data

    def check_header(self) -> bytes:
        """The 32 bytes of the pack header, checked against the file's name."""
        head = self.read_at(0, packs.HEADER_SIZE)
        if packs.parse_pack_header(head) != self.pack:
            raise PackDamaged("The id in the pack header is not the file's name.", offset=0)
        return head

    def footer(self) -> packs.Footer:
        """The checked footer."""
        head = self.check_header()
        trailer = self.read_at(max(0, self.size - packs.TRAILER_SIZE), min(self.size, packs.TRAILER_SIZE))
        length = packs.parse_trailer(trailer, self.size)
        body = self.read_at(self.size - packs.TRAILER_SIZE - length, length)
        return packs.parse_footer(head, body, trailer, self.size)

    def header(self, offset: int) -> packs.FrameHeader:
        """The checked frame header at `offset`."""
        header = packs.parse_frame_header(self.read_at(offset, packs.FRAME_SIZE), offset)
        if offset + header.length > self.size:
            raise PackDamaged(f"The frame at byte {offset} is longer than its pack.", offset=offset)
        return header

    def items(self, offset: int, header: packs.FrameHeader) -> list[tuple[bytes, int]]:
        """(SHA-256, length) of every item, from the checked table."""
        return packs.parse_items(header, self.read_at(offset + packs.FRAME_SIZE, header.table_len), offset)

    def frame(self, offset: int, length: int = 0) -> Frame:
        """The frame at `offset`, its checksums verified, its payload unpacked; `length` where the footer tells it."""
        header, table, payload = self._stored(offset, length)
        return Frame(offset, header, table, packs.decode_payload(header, payload, offset))

    def check_frame(self, offset: int) -> None:
        """Verify every stored byte of a frame without unpacking it."""
        header, table, _payload = self._stored(offset)
        packs.parse_items(header, table, offset)

    def _stored(self, offset: int, length: int = 0) -> tuple[packs.FrameHeader, bytes, bytes | memoryview]:
        if length:
            stored = memoryview(self.read_at(offset, length))
            header = packs.parse_frame_header(bytes(stored[: packs.FRAME_SIZE]), offset)
            if header.length != length:
                raise PackDamaged(f"The frame at byte {offset} has not the length that the footer says.", offset=offset)
            body = stored[packs.FRAME_SIZE :]
        else:
            header = self.header(offset)
            body = memoryview(self.read_at(offset + packs.FRAME_SIZE, header.table_len + header.stored_len))
        payload = body[header.table_len :]
        packs.check_payload(header, payload, offset)
        return header, bytes(body[: header.table_len]), payload

    def scan(self) -> Iterator[int]:
        """Offsets of the frames that are found without a footer: end to end, and after damage by their magic."""
        at = packs.HEADER_SIZE
        while at + packs.FRAME_SIZE <= self.size:
            try:
                header = self.header(at)
            except PackDamaged:
                at = self._next_magic(at + 1)
            else:
                yield at
                at += header.length

    def _next_magic(self, start: int) -> int:
        step = 1 << 20
        overlap = len(packs.FRAME_MAGIC) - 1
        for at in range(start, self.size, step):
            found = os.pread(self._fd, step + overlap, at).find(packs.FRAME_MAGIC)
            if found >= 0:
                return at + found
        return self.size


class Shelf:
    """The packs of one home. Reading is safe from many threads."""

    def __init__(self, root: Path, cache_bytes: int = CACHE_BYTES) -> None:
        self.packs = root / "packs"
        self.tmp = root / "tmp"
        self.quarantine = root / "quarantine"
        self._cache_bytes = self._usual_bytes = cache_bytes
        self._cached: OrderedDict[tuple[bytes, int], Frame] = OrderedDict()
        self._held = 0
        self._chance = random.Random(0)
        self._lock = threading.Lock()
        self._folder = str(self.packs)
        self._checked: dict[bytes, tuple[Signature, set[int]]] = {}
        """Frames that were found intact, by pack, as long as the pack's file stays untouched."""

    def path(self, pack: bytes) -> Path:
        """Where the pack with this id (16 bytes) lies."""
        name = pack.hex()
        return self.packs / name[:2] / f"{name}.pack"

    def listing(self) -> tuple[list[bytes], list[Path]]:
        """Ids of the packs that are there, sorted, and whatever else lies between them. Raises OSError."""
        found: list[bytes] = []
        strays: list[Path] = []
        for root, _folders, names in os.walk(self.packs, onerror=_raise):
            folder = Path(root)
            for name in names:
                if _NAME.match(name) and folder.name == name[:2] and folder.parent == self.packs:
                    found.append(bytes.fromhex(name[:32]))
                else:
                    strays.append(folder / name)
        return sorted(found), strays

    @contextmanager
    def open(self, pack: bytes) -> Iterator[PackFile]:
        """The pack as an open file; a missing or unreadable one raises PackDamaged."""
        try:
            fd = os.open(self._place(pack), os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            name = self.path(pack).name
            raise PackDamaged(f"The pack {name} cannot be opened: {error.strerror}.", pack=name) from error
        try:
            yield PackFile(fd, pack)
        except OSError as error:
            name = self.path(pack).name
            raise PackDamaged(f"The pack {name} cannot be read: {error.strerror}.", pack=name) from error
        finally:
            os.close(fd)

    def _place(self, pack: bytes) -> str:
        name = pack.hex()
        return f"{self._folder}/{name[:2]}/{name}.pack"

    def frame(self, pack: bytes, offset: int) -> Frame:
        """The unpacked frame, from the cache where it is there. Raises PackDamaged."""
        key = (pack, offset)
        with self._lock:
            found = self._cached.get(key)
            if found is not None:
                self._cached.move_to_end(key)
                return found
        with self.open(pack) as file:
            frame = file.frame(offset)
        self._keep(key, frame)
        return frame

    def _keep(self, key: tuple[bytes, int], frame: Frame) -> None:
        size = len(frame.raw) + len(frame.table)
        if size > self._cache_bytes:
            return
        with self._lock:
            if key in self._cached:
                return
            self._cached[key] = frame
            self._held += size
            self._shrink()

    def _shrink(self) -> None:
        """Let the frame go that was used longest ago; while the cache is widened, any one of the older half.

        Bulk reads go through the same frames in the same order again and again: of a round that is a little longer
        than the cache, the oldest frame is just the one that is needed next.
        """
        while self._held > self._cache_bytes:
            half = len(self._cached) // 2 if self._cache_bytes > self._usual_bytes else 0
            key = next(islice(self._cached, self._chance.randrange(half + 1), None))
            old = self._cached.pop(key)
            self._held -= len(old.raw) + len(old.table)

    def widen(self, size: int) -> None:
        """Keep up to `size` bytes of unpacked frames until `rest`."""
        self._cache_bytes = max(self._cache_bytes, size)

    def rest(self) -> None:
        """Keep no more unpacked frames than usual."""
        with self._lock:
            self._cache_bytes = self._usual_bytes
            self._shrink()

    def intact(self, pack: bytes, offset: int) -> bool:
        """Whether every stored byte of the frame on disk matches its checksums.

        A frame is read once; again when the pack's file was touched or damage was met anywhere (`distrust`).
        """
        try:
            signature = _signature(self._place(pack))
            known, offsets = self._checked.get(pack, (None, set()))
            if known != signature:
                offsets = set()
            if offset not in offsets:
                with self.open(pack) as file:
                    file.check_frame(offset)
                offsets.add(offset)
        except (PackDamaged, OSError):
            self.distrust()
            return False
        if known != signature:
            self._trust(pack, signature, offsets)
        return True

    def _trust(self, pack: bytes, signature: Signature, offsets: set[int]) -> None:
        if len(self._checked) >= CHECKED_PACKS:
            self._checked = {}
        self._checked[pack] = (signature, offsets)

    def distrust(self) -> None:
        """Damage was met: whatever was found intact before is looked at again."""
        self._checked = {}


def _signature(path: str) -> Signature:
    about = os.stat(path)  # noqa: PTH116 - called for every frame that a group meets
    return about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def _raise(error: OSError) -> None:
    """An unreadable folder must not look like an empty one."""
    raise error
