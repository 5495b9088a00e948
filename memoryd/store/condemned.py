"""Since when does nobody need an item, and was it asked for again meanwhile?

A view in one file: losing it only delays what a later collection removes. A write group that finds an item in the
store revives it, whether or not a record names it yet, so that nothing is taken away under a write of several groups.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from memoryd.files import Files

OWNER = "condemned"
_MAGIC = b"memoryd condemned 1\n"
_ENTRY = struct.Struct("<33sd")
_HEAD = len(_MAGIC) + 32

CHUNK, WHOLE, MANIFEST, NODE = b"c", b"w", b"m", b"n"
"""First byte of a key; the address follows. `w`: that a chunk is a content of its own."""
KINDS = (CHUNK, WHOLE, MANIFEST, NODE)


class Condemned:
    """Condemned items by key, with the time (seconds since 1970). Its owner holds the store lane for every change."""

    def __init__(self, path: Path, files: Files) -> None:
        """Read the file; a missing or damaged one condemns nothing."""
        self._path = path
        self._files = files
        self._since = _read(path)
        self._asked: set[bytes] | None = None

    def since(self) -> Mapping[bytes, float]:
        """What is condemned now."""
        return self._since

    def watch(self) -> None:
        """From now on remember what is revived."""
        self._asked = set()

    def unwatch(self) -> None:
        """Remember no longer."""
        self._asked = None

    def asked(self) -> set[bytes]:
        """Addresses that write groups found in the store since `watch`."""
        return self._asked or set()

    def revive(self, addresses: Iterable[bytes]) -> None:
        """Somebody builds on these items again."""
        if self._asked is None and not self._since:
            return
        for address in addresses:
            if self._asked is not None:
                self._asked.add(address)
            for kind in KINDS:
                self._since.pop(kind + address, None)

    def settle(self, since: Mapping[bytes, float]) -> None:
        """Condemn exactly these, but for what was revived since `watch`. Raises OSError where the file stays old."""
        asked = self.asked()
        kept = {key: time for key, time in since.items() if key[1:] not in asked}
        changed = kept != self._since
        self._since = kept
        if changed:
            entries = b"".join(_ENTRY.pack(key, time) for key, time in sorted(kept.items()))
            self._files.replace(self._path, _MAGIC + hashlib.sha256(entries).digest() + entries, owner=OWNER)


def _read(path: Path) -> dict[bytes, float]:
    try:
        data = path.read_bytes()
    except OSError:
        return {}
    entries = data[_HEAD:]
    head = _MAGIC + hashlib.sha256(entries).digest()
    if data[:_HEAD] != head or len(entries) % _ENTRY.size:
        return {}
    return dict(_ENTRY.iter_unpack(entries))
