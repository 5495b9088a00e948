"""How do the daemon's hints, written for callers of tools, read for a person at a shell?

A tool's parameter becomes the option or argument that carries it, a tool becomes its command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

OPTIONS = {
    **{name: f"--{name}" for name in ("scope", "type", "title", "key", "mode", "explain", "offset", "limit")},
    **{name: f"--{name}" for name in ("metadata", "redact", "confirm", "force", "by")},
    "as_of": "--as-of",
    "max_results": "--max-results",
    "path_prefix": "--path-prefix",
    "kinds": "--kind",
    "types": "--type",
    "tags": "--tag",
    "citations": "--cite",
    "content": "CONTENT",
    "query": "QUERY",
    "task": "TASK",
    "max_tokens": "--max-tokens",
    "reason": "REASON",
}
COMMANDS = {
    **{name: name for name in ("search", "recall", "get", "feedback", "supersede", "archive", "status")},
    "add": "remember",
}
PHRASES = (
    ("`mode: keyword`", "`--mode keyword`"),
    ("`mode: semantic`", "`--mode semantic`"),
    ("Call again with the same arguments and this `confirm` token", "Give the same command with this `confirm`"),
    ("Correct the argument that the message names and call again", "Correct what the message names"),
    ("Call again with offset ", "Give the same command with --offset "),
    ("what `conflicts` lists", "the older ones above"),
    ("make the proposed call of each that no longer holds", "give the command of each that no longer holds"),
    (
        "make the first proposed call with that as `content`; if nothing does, the second one",
        "give the first command with that on standard input; if nothing does, the second one",
    ),
    ("make the proposed call", "give the proposed command"),
    (
        "to store it besides, call again with `force` and why",
        "to store it besides, give the command again with --force and why",
    ),
    ("call again", "give the command again"),
    ("Call again", "Give the command again"),
    ("Pass the words to remember", "Give some words"),
    ("Pass ", "Give "),
    ("this session did not start inside a git project", "this folder is in no git project"),
    ("this session's scopes", "the scopes of this folder"),
    ("that memory_status lists", "that `memoryd status` shows"),
    ("call memory_supersede on that id instead", "use `memoryd supersede` on that id instead"),
)
_TOOL = re.compile(r"\bmemory_(add|search|recall|get|feedback|supersede|archive|status)\b")
_PREFIX = re.compile(r"\Amemory_[a-z]+: ")
_PARAMETER = re.compile(r"(?<!\bkey )`([a-z_]+)(?:\.\d+)?`")


def spoken(text: str) -> str:
    """A sentence of the daemon in the words of the command line."""
    for theirs, ours in PHRASES:
        text = text.replace(theirs, ours)
    text = _TOOL.sub(lambda found: f"`memoryd {COMMANDS[found[1]]}`", _PREFIX.sub("", text))
    return _PARAMETER.sub(lambda found: f"`{OPTIONS[found[1]]}`" if found[1] in OPTIONS else found[0], text)


def spoken_error(error: Mapping[str, Any]) -> dict[str, Any]:
    """An error with message and next step in the words of the command line; code and details stay."""
    told = {name: spoken(str(error[name])) for name in ("message", "next_step") if error.get(name)}
    return {**error, **told}


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 document`, `2 documents`."""
    return f"{number} {one if number == 1 else many or one + 's'}"
