"""How does a memory stand in its Markdown file: frontmatter that any YAML reader understands, then the words?

Reading takes every scalar as the text that was typed; what is not whole is reported by line and never rewritten.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from memoryd.digest import slug
from memoryd.errors import VaultFileInvalid
from memoryd.records import GLOBAL_SCOPE, MEMORY_TYPES, MemoryFields
from memoryd.sources.frontmatter import Pair, cut, invalid, listed, pairs_of, quoted, removal, replacement

Change = str | tuple[str, ...] | None

ORDER = (
    *("id", "fact", "seq", "type", "title", "tags", "scope", "status", "created", "updated"),
    *("key", "supersedes", "superseded_by", "archive_reason", "citations"),
)
"""Known frontmatter keys, in the order in which a new file has them."""
REQUIRED = ("id", "fact", "type", "scope", "status", "created")
STATUSES = ("in_force", "superseded", "archived")

_LISTS = ("tags", "citations")
_PLAIN = ("seq", "type", "scope", "status")
"""Keys whose values are written without quotes: no YAML reader takes these words for anything but what they are."""
_HEX64 = re.compile(r"[0-9a-f]{64}\Z")
_SCOPE = re.compile(r"p-[a-z0-9-]+-[0-9a-f]{8}\Z")
_DIGITS = re.compile(r"[0-9]{1,18}\Z")
_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\Z")


@dataclass(frozen=True, slots=True)
class Entry:
    """A memory file as read: its fields (with the body as text) and the byte offset at which the body starts."""

    fields: MemoryFields
    body_start: int


def parse(data: bytes) -> Entry:
    """Read a memory file. Raises VaultFileInvalid, naming line and key."""
    parts = cut(data, REQUIRED)
    fields = _fields(pairs_of(parts.yaml, ORDER), parts.body)
    return Entry(fields, len(data) - len(parts.body.encode()))


def render(fields: MemoryFields) -> bytes:
    """A new file for these fields: frontmatter with LF, an empty line, then the body exactly as given."""
    lines = ["---"]
    for key in ORDER:
        value = getattr(fields, key)
        if value is not None and value != ():
            lines.append(f"{key}: {_written(key, value)}")
    return ("\n".join([*lines, "---", "", ""]) + fields.body).encode()


def rewrite(data: bytes, changes: Mapping[str, Change]) -> bytes:
    """The file with some keys changed: None removes a key, a missing one is added at the end of the frontmatter.

    All other lines, comments, line endings, the BOM and the body stay byte for byte. Raises VaultFileInvalid where
    the file does not parse whole, or where the change could not be made without touching more.
    """
    parts = cut(data)
    text = parts.yaml
    pairs = pairs_of(text, ORDER)
    before = _fields(pairs, parts.body)
    added = ""
    edits: list[tuple[int, int, str]] = []
    for key, value in changes.items():
        if key not in pairs:
            added += "" if value is None else f"{key}: {_written(key, value)}{parts.newline}"
        elif value is None:
            edits.append(removal(text, pairs[key]))
        else:
            edits.append(replacement(text, pairs[key], _written(key, value)))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    changed = parts.joined(text + added)
    _check_rewritten(changed, before, changes)
    return changed


def file_path(fields: MemoryFields) -> bytes:
    """Where a new memory's file goes: `<scope>/<type>/<slug>-<id8>.md`."""
    return f"{fields.scope}/{fields.type}/{slug(fields.title)}-{fields.id[:8]}.md".encode()


def utc_time(text: str) -> str:
    """A time as UTC text that sorts by instant (`2026-06-03T00:00:00Z`); what has no zone counts as UTC.

    Raises ValueError or OverflowError for what is no ISO 8601 date or time.
    """
    moment = datetime.fromisoformat(text.strip())
    if _UTC.match(text):
        return text
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.isoformat().removesuffix("+00:00") + "Z"


def _fields(pairs: Mapping[str, Pair], body: str) -> MemoryFields:
    values: dict[str, Any] = {}
    _require_keys(pairs)
    for key in ORDER:
        if key not in pairs:
            continue
        pair = pairs[key]
        value = _list(key, pair) if key in _LISTS else _text(key, pair)
        if value is None and key in REQUIRED:
            raise invalid(pair.line, key, "the value is missing")
        if isinstance(value, str) and key in _CHECKS and not _CHECKS[key](value):
            raise invalid(pair.line, key, f"{value[:80]!r} is not valid here")
        values[key] = value
    for key in ("created", "updated"):
        values[key] = utc_time(values.get(key) or values["created"])
    values["seq"] = int(values.get("seq") or "0")
    values["title"] = values.get("title") or ""
    return MemoryFields(**values, body=body)


def _require_keys(pairs: Mapping[str, Pair]) -> None:
    missing = [key for key in REQUIRED if key not in pairs]
    if len(missing) == 1:
        raise invalid(1, missing[0], "the key is missing")
    if missing:
        error = invalid(1, None, f"the keys {listed(missing)} are missing")
        error.details["key"] = missing[0]
        raise error


def _text(key: str, pair: Pair) -> str | None:
    if pair.value.kind != "text":
        raise invalid(pair.line, key, "a text is needed, not a list or mapping")
    absent = not pair.value.text and not pair.value.quoted
    return None if absent else _clean(key, pair, pair.value.text)


def _list(key: str, pair: Pair) -> tuple[str, ...]:
    if pair.value.kind == "other":
        raise invalid(pair.line, key, "a plain list of texts is needed")
    items = pair.value.items if pair.value.kind == "list" else [pair.value.text]
    return tuple(_clean(key, pair, item) for item in items if item)


def _clean(key: str, pair: Pair, text: str) -> str:
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise invalid(pair.line, key, "NUL and unpaired surrogates are not text")
    return text


def _is_time(text: str) -> bool:
    try:
        utc_time(text)
    except (ValueError, OverflowError):
        return False
    return True


def _is_id(text: str) -> bool:
    return _HEX64.match(text) is not None


_CHECKS: dict[str, Callable[[str], bool]] = {
    **dict.fromkeys(("id", "fact", "supersedes", "superseded_by"), _is_id),
    **dict.fromkeys(("created", "updated"), _is_time),
    "type": lambda text: text in MEMORY_TYPES,
    "scope": lambda text: text == GLOBAL_SCOPE or _SCOPE.match(text) is not None,
    "status": lambda text: text in STATUSES,
    "seq": lambda text: _DIGITS.match(text) is not None,
}


def _written(key: str, value: str | int | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(quoted(item) for item in value) + "]"
    text = str(value)
    return text if key in _PLAIN and _CHECKS[key](text) else quoted(text)


def _check_rewritten(changed: bytes, before: MemoryFields, changes: Mapping[str, Change]) -> None:
    """The law of `rewrite`, checked on its own result: the named keys are as asked, all else is as before."""
    try:
        after = parse(changed).fields
    except VaultFileInvalid as error:
        raise invalid(error.details["line"], error.details.get("key"), f"cannot be changed so: {error}") from error
    for key in (*ORDER, "body"):
        wanted = _as_read(key, changes[key], after) if key in changes else getattr(before, key)
        if getattr(after, key) != wanted and not (key == "updated" and "created" in changes):
            raise invalid(1, key, "the frontmatter cannot be changed without touching other lines")


def _as_read(key: str, value: Any, after: MemoryFields) -> Any:
    """What a file that holds this value must read as."""
    if key in ("created", "updated"):
        return utc_time(value) if value else after.created
    if key == "seq":
        return int(value or 0)
    if key in _LISTS:
        return tuple(item for item in (value if isinstance(value, tuple) else (value or "",)) if item)
    return (value or "") if key == "title" else value
