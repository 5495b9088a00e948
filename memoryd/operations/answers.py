"""How does a ranked passage become an entry of an answer, with everything that proves where it comes from?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memoryd.catalog.documents import DocumentRow
from memoryd.catalog.passages import PassageRow
from memoryd.errors import StoreError
from memoryd.extract.text import slice_text
from memoryd.operations import indexing
from memoryd.operations.home import Home
from memoryd.records import VAULT_SOURCE, Filter, MemoryFields, shown_path
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


def near(home: Home, text: str, scopes: tuple[str, ...], *, limit: int) -> list[dict[str, Any]]:
    """Memories in force that rank highest for a text: id, title, type, relevance, cosine where it is known."""
    outcome, _ = ranked(home, text, "hybrid", Filter(scopes=scopes, kinds=("memory",)), limit)
    rows = home.documents.get_many([hit.document_id for hit in outcome.hits])
    found = []
    for hit in outcome.hits:
        memory = home.memories.by_document(hit.document_id)
        if memory is None or hit.document_id not in rows:
            continue
        found.append(
            {
                "id": memory.fields.id,
                "title": memory.fields.title,
                "type": memory.fields.type,
                "relevance": hit.relevance,
                "cosine": hit.scores.get("dense"),
            }
        )
    return found


def hits(home: Home, query: str, fused: Sequence[Fused], *, explain: bool) -> list[dict[str, Any]]:
    """Answer entries for ranked documents; excerpts share the token budget. Vanished ones are left out."""
    rows = home.documents.get_many([hit.document_id for hit in fused])
    passages = home.passages.of_documents(list(rows))
    found: list[tuple[Fused, DocumentRow, PassageRow, str]] = []
    for hit in fused:
        row = rows.get(hit.document_id)
        passage = _passage(passages.get(hit.document_id, []), hit.passage_id)
        if row is None or row.address is None or passage is None:
            continue
        try:
            data = home.store.read_range(row.address, passage.start, passage.end)
        except StoreError as error:
            home.notices[row.address] = error.message
            continue
        found.append((hit, row, passage, slice_text(data, 0, len(data), row.encoding)))
    texts = [text for *_, text in found]
    excerpts = cut_excerpts(query, texts, tokens=home.config.search.excerpt_tokens)
    return [
        _hit(home, hit, row, passage, excerpt, explain)
        for (hit, row, passage, _), excerpt in zip(found, excerpts, strict=True)
    ]


def _passage(passages: Sequence[PassageRow], wanted: str) -> PassageRow | None:
    for passage in passages:
        if passage.id == wanted:
            return passage
    return passages[0] if passages else None


def _hit(
    home: Home, hit: Fused, row: DocumentRow, passage: PassageRow, excerpt: Excerpt, explain: bool
) -> dict[str, Any]:
    at = locate(excerpt, start=passage.start, line_start=passage.line_start, encoding=row.encoding)
    shown: dict[str, Any] = {
        "id": row.document_id,
        "content": excerpt.text,
        "source": source_of(row),
        "address": row.address,
        "bytes": [at.start, at.end],
        "lines": [at.line_start, at.line_end],
        "relevance": hit.relevance,
        "context": " > ".join(passage.heading),
        "status": row.status,
        "scope": row.scope,
        "kind": row.kind,
        "title": row.title,
        "trust": "vault" if row.source == VAULT_SOURCE else "corpus",
        "extractor": row.extractor,
    }
    if passage.symbol:
        shown["symbol"] = passage.symbol
    memory = home.memories.by_document(row.document_id) if row.source == VAULT_SOURCE else None
    if memory is not None:
        shown |= memory_facts(memory.fields)
    if row.problem:
        shown["problem"] = row.problem
    if explain:
        shown["explain"] = {"ranks": hit.ranks, "scores": hit.scores, "fused": hit.score}
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
    return facts


def source_of(row: DocumentRow) -> str:
    """`<label>/<path>`; `vault/...` for memories."""
    return f"{row.source}/{shown_path(row.path)}"
