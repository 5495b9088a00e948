"""Which document does a caller mean, and what is read of it?

By id, content address or source; whatever lies outside the caller's scopes is answered exactly like something missing.
"""

from __future__ import annotations

from typing import Any

from memoryd.catalog.documents import DocumentRow
from memoryd.digest import PREFIX, parse_address
from memoryd.errors import AmbiguousAddress, BadAddress, InvalidInput, NotFound
from memoryd.extract.text import decode, slice_text
from memoryd.operations import answers, callers
from memoryd.operations.facts import facts
from memoryd.operations.freshness import mark
from memoryd.operations.held import SNAPSHOT, held, spellings
from memoryd.operations.home import Caller, Home
from memoryd.operations.moments import told
from memoryd.operations.named import memory_named
from memoryd.operations.revisions import in_force_at

GET_BYTES = 60_000
Scopes = tuple[str, ...]


def get(
    home: Home,
    caller: Caller,
    *,
    id: str | None = None,
    address: str | None = None,
    source: str | None = None,
    offset: int | None = None,
    limit: int | None = None,
    metadata: bool = False,
    as_of: str | None = None,
    scope: str | None = None,
) -> dict[str, Any]:
    """One document's verified bytes as text (`offset`/`limit` in bytes) or, with `metadata`, its facts and history.

    Exactly one of `id` (memory or document), `address`, `source` (also `snapshot:<number>/<path>`). With `as_of` and a
    memory's id, the revision of its fact that was in force at that moment, as its file was then. Raises NotFound,
    InvalidInput, ContentDamaged.
    """
    named = [name for name, value in (("id", id), ("address", address), ("source", source)) if value]
    if len(named) != 1:
        raise InvalidInput("Give exactly one of `id`, `address`, `source`.", given=named)
    scopes = callers.readable(home, caller, scope)
    if source is not None and source.startswith(SNAPSHOT):
        found = held(home, scopes, source)
        return {
            **found.told,
            **(found.facts if metadata else _content(home.store.read(found.address), offset or 0, limit)),
        }
    then: dict[str, Any] = {}
    if as_of is not None and id is not None:
        row, content_address, then = _as_of(home, scopes, id, as_of)
    elif as_of is not None:
        raise InvalidInput("`as_of` goes with the `id` of a memory.", parameter="as_of")
    else:
        row, content_address = located(home, scopes, id, address, source)
    shown = {**_described(home, scopes, row, content_address), **then}
    mark(home, caller, [shown], whole=True)
    if metadata:
        return {**shown, **facts(home, scopes, row, content_address)}
    answer = {**shown, **_content(home.store.read(content_address), offset or 0, limit)}
    if "fact" in shown:
        home.noticed.read(caller.session, shown["fact"], home.clock())
    return answer


def _as_of(home: Home, scopes: Scopes, id: str, moment: str) -> tuple[DocumentRow, str, dict[str, Any]]:
    """The document and the address of what was in force then, and what the answer says of that."""
    span, at = in_force_at(home, scopes, memory_named(home, scopes, id), moment)
    row = home.documents.get(span.row.document_id)
    if row is None:
        raise NotFound(f"There is no memory {id[:80]!r} in this session's scopes.")
    until = None if span.end is None else told(span.end)
    return row, span.address, {"as_of": {"moment": told(at), "from": told(span.begin), "until": until}}


def _content(data: bytes, offset: int, limit: int | None) -> dict[str, Any]:
    """The text of a byte range, cut at whole characters, and how to go on."""
    found = decode(data)
    if found is None:
        raise InvalidInput(
            "This content is binary, not text.", next_step="Pass `metadata` for its facts.", size=len(data)
        )
    start = max(min(offset, len(data)), found.skip)
    start, end = whole_characters(data, start, min(limit or GET_BYTES, GET_BYTES), found.encoding)
    half = (end - start) % 2 if found.encoding.startswith("utf-16") else 0  # a last byte that is half a character
    return {
        "content": slice_text(data, start, end - half, found.encoding),
        "bytes": [start, end],
        "size": len(data),
        "next": f"Call again with offset {end} for the rest." if end < len(data) else "This is the end.",
    }


def whole_characters(data: bytes, start: int, length: int, encoding: str) -> tuple[int, int]:
    """A range of about `length` bytes from `start` that splits no character and, before the end, is never empty."""
    start = _boundary(data, start, encoding)
    end = _boundary(data, min(start + length, len(data)), encoding)
    step = 1
    while end <= start < len(data):
        end = _boundary(data, min(start + length + step, len(data)), encoding)
        step += 1
    return start, end


def _boundary(data: bytes, at: int, encoding: str) -> int:
    """The nearest place at or before `at` where a character begins."""
    if at >= len(data):
        return len(data)
    if encoding.startswith("utf-16"):
        at &= ~1
        upper = 1 if encoding.endswith("le") else 0
        paired = 2 <= at < len(data) - 1 and data[at + upper] >> 2 == 0x37 and data[at - 2 + upper] >> 2 == 0x36
        return at - 2 if paired else at
    if encoding == "utf-8":
        back = at
        while back > 0 and at - back < 3 and data[back] & 0xC0 == 0x80:
            back -= 1
        return back if data[back] & 0xC0 == 0xC0 else at  # stray continuation bytes are characters of their own
    return at


def located(
    home: Home, scopes: Scopes, id: str | None, address: str | None, source: str | None
) -> tuple[DocumentRow, str]:
    """The document and the address to read; a past content of a visible document may be read by its address.

    Raises NotFound, BadAddress, AmbiguousAddress.
    """
    if address is not None:
        return _by_address(home, scopes, address)
    row = by_source(home, source) if source is not None else _by_id(home, scopes, id or "")
    if row is None or row.scope not in scopes:
        raise NotFound(f"There is nothing at {(source or id or '')[:200]!r} in this session's scopes.")
    if row.address is None:
        raise NotFound(
            f"{answers.source_of(row)} is gone.",
            next_step="Its past contents stay readable by their addresses, as earlier answers named them.",
        )
    return row, row.address


def _by_address(home: Home, scopes: Scopes, address: str) -> tuple[DocumentRow, str]:
    digits, _whole = parse_address(address)
    # looked up among what the caller may see: others' contents neither answer nor make a beginning ambiguous
    found = home.documents.addresses(PREFIX + digits, scopes)
    if not found:
        raise NotFound(f"There is nothing at {address[:80]!r} in this session's scopes.")
    if len(found) > 1:
        raise AmbiguousAddress(f"More than one content has an address that starts with {PREFIX}{digits}.")
    rows = home.documents.by_address(found[0], scopes) or home.documents.ever_at(found[0], scopes)
    return rows[0], found[0]


def by_source(home: Home, source: str) -> DocumentRow | None:
    """The document at `label/path`, as answers show it; whoever asks sees to the scopes."""
    label, _, path = source.partition("/")
    rows = (home.documents.by_path(label, raw) for raw in spellings(path))
    return next((row for row in rows if row is not None), None)


def _by_id(home: Home, scopes: Scopes, identity: str) -> DocumentRow | None:
    try:
        digits, whole = parse_address(identity)
    except BadAddress:
        return None
    if whole:
        memory = home.memories.get(digits, scopes)
        return home.documents.get(memory.document_id if memory is not None else digits)
    found = home.memories.find(digits, scopes)
    if len({row.fields.id for row in found}) > 1:
        raise AmbiguousAddress(f"{identity!r} is the beginning of {len(found)} memory ids.")
    return home.documents.get(found[0].document_id) if found else None


def _described(home: Home, scopes: Scopes, row: DocumentRow, address: str) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": row.document_id,
        "source": answers.source_of(row),
        "address": address,
        "scope": row.scope,
        "kind": row.kind,
        "status": row.status,
        "title": row.title,
        "current": row.address == address,
    }
    if row.problem is not None and row.address == address:
        shown["problem"] = row.problem
    memory = home.memories.by_document(row.document_id)
    if memory is not None:
        shown |= answers.memory_facts(memory.fields)
        successor = home.memories.successor(memory.fields.id)
        if successor is not None and successor.fields.id != memory.fields.id and successor.fields.scope in scopes:
            shown["successor"] = {"id": successor.fields.id, "title": successor.fields.title}
    return shown
