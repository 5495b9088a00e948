"""How does a ranked passage become an entry of an answer, with everything that proves where it comes from?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from memoryd.catalog.documents import DocumentRow
from memoryd.catalog.passages import PassageRow
from memoryd.digest import document_id
from memoryd.errors import ContentDamaged, MemorydError
from memoryd.extract.text import slice_text
from memoryd.operations import indexing
from memoryd.operations.home import Home
from memoryd.records import ARTIFACT_SOURCE, VAULT_SOURCE, Filter, MemoryFields, shown_path
from memoryd.search.excerpt import Excerpt, cut_excerpts, locate
from memoryd.search.fusion import Fused
from memoryd.search.pipeline import Legs, Mode, Ranked, rank, reason


def ranked(home: Home, query: str, mode: Mode, wanted: Filter, limit: int) -> tuple[Ranked, dict[str, Any]]:
    """The best `limit` documents for a query on the serving generation; also the `index` part of the answer."""
    generation = home.generation
    wait = home.config.search.model_wait_ms / 1000
    legs = Legs(
        lexical=generation.lexical if generation is not None else None,
        vectors=generation.vectors if generation is not None else None,
        embed=lambda text: home.host.embed_query(text, wait),
        problems=dict(generation.problems) if generation is not None else {},
    )
    degraded: list[dict[str, str]] = []
    if generation is not None:
        mismatches = [p for p in indexing.verify(home, generation) if p not in generation.problems.values()]
        degraded += [reason(str(p.details.get("leg", "index")), p) for p in mismatches]
    candidates = home.config.search.candidates
    outcome = rank(query, legs, mode=mode, filter=wanted, candidates=candidates, limit=limit)
    index = {
        "generation": generation.number if generation is not None else 0,
        "pending": indexing.pending(home),
        "degraded": degraded + outcome.degraded,
    }
    return outcome, index


def waiting(documents: int) -> str:
    """A backlog in words."""
    return "1 document is not indexed yet" if documents == 1 else f"{documents} documents are not indexed yet"


@dataclass(slots=True)
class Shown:
    """Answer entries, best first; `lost` says as `index.degraded` does which contents could not be read."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    lost: list[dict[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Found:
    hit: Fused
    row: DocumentRow
    passage: PassageRow
    text: str


def hits(home: Home, query: str, fused: Sequence[Fused], limit: int, *, explain: bool = False) -> Shown:
    """Entries for the first `limit` of the ranked documents that can be shown; excerpts share the token budget.

    Those beyond take the place of documents that vanished or were retired meanwhile (without a word) or cannot be read.
    """
    shown = Shown()
    found: list[_Found] = []
    at = 0
    while len(found) < limit and at < len(fused):
        part = fused[at : at + limit - len(found)]
        at += len(part)
        found += _read(home, part, shown.lost)
    excerpts = cut_excerpts(query, [one.text for one in found], tokens=home.config.search.excerpt_tokens)
    vault = [one.row.document_id for one in found if one.row.source == VAULT_SOURCE]
    memories = home.memories.of_documents(vault) if vault else {}
    for one, excerpt in zip(found, excerpts, strict=True):
        entry = _entry(one, excerpt)
        memory = memories.get(one.row.document_id)
        if memory is not None:
            entry |= memory_facts(memory.fields)
        if one.row.problem:
            entry["problem"] = one.row.problem
        if explain:
            entry["explain"] = {"ranks": one.hit.ranks, "scores": one.hit.scores, "fused": one.hit.score}
        shown.entries.append(entry)
    return shown


def _read(home: Home, fused: Sequence[Fused], lost: list[dict[str, str]]) -> list[_Found]:
    """The passages to show with their verified text; what cannot be read joins `lost` and the home's notices."""
    rows = home.documents.get_many([hit.document_id for hit in fused])
    passages = _passages(home, fused)
    retired = {document_id(VAULT_SOURCE, f.path) for f in list(home.fresh) if f.fields.status != "in_force"}
    named = [
        (hit, row, row.address, passages[hit.document_id])
        for hit in fused
        if (row := rows.get(hit.document_id)) is not None and row.address is not None
        if hit.document_id in passages and row.status == "in_force"  # the index may not have heard yet
        if hit.document_id not in retired
    ]
    texts = home.store.read_ranges([(address, passage.start, passage.end) for _, _, address, passage in named])
    found = []
    for (hit, row, address, passage), data in zip(named, texts, strict=True):
        if isinstance(data, MemorydError):
            home.notices[address] = data.message
            lost.append(_loss(row, address, data))
        else:
            found.append(_Found(hit, row, passage, slice_text(data, 0, len(data), row.encoding)))
    return found


def _loss(row: DocumentRow, address: str, error: MemorydError) -> dict[str, str]:
    message = f"{source_of(row)} is left out, its content {address} cannot be read: {error.message}"
    return reason("content", ContentDamaged(message))


def _passages(home: Home, fused: Sequence[Fused]) -> dict[str, PassageRow]:
    """The passage to show of each document: the one that was found, else (none, or since gone) the first one."""
    known = home.passages.get_many([hit.passage_id for hit in fused if hit.passage_id])
    chosen = {hit.document_id: known[hit.passage_id] for hit in fused if hit.passage_id in known}
    rest = [hit.document_id for hit in fused if hit.document_id not in chosen]
    return {**chosen, **home.passages.firsts(rest)} if rest else chosen


def _entry(one: _Found, excerpt: Excerpt) -> dict[str, Any]:
    row, passage = one.row, one.passage
    at = locate(excerpt, start=passage.start, line_start=passage.line_start, encoding=row.encoding)
    shown: dict[str, Any] = {
        "id": row.document_id,
        "content": excerpt.text,
        "source": source_of(row),
        "address": row.address,
        "bytes": [at.start, at.end],
        "lines": [at.line_start, at.line_end],
        "relevance": one.hit.relevance,
        "context": " > ".join(passage.heading),
        "status": row.status,
        "scope": row.scope,
        "kind": row.kind,
        "title": row.title,
        "trust": row.source if row.source in (VAULT_SOURCE, ARTIFACT_SOURCE) else "corpus",
        "extractor": row.extractor,
    }
    if passage.symbol:
        shown["symbol"] = passage.symbol
    return shown


def memory_facts(fields: MemoryFields) -> dict[str, Any]:
    """What stands in a memory's frontmatter, as answers show it."""
    facts: dict[str, Any] = {
        "id": fields.id,
        "fact": fields.fact,
        "type": fields.type,
        "tags": list(fields.tags),
        "created": fields.created,
        "status": fields.status,
    }
    for name in ("key", "supersedes", "superseded_by", "archive_reason"):
        if getattr(fields, name):
            facts[name] = getattr(fields, name)
    if fields.citations:
        facts["citations"] = list(fields.citations)  # `freshness.mark` says how they stand
    return facts


def source_of(row: DocumentRow) -> str:
    """`<label>/<path>`; `vault/...` for memories."""
    return f"{row.source}/{shown_path(row.path)}"
