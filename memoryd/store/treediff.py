"""In which names do two directory trees differ, reading only nodes whose addresses differ?

Inner nodes of both sides are walked side by side in name order. Branches with one address hold the same entries and are
passed over unread, so that a change costs one path of nodes a side, however the two sides are split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from memoryd.errors import PackDamaged
from memoryd.store.merkle import DIRECTORY, TreeEntry, TreeNode, parse_node, unequal

ReadNode = Callable[[bytes], bytes]
"""The verified bytes of the node at an address (32 bytes)."""
ReadPair = Callable[[bytes, bytes], tuple[bytes, bytes]]
"""The same for two."""


class Difference(NamedTuple):
    """A path at which the sides differ; None where a side has nothing. A directory that only one side has stands for
    everything below it; directories that both have are never named themselves."""

    path: bytes
    before: TreeEntry | None
    after: TreeEntry | None


class _Place(NamedTuple):
    """A node that is not read yet; `level` is what the node above says of it."""

    name: bytes
    address: bytes
    level: int


def differences(node: ReadNode, before: bytes, after: bytes, pair: ReadPair | None = None) -> Iterator[Difference]:
    """Every difference below two roots; names of one directory in order. `pair` reads two nodes at less cost.

    Raises what `node` raises, PackDamaged.
    """
    pair = pair or (lambda one, other: (node(one), node(other)))
    waiting = [(b"", before, after)]
    while waiting:
        prefix, old, new = waiting.pop()
        if old == new:
            continue
        below = []
        for left, right in _paired(node, pair, old, new):
            path = prefix + (left or right).name  # type: ignore[union-attr]
            if left is not None and right is not None and left.kind == right.kind == DIRECTORY:
                below.append((path + b"/", left.address, right.address))
            else:
                yield Difference(path, left, right)
        waiting += reversed(below)


def entries(node: ReadNode, root: bytes) -> Iterator[TreeEntry]:
    """The entries of one directory in name order, its nodes read as they are needed."""
    waiting = _reversed(parse_node(node(root)))
    while waiting:
        head = waiting.pop()
        if isinstance(head, TreeEntry):
            yield head
        else:
            waiting += _children(node, head)


def listing(node: ReadNode, root: bytes, prefix: bytes = b"") -> Iterator[tuple[bytes, TreeEntry]]:
    """(path, entry) of everything below a root, each directory before what it holds."""
    waiting = [(prefix, entries(node, root))]
    while waiting:
        prefix, rest = waiting[-1]
        entry = next(rest, None)
        if entry is None:
            waiting.pop()
            continue
        yield prefix + entry.name, entry
        if entry.kind == DIRECTORY:
            waiting.append((prefix + entry.name + b"/", entries(node, entry.address)))


def _paired(
    node: ReadNode, pair: ReadPair, old: bytes, new: bytes
) -> Iterator[tuple[TreeEntry | None, TreeEntry | None]]:
    """The unequal entries of two directories. What waits is kept in reverse: the next in name order is the last."""
    left, right = _unequal(pair, old, new)
    while left or right:
        if left and right and left[-1] == right[-1]:
            left.pop()
            right.pop()
            continue
        first = _order(left, right)
        if first <= 0 and isinstance(left[-1], _Place):
            if first == 0 and isinstance(right[-1], _Place) and right[-1].level >= left[-1].level:
                _open_both(node, pair, left, right)
            else:
                _open(node, left)
        elif first >= 0 and isinstance(right[-1], _Place):
            _open(node, right)
        else:
            one = left.pop() if first <= 0 else None
            other = right.pop() if first >= 0 else None
            yield one, other  # type: ignore[misc]  # both are entries: places were opened above


def _order(left: list[_Place | TreeEntry], right: list[_Place | TreeEntry]) -> int:
    """Which side's next name comes first: -1 left, 1 right, 0 the same name on both."""
    if not left or not right:
        return 1 if right else -1
    one, other = left[-1].name, right[-1].name
    return (one > other) - (one < other)


def _open(node: ReadNode, side: list[_Place | TreeEntry]) -> None:
    place = side.pop()
    assert isinstance(place, _Place)
    side += _children(node, place)


def _open_both(node: ReadNode, pair: ReadPair, left: list[_Place | TreeEntry], right: list[_Place | TreeEntry]) -> None:
    """Read the higher of two nodes that begin at one name, or both where they are of one level."""
    one, other = left[-1], right[-1]
    assert isinstance(one, _Place) and isinstance(other, _Place)
    if other.level > one.level:
        _open(node, right)
        return
    below = _unequal(pair, left.pop().address, right.pop().address, one.level)
    left += below[0]
    right += below[1]


def _unequal(
    pair: ReadPair, old: bytes, new: bytes, level: int | None = None
) -> tuple[list[_Place | TreeEntry], list[_Place | TreeEntry]]:
    """What two nodes hold, last name first, without most of what they share."""
    left, right = unequal(*pair(old, new))
    for found in (left, right):
        _check_level(found, level)
    return _reversed(left), _reversed(right)


def _children(node: ReadNode, place: _Place) -> list[_Place | TreeEntry]:
    """What a node holds, last name first."""
    found = parse_node(node(place.address))
    _check_level(found, place.level)
    return _reversed(found)


def _check_level(found: TreeNode, level: int | None) -> None:
    if level is not None and found.level != level:
        raise PackDamaged("A tree node is not of the level that the node above it says.")


def _reversed(found: TreeNode) -> list[_Place | TreeEntry]:
    if found.level == 0:
        return list(found.entries[::-1])
    return [_Place(branch.name, branch.address, found.level - 1) for branch in found.branches[::-1]]
