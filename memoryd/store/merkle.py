"""What does a directory look like as a tree of addresses, so that equal states have equal roots?

A node is canonical bytes: entries in the order of their raw name bytes, no times, no owners. A large directory is
split into leaves and inner nodes at places that only the names decide, so the same entries give the same root
whatever their history, and one changed entry changes one node a level.
Bytes (little-endian): version u16, level u8 (0 leaf), reserved u8, count u32, then entries:
leaf: kind u8, exec u8, name length u16, size u64, address 32 B, name; inner: first-name length u16, entries u64,
node address 32 B, first name.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeVar

from memoryd.errors import PackDamaged

VERSION = 1
FILE, DIRECTORY, SYMLINK = 1, 2, 3
NODE_MOST = 1024
"""No node has more entries."""
_SPLIT_MASK = 0xFF
_HEAD = struct.Struct("<HBBI")
_LEAF = struct.Struct("<BBHQ32s")
_INNER = struct.Struct("<HQ32s")


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One name in a directory. `address` (32 bytes) names the content of a file, the target's bytes of a symlink,
    the root node of a directory; `size` is the content's, and 0 for a directory."""

    name: bytes
    kind: int
    exec: bool
    size: int
    address: bytes


@dataclass(frozen=True, slots=True)
class TreeBranch:
    """One child node of an inner node: the first name below it, how many entries it covers, its address."""

    name: bytes
    entries: int
    address: bytes


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A parsed node: a leaf (level 0) holds entries, an inner node branches one level lower."""

    level: int
    entries: tuple[TreeEntry, ...]
    branches: tuple[TreeBranch, ...]


Item = TypeVar("Item", TreeEntry, TreeBranch)


def build(entries: Sequence[TreeEntry]) -> tuple[bytes, dict[bytes, bytes]]:
    """(root address, node bytes by address) of one directory. Raises ValueError for impossible or doubled names."""
    ordered = sorted(entries, key=lambda entry: entry.name)
    for entry in ordered:
        _check_name(entry.name)
    if any(left.name == right.name for left, right in pairwise(ordered)):
        raise ValueError("a directory holds one name once")
    nodes: dict[bytes, bytes] = {}
    branches = [_branch(nodes, run, _leaf_bytes(run), len(run)) for run in _split(ordered, 0)]
    level = 1
    while len(branches) > 1:
        branches = [
            _branch(nodes, run, _inner_bytes(level, run), sum(branch.entries for branch in run))
            for run in _split(branches, level)
        ]
        level += 1
    return branches[0].address, nodes


def _branch(nodes: dict[bytes, bytes], run: Sequence[Item], data: bytes, entries: int) -> TreeBranch:
    address = hashlib.sha256(data).digest()
    nodes[address] = data
    return TreeBranch(run[0].name if run else b"", entries, address)


def _split(items: Sequence[Item], level: int) -> Iterator[Sequence[Item]]:
    """Runs that end after a name whose hash says so, of 2 to 1024 items; an empty directory is one empty run."""
    start = 0
    for end, item in enumerate(items, 1):
        ends = hashlib.sha256(bytes([level]) + item.name).digest()[0] & _SPLIT_MASK == 0
        if end == len(items) or end - start == NODE_MOST or (ends and end - start >= 2):
            yield items[start:end]
            start = end
    if not items:
        yield items


def _leaf_bytes(entries: Sequence[TreeEntry]) -> bytes:
    parts = [_HEAD.pack(VERSION, 0, 0, len(entries))]
    for entry in entries:
        parts.append(_LEAF.pack(entry.kind, entry.exec, len(entry.name), entry.size, entry.address) + entry.name)
    return b"".join(parts)


def _inner_bytes(level: int, branches: Sequence[TreeBranch]) -> bytes:
    parts = [_HEAD.pack(VERSION, level, 0, len(branches))]
    for branch in branches:
        parts.append(_INNER.pack(len(branch.name), branch.entries, branch.address) + branch.name)
    return b"".join(parts)


def parse_node(data: bytes) -> TreeNode:
    """Read a node's bytes; anything that is not the canonical form is refused. Raises PackDamaged."""
    try:
        version, _level, _reserved, count = _HEAD.unpack_from(data)
        if version != VERSION or count > NODE_MOST:
            raise ValueError("its version or its count is unknown")
        node = _part(data, _HEAD.size, len(data))
        if len(node.entries) + len(node.branches) != count:
            raise ValueError("it does not hold as many entries as it says")
        return node
    except (struct.error, ValueError) as error:
        raise PackDamaged(f"A tree node is not of a sound form: {error}.") from error


def _read(data: bytes, at: int, end: int, read_one: Callable[[bytes, int], tuple[Item, int]]) -> list[Item]:
    """The items that fill [at, end)."""
    found: list[Item] = []
    while at < end:
        item, at = read_one(data, at)
        _check_name(item.name)
        if found and found[-1].name >= item.name:
            raise ValueError("names are not in order")
        found.append(item)
    if at != end:
        raise ValueError("the last entry goes on past its end")
    return found


def unequal(left: bytes, right: bytes) -> tuple[TreeNode, TreeNode]:
    """Both nodes without the items that they share at their beginnings and ends; those are not even unpacked.

    Raises PackDamaged.
    """
    try:
        start, end, other_end = _unequal_part(left, right)
        return _part(left, start, end), _part(right, start, other_end)
    except (struct.error, ValueError, IndexError):  # of two levels, alike by chance, or of no sound form
        return parse_node(left), parse_node(right)


def _unequal_part(left: bytes, right: bytes) -> tuple[int, int, int]:
    """Where the items that differ begin (in both), where they end in `left`, and where in `right`.

    Raises ValueError, IndexError where that cannot be told.
    """
    level = left[2]
    if left[:4] != right[:4]:
        raise ValueError("nodes of two levels")
    shortest = min(len(left), len(right))
    head = _HEAD.size + _alike(left[_HEAD.size : shortest], right[_HEAD.size : shortest], "big")
    tail = _alike(left[len(left) - shortest + head :], right[len(right) - shortest + head :], "little")
    fixed, name_len = (_LEAF.size, 2) if level == 0 else (_INNER.size, 0)
    start = at = _HEAD.size
    while at < len(left) - tail:
        at += fixed + left[at + name_len] + (left[at + name_len + 1] << 8)
        if at <= head:
            start = at
    if at > len(left):
        raise ValueError("the last entry goes on past its end")
    return start, at, len(right) - (len(left) - at)


def _alike(left: bytes, right: bytes, order: Literal["big", "little"]) -> int:
    """How many bytes two strings of one length share at their beginning (big) or end (little)."""
    different = int.from_bytes(left, order) ^ int.from_bytes(right, order)
    return len(left) - (different.bit_length() + 7) // 8


def _part(data: bytes, start: int, end: int) -> TreeNode:
    level = data[2]
    if level == 0:
        return TreeNode(0, tuple(_read(data, start, end, _read_entry)), ())
    return TreeNode(level, (), tuple(_read(data, start, end, _read_branch)))


def _read_entry(data: bytes, at: int) -> tuple[TreeEntry, int]:
    kind, executable, name_len, size, address = _LEAF.unpack_from(data, at)
    at += _LEAF.size
    if kind not in (FILE, DIRECTORY, SYMLINK) or executable > 1 or at + name_len > len(data):
        raise ValueError("an entry is not of a sound form")
    return TreeEntry(data[at : at + name_len], kind, bool(executable), size, address), at + name_len


def _read_branch(data: bytes, at: int) -> tuple[TreeBranch, int]:
    name_len, entries, address = _INNER.unpack_from(data, at)
    at += _INNER.size
    if at + name_len > len(data):
        raise ValueError("a branch is not of a sound form")
    return TreeBranch(data[at : at + name_len], entries, address), at + name_len


def _check_name(name: bytes) -> None:
    if not 0 < len(name) < 65536 or name in (b".", b"..") or b"/" in name or b"\0" in name:
        raise ValueError(f"{name[:80]!r} is no name of a directory entry")
