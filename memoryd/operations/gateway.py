"""How is knowledge added, corrected and retired without ever being damaged?

One pipeline: validate -> exact duplicate by id -> similar -> intent -> file -> one git commit of only its files ->
acknowledge -> packs and index. Nothing is rewritten but a retired memory's frontmatter; nothing is deleted.
"""

from __future__ import annotations

import difflib
import os
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from memoryd.catalog.memories import MemoryRow
from memoryd.catalog.state import Intent
from memoryd.digest import address_of, memory_id, normalise_for_identity, parse_address, sha256_hex
from memoryd.errors import (
    AmbiguousAddress,
    BadAddress,
    BlankContent,
    InvalidInput,
    MemorydError,
    NotFound,
    TokenInvalid,
)
from memoryd.operations import answers, callers, plans
from memoryd.operations.fresh import drain_fresh, take_files, try_drain
from memoryd.operations.home import Caller, Fresh, Home, timestamp
from memoryd.operations.inputs import (
    REASON_LIMIT,
    SHORT_LIMIT,
    TITLE_LIMIT,
    checked_content,
    checked_line,
    checked_tags,
    derived_title,
)
from memoryd.records import GLOBAL_SCOPE, MEMORY_TYPES, MemoryFields, shown_path
from memoryd.sources import entry
from memoryd.sources.entry import Change
from memoryd.sources.vault import VaultCommit, VaultWrite


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
) -> dict[str, Any]:
    """Remember something new. The answer's `outcome` is `added`, `exists` or `retired`.

    Raises InvalidInput kinds, ScopeError kinds, VaultError kinds, DiskFull; then nothing was written.
    """
    content = checked_content(content, home.config.limits.memory_bytes)
    if type not in MEMORY_TYPES:
        raise InvalidInput(f"`type` must be one of {', '.join(MEMORY_TYPES)}.", parameter="type")
    title = checked_line("title", title, TITLE_LIMIT) or derived_title(content)
    names = checked_tags(tags)
    key = checked_line("key", key, SHORT_LIMIT)
    target = callers.writable(home, caller, scope)
    identity = memory_id(scope=target, type=type, key=key, content=content, supersedes=None)
    try_drain(home)
    if (known := _known(home, identity)) is not None:
        return _known_answer(home, known)
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
        if (known := _known(home, identity)) is not None:
            return _known_answer(home, known)
        commit = _commit(home, [fields], f"Add {type}: {title}")
    try_drain(home)
    return _added_answer(fields, commit, similar)


def supersede(home: Home, caller: Caller, *, id: str, content: str, confirm: str | None = None) -> dict[str, Any]:
    """Replace a memory by its next revision: a preview with a token first, then exactly that with the token.

    Raises NotFound for an id outside the caller's scopes, InvalidInput kinds, TokenInvalid, VaultError kinds.
    """
    content = checked_content(content, home.config.limits.memory_bytes)
    if confirm is not None and (first := plans.first_answer(home, confirm)) is not None:
        return first
    old = _in_hand(home, caller, id)
    if old.fields.status == "superseded":
        raise _already_superseded(home, old)
    if normalise_for_identity(content) == normalise_for_identity(_body(home, old)):
        raise InvalidInput("The new content says the same as the memory it would replace.", parameter="content")
    new = _next_revision(home, old, content)
    plan = _plan(old, "supersede", {"new": new.id, "content": sha256_hex(content.encode())})
    if confirm is None:
        return _preview(home, plan, old, _diff(_body(home, old), content), "superseded")
    plans.redeem(home, confirm, plan)
    with home.vault_lane:
        if (first := plans.first_answer(home, confirm)) is not None:
            return first
        retired: dict[str, Change] = {"status": "superseded", "superseded_by": new.id, "updated": new.created}
        commit = _commit(home, [new], f"Supersede {new.type}: {new.title}", rewritten=(old, retired))
        answer = _lifecycle_answer("superseded", old, commit, successor=new)
        answer = plans.keep_answer(home, confirm, answer)
    try_drain(home)
    return answer


def archive(home: Home, caller: Caller, *, id: str, reason: str, confirm: str | None = None) -> dict[str, Any]:
    """Retire a memory without a successor: a preview with a token first, then exactly that with the token.

    Raises NotFound for an id outside the caller's scopes, InvalidInput kinds, TokenInvalid, VaultError kinds.
    """
    said = checked_line("reason", reason, REASON_LIMIT)
    if said is None:
        raise BlankContent("`reason` must say why the memory is retired.", parameter="reason")
    if confirm is not None and (first := plans.first_answer(home, confirm)) is not None:
        return first
    old = _in_hand(home, caller, id)
    if old.fields.status == "superseded":
        raise _already_superseded(home, old)
    if old.fields.status == "archived":
        raise InvalidInput(f"The memory {old.fields.id[:12]} is already archived.", next_step="Nothing to do.")
    plan = _plan(old, "archive", {"reason": said})
    if confirm is None:
        return _preview(home, plan, old, [f"status: in_force -> archived ({said})"], "archived")
    plans.redeem(home, confirm, plan)
    with home.vault_lane:
        if (first := plans.first_answer(home, confirm)) is not None:
            return first
        retired: dict[str, Change] = {"status": "archived", "archive_reason": said, "updated": timestamp(home)}
        commit = _commit(home, [], f"Archive {old.fields.type}: {old.fields.title}", rewritten=(old, retired))
        answer = _lifecycle_answer("archived", old, commit)
        answer = plans.keep_answer(home, confirm, answer)
    try_drain(home)
    return answer


def neighbours(home: Home, content: str, scope: str) -> list[dict[str, Any]]:
    """Up to three memories in force that say something near; shown beside the answer, nothing is withheld."""
    scopes = (GLOBAL_SCOPE,) if scope == GLOBAL_SCOPE else (GLOBAL_SCOPE, scope)
    if not home.memories.listed(scopes, ("in_force",), (), 1, 0):
        return []  # nothing to compare with: the model need not even start
    return answers.near(home, content[:2000], scopes, limit=3)


def visible(home: Home, caller: Caller, identity: str) -> MemoryRow:
    """The memory with this id (or unique prefix) in the caller's scopes. Raises NotFound, AmbiguousAddress."""
    try:
        digits, whole = parse_address(identity)
    except BadAddress as error:
        raise NotFound(f"There is no memory {identity[:80]!r} in this session's scopes.") from error
    scopes = callers.readable(home, caller, None)
    exact = home.memories.get(digits, scopes) if whole else None
    mine = [exact] if exact is not None else [] if whole else home.memories.find(digits, scopes)
    if not mine:
        raise NotFound(f"There is no memory {identity[:80]!r} in this session's scopes.")
    if len({row.fields.id for row in mine}) > 1:
        raise AmbiguousAddress(f"{identity!r} is the beginning of {len(mine)} memory ids.")
    return mine[0]


def _in_hand(home: Home, caller: Caller, identity: str) -> MemoryRow:
    """As `visible`, as its file stands right now, so that a plan never rests on what was edited since."""
    drain_fresh(home)
    row = visible(home, caller, identity)
    changed = any(take_files(home, [row.path]).values())
    return visible(home, caller, identity) if changed else row


def _known(home: Home, identity: str) -> MemoryRow | Fresh | None:
    for fresh in list(home.fresh):
        if fresh.fields.id == identity:
            return fresh
    return home.memories.get(identity)


def _known_answer(home: Home, known: MemoryRow | Fresh) -> dict[str, Any]:
    fields = known.fields
    if fields.status == "in_force":
        answer = _identified(fields, known.path, known.commit if isinstance(known, Fresh) else None)
        if answer["commit"] is None:
            committed = home.vault.committed(known.path)
            answer["commit"] = committed[0] if committed is not None else None
        edited = isinstance(known, MemoryRow) and _edited(home, known)
        text = "These words are already remembered; nothing was written."
        if edited:
            text = "These words were remembered and the file was edited by hand since; nothing was written."
        return {"outcome": "exists", **answer, "edited": edited, "next": text}
    successor = home.memories.successor(fields.id)
    target = successor.fields.id if successor is not None else fields.id
    return {
        "outcome": "retired",
        **_identified(fields, known.path, None),
        "status": fields.status,
        "successor": None if successor is None else {"id": target, "title": successor.fields.title},
        "proposal": {"tool": "memory_supersede", "arguments": {"id": target, "content": "<the same content>"}},
        "next": "These words were retired; nothing was written. If they hold again, make the proposed call.",
    }


def _edited(home: Home, known: MemoryRow) -> bool:
    fields = known.fields
    birth = memory_id(
        scope=fields.scope, type=fields.type, key=fields.key, content=_body(home, known), supersedes=fields.supersedes
    )
    return birth != fields.id


def _body(home: Home, row: MemoryRow) -> str:
    return entry.parse(home.vault.read(row.path)).fields.body


def _next_revision(home: Home, old: MemoryRow, content: str) -> MemoryFields:
    was = old.fields
    now = timestamp(home)
    kept = was.title if was.title != derived_title(_body(home, old)) else derived_title(content)
    identity = memory_id(scope=was.scope, type=was.type, key=was.key, content=content, supersedes=was.id)
    return replace(
        was,
        id=identity,
        seq=was.seq + 1,
        title=kept,
        status="in_force",
        created=now,
        updated=now,
        supersedes=was.id,
        superseded_by=None,
        archive_reason=None,
        body=content,
    )


def _commit(
    home: Home,
    new: list[MemoryFields],
    message: str,
    *,
    rewritten: tuple[MemoryRow, dict[str, Change]] | None = None,
) -> VaultCommit:
    """Intents, files, one commit, acknowledged by returning its id; the caller holds the vault lane."""
    writes = [VaultWrite(path=entry.file_path(fields), data=entry.render(fields), expected=None) for fields in new]
    if rewritten is not None:
        row, changes = rewritten
        data = home.vault.read(row.path)
        if address_of(data) != row.address:
            raise TokenInvalid("The memory changed since this plan was made.")
        writes.append(VaultWrite(path=row.path, data=entry.rewrite(data, changes), expected=sha256_hex(data)))
    commit = _commit_with_intents(home, writes, message)
    for path, data in commit.files.items():
        home.fresh.append(Fresh(path, entry.parse(data).fields, str(commit)))
    home.work.set()
    return commit


def _commit_with_intents(home: Home, writes: list[VaultWrite], message: str) -> VaultCommit:
    """Commit under a write intent, which a crash leaves for `recover` to settle."""
    write_id = uuid.uuid4().hex
    head, now = home.vault.head(), home.clock()
    home.state.intents.add(*(Intent(write_id, one.path, one.sha256, head, os.getpid(), now) for one in writes))
    try:
        commit = home.vault.commit(
            writes, message, spawned=lambda pid, started: home.state.intents.name_git(write_id, pid, started)
        )
    except MemorydError as error:
        if not error.details.get("settle"):
            home.state.intents.drop(write_id)
        raise
    home.state.intents.drop(write_id)
    return commit


def _plan(old: MemoryRow, kind: str, what: dict[str, str]) -> dict[str, Any]:
    return {"kind": kind, "id": old.fields.id, "state": old.address, **what}


def _preview(home: Home, plan: dict[str, Any], old: MemoryRow, diff: list[str], becomes: str) -> dict[str, Any]:
    fields = old.fields
    return {
        "outcome": "preview",
        "action": plan["kind"],
        "id": fields.id,
        "title": fields.title,
        "path": shown_path(old.path),
        "becomes": becomes,
        "diff": diff,
        "confirm": plans.seal(home, plan),
        "next": "Nothing was changed. Call again with the same arguments and this `confirm` token to do exactly this.",
    }


def _diff(before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "in force", "proposed", lineterm="", n=2)
    return list(lines)[:200]


def _lifecycle_answer(
    outcome: str, old: MemoryRow, commit: str, *, successor: MemoryFields | None = None
) -> dict[str, Any]:
    answer: dict[str, Any] = {"outcome": outcome, "retired": old.fields.id, "commit": str(commit)}
    if successor is None:
        return {**answer, **_identified(old.fields, old.path, commit), "next": "It stays readable by its id."}
    path = entry.file_path(successor)
    return {**answer, **_identified(successor, path, commit), "next": "The new revision is in force."}


def _identified(fields: MemoryFields, path: bytes, commit: str | None) -> dict[str, Any]:
    return {
        "id": fields.id,
        "fact": fields.fact,
        "type": fields.type,
        "title": fields.title,
        "scope": fields.scope,
        "path": shown_path(path),
        "commit": None if commit is None else str(commit),
    }


def _added_answer(fields: MemoryFields, commit: VaultCommit, similar: list[dict[str, Any]]) -> dict[str, Any]:
    path = entry.file_path(fields)
    answer = {"outcome": "added", **_identified(fields, path, str(commit))}
    answer["address"] = address_of(commit.files[path])
    answer["similar"] = similar
    if similar:
        answer["next"] = "Stored. If it replaces one of `similar`, call memory_supersede on that id instead."
    else:
        answer["next"] = "Stored and committed; it is searchable in a moment."
    return answer


def _already_superseded(home: Home, old: MemoryRow) -> InvalidInput:
    successor = home.memories.successor(old.fields.id)
    name = successor.fields.id if successor is not None else str(old.fields.superseded_by)
    return InvalidInput(
        f"The memory {old.fields.id[:12]} was superseded already.",
        next_step=f"Work on its successor {name} instead.",
        successor=name,
    )
