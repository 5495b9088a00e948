"""What does an agent get to read: search hits, whole contents, a brief at session start?

Every road checks the caller's scopes; whatever lies outside is answered like something missing. Each answer names the
generation, the backlog, and why a leg did not run.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from memoryd.catalog.documents import DocumentRow
from memoryd.digest import parse_address
from memoryd.errors import BadAddress, InvalidInput, NotFound
from memoryd.extract.text import slice_text
from memoryd.operations import answers, callers
from memoryd.operations.home import Caller, Home
from memoryd.records import Filter
from memoryd.search.pipeline import Mode, Ranked

MODES = ("hybrid", "keyword", "semantic")
KINDS = ("memory", "document", "code")
QUERY_LIMIT = 10_000
GET_BYTES = 60_000
BRIEF_TOKENS = 800
BRIEF_HITS = 12
SPARE = 8
"""Documents ranked beyond those shown, for suggestions and in place of ones that vanished meanwhile."""


def search(
    home: Home,
    caller: Caller,
    *,
    query: str,
    max_results: int = 8,
    mode: Mode = "hybrid",
    path_prefix: str | None = None,
    kinds: Sequence[str] | None = None,
    types: Sequence[str] | None = None,
    scope: str | None = None,
    explain: bool = False,
) -> dict[str, Any]:
    """Ranked memories, documents and code for a query; see docs/tools for the answer's shape.

    Raises InvalidInput kinds and ScopeError kinds; a leg that cannot run is reported in `index.degraded`.
    """
    if not query.strip():
        raise InvalidInput("`query` is blank.", parameter="query")
    text = query[:QUERY_LIMIT]
    wanted = Filter(
        scopes=callers.readable(home, caller, scope),
        kinds=tuple(kinds or ()),
        types=tuple(types or ()),
        path_prefix=checked_prefix(path_prefix),
    )
    began = time.perf_counter()
    outcome, index = answers.ranked(home, text, mode, wanted, max_results + SPARE)
    shown = outcome.hits[:max_results]
    memories = answers.hits(home, text, shown, explain=explain)
    home.recalled.extend(one["fact"] for one in memories if "fact" in one)
    answer: dict[str, Any] = {
        "memories": memories,
        "summary": _summary(memories, outcome.total, mode),
        "suggestions": _suggestions(home, outcome, max_results, wanted),
        "index": index,
        "mode": mode,
    }
    if explain:
        total = (time.perf_counter() - began) * 1000
        answer["explain"] = {
            "filter": {"scopes": list(wanted.scopes), "path_prefix": wanted.path_prefix},
            "candidates": {leg: len(found) for leg, found in outcome.legs.items()},
            "milliseconds": {**{k: round(v, 3) for k, v in outcome.timings.items()}, "total": round(total, 3)},
        }
    return answer


def checked_prefix(prefix: str | None) -> str | None:
    """`label/` or `label/folder/`; a missing last slash is added."""
    if prefix is None or not prefix.strip("/ "):
        return None
    return prefix.strip().strip("/") + "/"


def _summary(memories: list[dict[str, Any]], total: int, mode: str) -> str:
    if not memories:
        return "Nothing found. Try other words, another mode, or a wider scope."
    kinds = ", ".join(sorted({m["kind"] for m in memories}))
    return f"{len(memories)} of {total} candidates shown ({kinds}), best first, {mode} search."


def _suggestions(home: Home, outcome: Ranked, shown: int, wanted: Filter) -> list[str]:
    """Up to two titles beyond what was shown; each is known to bring something that was not shown."""
    generation = home.generation
    rest = outcome.hits[shown : shown + 3]
    if not rest or generation is None or generation.lexical is None:
        return []
    seen = {hit.document_id for hit in outcome.hits[:shown]}
    rows = home.documents.get_many([hit.document_id for hit in rest])
    titles = dict.fromkeys(rows[hit.document_id].title for hit in rest if hit.document_id in rows)
    found: list[str] = []
    for title in titles:
        best = generation.lexical.search(title, wanted, 1)
        if best and best[0].document_id not in seen:
            found.append(title)
        if len(found) == 2:
            break
    return found


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
    scope: str | None = None,
) -> dict[str, Any]:
    """One document's verified bytes as text (`offset`/`limit` in bytes) or, with `metadata`, its facts and history.

    Exactly one of `id` (memory or document), `address`, `source`. Raises NotFound, InvalidInput, ContentDamaged.
    """
    named = [name for name, value in (("id", id), ("address", address), ("source", source)) if value]
    if len(named) != 1:
        raise InvalidInput("Give exactly one of `id`, `address`, `source`.", given=named)
    scopes = callers.readable(home, caller, scope)
    row, content_address = _located(home, scopes, id, address, source)
    shown = _described(home, row, content_address)
    if metadata:
        return {**shown, **_metadata(home, row)}
    data = home.store.read(content_address)
    start = min(offset or 0, len(data))
    end = min(start + (limit or GET_BYTES), start + GET_BYTES, len(data))
    start, end = _whole_characters(data, start, end, row.encoding)
    shown["content"] = slice_text(data, start, end, row.encoding)
    shown["bytes"] = [start, end]
    shown["size"] = len(data)
    shown["next"] = f"Call again with offset {end} for the rest." if end < len(data) else "This is the end."
    return shown


def _located(
    home: Home, scopes: tuple[str, ...], id: str | None, address: str | None, source: str | None
) -> tuple[DocumentRow, str]:
    """The document and the address to read; a past content of a visible document may be read by its address."""
    if address is not None:
        digits = home.store.resolve(address)
        rows = home.documents.by_address(digits, scopes) or home.documents.ever_at(digits, scopes)
        if not rows:
            raise NotFound(f"There is nothing at {address[:80]} in this session's scopes.")
        return rows[0], digits
    row = _by_source(home, source) if source is not None else _by_id(home, scopes, id or "")
    if row is None or row.scope not in scopes:
        raise NotFound(f"There is nothing at {(source or id or '')[:200]!r} in this session's scopes.")
    if row.address is None:
        raise NotFound(
            f"{answers.source_of(row)} is gone.",
            next_step="Its past contents stay readable: see the history of its metadata.",
        )
    return row, row.address


def _by_source(home: Home, source: str) -> DocumentRow | None:
    label, _, path = source.partition("/")
    return home.documents.by_path(label, path.encode("utf-8", "surrogateescape"))


def _by_id(home: Home, scopes: tuple[str, ...], identity: str) -> DocumentRow | None:
    try:
        digits, whole = parse_address(identity)
    except BadAddress:
        return None
    if whole:
        memory = home.memories.get(digits)
        return home.documents.get(memory.document_id if memory is not None else digits)
    found = [row for row in home.memories.find(digits) if row.fields.scope in scopes]
    if len({row.fields.id for row in found}) > 1:
        raise InvalidInput(f"{identity!r} is the beginning of {len(found)} memory ids.", next_step="Give more digits.")
    return home.documents.get(found[0].document_id) if found else None


def _described(home: Home, row: DocumentRow, address: str) -> dict[str, Any]:
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
    memory = home.memories.by_document(row.document_id)
    if memory is not None:
        shown |= answers.memory_facts(memory.fields)
        successor = home.memories.successor(memory.fields.id)
        if successor is not None and successor.fields.id != memory.fields.id:
            shown["successor"] = {"id": successor.fields.id, "title": successor.fields.title}
    return shown


def _metadata(home: Home, row: DocumentRow) -> dict[str, Any]:
    history = [
        {"seq": h.seq, "event": h.event, "address": h.address, "size": h.size, "observed": h.observed}
        for h in home.documents.history(row.document_id)
    ]
    passages = home.passages.of_document(row.document_id)
    mark = home.generation.watermark if home.generation is not None else None
    return {
        "size": row.size,
        "passages": len(passages),
        "extraction": {"extractor": row.extractor, "encoding": row.encoding, "problem": row.problem},
        "indexed": {
            "lexical": mark is not None and row.seq <= mark.lexical_seq,
            "vectors": mark is not None and row.seq <= mark.vector_seq,
        },
        "history": history,
    }


def _whole_characters(data: bytes, start: int, end: int, encoding: str) -> tuple[int, int]:
    """Move both ends outwards or inwards so that no character is split."""
    if encoding.startswith("utf-16"):
        return start & ~1, end & ~1
    if encoding != "utf-8":
        return start, end
    while 0 < start < len(data) and data[start] & 0xC0 == 0x80:
        start -= 1
    while start < end < len(data) and data[end] & 0xC0 == 0x80:
        end -= 1
    return start, end


def recall(home: Home, caller: Caller, *, task: str, scope: str | None = None) -> dict[str, Any]:
    """A brief for the start of work: what is remembered for this task, then the newest memories of the project."""
    if not task.strip():
        raise InvalidInput("`task` is blank.", parameter="task")
    scopes = callers.readable(home, caller, scope)
    outcome, index = answers.ranked(home, task[:QUERY_LIMIT], "hybrid", Filter(scopes=scopes), BRIEF_HITS)
    best = answers.hits(home, task, outcome.hits, explain=False)
    shown, used = _within(best, BRIEF_TOKENS)
    fresh: list[dict[str, Any]] = []
    have = {one["id"] for one in shown}
    for row in home.memories.listed(scopes, ("in_force",), (), 12, 0):
        if row.fields.id in have or row.fields.type == "note":
            continue
        line = {"title": row.fields.title, "scope": row.fields.scope, **answers.memory_facts(row.fields)}
        cost = len(row.fields.title) // 4 + 20
        if used + cost > BRIEF_TOKENS:
            break
        used += cost
        fresh.append(line)
    summary = f"{len(shown)} for this task, {len(fresh)} more recent in {', '.join(scopes)}; about {used} tokens."
    return {"task_memories": shown, "recent": fresh, "summary": summary, "index": index, "next": _brief_next(shown)}


def _within(entries: list[dict[str, Any]], tokens: int) -> tuple[list[dict[str, Any]], int]:
    kept: list[dict[str, Any]] = []
    used = 0
    for one in entries:
        cost = len(one["content"]) // 4 + 40
        if kept and used + cost > tokens:
            break
        kept.append(one)
        used += cost
    return kept, used


def _brief_next(shown: list[dict[str, Any]]) -> str:
    if not shown:
        return "Nothing is remembered for this task yet: add what you decide and learn with memory_add."
    return "Search before you re-derive anything; read a whole entry with memory_get."
