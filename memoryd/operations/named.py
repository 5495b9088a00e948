"""Which memory does an id, or the beginning of one, name for this caller?"""

from __future__ import annotations

from memoryd.catalog.memories import MemoryRow
from memoryd.digest import parse_address
from memoryd.errors import AmbiguousAddress, BadAddress, NotFound, ReadOnlyEntry
from memoryd.operations.home import Home
from memoryd.records import VAULT_SOURCE, shown_path


def memory_named(home: Home, scopes: tuple[str, ...], identity: str) -> MemoryRow:
    """The memory with this id (or unique prefix) in the caller's scopes.

    Raises NotFound, AmbiguousAddress, ReadOnlyEntry for something else than a memory.
    """
    try:
        digits, whole = parse_address(identity)
    except BadAddress as error:
        raise missing(identity) from error
    exact = home.memories.get(digits, scopes) if whole else None
    mine = [exact] if exact is not None else [] if whole else home.memories.find(digits, scopes)
    if not mine:
        raise _read_only(home, digits, scopes) or missing(identity)
    if len({row.fields.id for row in mine}) > 1:
        raise AmbiguousAddress(f"{identity!r} is the beginning of {len(mine)} memory ids.")
    return mine[0]


def _read_only(home: Home, digits: str, scopes: tuple[str, ...]) -> ReadOnlyEntry | None:
    """The error for the id of a visible document that is no memory."""
    row = home.documents.get(digits) if len(digits) == 64 else None
    if row is None or row.source == VAULT_SOURCE or row.scope not in scopes:
        return None
    name = f"{row.source}/{shown_path(row.path)}"
    return ReadOnlyEntry(f"{name} is no memory: memoryd reads it and never changes it.", source=name)


def missing(identity: str) -> NotFound:
    return NotFound(f"There is no memory {identity[:80]!r} in this session's scopes.")
