"""What is still needed, seen from the contents and trees that are in force?

Tree nodes lead to their children and to contents, manifests to chunks. References are never counted. Whatever cannot
be read on the way may lead to something needed: then nobody can tell, and nothing may be removed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from memoryd.digest import PREFIX
from memoryd.errors import FormatUnsupported, PackDamaged, ReachUnknown, StoreError
from memoryd.store import pack as packs
from memoryd.store.census import Item
from memoryd.store.condemned import CHUNK, MANIFEST, NODE, WHOLE
from memoryd.store.manifest import parse_manifest
from memoryd.store.merkle import DIRECTORY, parse_node

NAMED_MOST = 50
NO_TREE = (
    "Run `memoryd repair`, or take a snapshot of the same directory again. Where the node exists nowhere any more, a "
    "person gives up the snapshots that `memoryd check` names: `memoryd forget snapshot:<number>`."
)
TakeRecord = Callable[[int, int, dict[str, object]], None]
"""Learns (kind, seq, data) of every record."""
Stop = Callable[[], bool]


class Packs(Protocol):
    """What a store tells of its packs."""

    def in_force(self) -> tuple[list[bytes], set[bytes]]: ...

    def items(self, pack: bytes) -> tuple[tuple[bytes, ...], list[Item]]: ...

    def item(self, pack: bytes, frame_off: int, inner_off: int, length: int, digest: bytes | None = None) -> bytes: ...


class Where(NamedTuple):
    """Where one copy of a manifest or node lies."""

    pack: bytes
    frame_off: int
    inner_off: int
    length: int


@dataclass(slots=True)
class Live:
    """What is needed: chunks, contents (by their own address) and nodes, 32 bytes each."""

    chunks: set[bytes] = field(default_factory=set)
    contents: set[bytes] = field(default_factory=set)
    nodes: set[bytes] = field(default_factory=set)

    def __contains__(self, key: bytes) -> bool:
        """Whether the item of this key is needed."""
        kind, address = key[:1], key[1:]
        if kind == CHUNK:
            return address in self.chunks or address in self.contents
        return address in (self.nodes if kind == NODE else self.contents)


def keys_of(item: Item) -> tuple[bytes, ...]:
    """The keys under which an item is needed or not; a record has none."""
    if item.kind == packs.CHUNK:
        return (CHUNK + item.digest, WHOLE + item.digest) if item.whole else (CHUNK + item.digest,)
    if item.kind == packs.MANIFEST:
        return (MANIFEST + item.digest,)
    return (NODE + item.digest,) if item.kind == packs.TREE else ()


class Reach:
    """Walks a store's manifests and nodes. `known`: the packs that were looked at."""

    def __init__(self, store: Packs) -> None:
        self._store = store
        self.known: set[bytes] = set()
        self.live = Live()
        self._manifests: dict[bytes, list[Where]] = {}
        self._nodes: dict[bytes, list[Where]] = {}

    def look(self, take: TakeRecord, stop: Stop = lambda: False) -> bool:
        """Look at every pack in force, give out its records; False where stopped. Raises ReachUnknown.

        What the packs' own footers say must be what the index goes by.
        """
        listed, leftover = self._store.in_force()
        replaced: set[bytes] = set()
        for pack in listed:
            if stop():
                return False
            if pack not in self.known:
                replaced.update(self.look_at(pack, take)[0])
        if leftover - replaced:
            raise _unknown(f"No pack says that it replaced {sorted(leftover - replaced)[0].hex()}, but the index does.")
        return True

    def look_at(self, pack: bytes, take: TakeRecord) -> tuple[tuple[bytes, ...], list[Item]]:
        """As `look`, for one pack; what it replaces and holds. Raises ReachUnknown."""
        replaces, items = self.read(pack)
        for item in items:
            if item.record is not None:
                take(item.kind, *item.record)
            elif item.kind in (packs.MANIFEST, packs.TREE):
                table = self._manifests if item.kind == packs.MANIFEST else self._nodes
                table.setdefault(item.digest, []).append(Where(pack, item.frame_off, item.inner_off, item.length))
        self.known.add(pack)
        return replaces, items

    def read(self, pack: bytes) -> tuple[tuple[bytes, ...], list[Item]]:
        """What a pack replaces and holds. Raises ReachUnknown."""
        try:
            return self._store.items(pack)
        except (PackDamaged, FormatUnsupported) as error:
            raise _unknown(f"The pack {pack.hex()} cannot be read whole: {error.message}") from error

    def follow(
        self, contents: Iterable[bytes], trees: Iterable[bytes], *, forgotten: Collection[bytes] = ()
    ) -> set[bytes]:
        """Mark what these lead to; the contents that no manifest tells of (they must be whole chunks).

        Contents that were `forgotten` on purpose may be named by a tree. Raises ReachUnknown.
        """
        wanted = {address for address in contents if address not in self.live.contents}
        wanted |= self._walk(self.live, trees, frozenset(forgotten), strict=True)
        return self._mark(self.live, wanted)

    def follow_loosely(self, live: Live, contents: Iterable[bytes], nodes: Iterable[bytes]) -> None:
        """Add to `live` what these lead to, as far as it is there. Raises ReachUnknown."""
        wanted = {address for address in contents if address not in live.contents}
        self._mark(live, wanted | self._walk(live, nodes, frozenset(), strict=False))

    def _mark(self, live: Live, contents: set[bytes]) -> set[bytes]:
        live.contents |= contents
        places = sorted((self._manifests[one][0], one) for one in contents if one in self._manifests)
        for _first, address in places:  # in the order in which they lie, so that each frame is unpacked once
            for where in self._manifests[address]:
                live.chunks.update(digest for digest, _length in self.manifest(where))
        return {one for one in contents if one not in self._manifests}

    def manifest(self, where: Where) -> tuple[tuple[bytes, int], ...]:
        """The chunks that a manifest names. Raises ReachUnknown."""
        try:
            return parse_manifest(self._store.item(*where)).chunks
        except StoreError as error:
            raise _unknown(f"A manifest in the pack {where.pack.hex()} cannot be read: {error.message}") from error

    def _walk(self, live: Live, trees: Iterable[bytes], forgotten: frozenset[bytes], *, strict: bool) -> set[bytes]:
        """Mark nodes from these down; the contents that they name."""
        contents: set[bytes] = set()
        waiting = [tree for tree in trees if tree not in live.nodes]
        while waiting:
            address = waiting.pop()
            if address in live.nodes:
                continue
            places = self._nodes.get(address)
            if not places:
                if strict:
                    raise _unknown(f"The tree node {PREFIX}{address.hex()} is not stored.", NO_TREE)
                continue
            live.nodes.add(address)
            found, below = self.node(address, places[0])
            contents |= found - forgotten - live.contents
            waiting += below
        return contents

    def node(self, address: bytes, where: Where) -> tuple[set[bytes], list[bytes]]:
        """(contents, nodes) that a node names. Raises ReachUnknown."""
        try:
            node = parse_node(self._store.item(*where, address))
        except StoreError as error:
            raise _unknown(f"The tree node {PREFIX}{address.hex()} cannot be read: {error.message}", NO_TREE) from error
        below = [branch.address for branch in node.branches]
        below += [entry.address for entry in node.entries if entry.kind == DIRECTORY]
        return {entry.address for entry in node.entries if entry.kind != DIRECTORY}, below

    def node_named(self, address: bytes) -> tuple[set[bytes], list[bytes]]:
        """As `node`, by address alone; nothing for one that is not stored. Raises ReachUnknown."""
        places = self._nodes.get(address)
        return self.node(address, places[0]) if places else (set(), [])

    def named_by(self, key: bytes) -> set[bytes]:
        """Keys of what a manifest or node names directly; nothing for other keys. Raises ReachUnknown."""
        kind, address = key[:1], key[1:]
        if kind == MANIFEST:
            places = self._manifests.get(address, [])
            return {CHUNK + digest for where in places for digest, _length in self.manifest(where)}
        named: set[bytes] = set()
        if kind == NODE and address in self._nodes:
            contents, below = self.node(address, self._nodes[address][0])
            named = {NODE + one for one in below}
            named.update(prefix + one for one in contents for prefix in (CHUNK, WHOLE, MANIFEST))
        return named


def unresolved(missing: Collection[bytes]) -> ReachUnknown:
    """The error for contents in force that no pack holds."""
    named = sorted(PREFIX + one.hex() for one in missing)[:NAMED_MOST]
    message = f"{len(missing)} contents in force are not stored whole, first {named[0]}; nothing was removed."
    step = (
        "Run `memoryd repair`, or add them again. What exists nowhere any more a person takes out of the count: "
        f"`memoryd forget {' '.join(named[:3])}`{' (and the others named here)' if len(named) > 3 else ''}."
    )
    return ReachUnknown(message, next_step=step, contents=len(missing), named=named)


def _unknown(reason: str, step: str | None = None) -> ReachUnknown:
    message = f"{reason} What is still needed cannot be told, so nothing was removed."
    return ReachUnknown(message, next_step=step)
