"""What does a lifecycle change consist of: which memory is retired, and what takes its place?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from memoryd.catalog.memories import MemoryRow
from memoryd.digest import memory_id, sha256_hex
from memoryd.errors import VaultFileInvalid
from memoryd.operations.home import Home, timestamp
from memoryd.operations.inputs import derived_title
from memoryd.operations.known import body_of
from memoryd.records import MemoryFields
from memoryd.sources import entry
from memoryd.sources.entry import Change

SUPERSEDE, LINK, ARCHIVE = "supersede", "link", "archive"
"""Replaced by new words; by a memory that is there already; retired without a successor."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A lifecycle change: the memory as it stands and the frontmatter that retires it; for what takes its place either
    the next revision (`new`) or the memory that is there (`by`) with what changes in its frontmatter (`linked`).

    `said` is the new content, the other memory's id or the reason: with the kind and the id, exactly what the caller
    asked for.
    """

    kind: str
    said: str
    old: MemoryRow
    retired: Mapping[str, Change]
    new: MemoryFields | None = None
    by: MemoryRow | None = None
    linked: Mapping[str, Change] | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """What was asked for."""
        return arguments(self.kind, self.old.fields.id, self.said)

    @property
    def bound(self) -> dict[str, Any]:
        """What was asked for, and the state that it is applied to."""
        state = {"state": self.old.address, "new": "" if self.new is None else self.new.id}
        return {**self.arguments, **state, **({} if self.by is None else {"by": self.by.address})}

    @property
    def next(self) -> MemoryFields | None:
        """What is in force instead."""
        return self.by.fields if self.by is not None else self.new

    @property
    def outcome(self) -> str:
        """What the memory becomes."""
        return "archived" if self.kind == ARCHIVE else "superseded"

    def done_in(self, data: bytes) -> bool:
        """Whether this file (the old memory's) shows that exactly this change was made."""
        try:
            fields = entry.parse(data).fields
        except VaultFileInvalid:
            return False
        if self.next is not None:
            return fields.status == "superseded" and fields.superseded_by == self.next.id
        return fields.status != "in_force" and fields.archive_reason == self.said


def arguments(kind: str, identity: str, said: str) -> dict[str, Any]:
    return {"kind": kind, "id": identity, "said": sha256_hex(said.encode())}


def revision(home: Home, old: MemoryRow, content: str) -> Plan:
    """The plan that these words take the place of this memory."""
    new = _next_revision(home, old, content)
    retired = {"status": "superseded", "superseded_by": new.id, "updated": new.created}
    return Plan(SUPERSEDE, content, old, retired, new)


def replaced(home: Home, old: MemoryRow, content: str) -> Plan:
    """As `revision`; where a memory of its own holds these words already, that one takes the place."""
    was = old.fields
    alone = memory_id(scope=was.scope, type=was.type, key=was.key, content=content, supersedes=None)
    there = home.memories.get(alone, (was.scope,)) if alone != was.id else None
    if there is None or there.fields.status != "in_force" or there.fields.created < was.created:
        return revision(home, old, content)
    return replace(link(home, old, there), kind=SUPERSEDE, said=content)


def link(home: Home, old: MemoryRow, new: MemoryRow) -> Plan:
    """The plan that a memory which is there takes the place of this one. It joins the fact of the first memory that it
    replaces; of a further one it only becomes the successor."""
    now = timestamp(home)
    retired = {"status": "superseded", "superseded_by": new.fields.id, "updated": now}
    linked: dict[str, Change] | None = None
    if new.fields.supersedes is None:
        joined = {"fact": old.fields.fact, "seq": str(old.fields.seq + 1), "supersedes": old.fields.id}
        linked = {**joined, "updated": now}
    return Plan(LINK, new.fields.id, old, retired, by=new, linked=linked)


def _next_revision(home: Home, old: MemoryRow, content: str) -> MemoryFields:
    was = old.fields
    now = timestamp(home)
    kept = was.title if was.title != derived_title(body_of(home, old)) else derived_title(content)
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
