"""Two versions of one file met in a merge: are they the same memory, and which one stands?

Only what loses nothing is settled here; every other conflict is a person's.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from memoryd.errors import VaultFileInvalid
from memoryd.records import MemoryFields
from memoryd.sources import entry

ALIASES = b"scopes.json"


def settled_bytes(path: bytes, base: bytes | None, here: bytes | None, there: bytes | None) -> bytes | None:
    """The bytes that stand for both sides, the same whichever side asks; None where a person has to choose."""
    if here is None or there is None:
        return None
    if path == ALIASES:
        return _joined_aliases(here, there)
    one, other = _fields(here), _fields(there)
    if one is None or other is None or _essence(one, base is None) != _essence(other, base is None):
        return None
    return min((one.created, one.updated, here), (other.created, other.updated, there))[2]


def why(base: bytes | None, here: bytes | None, there: bytes | None) -> str:
    """What happened to the file on the two sides, in a few words."""
    if here is None or there is None:
        return "deleted here, changed there" if here is None else "changed here, deleted there"
    one, other = _fields(here), _fields(there)
    if one is not None and other is not None and one.status != "in_force" and other.status != "in_force":
        return f"{_end(one)} here, {_end(other)} there"
    return "added on both sides" if base is None else "changed on both sides"


def _end(fields: MemoryFields) -> str:
    return f"superseded by {fields.superseded_by[:8]}" if fields.superseded_by else fields.status


def _fields(data: bytes) -> MemoryFields | None:
    try:
        return entry.parse(data).fields
    except VaultFileInvalid:
        return None


def _essence(fields: MemoryFields, added: bool) -> MemoryFields:
    """What two versions must agree in: all but their times; of a memory added twice also title and tags may differ."""
    plain = replace(fields, created="", updated="", body=fields.body.replace("\r\n", "\n"))
    return replace(plain, title="", tags=()) if added else plain


def _joined_aliases(here: bytes, there: bytes) -> bytes | None:
    """Both alias tables in one, where they give no project two ids."""
    try:
        tables: list[dict[str, Any]] = [json.loads(side) for side in (here, there)]
        one, other = (dict(table["aliases"]) for table in tables)
        rest = [{name: value for name, value in table.items() if name != "aliases"} for table in tables]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if rest[0] != rest[1] or any(one[name] != other[name] for name in one.keys() & other.keys()):
        return None
    table = {**rest[0], "aliases": {**one, **other}}
    return (json.dumps(table, ensure_ascii=False, indent=2, sort_keys=True) + "\n").encode()
