"""Are these words remembered already, and what may this caller hear of that?

Nothing here writes to the vault. What lies outside the caller's scopes is never described; words that were retired come
back with a proposal that can be made as it stands.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any

from memoryd.catalog.memories import MemoryRow
from memoryd.digest import memory_id, normalise_for_identity
from memoryd.errors import HeldElsewhere, NotFound, StoreError, VaultError, VaultFileInvalid
from memoryd.operations.fresh import heal_file, try_drain
from memoryd.operations.home import Fresh, Home
from memoryd.operations.reconcile import reconcile_vault
from memoryd.records import MemoryFields, shown_path
from memoryd.sources import entry

KEPT_BYTES = 4096
"""Files up to this size are parsed once as long as they do not change."""
Known = MemoryRow | Fresh
HEALED = "Its stored bytes were damaged and were stored again from the file."


def known(home: Home, identity: str, scopes: tuple[str, ...]) -> Known | None:
    """The memory of exactly this id, also one that was committed a moment ago.

    Raises HeldElsewhere where only a file outside the scopes holds the id.
    """
    elsewhere = False
    for fresh in reversed(list(home.fresh)):
        if fresh.fields.id == identity:
            if fresh.fields.scope in scopes:
                return fresh
            elsewhere = True
    found = home.memories.get(identity, scopes)
    if found is None and (elsewhere or home.memories.get(identity) is not None):
        raise HeldElsewhere("These words cannot be added: the id they would get is held outside this session's scopes.")
    return found


def remembered(home: Home, identity: str, scopes: tuple[str, ...], path: bytes) -> Known | None:
    """As `standing`, after a look at the vault where a person may have moved the file, or where something that was not
    taken in yet lies at its `path` (an interrupted write, a pull). The caller holds no lane."""
    found = known(home, identity, scopes)
    if _stands(home, found) if found is not None else not home.vault.exists(path):
        return found
    with suppress(StoreError, VaultError):  # then it is as it was known last
        reconcile_vault(home)
    return standing(home, identity, scopes)


def standing(home: Home, identity: str, scopes: tuple[str, ...]) -> Known | None:
    """As `known`; None also for a memory in force whose file no longer holds it. Raises HeldElsewhere."""
    found = known(home, identity, scopes)
    return found if found is not None and _stands(home, found) else None


def _stands(home: Home, found: Known) -> bool:
    """Whether the file still holds the memory, so that nobody is told `exists` of what was removed a moment ago."""
    if found.fields.status != "in_force":
        return True  # a lost file does not bring retired words back
    try:
        return entry.parse(home.vault.read(found.path)).fields.id == found.fields.id
    except (NotFound, VaultFileInvalid):
        return False
    except VaultError:
        return True  # it cannot be read, which is no removal


def known_answer(home: Home, found: Known, content: str, scopes: tuple[str, ...]) -> dict[str, Any]:
    """What adding known words answers: `exists`, or `retired` with a proposal. The caller holds no lane."""
    if found.fields.status == "in_force":
        edited = isinstance(found, MemoryRow) and _edited(home, found)
        text = "These words are already remembered; nothing was written."
        if edited:
            text = "These words were remembered and the file was edited by hand since; nothing was written."
        return _exists(home, found, edited, text)
    try_drain(home, wait=True)  # the successor may have been committed a moment ago
    last = successor(home, found.fields.id, scopes)
    if last is not None and last.fields.status == "in_force" and same_identity(content, body_of(home, last)):
        return _exists(home, last, False, "These words are in force again, as a later revision; nothing was written.")
    return _retired(found, last, content)


def _exists(home: Home, found: Known, edited: bool, text: str) -> dict[str, Any]:
    answer = identified(found.fields, found.path, found.commit if isinstance(found, Fresh) else None)
    if answer["commit"] is None:
        committed = home.vault.committed(found.path)
        answer["commit"] = committed[0] if committed is not None else None
    if _healed(home, found.path):
        return {"outcome": "exists", **answer, "edited": edited, "healed": True, "next": f"{text} {HEALED}"}
    return {"outcome": "exists", **answer, "edited": edited, "next": text}


def _healed(home: Home, path: bytes) -> bool:
    try:
        return heal_file(home, path)
    except (StoreError, VaultError):
        return False  # the file holds the words; a later look at the vault tries again


def _retired(found: Known, last: MemoryRow | None, content: str) -> dict[str, Any]:
    fields = found.fields
    target = fields if last is None else last.fields
    answer = {
        "outcome": "retired",
        **identified(fields, found.path, None),
        "status": fields.status,
        "successor": None if last is None else {"id": last.fields.id, "title": last.fields.title},
        "proposal": None,
        "next": "These words were retired and what took their place is not to be seen here; nothing was written.",
    }
    if target.status != "superseded":
        answer["proposal"] = {"tool": "memory_supersede", "arguments": {"id": target.id, "content": content}}
        answer["next"] = "These words were retired; nothing was written. If they hold again, make the proposed call."
    return answer


def successor(home: Home, identity: str, scopes: tuple[str, ...]) -> MemoryRow | None:
    """What took a memory's place, as far as the scopes show it: the next one in force, else the last one."""
    seen = {identity}
    last: MemoryRow | None = None
    row = home.memories.get(identity, scopes)
    while row is not None and (target := row.fields.superseded_by) is not None and target not in seen:
        seen.add(target)
        row = home.memories.get(target, scopes)
        last = row or last
        if row is not None and row.fields.status == "in_force":
            break
    return last


def same_identity(one: str, other: str) -> bool:
    """Whether two texts differ in nothing that an identity is made of."""
    return normalise_for_identity(one) == normalise_for_identity(other)


def body_of(home: Home, row: MemoryRow) -> str:
    """A memory's words as its file holds them now; where that cannot be read, as they were stored last."""
    try:
        return _body_in(home.vault.read(row.path))
    except (NotFound, VaultError):
        return _body_in(home.store.read(row.address))


def _body_in(data: bytes) -> str:
    """The body of a memory file; those of small ones are kept, because an add looks at many again. Raises
    VaultFileInvalid."""
    return _kept_body(data) if len(data) <= KEPT_BYTES else entry.parse(data).fields.body


@lru_cache(maxsize=512)
def _kept_body(data: bytes) -> str:
    return entry.parse(data).fields.body


def _edited(home: Home, row: MemoryRow) -> bool:
    fields = row.fields
    birth = memory_id(
        scope=fields.scope, type=fields.type, key=fields.key, content=body_of(home, row), supersedes=fields.supersedes
    )
    return birth != fields.id


def identified(fields: MemoryFields, path: bytes, commit: str | None) -> dict[str, Any]:
    """What every answer about one memory says of it."""
    return {
        "id": fields.id,
        "fact": fields.fact,
        "type": fields.type,
        "title": fields.title,
        "scope": fields.scope,
        "path": shown_path(path),
        "commit": None if commit is None else str(commit),
    }
