"""How is a memory replaced by its next revision, or retired, without ever being damaged?

A preview shows the change and a token that is bound to it and to the state that it was made of; the token does exactly
that, in one commit of both files. What was done stays readable, and `created` tells the direction: what is older never
takes the place of what is newer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from memoryd.catalog.memories import MemoryRow
from memoryd.digest import parse_address, sha256_hex
from memoryd.errors import (
    BadAddress,
    BlankContent,
    InvalidInput,
    SupersedeReversed,
)
from memoryd.operations import callers, plans
from memoryd.operations.citations import asked, cited
from memoryd.operations.evidence import announce
from memoryd.operations.fresh import drain_fresh, take_files, try_drain
from memoryd.operations.guard import refuse_secrets
from memoryd.operations.home import Caller, Home, timestamp
from memoryd.operations.inputs import REASON_LIMIT, checked_content, checked_line
from memoryd.operations.known import body_of, identified, same_identity, successor
from memoryd.operations.named import memory_named, missing
from memoryd.operations.previews import previewed
from memoryd.operations.revising import ARCHIVE, LINK, SUPERSEDE, Plan, arguments, link, replaced
from memoryd.operations.writes import Written, nothing_spoiled, write_memories
from memoryd.records import MemoryFields
from memoryd.sources import entry
from memoryd.sources.git import literal

Scopes = tuple[str, ...]


def supersede(
    home: Home,
    caller: Caller,
    *,
    id: str,
    content: str | None = None,
    by: str | None = None,
    citations: Sequence[str] | None = None,
    confirm: str | None = None,
    scope: str | None = None,
    allow_secret: bool = False,
) -> dict[str, Any]:
    """Replace a memory by its next revision, or (`by`) by a memory that is there: a preview with a token first, then
    exactly that with the token. The next revision cites what this one does, unless `citations` says otherwise.

    Raises NotFound for an id outside the caller's scopes, ReadOnlyEntry, SupersedeReversed, InvalidInput kinds,
    TokenInvalid, VaultError kinds.
    """
    if (content is None) == (by is None):
        raise InvalidInput("Give either `content` (the new words) or `by` (the id of a memory that replaces this one).")
    scopes = callers.readable(home, caller, scope)
    if by is not None and citations is not None:
        raise InvalidInput("`citations` go with `content`; what the memory `by` cites is its own.")
    if by is not None:
        return _link(home, scopes, id, by, confirm)
    content = checked_content(content or "", home.config.limits.memory_bytes)
    refuse_secrets(allowed=allow_secret, content=content, citations=citations)
    wanted = asked(citations)
    cites = None if wanted is None else [one.at for one in wanted]
    if confirm is not None and (first := _first_answer(home, scopes, confirm, (SUPERSEDE, id, content), cites)):
        return first
    old = _in_hand(home, scopes, id)
    places = None if wanted is None else cited(home, caller, old.fields.scope, wanted)
    return _done_or_shown(home, scopes, replaced(home, old, content, places), confirm)


def _link(home: Home, scopes: Scopes, id: str, by: str, confirm: str | None) -> dict[str, Any]:
    if confirm is not None and (first := _first_answer(home, scopes, confirm, (LINK, id, by))) is not None:
        return first
    return _done_or_shown(home, scopes, link(home, _in_hand(home, scopes, id), _in_hand(home, scopes, by)), confirm)


def archive(
    home: Home,
    caller: Caller,
    *,
    id: str,
    reason: str,
    confirm: str | None = None,
    scope: str | None = None,
    allow_secret: bool = False,
) -> dict[str, Any]:
    """Retire a memory without a successor: a preview with a token first, then exactly that with the token.

    Raises NotFound for an id outside the caller's scopes, ReadOnlyEntry, InvalidInput kinds, TokenInvalid, VaultError
    kinds.
    """
    said = checked_line("reason", reason, REASON_LIMIT)
    if said is None:
        raise BlankContent("`reason` must say why the memory is retired.", parameter="reason")
    refuse_secrets(allowed=allow_secret, reason=said)
    scopes = callers.readable(home, caller, scope)
    if confirm is not None and (first := _first_answer(home, scopes, confirm, (ARCHIVE, id, said))) is not None:
        return first
    old = _in_hand(home, scopes, id)
    retired = {"status": "archived", "archive_reason": said, "updated": timestamp(home)}
    return _done_or_shown(home, scopes, Plan(ARCHIVE, said, old, retired), confirm)


def _in_hand(home: Home, scopes: Scopes, identity: str) -> MemoryRow:
    """As `visible`, as its file stands right now, so that a plan never rests on what was edited since."""
    drain_fresh(home)
    row = memory_named(home, scopes, identity)
    changed = any(take_files(home, [row.path]).values())
    return memory_named(home, scopes, identity) if changed else row


def _first_answer(
    home: Home, scopes: Scopes, token: str, said_of: tuple[str, str, str], cites: Sequence[str] | None = None
) -> dict[str, Any] | None:
    """What the token was redeemed for before, if this caller may see it and asks for exactly the same again.

    Raises NotFound for an answer outside the caller's scopes, TokenInvalid.
    """
    kind, identity, said = said_of
    first = plans.first_answer(home, token)
    if first is None:
        return None
    if first["scope"] not in scopes:
        raise missing(identity)
    try:
        digits, _whole = parse_address(identity)
    except BadAddress as error:
        raise missing(identity) from error
    retired, said = str(first["retired"]), _full_id(str(first["id"]), said) if kind == LINK else said
    plans.check_arguments(home, token, arguments(kind, retired if retired.startswith(digits) else digits, said, cites))
    return first


def _full_id(id: str, given: str) -> str:
    """The id that was given, perhaps shortened, in the form in which plans name it."""
    try:
        digits, _is_whole = parse_address(given)
    except BadAddress:
        return given
    return id if id.startswith(digits) else digits


def _done_or_shown(home: Home, scopes: Scopes, plan: Plan, token: str | None) -> dict[str, Any]:
    if token is not None:
        return _redeemed(home, scopes, plan, token)
    _require_possible(home, scopes, plan)
    return previewed(home, plan)


def _redeemed(home: Home, scopes: Scopes, plan: Plan, token: str) -> dict[str, Any]:
    """Do what the token's preview showed, once; where it was done already, the answer of then."""
    plans.check_arguments(home, token, plan.arguments)
    with home.vault_lane:
        answer = plans.first_answer(home, token) or _landed(home, plan)
        if answer is None:
            _require_possible(home, scopes, plan)
            plans.redeem(home, token, plan.bound)
            written = _written(home, plan)
            if plan.cited is not None:
                announce(home, plan.old.fields.scope, plan.cited.pieces)
            answer = _lifecycle_answer(plan, str(written.commit), written.notice)
        with nothing_spoiled(home):
            answer = plans.keep_answer(home, token, answer)
    try_drain(home)
    return answer


def _written(home: Home, plan: Plan) -> Written:
    named = plan.next or plan.old.fields
    verb = "Archive" if plan.kind == ARCHIVE else "Supersede"
    changed = [(plan.old, plan.retired)]
    if plan.by is not None and plan.linked is not None:
        changed.append((plan.by, plan.linked))
    new = [plan.new] if plan.new is not None else []
    return write_memories(home, new, f"{verb} {named.type}: {named.title}", rewritten=changed)


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


def _require_possible(home: Home, scopes: Scopes, plan: Plan) -> None:
    """Raises InvalidInput, SupersedeReversed where the memory cannot be changed so."""
    was = plan.old.fields
    if was.status == "superseded":
        raise _already_superseded(home, scopes, plan)
    if plan.kind == ARCHIVE and was.status == "archived":
        raise InvalidInput(f"The memory {was.id[:12]} is already archived.", next_step="Nothing to do.")
    # the words of an archived memory may come into force again, as a revision of their own
    says_as_much = plan.new is not None and was.status == "in_force" and plan.new.citations == was.citations
    if says_as_much and same_identity(plan.said, body_of(home, plan.old)):
        raise InvalidInput("The new content says the same as the memory it would replace.", parameter="content")
    if plan.by is not None:
        _require_linkable(was, plan.by.fields)


def _require_linkable(was: MemoryFields, by: MemoryFields) -> None:
    if by.id == was.id:
        raise InvalidInput("A memory cannot take its own place.", parameter="by")
    if by.scope != was.scope:
        raise InvalidInput(f"{by.id[:12]} is of the scope {by.scope}, the other one of {was.scope}.", parameter="by")
    if by.status != "in_force":
        raise InvalidInput(f"The memory {by.id[:12]} is not in force itself.", parameter="by")
    if by.created < was.created:
        raise SupersedeReversed(
            f"{by.id[:12]} was created {by.created}, before {was.id[:12]} ({was.created}): the older one does not "
            "take the place of the newer.",
            older=by.id,
            newer=was.id,
        )


def _lifecycle_answer(plan: Plan, commit: str | None, notice: str | None) -> dict[str, Any]:
    answer: dict[str, Any] = {"outcome": plan.outcome, "retired": plan.old.fields.id}
    if plan.by is not None:
        fields = plan.by.fields
        fields = (
            replace(fields, fact=plan.old.fields.fact) if fields.supersedes in (None, plan.old.fields.id) else fields
        )
        answer |= {**identified(fields, plan.by.path, commit), "next": "The newer memory is in force alone."}
    elif plan.new is not None:
        path = entry.file_path(plan.new)
        answer |= {**identified(plan.new, path, commit), "next": "The new revision is in force."}
    else:
        answer |= {**identified(plan.old.fields, plan.old.path, commit), "next": "It stays readable by its id."}
    return answer if notice is None else {**answer, "notice": notice}


def _already_superseded(home: Home, scopes: Scopes, plan: Plan) -> InvalidInput:
    old = plan.old.fields
    last = successor(home, old.id, scopes)
    name = last.fields.id if last is not None else str(old.superseded_by)
    details: dict[str, Any] = {"successor": name}
    if last is not None and plan.new is not None and last.fields.status == "in_force":
        details["proposal"] = {"tool": "memory_supersede", "arguments": {"id": name, "content": plan.said}}
    return InvalidInput(
        f"The memory {old.id[:12]} was superseded already.",
        next_step=f"Work on its successor {name} instead.",
        **details,
    )
