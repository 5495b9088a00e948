"""What does a person or agent see of a lifecycle change before saying yes: what differs, and the token that does it?"""

from __future__ import annotations

import difflib
from typing import Any

from memoryd.operations import plans
from memoryd.operations.citations import place_of
from memoryd.operations.guard import shown
from memoryd.operations.home import Home
from memoryd.operations.known import body_of
from memoryd.operations.revising import ARCHIVE, SUPERSEDE, Plan
from memoryd.records import shown_path

DIFF_LINES = 400
"""Lines of each text that are compared: the comparison grows with their product."""


def previewed(home: Home, plan: Plan) -> dict[str, Any]:
    """What a plan would do, with the token that does it."""
    fields = plan.old.fields
    return {
        "outcome": "preview",
        "action": "archive" if plan.kind == ARCHIVE else "supersede",
        "id": fields.id,
        "title": fields.title,
        "path": shown_path(plan.old.path),
        "becomes": plan.outcome,
        **({} if plan.by is None else {"by": plan.by.fields.id}),
        "diff": _changes(home, plan),
        "confirm": plans.seal(home, plan.bound, plan.arguments),
        "next": "Nothing was changed. Call again with the same arguments and this `confirm` token to do exactly this.",
    }


def _changes(home: Home, plan: Plan) -> list[str]:
    if plan.kind == ARCHIVE:
        return [f"status: in_force -> archived ({plan.said})"]
    words = plan.said if plan.by is None else body_of(home, plan.by)
    before, after = plan.old.fields.citations, (plan.next or plan.old.fields).citations
    cites = [f"-cites {shown(one)}" for one in before if one not in after and plan.new is not None]
    cites += [f"+cites {shown(one)}" for one in after if one not in before and plan.new is not None]
    return diff(shown(body_of(home, plan.old)), shown(words)) + cites


def proposal(home: Home, plan: Plan) -> dict[str, Any]:
    """A call that is ready to be made: the tool, its arguments with the token, and what it would change."""
    arguments: dict[str, Any] = {"id": plan.old.fields.id}
    arguments |= {"content": plan.said} if plan.kind == SUPERSEDE else {"by": plan.said}
    if plan.cited is not None:
        arguments["citations"] = [place_of(one) for one in plan.cited.written]
    seen = previewed(home, plan)
    return {"tool": "memory_supersede", "arguments": {**arguments, "confirm": seen["confirm"]}, "diff": seen["diff"]}


def diff(before: str, after: str) -> list[str]:
    """What changes, in at most 200 lines; of long texts only the first lines of what differs are compared."""
    old, new = before.splitlines(), after.splitlines()
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    first = max(0, same - 2)
    part = slice(first, first + DIFF_LINES)
    lines = list(difflib.unified_diff(old[part], new[part], "in force", "proposed", lineterm="", n=2))[:200]
    if max(len(old), len(new)) > first + DIFF_LINES:
        lines.append(f"... {len(old)} lines become {len(new)}")
    return lines
