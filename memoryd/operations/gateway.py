"""How is knowledge added, so that nothing is stored twice and nothing new is lost?

One pipeline: validate -> secrets -> exact duplicate by id -> variants, revised and near ones -> the exact check again,
intent, file, one git commit of only its file -> acknowledge -> packs and index. The comparison runs before the vault
lane is taken. Replacing and retiring are `lifecycle`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from memoryd.catalog.memories import MemoryRow
from memoryd.digest import address_of, document_id, memory_id
from memoryd.errors import InvalidInput
from memoryd.operations import callers
from memoryd.operations.citations import Cited, asked, cited, unwritten
from memoryd.operations.comparing import Compared, Near, compare
from memoryd.operations.evidence import announce
from memoryd.operations.fresh import try_drain
from memoryd.operations.guard import refuse_secrets
from memoryd.operations.home import Caller, Home, timestamp
from memoryd.operations.inputs import (
    REASON_LIMIT,
    SHORT_LIMIT,
    TITLE_LIMIT,
    checked_content,
    checked_line,
    checked_tags,
    derived_title,
)
from memoryd.operations.known import Known, identified, known_answer, remembered, standing
from memoryd.operations.lifecycle import archive, supersede
from memoryd.operations.previews import proposal
from memoryd.operations.revising import link, revision
from memoryd.operations.writes import Written, write_memories
from memoryd.records import MEMORY_TYPES, VAULT_SOURCE, MemoryFields
from memoryd.sources import entry
from memoryd.sources.citation import Citation

__all__ = ["add", "archive", "supersede"]

SHOWN_MOST = 3
"""Memories of each kind that an answer lists."""


def add(
    home: Home,
    caller: Caller,
    *,
    content: str,
    type: str,
    title: str | None = None,
    tags: Sequence[str] | None = None,
    key: str | None = None,
    citations: Sequence[str] | None = None,
    scope: str | None = None,
    force: str | None = None,
    allow_secret: bool = False,
) -> dict[str, Any]:
    """Remember something new. The answer's `outcome` is `added`, `conflicts` (written, and it may revise something),
    `exists`, `similar` (a mere variant: not written) or `retired`.

    `force` is the reason why a variant is to be written all the same. Raises InvalidInput kinds, ScopeError kinds,
    VaultError kinds, DiskFull; then nothing was written.
    """
    fields = _fields(home, content=content, type=type, title=title, tags=tags, key=key)
    reason = checked_line("force", force, REASON_LIMIT)
    said = {"content": fields.body, "title": title, "tags": fields.tags, "key": fields.key, "force": reason}
    refuse_secrets(allowed=allow_secret, **said, citations=citations)
    wanted = asked(citations)
    fields = _named(home, fields, callers.writable(home, caller, scope))
    answer = _add(home, caller, fields, wanted, reason)
    return answer if fields.scope in callers.readable(home, caller, None) else _scoped(answer, fields.scope)


def _scoped(answer: dict[str, Any], scope: str) -> dict[str, Any]:
    """The answer, its proposals naming the scope: without that they would not find what they are about."""
    for holder in (answer, *answer.get("conflicts", ())):
        if holder.get("proposal"):
            holder["proposal"]["arguments"]["scope"] = scope
    return answer


def _add(
    home: Home, caller: Caller, fields: MemoryFields, wanted: Sequence[Citation] | None, reason: str | None
) -> dict[str, Any]:
    """Everything from the first look on; `fields` are checked and named."""
    scopes = (*callers.readable(home, caller, None), fields.scope)
    try_drain(home)
    if (found := remembered(home, fields.id, scopes, entry.file_path(fields))) is not None:
        return unwritten(_known(home, found, fields.body, scopes), wanted, found.fields.citations)
    places = cited(home, caller, fields.scope, wanted or ())
    fields = replace(fields, citations=places.written)
    compared = compare(home, fields)
    if compared.variants and reason is None:
        return _similar_answer(home, fields, compared, places)
    message = f"Add {fields.type}: {fields.title}" + (f"\n\nForced: {reason}" if reason else "")
    with home.vault_lane:
        found = standing(home, fields.id, scopes)
        written = write_memories(home, [fields], message) if found is None else None
    if written is None:
        assert found is not None
        return unwritten(_known(home, found, fields.body, scopes), wanted, found.fields.citations)
    announce(home, fields.scope, places.pieces)
    try_drain(home)
    return _added_answer(home, fields, written, compared)


def _fields(
    home: Home, *, content: str, type: str, title: str | None, tags: Sequence[str] | None, key: str | None
) -> MemoryFields:
    """What was given, each part checked; without scope, id and times."""
    content = checked_content(content, home.config.limits.memory_bytes)
    if type not in MEMORY_TYPES:
        raise InvalidInput(f"`type` must be one of {', '.join(MEMORY_TYPES)}.", parameter="type")
    return MemoryFields(
        id="",
        fact="",
        seq=1,
        type=type,
        title=checked_line("title", title, TITLE_LIMIT) or derived_title(content),
        scope="",
        status="in_force",
        created="",
        updated="",
        tags=checked_tags(tags),
        key=checked_line("key", key, SHORT_LIMIT),
        body=content,
    )


def _named(home: Home, fields: MemoryFields, scope: str) -> MemoryFields:
    identity = memory_id(scope=scope, type=fields.type, key=fields.key, content=fields.body, supersedes=None)
    now = timestamp(home)
    return replace(fields, id=identity, fact=identity, scope=scope, created=now, updated=now)


def _known(home: Home, found: Known, content: str, scopes: tuple[str, ...]) -> dict[str, Any]:
    """What known words answer; a proposal comes with the token that carries it out."""
    answer = known_answer(home, found, content, scopes)
    if answer.get("proposal") is not None:
        target = home.memories.get(answer["proposal"]["arguments"]["id"], scopes)
        answer["proposal"] = None if target is None else proposal(home, revision(home, target, content))
    return answer


def _similar_answer(home: Home, fields: MemoryFields, compared: Compared, places: Cited) -> dict[str, Any]:
    near = compared.variants[0]
    row = near.row
    own = places if places.written and row.fields.scope == fields.scope else None
    return {
        "outcome": "similar",
        "neighbour": {**identified(row.fields, row.path, None), "content": near.body},
        "proposal": proposal(home, revision(home, row, fields.body, own)),
        "next": "Nothing was written: the same words are remembered, but for blanks, case, punctuation or order."
        " If the new wording is better, make the proposed call; to store it besides, call again with `force` and why.",
    }


def _added_answer(home: Home, fields: MemoryFields, written: Written, compared: Compared) -> dict[str, Any]:
    path = entry.file_path(fields)
    data = written.commit.files[path]
    row = MemoryRow(fields, document_id(VAULT_SOURCE, path), address_of(data), path)
    conflicts = [_conflict(home, near, row) for near in compared.revised[:SHOWN_MOST]]
    answer: dict[str, Any] = {
        "outcome": "conflicts" if conflicts else "added",
        **identified(fields, path, str(written.commit)),
        "address": row.address,
        "similarity": "checked" if compared.checked else "unchecked",
        "similar": [_shown(near) for near in compared.similar[:SHOWN_MOST]],
    }
    if conflicts:
        answer["conflicts"] = conflicts
        answer["next"] = (
            "Stored. It may revise what `conflicts` lists: if it does, make the proposed call of each that no longer "
            "holds; if both hold, do nothing."
        )
    else:
        answer["next"] = "Stored and committed; it is searchable in a moment."
    return answer if written.notice is None else {**answer, "notice": written.notice}


def _conflict(home: Home, near: Near, new: MemoryRow) -> dict[str, Any]:
    return {**_shown(near), "reason": near.reason, "proposal": proposal(home, link(home, near.row, new))}


def _shown(near: Near) -> dict[str, Any]:
    fields = near.row.fields
    return {
        "id": fields.id,
        "title": fields.title,
        "type": fields.type,
        "created": fields.created,
        "cosine": None if near.cosine is None else round(near.cosine, 3),
        "likeness": round(near.likeness, 3),
    }
