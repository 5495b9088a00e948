"""What did a snapshot hold at a path, for a caller who may see the snapshot?

`snapshot:<number>/<path>` names it: no folder's label holds a colon.
"""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

from memoryd.digest import PREFIX
from memoryd.errors import InvalidInput, NotFound
from memoryd.operations.home import Home
from memoryd.operations.kept import entry_at
from memoryd.records import SnapshotRecord, shown_path
from memoryd.store.merkle import DIRECTORY, SYMLINK, TreeEntry

SNAPSHOT = "snapshot:"
_NUMBER = re.compile(r"[0-9]{1,18}")
_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")
Scopes = tuple[str, ...]


class Held(NamedTuple):
    """The address of a file's bytes (of a link: of the path it names), and what an answer says of it."""

    address: str
    told: dict[str, Any]
    facts: dict[str, Any]


def held(home: Home, scopes: Scopes, source: str) -> Held:
    """The file or link at `snapshot:<number>/<path>`. Raises NotFound, InvalidInput, ContentDamaged."""
    number, _, path = source.removeprefix(SNAPSHOT).partition("/")
    record = home.snapshots.numbered(int(number), scopes) if _NUMBER.fullmatch(number) else None
    entry = _entry(home, record, path) if record is not None else None
    if record is None or entry is None:
        raise NotFound(f"There is nothing at {source[:200]!r} in this session's scopes.")
    if entry.kind == DIRECTORY:
        raise InvalidInput(f"{source[:200]!r} is a directory.", next_step="Name a file below it.", parameter="source")
    address = PREFIX + entry.address.hex()
    told = {
        "source": source,
        "address": address,
        "scope": record.scope,
        "kind": "document",
        "title": shown_path(entry.name),
        "snapshot": {"seq": record.seq, "label": record.label, "created": record.created},
    }
    return Held(address, told, {"size": entry.size, "exec": entry.exec, "link": entry.kind == SYMLINK})


def _entry(home: Home, record: SnapshotRecord, path: str) -> TreeEntry | None:
    for raw in spellings(path):
        parts = [part for part in raw.split(b"/") if part]
        found = entry_at(home.store.node, bytes.fromhex(record.root), parts)
        if found is not None:
            return found
    return None


def spellings(path: str) -> list[bytes]:
    """The paths that an answer shows as `path`: its own bytes, or those that its escapes stand for."""
    found = [os.fsencode(path)]
    if "\\x" in path:
        raw = _ESCAPED.sub(lambda part: bytes.fromhex(part[1].decode()), found[0])
        if shown_path(raw) == path:
            found.append(raw)
    return found
