"""What does the command line ask of a daemon when a person reviews memories?

Nothing here retires one: that is done with the agents' own tools, which show their plan first.
"""

from __future__ import annotations

from typing import Any

from memoryd.operations import leaving, review
from memoryd.server.commands import Bind
from memoryd.server.toolbox import Tool

_TEXT: dict[str, Any] = {"type": "string"}
_SECTION: dict[str, Any] = {**_TEXT, "enum": list(review.SECTIONS)}
_ITEM: dict[str, Any] = {"section": _SECTION, "id": _TEXT, "other": _TEXT}


def review_commands(bind: Bind) -> tuple[Tool, ...]:
    """What wants a look, and what was left as it is."""
    return (
        Tool(
            "review",
            "Review",
            "Memories that want a look, each with the call that settles it.",
            {
                "sections": {"type": "array", "items": _SECTION},
                "limit": {"type": "integer", "minimum": 1, "maximum": 1000},
                "scope": _TEXT,
            },
            bind(review.review),
            read_only=True,
        ),
        Tool(
            "review_words",
            "Words",
            "The words of a memory, for whoever reviews it.",
            {"id": _TEXT},
            bind(leaving.words),
            required=("id",),
            read_only=True,
        ),
        Tool(
            "review_put_off",
            "Put off",
            "Leave an item of a review out for some days.",
            {**_ITEM, "days": {"type": "integer", "minimum": 1, "maximum": 36_500}},
            bind(leaving.put_off),
            required=("section", "id"),
        ),
        Tool(
            "review_keep",
            "Keep",
            "Say that an item of a review is right as it is.",
            _ITEM,
            bind(leaving.keep),
            required=("section", "id"),
        ),
    )
