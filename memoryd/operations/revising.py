"""What does a lifecycle change consist of: which memory is retired, and what takes its place?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memoryd.catalog.memories import MemoryRow
from memoryd.digest import memory_id, sha256_hex
from memoryd.errors import InvalidInput, VaultFileInvalid
from memoryd.operations.citations import Cited, place_of
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
    words: str = ""
    """SHA-256 of what `by` says. Its frontmatter binds nobody: of several memories that it replaces, each change but
    the first would find it changed by the one before."""
    cited: Cited | None = None
    """What the caller wants to be cited from now on; None: as before."""

    @property
    def arguments(self) -> dict[str, Any]:
        """What was asked for."""
        cites = None if self.cited is None else [place_of(one) for one in self.cited.written]
        return arguments(self.kind, self.old.fields.id, self.said, cites)

    @property
    def bound(self) -> dict[str, Any]:
        """What was asked for, and the state that it is applied to."""
        state = {"state": self.old.address, "new": "" if self.new is None else self.new.id}
        if self.cited is not None:
            state["citations"] = " ".join(self.cited.written)
        return {**self.arguments, **state, **({} if self.by is None else {"by": self.words})}

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


def arguments(kind: str, identity: str, said: str, cites: Sequence[str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": kind, "id": identity, "said": sha256_hex(said.encode())}
    return found if cites is None else {**found, "citations": list(cites)}


def revision(home: Home, old: MemoryRow, content: str, cited: Cited | None = None) -> Plan:
    """The plan that these words take the place of this memory, and what is cited, where something was given, of what
    it cited."""
    new = _next_revision(home, old, content)
    if cited is not None:
        new = replace(new, citations=cited.written)
    retired = {"status": "superseded", "superseded_by": new.id, "updated": new.created}
    return Plan(SUPERSEDE, content, old, retired, new, cited=cited)


def replaced(home: Home, old: MemoryRow, content: str, cited: Cited | None = None) -> Plan:
    """As `revision`; where a memory of its own holds these words already, that one takes the place.

    Raises InvalidInput where its citations were to be others.
    """
    was = old.fields
    alone = memory_id(scope=was.scope, type=was.type, key=was.key, content=content, supersedes=None)
    there = home.memories.get(alone, (was.scope,)) if alone != was.id else None
    if there is None or there.fields.status != "in_force" or there.fields.created < was.created:
        return revision(home, old, content, cited)
    if cited is not None:
        message = f"The memory {there.fields.id[:12]} holds these words already; what it cites is its own."
        raise InvalidInput(message, next_step="Leave `citations` out.", parameter="citations")
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
    words = sha256_hex(body_of(home, new).encode())
    return Plan(LINK, new.fields.id, old, retired, by=new, linked=linked, words=words)


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
