"""Which packs hold what nobody needs, and in which order are they written again without it?

A manifest or node never outlives what it names: its pack is written before the pack of what it names, or together with
it. Otherwise packs with the fewest survivors come first, so that a full disk gets room bit by bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

from memoryd.store import pack as packs
from memoryd.store.census import Item
from memoryd.store.condemned import CHUNK, MANIFEST, NODE, WHOLE
from memoryd.store.reach import Live, Packs, Reach, Stop, keys_of
from memoryd.store.rewrite import NODES, PLAIN, Form, Rewrite

DEAD_SHARE = 0.05
"""A pack is written again when at least this share of its raw bytes may go; less is left lying until more joins it."""
WIDE = Form(256 << 10, 9)
SOLID = Form(4 << 20, 9)
"""What was put into larger frames for its size stays in such frames."""


class Store(Packs, Protocol):
    """The writing half that a sweep needs."""

    def rewrite(self, replaces: Sequence[bytes], *, flags: int = 0) -> Rewrite: ...

    def is_arranged(self, pack: bytes) -> bool: ...

    def record_items(self, pack: bytes, frame_off: int) -> list[tuple[int, int, bytes]]: ...

    def pack_ids(self) -> list[bytes]: ...


@dataclass(slots=True)
class Share:
    """One pack: raw bytes of all its items, and those that nothing in force needs (by key, by record)."""

    pack: bytes
    total: int = 0
    items: int = 0
    dead: dict[bytes, int] = field(default_factory=dict)
    seqs: dict[int, int] = field(default_factory=dict)
    idle: Set[int] = frozenset()
    """Records that go along when the pack is written again, but are no reason to do so."""


@dataclass(slots=True)
class Tally:
    """All packs. `missing`: contents in force that are neither a whole chunk nor told by a manifest."""

    shares: dict[bytes, Share] = field(default_factory=dict)
    missing: set[bytes] = field(default_factory=set)
    live_chunks: int = 0
    live_bytes: int = 0


def tally(reach: Reach, missing: set[bytes], seqs: Set[int], idle: Set[int], stop: Stop) -> Tally:
    """Weigh every pack that `reach` knows; `seqs`: records that may go, `idle`: those that are no reason to write.

    Raises ReachUnknown.
    """
    found = Tally(missing=set(missing))
    for pack in sorted(reach.known):
        if stop():
            break
        found.shares[pack] = _weigh(pack, reach.read(pack)[1], reach.live, seqs, found)
        found.shares[pack].idle = idle
    return found


def _weigh(pack: bytes, items: Iterable[Item], live: Live, seqs: Set[int], found: Tally) -> Share:
    share = Share(pack)
    for item in items:
        share.total += item.length
        share.items += 1
        if item.record is not None:
            if item.record[0] in seqs:
                share.seqs[item.record[0]] = item.length
            continue
        if item.whole:
            found.missing.discard(item.digest)
        for key in keys_of(item):
            if key not in live:
                share.dead[key] = max(1, item.length)
            elif key[:1] == CHUNK:
                found.live_chunks += 1
                found.live_bytes += item.length
    return share


class Sweep:
    """A plan of what may go (`drop`, by key), and its steps."""

    def __init__(
        self, store: Store, reach: Reach, shares: Mapping[bytes, Share], due: Set[bytes], *, floor: float = DEAD_SHARE
    ) -> None:
        """`due`: keys that may go; fewer do where a pack is not worth it, or something that stays names them."""
        self._store = store
        self._reach = reach
        self.shares = shares
        self._done: set[bytes] = set()
        self.own: set[bytes] = set()
        """Packs that this sweep has written."""
        self.gone: dict[bytes, int] = {}
        """What the last step left out, with its size."""
        self.drop = set(due)
        self.chosen: list[bytes] = []
        self._choose(floor)
        self._holders = self._held_by()
        self.steps = self._steps()

    def _choose(self, floor: float) -> None:
        while True:
            self.chosen = [pack for pack, share in self.shares.items() if _worth(share, self.drop, floor)]
            pinned = self._pinned(set(self.chosen))
            smaller = {key for key in self.drop if key not in pinned}
            if len(smaller) == len(self.drop):
                return
            self.drop = smaller

    def _pinned(self, chosen: set[bytes]) -> Live:
        """What the dead manifests and nodes that stay lead to."""
        contents: set[bytes] = set()
        nodes: set[bytes] = set()
        for pack, share in self.shares.items():
            for key in share.dead:
                if pack not in chosen or key not in self.drop:
                    if key[:1] == MANIFEST:
                        contents.add(key[1:])
                    elif key[:1] == NODE:
                        nodes.add(key[1:])
        live = Live()
        self._reach.follow_loosely(live, contents, nodes)
        live.contents -= contents  # that a manifest stays keeps its chunks, and itself only where it lies
        return live

    def _held_by(self) -> dict[bytes, set[bytes]]:
        """For what is to go: the packs whose manifests and nodes, to go as well, name it."""
        held: dict[bytes, set[bytes]] = {}
        for pack in self.chosen:
            for key in self.shares[pack].dead:
                if key in self.drop and key[:1] in (MANIFEST, NODE):
                    for named in self._reach.named_by(key) & self.drop:
                        held.setdefault(named, set()).add(pack)
        return held

    def _steps(self) -> list[list[bytes]]:
        """Packs one by one, those that name something before those that hold it; what names in a circle together."""
        before = {pack: self._before(pack) for pack in self.chosen}
        waiting = set(self.chosen)
        steps: list[list[bytes]] = []
        while waiting:
            ready = sorted(pack for pack in waiting if not before[pack] & waiting)
            emptied = [pack for pack in ready if not self.left(pack)]
            step = emptied or ([min(ready, key=self.left)] if ready else sorted(waiting))
            steps.append(step)
            waiting.difference_update(step)
        if steps:  # packs that were emptied before go along
            steps[0] = [*steps[0], *sorted(pack for pack, share in self.shares.items() if not share.items)]
        return steps

    def _before(self, pack: bytes) -> set[bytes]:
        """Other packs with manifests or nodes, to go as well, that name what is to go of this one."""
        found: set[bytes] = set()
        for key in self.shares[pack].dead:
            found |= self._holders.get(key, set())
        return found - {pack}

    def left(self, pack: bytes) -> int:
        """Raw bytes of a pack that stay."""
        return max(0, self.shares[pack].total - _gone(self.shares[pack], self.drop))

    def run(self, step: list[bytes], spared: Live) -> bool:
        """Write the packs of a step again; False where nothing was left to do. The caller holds the store lane.

        `spared` stays although it was to go, and so does what is still named by a pack that was not written again.
        Raises StoreError kinds: DiskFull, and PackDamaged where a survivor cannot be read.
        """
        reached = self._done | set(step)
        drop = {key for pack in step for key in self.shares[pack].dead if key in self.drop and key not in spared}
        drop = {key for key in drop if self._holders.get(key, set()) <= reached}
        if not drop and not any(self.shares[pack].seqs for pack in step):
            return False
        before = set(self._store.pack_ids())
        try:
            self._write(step, drop)
        finally:
            self.own |= set(self._store.pack_ids()) - before
        self._done |= set(step)
        self.gone = {key: size for pack in step for key, size in self.shares[pack].dead.items() if key in drop}
        return True

    def _write(self, step: list[bytes], drop: Set[bytes]) -> None:
        arranged = all(self._store.is_arranged(pack) for pack in step)
        rewrite = self._store.rewrite(step, flags=packs.PACK_ARRANGED if arranged else 0)
        try:
            seen: set[bytes] = set()
            for pack in step:
                for item in self._reach.read(pack)[1]:
                    if item.record is None:
                        self._copy(rewrite, pack, item, drop, seen)
            for kind, seq, raw in self._records(step):
                rewrite.record(kind, seq, raw)
            rewrite.commit()
        except BaseException:  # let go of what was taken, then raised on
            rewrite.abandon()
            raise

    def _records(self, step: list[bytes]) -> list[tuple[int, int, bytes]]:
        """(kind, seq, bytes) of the records that stay, each once, by kind and number."""
        found: dict[tuple[int, int], bytes] = {}
        for pack in step:
            gone = self.shares[pack].seqs.keys() | self.shares[pack].idle
            for at in dict.fromkeys(item.frame_off for item in self._reach.read(pack)[1] if item.record is not None):
                items = self._store.record_items(pack, at)
                found |= {(kind, seq): raw for kind, seq, raw in items if seq not in gone}
        return [(*key, found[key]) for key in sorted(found)]

    def _copy(self, rewrite: Rewrite, pack: bytes, item: Item, drop: Set[bytes], seen: set[bytes]) -> None:
        kept = [key for key in keys_of(item) if key not in drop]
        if not kept or seen.issuperset(kept):
            return
        seen.update(kept)
        form = SOLID if item.solid > WIDE.limit else WIDE if item.solid > packs.SOLID_BYTES else PLAIN
        if item.kind == packs.CHUNK:
            data = self._store.item(pack, item.frame_off, item.inner_off, item.length, item.digest)
            rewrite.chunk(item.digest, data, whole=WHOLE + item.digest in kept, form=form)
        elif item.kind == packs.MANIFEST:
            rewrite.manifest(self._store.item(pack, item.frame_off, item.inner_off, item.length), form=form)
        else:
            data = self._store.item(pack, item.frame_off, item.inner_off, item.length, item.digest)
            rewrite.node(item.digest, data, form=NODES if form == PLAIN else form)


def _gone(share: Share, drop: Set[bytes]) -> int:
    """Bytes that go; that a chunk is no content of its own any more frees none."""
    items = sum(size for key, size in share.dead.items() if key in drop and key[:1] != WHOLE)
    return items + sum(share.seqs.values())


def _worth(share: Share, drop: Set[bytes], floor: float) -> bool:
    """A chunk that stays, but not as a content, counts as much as one that goes: nobody is to find the content."""
    going = [key for key in share.dead if key in drop]
    pieces = sum(share.dead[key] for key in going if key[:1] == WHOLE and CHUNK + key[1:] not in share.dead)
    return bool(going or share.seqs) and _gone(share, drop) + pieces >= floor * share.total
