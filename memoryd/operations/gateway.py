"""How is knowledge added, corrected and retired without ever being damaged?

One pipeline: validate -> no secret -> exact duplicate by id -> similar -> intent -> file -> one git commit of only its
files -> acknowledge -> packs and index. Nothing is rewritten but a retired memory's frontmatter; nothing is deleted.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memoryd.catalog.memories import MemoryRow
from memoryd.digest import address_of, memory_id, parse_address, sha256_hex
from memoryd.errors import (
    AmbiguousAddress,
    BadAddress,
    BlankContent,
    InvalidInput,
    NotFound,
    VaultFileInvalid,
)
from memoryd.operations import answers, callers, plans
from memoryd.operations.fresh import drain_fresh, take_files, try_drain
from memoryd.operations.guard import refuse_secrets, shown
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
from memoryd.operations.known import body_of, identified, known_answer, remembered, same_words, standing, successor
from memoryd.operations.writes import Written, nothing_spoiled, write_memories
from memoryd.records import GLOBAL_SCOPE, MEMORY_TYPES, MemoryFields, shown_path
from memoryd.sources import entry
from memoryd.sources.entry import Change
from memoryd.sources.git import literal


@dataclass(frozen=True, slots=True)
class Plan:
    """A lifecycle change: the memory as it stands, the frontmatter that retires it, its next revision if it has one.

    `said` is the new content or the reason: with the kind and the id, exactly what the caller asked for.
    """

    kind: str
    said: str
    old: MemoryRow
    retired: Mapping[str, Change]
    new: MemoryFields | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """What was asked for."""
        return _arguments(self.kind, self.old.fields.id, self.said)

    @property
    def bound(self) -> dict[str, Any]:
        """What was asked for, and the state that it is applied to."""
        return {**self.arguments, "state": self.old.address, "new": "" if self.new is None else self.new.id}

    @property
    def outcome(self) -> str:
        """What the memory becomes."""
        return "superseded" if self.new is not None else "archived"

    def done_in(self, data: bytes) -> bool:
        """Whether this file (the old memory's) shows that exactly this change was made."""
        try:
            fields = entry.parse(data).fields
        except VaultFileInvalid:
            return False
        if self.new is not None:
            return fields.status == "superseded" and fields.superseded_by == self.new.id
        return fields.status != "in_force" and fields.archive_reason == self.said


DIFF_LINES = 400
"""Lines of each text that a preview compares: the comparison grows with their product."""


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


def supersede(
    home: Home, caller: Caller, *, id: str, content: str, confirm: str | None = None, allow_secret: bool = False
) -> dict[str, Any]:
    """Replace a memory by its next revision: a preview with a token first, then exactly that with the token.

    Raises NotFound for an id outside the caller's scopes, InvalidInput kinds, TokenInvalid, VaultError kinds.
    """
    content = checked_content(content, home.config.limits.memory_bytes)
    refuse_secrets(allowed=allow_secret, content=content)
    if confirm is not None and (first := _first_answer(home, caller, confirm, ("supersede", id, content))) is not None:
        return first
    old = _in_hand(home, caller, id)
    new = _next_revision(home, old, content)
    retired = {"status": "superseded", "superseded_by": new.id, "updated": new.created}
    plan = Plan("supersede", content, old, retired, new)
    if confirm is not None:
        return _redeemed(home, caller, plan, confirm)
    _require_possible(home, caller, plan)
    return _preview(home, plan, _diff(shown(body_of(home, old)), shown(content)))


def archive(
    home: Home, caller: Caller, *, id: str, reason: str, confirm: str | None = None, allow_secret: bool = False
) -> dict[str, Any]:
    """Retire a memory without a successor: a preview with a token first, then exactly that with the token.

    Raises NotFound for an id outside the caller's scopes, InvalidInput kinds, TokenInvalid, VaultError kinds.
    """
    said = checked_line("reason", reason, REASON_LIMIT)
    if said is None:
        raise BlankContent("`reason` must say why the memory is retired.", parameter="reason")
    refuse_secrets(allowed=allow_secret, reason=said)
    if confirm is not None and (first := _first_answer(home, caller, confirm, ("archive", id, said))) is not None:
        return first
    old = _in_hand(home, caller, id)
    retired = {"status": "archived", "archive_reason": said, "updated": timestamp(home)}
    plan = Plan("archive", said, old, retired)
    if confirm is not None:
        return _redeemed(home, caller, plan, confirm)
    _require_possible(home, caller, plan)
    return _preview(home, plan, [f"status: in_force -> archived ({shown(said)})"])


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
        raise _missing(identity) from error
    scopes = callers.readable(home, caller, None)
    exact = home.memories.get(digits, scopes) if whole else None
    mine = [exact] if exact is not None else [] if whole else home.memories.find(digits, scopes)
    if not mine:
        raise _missing(identity)
    if len({row.fields.id for row in mine}) > 1:
        raise AmbiguousAddress(f"{identity!r} is the beginning of {len(mine)} memory ids.")
    return mine[0]


def _missing(identity: str) -> NotFound:
    return NotFound(f"There is no memory {identity[:80]!r} in this session's scopes.")


def _in_hand(home: Home, caller: Caller, identity: str) -> MemoryRow:
    """As `visible`, as its file stands right now, so that a plan never rests on what was edited since."""
    drain_fresh(home)
    row = visible(home, caller, identity)
    changed = any(take_files(home, [row.path]).values())
    return visible(home, caller, identity) if changed else row


def _arguments(kind: str, identity: str, said: str) -> dict[str, Any]:
    return {"kind": kind, "id": identity, "said": sha256_hex(said.encode())}


def _first_answer(home: Home, caller: Caller, token: str, asked: tuple[str, str, str]) -> dict[str, Any] | None:
    """What the token was redeemed for before, if this caller may see it and asks for exactly the same again.

    Raises NotFound for an answer outside the caller's scopes, TokenInvalid.
    """
    kind, identity, said = asked
    first = plans.first_answer(home, token)
    if first is None:
        return None
    if first["scope"] not in callers.readable(home, caller, None):
        raise _missing(identity)
    try:
        digits, _whole = parse_address(identity)
    except BadAddress as error:
        raise _missing(identity) from error
    retired = str(first["retired"])
    plans.check_arguments(home, token, _arguments(kind, retired if retired.startswith(digits) else digits, said))
    return first


def _redeemed(home: Home, caller: Caller, plan: Plan, token: str) -> dict[str, Any]:
    """Do what the token's preview showed, once; where it was done already, the answer of then."""
    plans.check_arguments(home, token, plan.arguments)
    with home.vault_lane:
        answer = plans.first_answer(home, token) or _landed(home, plan)
        if answer is None:
            _require_possible(home, caller, plan)
            plans.redeem(home, token, plan.bound)
            shown = plan.new or plan.old.fields
            message = f"{plan.kind.capitalize()} {shown.type}: {shown.title}"
            new = [plan.new] if plan.new is not None else []
            written = write_memories(home, new, message, rewritten=(plan.old, plan.retired))
            answer = _lifecycle_answer(plan, str(written.commit), written.notice)
        with nothing_spoiled(home):
            answer = plans.keep_answer(home, token, answer)
    try_drain(home)
    return answer


def _landed(home: Home, plan: Plan) -> dict[str, Any] | None:
    """The first answer once more, where HEAD shows that the change was made and only its answer was not kept.

    Everything in it follows from the arguments and the vault, so it can be made again after a crash.
    """
    path = plan.old.path
    if not plan.done_in(home.vault.read(path)):
        return None  # the usual case, told without asking git
    head = home.vault.head()
    data = None if head is None else home.vault.git.blob(head, path)
    if data is None or not plan.done_in(data):
        return None
    home.vault.settle(path, sha256_hex(data))  # whoever made the commit may have died before it was durable
    return _lifecycle_answer(plan, _commit_of(home, plan), None)


def _commit_of(home: Home, plan: Plan) -> str | None:
    """The commit that made a change: the one that added the new file, else the newest one of the retired file."""
    if plan.new is not None:
        path = literal(entry.file_path(plan.new))
        added = home.vault.git.run(["log", "--format=%H", "--diff-filter=A", "--", path]).out.split()
        if added:
            return added[-1].decode()
    return home.vault.git.log_commit(plan.old.path)


def _require_possible(home: Home, caller: Caller, plan: Plan) -> None:
    """Raises InvalidInput where the memory cannot be changed so."""
    was = plan.old.fields
    if was.status == "superseded":
        raise _already_superseded(home, caller, plan.old)
    if plan.new is None and was.status == "archived":
        raise InvalidInput(f"The memory {was.id[:12]} is already archived.", next_step="Nothing to do.")
    # the words of an archived memory may come into force again, as a revision of their own
    if plan.new is not None and was.status == "in_force" and same_words(plan.said, body_of(home, plan.old)):
        raise InvalidInput("The new content says the same as the memory it would replace.", parameter="content")


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


def _preview(home: Home, plan: Plan, diff: list[str]) -> dict[str, Any]:
    fields = plan.old.fields
    return {
        "outcome": "preview",
        "action": plan.kind,
        "id": fields.id,
        "title": fields.title,
        "path": shown_path(plan.old.path),
        "becomes": plan.outcome,
        "diff": diff,
        "confirm": plans.seal(home, plan.bound, plan.arguments),
        "next": "Nothing was changed. Call again with the same arguments and this `confirm` token to do exactly this.",
    }


def _diff(before: str, after: str) -> list[str]:
    """What changes, in at most 200 lines; of long texts only the first lines of what differs are compared."""
    old, new = before.splitlines(), after.splitlines()
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    first = max(0, same - 2)
    shown = slice(first, first + DIFF_LINES)
    lines = list(difflib.unified_diff(old[shown], new[shown], "in force", "proposed", lineterm="", n=2))[:200]
    if max(len(old), len(new)) > first + DIFF_LINES:
        lines.append(f"... {len(old)} lines become {len(new)}")
    return lines


def _lifecycle_answer(plan: Plan, commit: str | None, notice: str | None) -> dict[str, Any]:
    answer: dict[str, Any] = {"outcome": plan.outcome, "retired": plan.old.fields.id}
    if plan.new is None:
        answer |= {**identified(plan.old.fields, plan.old.path, commit), "next": "It stays readable by its id."}
    else:
        path = entry.file_path(plan.new)
        answer |= {**identified(plan.new, path, commit), "next": "The new revision is in force."}
    return answer if notice is None else {**answer, "notice": notice}


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


def _already_superseded(home: Home, caller: Caller, old: MemoryRow) -> InvalidInput:
    last = successor(home, old.fields.id, callers.readable(home, caller, None))
    name = last.fields.id if last is not None else str(old.fields.superseded_by)
    return InvalidInput(
        f"The memory {old.fields.id[:12]} was superseded already.",
        next_step=f"Work on its successor {name} instead.",
        successor=name,
    )
