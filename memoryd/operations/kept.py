"""Which snapshots were kept, and which one does a person mean by a label, a number or a root?"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memoryd.errors import InvalidInput, NotFound
from memoryd.operations import callers
from memoryd.operations.home import Caller, Home
from memoryd.records import SnapshotRecord, shown_path
from memoryd.store.merkle import DIRECTORY, TreeEntry
from memoryd.store.treediff import ReadNode, entries

_NUMBER = re.compile(r"[0-9]{1,18}")
_ROOT = re.compile(r"(?:sha256:)?([0-9a-f]{8,64})")
_EARLIER = re.compile(r"(.+)@(-?[0-9]{1,9})")
Scopes = Sequence[str] | None


def listed(home: Home, caller: Caller, *, label: str | None = None, scope: str | None = None) -> dict[str, Any]:
    """The snapshots that the caller may see, newest first, and how many more belong to others. Raises ScopeUnknown."""
    scopes = callers.readable(home, caller, scope)
    found = home.snapshots.all(scopes)
    if label is not None:
        found = [record for record in found if record.label == label]
    elsewhere = home.snapshots.count(None) - home.snapshots.count(scopes)
    return {"snapshots": [shown(record) for record in found], "elsewhere": elsewhere}


def place_text(place: Path) -> str:
    """A path of this machine as answers and messages hold it."""
    return shown_path(os.fsencode(place))


def shown(record: SnapshotRecord) -> dict[str, Any]:
    """A snapshot as answers show it."""
    return {
        "seq": record.seq,
        "label": record.label,
        "source": record.source,
        "scope": record.scope,
        "root": record.root,
        "created": record.created,
        "files": record.files,
        "size": record.size,
        "left_out": record.left_out,
    }


def find(home: Home, name: str, scopes: Scopes) -> SnapshotRecord:
    """The snapshot that a person means: `label` (its newest), `label@n` (its n-th; negative: from the newest), the
    number, or the beginning of a root. Raises NotFound."""
    labelled = home.snapshots.labelled(name, scopes)
    if labelled:
        return labelled[-1]
    found = _EARLIER.fullmatch(name)
    if found is not None:
        earlier, number = home.snapshots.labelled(found[1], scopes), int(found[2])
        if 0 < abs(number) <= len(earlier):
            return earlier[number - 1 if number > 0 else number]
    if _NUMBER.fullmatch(name) and (record := home.snapshots.numbered(int(name), scopes)) is not None:
        return record
    prefix = _ROOT.fullmatch(name)
    rooted = home.snapshots.rooted(prefix[1], scopes) if prefix is not None else []
    if len({record.root for record in rooted}) > 1:
        raise InvalidInput(
            f"{name!r} begins the roots of several snapshots.", next_step="Give more digits, or a number."
        )
    if not rooted:
        raise NotFound(f"There is no snapshot {name[:100]!r}.", next_step="`memoryd snapshots` lists them.")
    return rooted[-1]


def entry_at(node: ReadNode, root: bytes, parts: Sequence[bytes]) -> TreeEntry | None:
    """The entry at a path below a root, None where there is none."""
    found = None
    for part in parts:
        if found is not None and found.kind != DIRECTORY:
            return None
        within = entries(node, root if found is None else found.address)
        found = next((entry for entry in within if entry.name == part), None)
        if found is None:
            return None
    return found
