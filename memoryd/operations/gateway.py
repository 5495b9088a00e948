"""How is knowledge added, so that nothing is stored twice and nothing new is lost?

One pipeline: validate -> secrets -> exact duplicate by id -> near ones -> intent -> file -> one git commit of only its
file -> acknowledge -> packs and index. Replacing and retiring are `lifecycle`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memoryd.digest import address_of, memory_id
from memoryd.errors import InvalidInput
from memoryd.operations import answers, callers
from memoryd.operations.fresh import try_drain
from memoryd.operations.guard import refuse_secrets
from memoryd.operations.home import Caller, Home, timestamp
from memoryd.operations.inputs import (
    SHORT_LIMIT,
    TITLE_LIMIT,
    checked_content,
    checked_line,
    checked_tags,
    derived_title,
)
from memoryd.operations.known import identified, known_answer, remembered, standing
from memoryd.operations.lifecycle import archive, supersede
from memoryd.operations.writes import Written, write_memories
from memoryd.records import GLOBAL_SCOPE, MEMORY_TYPES, MemoryFields
from memoryd.sources import entry

__all__ = ["add", "archive", "supersede"]


def add(
    home: Home,
    caller: Caller,
    *,
    content: str,
    type: str,
    title: str | None = None,
    tags: Sequence[str] | None = None,
    key: str | None = None,
    scope: str | None = None,
    allow_secret: bool = False,
) -> dict[str, Any]:
    """Remember something new. The answer's `outcome` is `added`, `exists` or `retired`.

    Raises InvalidInput kinds, ScopeError kinds, VaultError kinds, DiskFull; then nothing was written.
    """
    content = checked_content(content, home.config.limits.memory_bytes)
    if type not in MEMORY_TYPES:
        raise InvalidInput(f"`type` must be one of {', '.join(MEMORY_TYPES)}.", parameter="type")
    title = checked_line("title", title, TITLE_LIMIT)
    names = checked_tags(tags)
    key = checked_line("key", key, SHORT_LIMIT)
    refuse_secrets(allowed=allow_secret, content=content, title=title, tags=names, key=key)
    title = title or derived_title(content)
    target = callers.writable(home, caller, scope)
    identity = memory_id(scope=target, type=type, key=key, content=content, supersedes=None)
    scopes = (*callers.readable(home, caller, None), target)
    try_drain(home)
    if (found := remembered(home, identity, scopes)) is not None:
        return known_answer(home, found, content, scopes)
    similar = neighbours(home, content, target)
    now = timestamp(home)
    fields = MemoryFields(
        id=identity,
        fact=identity,
        seq=1,
        type=type,
        title=title,
        scope=target,
        status="in_force",
        created=now,
        updated=now,
        tags=names,
        key=key,
        body=content,
    )
    with home.vault_lane:
        found = standing(home, identity, scopes)
        written = write_memories(home, [fields], f"Add {type}: {title}") if found is None else None
    if written is None:
        assert found is not None
        return known_answer(home, found, content, scopes)
    try_drain(home)
    return _added_answer(fields, written, similar)


def neighbours(home: Home, content: str, scope: str) -> list[dict[str, Any]]:
    """Up to three memories in force that say something near; shown beside the answer, nothing is withheld."""
    scopes = (GLOBAL_SCOPE,) if scope == GLOBAL_SCOPE else (GLOBAL_SCOPE, scope)
    if not home.memories.listed(scopes, ("in_force",), (), 1, 0):
        return []  # nothing to compare with: the model need not even start
    return answers.near(home, content[:2000], scopes, limit=3)


def _added_answer(fields: MemoryFields, written: Written, similar: list[dict[str, Any]]) -> dict[str, Any]:
    path = entry.file_path(fields)
    answer = {"outcome": "added", **identified(fields, path, str(written.commit))}
    answer["address"] = address_of(written.commit.files[path])
    answer["similar"] = similar
    if similar:
        answer["next"] = "Stored. If it replaces one of `similar`, call memory_supersede on that id instead."
    else:
        answer["next"] = "Stored and committed; it is searchable in a moment."
    return answer if written.notice is None else {**answer, "notice": written.notice}
