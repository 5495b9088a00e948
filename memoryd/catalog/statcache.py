"""Which content did a file hold when it was last read, if nothing about it has changed since?

A disposable view in a file of its own (`stats.db`), one row a directory, so that an unchanged tree costs one look-up a
directory. Every row is under a checksum: a flipped bit costs a reading, never a wrong address.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection

from memoryd.catalog.db import open_or_replace

STATS: tuple[str, ...] = (
    """
-- Step 1.
--   folders  path (absolute, raw bytes); names joined by NUL, facts as fixed records in their order; root = address of
--            the directory's node where every entry of it is listed here, else empty; epoch = that in which it was
--            written; crc over all of it
--   meta     `packs`: ids of the packs that held everything that rows of the current `epoch` name
CREATE TABLE folders (
  path BLOB PRIMARY KEY, device INTEGER NOT NULL, names BLOB NOT NULL, facts BLOB NOT NULL, root BLOB NOT NULL,
  epoch INTEGER NOT NULL, crc INTEGER NOT NULL
);
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
""",
)
_FACT = struct.Struct("<QqqQI32s")
_DEVICE_MASK = (1 << 63) - 1
_PACK = 16
ASKED_TOGETHER = 200
PACKS, EPOCH = "packs", "epoch"
Fact = tuple[int, int, int, int, int, bytes]
"""size, mtime_ns, ctime_ns, inode, mode, and the address that stands for it; of a directory only the last two."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A directory as it was cached; `root` is the address of its node, or empty where `facts` lack a name.

    Where `epoch` is not the current one, what is named may have left the store meanwhile.
    """

    path: bytes
    device: int
    facts: dict[bytes, Fact]
    root: bytes
    epoch: int


class StatCache:
    """The open cache of one home; used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Open it, or begin it anew where it is damaged. Raises DiskFull, HomeError, FormatUnsupported."""
        self._db = open_or_replace(path, STATS, synchronous="NORMAL")

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def folder(self, path: bytes, device: int) -> Folder | None:
        """What is known of a directory on this device; None where that is nothing, or not whole."""
        found = self.folders([path]).get(path)
        return found if found is not None and found.device == device else None

    def folders(self, paths: Sequence[bytes]) -> dict[bytes, Folder]:
        """What is known of some directories; those of which nothing is, or not all, have no key."""
        found = {}
        for some in _portions(paths):
            marks = ",".join("?" * len(some))
            columns = "path, device, names, facts, root, epoch, crc"
            for path, device, *told, crc in self._db.rows(
                f"SELECT {columns} FROM folders WHERE path IN ({marks})", some
            ):
                if crc == _crc(path, *told):
                    names, facts, root, epoch = told
                    listed = zip(names.split(b"\0") if names else (), _FACT.iter_unpack(facts), strict=True)
                    found[path] = Folder(path, device, dict(listed), root, epoch)
        return found

    def keep(self, folders: Sequence[Folder]) -> None:
        """Remember these directories; what was below a name that is no directory any more is forgotten."""
        before = self._kept([one.path for one in folders])
        with self._db.write() as tx:
            for one in folders:
                if one.path in before:
                    self._forget_below(tx, one)
            tx.executemany("INSERT OR REPLACE INTO folders VALUES (?, ?, ?, ?, ?, ?, ?)", map(_row, folders))

    def _kept(self, paths: Sequence[bytes]) -> set[bytes]:
        """Which of these directories have a row."""
        found: set[bytes] = set()
        for some in _portions(paths):
            marks = ",".join("?" * len(some))
            found.update(row[0] for row in self._db.rows(f"SELECT path FROM folders WHERE path IN ({marks})", some))
        return found

    def _forget_below(self, tx: Connection, one: Folder) -> None:
        before = self.folder(one.path, one.device)
        for name in _directories(before.facts) if before is not None else ():
            if name not in one.facts:
                place = one.path.rstrip(b"/") + b"/" + name
                tx.execute("DELETE FROM folders WHERE path = ? OR (path > ? AND path < ?)", _range(place))

    def forget_below(self, prefix: bytes, but: set[bytes]) -> None:
        """Forget the folders whose path begins with `prefix` (which ends with a slash), except these."""
        found = self._db.rows("SELECT path FROM folders WHERE path >= ? AND path < ?", (prefix, prefix[:-1] + b"0"))
        gone = [row for row in found if row[0] not in but]
        if gone:
            with self._db.write() as tx:
                tx.executemany("DELETE FROM folders WHERE path = ?", gone)

    def epoch(self, packs: set[bytes]) -> int:
        """The current epoch; a new one where a pack is gone that held what the former one names."""
        number = int(self._db.meta(EPOCH) or 0)
        joined = bytes.fromhex(self._db.meta(PACKS) or "")
        if not {joined[at : at + _PACK] for at in range(0, len(joined), _PACK)} <= packs:
            number += 1
        self.keep_packs(packs, number)
        return number

    def keep_packs(self, packs: Iterable[bytes], epoch: int) -> None:
        """These packs hold everything that the rows of this epoch name."""
        with self._db.write() as tx:
            self._db.set_meta(tx, PACKS, b"".join(sorted(packs)).hex())
            self._db.set_meta(tx, EPOCH, str(epoch))

    def clear(self) -> None:
        """Forget everything."""
        with self._db.write() as tx:
            tx.execute("DELETE FROM folders")


def _row(one: Folder) -> tuple[bytes, int, bytes, bytes, bytes, int, int]:
    names = b"\0".join(one.facts)
    facts = b"".join([_FACT.pack(*fact) for fact in one.facts.values()])
    crc = _crc(one.path, names, facts, one.root, one.epoch)
    return one.path, one.device, names, facts, one.root, one.epoch, crc


def _portions(paths: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    return (paths[start : start + ASKED_TOGETHER] for start in range(0, len(paths), ASKED_TOGETHER))


def device_of(number: int) -> int:
    """A device number as SQLite can hold it."""
    return number & _DEVICE_MASK


def _directories(facts: dict[bytes, Fact]) -> Iterator[bytes]:
    return (name for name, fact in facts.items() if fact[4] & 0o170000 == 0o040000)


def _range(place: bytes) -> tuple[bytes, bytes, bytes]:
    return place, place + b"/", place + b"0"


def _crc(path: bytes, names: bytes, facts: bytes, root: bytes, epoch: int) -> int:
    crc = zlib.crc32(path, epoch & 0xFFFFFFFF)
    for part in (names, facts, root):
        crc = zlib.crc32(part, zlib.crc32(len(part).to_bytes(8, "little"), crc))
    return crc
