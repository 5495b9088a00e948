"""Where do the chunks and manifests lie that were lately asked for, so that the index need not be asked again?

Successive states of a tree ask for the same chunks over and over. What is kept is bounded, and let go when packs are
replaced and when there is nothing more to write.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import islice

from memoryd.store.chunkindex import PackRows, Place
from memoryd.store.reader import Reader

KEPT_MOST = 1 << 16
"""Addresses kept of each kind: some 26 MB at most, while a bulk of writes goes on."""
Ask = Callable[[list[bytes]], dict[bytes, list[Place]]]


class Recent:
    """Known places by address, in front of a question to the index; safe to share between threads."""

    def __init__(self, limit: int = KEPT_MOST) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._kept: dict[bytes, list[Place]] = {}

    def ask(self, wanted: list[bytes], ask: Ask) -> dict[bytes, list[Place]]:
        """The places of what is stored; unknown addresses have no key, and are asked for again the next time."""
        kept = self._kept
        found = {address: kept[address] for address in wanted if address in kept}
        if len(found) < len(wanted):
            fresh = ask([address for address in wanted if address not in found])
            self._keep(fresh)
            found.update(fresh)
        return found

    def note(self, places: Iterable[tuple[bytes, Place]]) -> None:
        """What was just written."""
        self._keep({address: [place] for address, place in places})

    def clear(self) -> None:
        """Let everything go."""
        self._kept = {}

    def _keep(self, places: dict[bytes, list[Place]]) -> None:
        with self._lock:
            kept = self._kept
            kept.update(places)
            over = len(kept) - self._limit
            if over > 0:
                kept = dict(islice(kept.items(), over + self._limit // 8, None))
            self._kept = kept  # readers go on with the one that they took


class Held:
    """What a write group is told about what the store holds."""

    def __init__(self, reader: Reader, revive: Callable[[Iterable[bytes]], None]) -> None:
        """`revive` learns every address that a group found: it may build on it from now on."""
        self._reader = reader
        self._revive = revive
        self._chunks = Recent()
        self._manifests = Recent()

    def chunk_places(self, hashes: list[bytes]) -> dict[bytes, list[Place]]:
        """Known copies of these chunks."""
        return self._found(self._chunks.ask(hashes, self._reader.chunk_places))

    def manifest_places(self, addresses: list[bytes]) -> dict[bytes, list[Place]]:
        """Known copies of these contents' manifests."""
        return self._found(self._manifests.ask(addresses, self._reader.manifest_places))

    def node_places(self, addresses: list[bytes]) -> dict[bytes, list[Place]]:
        """Known copies of these tree nodes."""
        return self._found(self._reader.node_places(addresses))

    def _found(self, places: dict[bytes, list[Place]]) -> dict[bytes, list[Place]]:
        self._revive(places)
        return places

    def found_sound(self, addresses: set[bytes]) -> None:
        """Contents (32-byte addresses) that a group stored, or found undamaged on disk."""
        self._reader.found_sound(addresses)

    def note(self, rows: PackRows) -> None:
        """A group of new content was sealed as this pack."""
        pack = rows.pack
        self._chunks.note((d, Place(pack, at, inner, size, size, whole)) for d, at, inner, size, whole in rows.chunks)

    def clear(self) -> None:
        """Packs were replaced, or nothing more is to be written: nothing is kept."""
        self._chunks.clear()
        self._manifests.clear()
