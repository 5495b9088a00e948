"""Which of the names that came and went are one thing that moved?

Exactly: whole directories by their address first, the largest first, then files and links by theirs. Roughly: files
whose manifests share most of their bytes, without reading any content. Empty files and directories tell nothing and
are never taken for moved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from memoryd.errors import NotFound, StoreError
from memoryd.store.merkle import DIRECTORY, FILE, TreeEntry, build
from memoryd.store.treediff import Difference, ReadNode, differences, listing

SIMILAR_MOST = 1000
"""So many files a side are compared by their chunks, the largest first."""
SIMILAR_SHARE = 0.5
"""Two files are one that changed while it moved where they share at least this part of the larger one."""
COUNTED_MOST = 10_000
COMMON_CHUNK = 32
"""A chunk that more files hold says nothing about any of them."""

_EMPTY = build([])[0]

ReadChunks = Callable[[bytes], Sequence[tuple[bytes, int]]]
"""(SHA-256, length) of the chunks of the content at an address."""


class Found(NamedTuple):
    """A name that one side alone has."""

    path: bytes
    entry: TreeEntry


class Modified(NamedTuple):
    """A name that both sides have, with another content, kind or exec bit."""

    path: bytes
    before: TreeEntry
    after: TreeEntry


class Renamed(NamedTuple):
    """One thing under two names; `shared` is 1.0 for an exact move.

    `entries` counts what lies below a directory; COUNTED_MOST means that many or more.
    """

    path: bytes
    old_path: bytes
    before: TreeEntry
    after: TreeEntry
    entries: int
    shared: float


@dataclass(slots=True)
class TreeDiff:
    """Everything that differs between two trees, each list ordered by path.

    A directory that was added or removed is listed, and with it everything below; one that was renamed whole stands for
    itself alone. `capped`: there were more files than are compared by their chunks.
    """

    added: list[Found] = field(default_factory=list)
    removed: list[Found] = field(default_factory=list)
    modified: list[Modified] = field(default_factory=list)
    renamed: list[Renamed] = field(default_factory=list)
    capped: bool = False


def compare(node: ReadNode, before: bytes, after: bytes, chunks: ReadChunks | None = None) -> TreeDiff:
    """The differences between two roots, what moved joined (by chunks only where `chunks` is given).

    Raises what `node` raises.
    """
    return joined(node, differences(node, before, after), chunks)


def joined(node: ReadNode, found: Iterable[Difference], chunks: ReadChunks | None = None) -> TreeDiff:
    """As `compare`, from differences that were read before."""
    diff = TreeDiff()
    old, new = _Side(), _Side()
    for path, before, after in _without_whole(node, list(found), diff):
        if before is not None and after is not None:
            diff.modified.append(Modified(path, before, after))
        for side, entry in ((old, before), (new, after)):
            if entry is not None:
                side.take(node, path, entry, itself=before is None or after is None)
    _join_exactly(old, new, diff)
    if chunks is not None:
        _join_similar(old, new, diff, chunks)
    diff.removed = [one for _at, one in old.left()]
    diff.added = [one for _at, one in new.left()]
    for listed in (diff.added, diff.removed, diff.modified, diff.renamed):
        listed.sort(key=lambda one: one[0])
    return diff


def _without_whole(node: ReadNode, found: list[Difference], diff: TreeDiff) -> list[Difference]:
    """What is left when directories that moved whole are taken out, without a look at what they hold."""
    waiting: dict[object, list[int]] = defaultdict(list)
    for index in reversed(range(len(found))):
        path, before, after = found[index]
        if before is not None and after is None and before.kind == DIRECTORY and before.address != _EMPTY:
            for same_name in (True, False):
                waiting[_identity(Found(path, before), same_name)].append(index)
    taken: set[int] = set()
    for index, (path, before, after) in enumerate(found if waiting else ()):
        if before is not None or after is None or after.kind != DIRECTORY:
            continue
        for same_name in (True, False):
            candidates = [at for at in waiting.get(_identity(Found(path, after), same_name), ()) if at not in taken]
            if candidates and index not in taken:
                old = found[candidates[-1]]
                taken |= {index, candidates[-1]}
                entries = sum(1 for _one in islice(listing(node, after.address), COUNTED_MOST))
                diff.renamed.append(Renamed(path, old.path, old.before or after, after, entries, 1.0))
    return [one for index, one in enumerate(found) if index not in taken]


class _Side:
    """The names that one side alone has, each directory before what lies below it."""

    def __init__(self) -> None:
        self.items: list[Found] = []
        self.below: list[int] = []
        self.gone = bytearray()
        """1 where an item was joined with one of the other side."""

    def take(self, node: ReadNode, path: bytes, entry: TreeEntry, *, itself: bool) -> None:
        """Add a name and what lies below it; only the latter where the name is on both sides."""
        if itself:
            self._add(path, entry)
        if entry.kind != DIRECTORY:
            return
        above: list[int] = [len(self.items) - 1] if itself else []
        for inner, one in listing(node, entry.address, path + b"/"):
            while above and not inner.startswith(self.items[above[-1]].path + b"/"):
                above.pop()
            for index in above:
                self.below[index] += 1
            if one.kind == DIRECTORY:
                above.append(len(self.items))
            self._add(inner, one)

    def _add(self, path: bytes, entry: TreeEntry) -> None:
        self.items.append(Found(path, entry))
        self.below.append(0)
        self.gone.append(0)

    def left(self) -> Iterator[tuple[int, Found]]:
        """What was not joined."""
        return ((at, one) for at, one in enumerate(self.items) if not self.gone[at])

    def directories(self) -> list[int]:
        """Directories that hold something, the largest first."""
        found = [at for at, one in self.left() if one.entry.kind == DIRECTORY and self.below[at]]
        return sorted(found, key=lambda at: (-self.below[at], self.items[at].path))

    def things(self) -> list[int]:
        """Files and links that hold something, by path."""
        found = [at for at, one in self.left() if one.entry.kind != DIRECTORY and one.entry.size]
        return sorted(found, key=lambda at: self.items[at].path)


def _join_exactly(old: _Side, new: _Side, diff: TreeDiff) -> None:
    _join_by_address(old, new, diff, _Side.directories, ((True, False),))  # a larger one must not wait for its parts
    _join_by_address(old, new, diff, _Side.things, ((True,), (False,)))


def _join_by_address(
    old: _Side,
    new: _Side,
    diff: TreeDiff,
    choose: Callable[[_Side], list[int]],
    rounds: tuple[tuple[bool, ...], ...],
) -> None:
    """Join equals, in each round by the first of its keys (with the name or without) that finds one."""
    waiting: dict[object, list[int]] = defaultdict(list)
    for at in reversed(choose(old)):
        for same_name in (True, False):
            waiting[_identity(old.items[at], same_name)].append(at)
    for keys in rounds:
        for at in choose(new):
            for same_name in keys:
                candidates = waiting.get(_identity(new.items[at], same_name), [])
                while candidates and old.gone[candidates[-1]]:
                    candidates.pop()
                if candidates and not new.gone[at]:
                    _join(old, candidates.pop(), new, at, 1.0, diff)


def _identity(one: Found, same_name: bool) -> object:
    name = one.path.rpartition(b"/")[2] if same_name else None
    return one.entry.kind, one.entry.address, name


def _join(old: _Side, old_at: int, new: _Side, at: int, shared: float, diff: TreeDiff) -> None:
    below = new.below[at]
    old.gone[old_at : old_at + below + 1] = b"\1" * (below + 1)
    new.gone[at : at + below + 1] = b"\1" * (below + 1)
    (old_path, before), (path, after) = old.items[old_at], new.items[at]
    diff.renamed.append(Renamed(path, old_path, before, after, min(below, COUNTED_MOST), shared))


def _join_similar(old: _Side, new: _Side, diff: TreeDiff, chunks: ReadChunks) -> None:
    """Join files by the bytes of the chunks that they share, the best pairs first."""
    sides = [[at for at in side.things() if side.items[at].entry.kind == FILE] for side in (old, new)]
    if not all(sides):
        return
    diff.capped = any(len(files) > SIMILAR_MOST for files in sides)
    for side, files in zip((old, new), sides, strict=True):
        files.sort(key=lambda at: (-side.items[at].entry.size, side.items[at].path))
        del files[SIMILAR_MOST:]
    pairs = _similar_pairs(old, sides[0], new, sides[1], chunks)
    for share, _path, _old_path, old_at, at in sorted(pairs, key=lambda pair: (-pair[0], *pair[1:])):
        if not old.gone[old_at] and not new.gone[at]:
            _join(old, old_at, new, at, share, diff)


def _similar_pairs(
    old: _Side, old_files: list[int], new: _Side, new_files: list[int], chunks: ReadChunks
) -> Iterator[tuple[float, bytes, bytes, int, int]]:
    holders: dict[bytes, list[int]] = defaultdict(list)
    for at in old_files:
        for digest in _lengths(chunks, old.items[at].entry):
            holders[digest].append(at)
    for at in new_files:
        path, entry = new.items[at]
        shared: dict[int, int] = defaultdict(int)
        for digest, length in _lengths(chunks, entry).items():
            if len(holders.get(digest, ())) <= COMMON_CHUNK:
                for old_at in holders.get(digest, ()):
                    shared[old_at] += length
        for old_at, amount in shared.items():
            share = amount / max(entry.size, old.items[old_at].entry.size)
            if share >= SIMILAR_SHARE:
                yield min(share, 0.999), path, old.items[old_at].path, old_at, at


def _lengths(chunks: ReadChunks, entry: TreeEntry) -> dict[bytes, int]:
    """Bytes of each chunk of a content; nothing where its manifest cannot be read: then nobody can tell."""
    try:
        found: dict[bytes, int] = defaultdict(int)
        for digest, length in chunks(entry.address):
            found[digest] += length
        return found
    except (NotFound, StoreError):
        return {}
