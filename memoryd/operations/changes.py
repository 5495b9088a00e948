"""What changed between two snapshots?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from memoryd.digest import PREFIX
from memoryd.errors import NotFound
from memoryd.operations import callers
from memoryd.operations.home import Caller, Home
from memoryd.operations.kept import Scopes, entry_at, find, shown
from memoryd.records import SnapshotRecord, shown_path
from memoryd.store.merkle import DIRECTORY, SYMLINK, TreeEntry
from memoryd.store.renames import TreeDiff, joined
from memoryd.store.treediff import Difference, ReadNode, differences

LISTED_MOST = 10_000
"""Names that one list of a diff shows; the counts are always whole."""
_KINDS = {DIRECTORY: "directory", SYMLINK: "link"}


def diff(
    home: Home,
    caller: Caller,
    *,
    since: str,
    until: str | None = None,
    path_prefix: str | None = None,
    scope: str | None = None,
    limit: int = LISTED_MOST,
) -> dict[str, Any]:
    """What changed from one snapshot to another (`until`: default the newest of the same source).

    Raises NotFound, InvalidInput, ContentDamaged.
    """
    scopes = callers.readable(home, caller, scope)
    before = find(home, since, scopes)
    after = find(home, until, scopes) if until is not None else _newest_like(home, before, scopes)
    return compare(home, before, after, path_prefix=path_prefix, limit=limit)


def compare(
    home: Home,
    before: SnapshotRecord,
    after: SnapshotRecord,
    *,
    path_prefix: str | None = None,
    limit: int = LISTED_MOST,
) -> dict[str, Any]:
    """What changed from one snapshot to another; the caller may see both. Raises NotFound, ContentDamaged."""
    node = home.store.node
    inside = [part for part in os.fsencode(path_prefix or "").split(b"/") if part]
    roots = [bytes.fromhex(record.root) for record in (before, after)]
    found = joined(
        node,
        _below(node, roots[0], roots[1], inside)
        if inside
        else differences(node, roots[0], roots[1], home.store.node_pair),
        lambda address: home.store.layout(PREFIX + address.hex()),
    )
    return {"before": shown(before), "after": shown(after), **_told(found, limit)}


def _newest_like(home: Home, before: SnapshotRecord, scopes: Scopes) -> SnapshotRecord:
    return [one for one in home.snapshots.labelled(before.label, scopes) if one.source == before.source][-1]


def _below(node: ReadNode, before: bytes, after: bytes, inside: Sequence[bytes]) -> Iterator[Difference]:
    """The differences at and below one path. Raises NotFound where neither side has it."""
    path = b"/".join(inside)
    old, new = entry_at(node, before, inside), entry_at(node, after, inside)
    if old is None and new is None:
        raise NotFound(
            f"Neither snapshot holds {shown_path(path)}.", next_step="Look at the diff without `path_prefix`."
        )
    if old is not None and new is not None and old.kind == new.kind == DIRECTORY:
        for one in differences(node, old.address, new.address):
            yield one._replace(path=path + b"/" + one.path)
    elif old != new:
        yield Difference(path, old, new)


def _told(found: TreeDiff, limit: int) -> dict[str, Any]:
    lists: dict[str, Sequence[object]] = {
        "added": found.added,
        "removed": found.removed,
        "modified": found.modified,
        "renamed": found.renamed,
    }
    counts = {name: len(items) for name, items in lists.items()}
    return {
        "same": not any(counts.values()),
        "counts": counts,
        "added": [_name(path, entry) for path, entry in found.added[:limit]],
        "removed": [_name(path, entry) for path, entry in found.removed[:limit]],
        "modified": [_change(one.path, one.before, one.after) for one in found.modified[:limit]],
        "renamed": [
            {
                **_change(one.path, one.before, one.after),
                "old_path": shown_path(one.old_path),
                "entries": one.entries,
                "shared": round(one.shared, 3),
            }
            for one in found.renamed[:limit]
        ],
        "cut": any(len(items) > limit for items in lists.values()),
        "similarity_capped": found.capped,
    }


def _name(path: bytes, entry: TreeEntry) -> dict[str, Any]:
    told: dict[str, Any] = {"path": shown_path(path), "kind": _kind(entry), "size": entry.size}
    return told if entry.kind == DIRECTORY else {**told, "address": PREFIX + entry.address.hex()}


def _kind(entry: TreeEntry) -> str:
    return _KINDS.get(entry.kind, "executable" if entry.exec else "file")


def _change(path: bytes, before: TreeEntry, after: TreeEntry) -> dict[str, Any]:
    told: dict[str, Any] = {"path": shown_path(path), "kind": _kind(after), "size": after.size}
    if _kind(before) != _kind(after):
        told["old_kind"] = _kind(before)
    if before.address != after.address and after.kind != DIRECTORY:
        told |= {
            "old_size": before.size,
            "old_address": PREFIX + before.address.hex(),
            "address": PREFIX + after.address.hex(),
        }
    return told
