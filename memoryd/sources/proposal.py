"""What has to be added to a file that a person put into the vault, so that it reads as a memory?"""

from __future__ import annotations

import re
from contextlib import suppress

from memoryd.digest import memory_id
from memoryd.errors import VaultFileInvalid
from memoryd.records import GLOBAL_SCOPE, MEMORY_TYPES, shown_path
from memoryd.sources import entry
from memoryd.sources.frontmatter import Pair, cut, pairs_of, quoted

DEFAULT_TYPE = "note"
_PROJECT = re.compile(r"p-[a-z0-9-]+-[0-9a-f]{8}\Z")


def lines_to_add(path: bytes, data: bytes, created: str) -> list[str]:
    """Frontmatter lines which, put into the file's first lines, make it a memory in force.

    Empty where the file reads already, or where something else has to be mended first. A file without frontmatter gets
    the lines `---` too.
    """
    with suppress(VaultFileInvalid):
        entry.parse(data)
        return []
    fenced, pairs, body = _read(data)
    if body is None:
        return []
    given = {key: pair.value.text for key, pair in pairs.items() if pair.value.kind == "text"}
    lines = [f"{key}: {value}" for key, value in _wanted(path, given, body, created).items() if key not in pairs]
    shown = lines if fenced else ["---", *lines, "---", ""]
    return shown if _helps(data, fenced, shown) else []


def _read(data: bytes) -> tuple[bool, dict[str, Pair], str | None]:
    """Whether there is frontmatter, its keys, and the body (None: not to be read)."""
    try:
        text = data.decode("utf-8-sig")
        if not text.startswith("---"):
            return False, {}, text
        parts = cut(data)
        return True, pairs_of(parts.yaml, entry.ORDER), parts.body
    except (UnicodeDecodeError, VaultFileInvalid):
        return False, {}, None


def _wanted(path: bytes, given: dict[str, str], body: str, created: str) -> dict[str, str]:
    folders = shown_path(path).split("/")[:-1]
    kind = given.get("type") or next((one for one in folders[1:2] if one in MEMORY_TYPES), DEFAULT_TYPE)
    scope = given.get("scope") or next((one for one in folders[:1] if _PROJECT.match(one)), GLOBAL_SCOPE)
    identity = given.get("id") or memory_id(
        scope=scope, type=kind, key=given.get("key"), content=body, supersedes=given.get("supersedes")
    )
    return {
        "id": quoted(identity),
        "fact": quoted(identity),
        "type": kind,
        "scope": scope,
        "status": "in_force",
        "created": quoted(created),
    }


def _helps(data: bytes, fenced: bool, lines: list[str]) -> bool:
    """Whether the file would read as a memory with these lines."""
    bom = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
    added = ("\n".join(lines) + "\n").encode()
    plain = data.removeprefix(bom)
    first = len(plain.splitlines(keepends=True)[0]) if fenced else 0
    try:
        entry.parse(bom + plain[:first] + added + plain[first:])
    except VaultFileInvalid:
        return False
    return True
