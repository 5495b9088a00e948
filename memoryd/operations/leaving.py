"""How is an item of a review left as it is: for a while, or for good where two memories may stand beside each other?"""

from __future__ import annotations

from typing import Any

from memoryd.errors import InvalidInput, NotFound
from memoryd.operations import callers, filed, twins
from memoryd.operations.home import Caller, Home
from memoryd.operations.named import memory_named
from memoryd.operations.review import checked_sections
from memoryd.operations.signals import told
from memoryd.operations.worn import DAY

KEEP_DAYS = 365
"""A single memory that a person looked at and kept is left out so long."""


def put_off(
    home: Home, caller: Caller, *, section: str, id: str, other: str | None = None, days: int = 30
) -> dict[str, Any]:
    """Leave an item out of reviews for so many days. Raises NotFound outside the scopes, InvalidInput."""
    checked_sections([section])
    scopes = callers.readable(home, caller, None)
    first = memory_named(home, scopes, id).fields.id
    second = memory_named(home, scopes, other).fields.id if other else ""
    until = home.clock() + days * DAY
    home.state.put_off.put((section, first, second), until)
    home.reviewed.clear()
    return {"outcome": "put-off", "section": section, "id": first, "other": second or None, "until": told(until)}


def keep(home: Home, caller: Caller, *, section: str, id: str, other: str | None = None) -> dict[str, Any]:
    """Say that it is right as it is: a pair is never shown again, anything else not for a year.

    Raises NotFound outside the scopes, InvalidInput.
    """
    if section not in ("near_duplicates", "conflicting"):
        return put_off(home, caller, section=section, id=id, other=other, days=KEEP_DAYS) | {"outcome": "kept"}
    if not other:
        raise InvalidInput(f"An item of {section} is a pair: name the `other` one.", parameter="other")
    scopes = callers.readable(home, caller, None)
    first, second = (memory_named(home, scopes, one).fields.id for one in (id, other))
    kind = "similar" if section == "near_duplicates" else "conflict"
    if first == second:
        raise InvalidInput("A pair has two memories.", parameter="other")
    filed.file(home, kind, first, second, None, "a person looked at both")
    filed.settle(home, scopes, kind, first, second)
    home.reviewed.clear()
    return {"outcome": "kept", "section": section, "id": first, "other": second, "until": None}


def words(home: Home, caller: Caller, *, id: str) -> dict[str, Any]:
    """The words of a memory for whoever reviews it, which is no recall. Raises NotFound outside the scopes."""
    row = memory_named(home, callers.readable(home, caller, None), id)
    body = twins.stored_body(home, row)
    if body is None:
        raise NotFound(f"The words of {row.fields.id[:12]} cannot be read.", next_step="Run `memoryd check`.")
    return {"id": row.fields.id, "title": row.fields.title, "content": body}
