"""What does a session say of a memory it was shown, and what may follow from that?

Nothing is retired by feedback: it is counted for the fact, shown by a review, and after `wrong` or `outdated` the
answer carries the calls that would retire the memory, ready to be made.
"""

from __future__ import annotations

import shlex
from typing import Any

from memoryd.catalog.feedback import VERDICTS, Verdict
from memoryd.catalog.memories import MemoryRow
from memoryd.errors import InvalidInput
from memoryd.operations import callers
from memoryd.operations.fresh import try_drain
from memoryd.operations.guard import refuse_secrets
from memoryd.operations.home import Caller, Home
from memoryd.operations.inputs import REASON_LIMIT, checked_line
from memoryd.operations.known import successor
from memoryd.operations.named import memory_named
from memoryd.operations.signals import feedback_counts

__all__ = ["NOTE_LIMIT", "VERDICTS", "command_of", "feedback", "proposals"]

NOTE_LIMIT = REASON_LIMIT - 40
"""With the verdict before it, a note is the reason of the proposed archive."""


def feedback(home: Home, caller: Caller, *, id: str, verdict: str, note: str | None = None) -> dict[str, Any]:
    """Say that a memory was `useful`, `wrong` or `outdated`; `outcome` is `noted`, or `known` where nothing changed.

    Raises NotFound for an id outside the caller's scopes, InvalidInput kinds (SecretFound among them), DiskFull.
    """
    if verdict not in VERDICTS:
        raise InvalidInput(f"`verdict` must be one of {', '.join(VERDICTS)}.", parameter="verdict")
    said = checked_line("note", note, NOTE_LIMIT)
    refuse_secrets(allowed=False, note=said)
    try_drain(home)
    scopes = callers.readable(home, caller, None)
    memory = memory_named(home, scopes, id)
    fields = memory.fields
    given = Verdict(fields.id, caller.name or "unnamed", fields.fact, verdict, said, home.clock())
    changed = home.state.feedback.give(given)
    if changed:
        home.state.put_off.drop("feedback", fields.id)
        home.reviewed.clear()
    return {
        "outcome": "noted" if changed else "known",
        "id": fields.id,
        "fact": fields.fact,
        "title": fields.title,
        "status": fields.status,
        "verdict": verdict,
        "feedback": feedback_counts(home, fields.fact, scopes),
        **_following(home, scopes, memory, verdict, said),
    }


def _following(
    home: Home, scopes: tuple[str, ...], memory: MemoryRow, verdict: str, note: str | None
) -> dict[str, Any]:
    """What the caller may do next."""
    fields = memory.fields
    if fields.status != "in_force":
        last = successor(home, fields.id, scopes)
        told = {} if last is None else {"successor": {"id": last.fields.id, "title": last.fields.title}}
        return {**told, "proposals": [], "next": "This revision is not in force any more; nothing else is to be done."}
    if verdict == "useful":
        return {"proposals": [], "next": "Counted."}
    return {
        "proposals": [
            {**one, "command": command_of(one)}
            for one in proposals(fields.id, f"{verdict}: {note}" if note else f"said to be {verdict}")
        ],
        "next": "Counted; nothing was retired. If you know what holds now, make the first proposed call with that as "
        "`content`; if nothing does, the second one. Both show a plan first.",
    }


def command_of(action: dict[str, Any]) -> str:
    """The same call at a shell; `-` reads the words from standard input."""
    given = action["arguments"]
    words = ["memoryd", action["tool"].removeprefix("memory_"), given["id"][:12]]
    if "by" in given:
        words += ["--by", given["by"][:12]]
    return shlex.join([*words, given["reason"]] if "reason" in given else words if "by" in given else [*words, "-"])


def proposals(id: str, reason: str) -> list[dict[str, Any]]:
    """The two ways to retire a memory that does not hold: by its successor's words, or without one."""
    return [
        {"tool": "memory_supersede", "arguments": {"id": id}, "needs": "content"},
        {"tool": "memory_archive", "arguments": {"id": id, "reason": reason}},
    ]
