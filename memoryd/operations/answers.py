"""How does a ranked passage become an entry of an answer, with everything that proves where it comes from?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from memoryd.operations import indexing
from memoryd.operations.enclosing import Around, plain, surrounded
from memoryd.operations.found import Found, read_found, source_of
from memoryd.operations.home import Home
from memoryd.operations.reordering import MOST, in_force, left_out, reordered
from memoryd.records import ARTIFACT_SOURCE, VAULT_SOURCE, Filter, MemoryFields
from memoryd.search.excerpt import BYTES_PER_TOKEN, Location, locate
from memoryd.search.fusion import Fused
from memoryd.search.pipeline import Depth, Legs, Mode, Ranked, rank, reason
from memoryd.search.recipe import RECIPE, Recipe
from memoryd.search.relevance import Calibration

__all__ = ["Shown", "explained", "hits", "memory_facts", "ranked", "source_of", "stamp", "state", "waiting"]
ALSO_MOST = 5
"""Other places of the same text that a hit names."""


def state(home: Home) -> dict[str, Any]:
    """The `index` part of an answer: generation, backlog, and legs whose counts are wrong right now."""
    generation = home.generation
    degraded: list[dict[str, str]] = []
    if generation is not None:
        mismatches = [p for p in indexing.verify(home, generation) if p not in generation.problems.values()]
        degraded = [reason(str(p.details.get("leg", "index")), p) for p in mismatches]
    return {
        "generation": generation.number if generation is not None else 0,
        "pending": indexing.pending(home),
        "degraded": degraded,
    }


def stamp(home: Home, index: dict[str, Any]) -> tuple[Any, ...] | None:
    """All that decides an answer besides what is asked; None while any of it is moving or broken.

    Whatever is written anywhere changes the stamp: a leg's scores depend on all entries, not on those of one scope.
    """
    generation = home.generation
    if generation is None or generation.problems or index["pending"] or index["degraded"]:
        return None
    known = (home.tuning.synonyms(home.root, home.notices), _calibration(home), _today(home))
    return generation, generation.watermark, home.documents.last_seq(), home.config, *known


def _calibration(home: Home) -> Calibration:
    return home.tuning.calibration(home.root, home.notices, home.host.identity.fingerprint)


def _today(home: Home) -> int:
    return int(home.clock() // 86_400)


def ranked(
    home: Home,
    query: str,
    mode: Mode,
    wanted: Filter,
    limit: int,
    *,
    candidates: int | None = None,
    index: dict[str, Any] | None = None,
    recipe: Recipe = RECIPE,
) -> tuple[Ranked, dict[str, Any]]:
    """The best `limit` documents for a query on the serving generation; also the `index` part of the answer.

    `candidates` of every leg, where not as configured; `index` where the caller has looked at the `state` already: what
    the legs report joins it.
    """
    index = state(home) if index is None else index
    generation = home.generation
    legs = legs_of(home)
    depth = _depth(home, recipe) if candidates is None else Depth(candidates, candidates)
    again = recipe.rerank and mode == "hybrid" and in_force(home)
    most = max(limit, MOST) if again else limit
    outcome = rank(query, legs, mode=mode, filter=wanted, depth=depth, limit=most, recipe=recipe)
    if outcome.degraded and home.generation is not generation:  # its successor came while it was asked, and closed it
        outcome = rank(query, legs_of(home), mode=mode, filter=wanted, depth=depth, limit=most, recipe=recipe)
    index["degraded"] += outcome.degraded
    if again and not outcome.degraded:
        outcome = _reordered(home, query, outcome, index)
    return replace(outcome, hits=outcome.hits[:limit]), index


def _depth(home: Home, recipe: Recipe) -> Depth:
    settings = home.config.search
    every = recipe.candidates or settings.candidates
    return Depth(every, recipe.dense_candidates or settings.dense_candidates)


def legs_of(home: Home) -> Legs:
    """What a search runs on now."""
    generation = home.generation
    wait = home.config.search.model_wait_ms / 1000
    return Legs(
        lexical=generation.lexical if generation is not None else None,
        vectors=generation.vectors if generation is not None else None,
        begin=lambda text: partial(home.host.begin_query(text), wait),
        problems=dict(generation.problems) if generation is not None else {},
        alike=home.tuning.synonyms(home.root, home.notices),
        today=_today(home),
        calibration=_calibration(home),
    )


def _reordered(home: Home, query: str, outcome: Ranked, index: dict[str, Any]) -> Ranked:
    began = time.perf_counter()
    best, why = reordered(home, query, outcome.hits)
    outcome.timings["rerank"] = (time.perf_counter() - began) * 1000
    if (told := left_out(why)) is not None:
        index["degraded"].append(told)
    return replace(outcome, hits=best)


def waiting(documents: int) -> str:
    """A backlog in words."""
    return "1 document is not indexed yet" if documents == 1 else f"{documents} documents are not indexed yet"


@dataclass(slots=True)
class Shown:
    """Answer entries, best first; `lost` says as `index.degraded` does which contents could not be read, `left_out` why
    a ranked document is not among the entries."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    lost: list[dict[str, str]] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    reached: int = 0


def hits(
    home: Home,
    query: str,
    fused: Sequence[Fused],
    limit: int,
    wanted: Filter,
    *,
    explain: bool = False,
    around: bool = False,
) -> Shown:
    """Entries for the first `limit` of the ranked documents that can be shown; excerpts share the token budget evenly.

    With `around`, by their relevance, and with what stands around them. Each text is shown once.
    """
    budget = home.config.search.excerpt_tokens * BYTES_PER_TOKEN
    with home.catalog.one_moment():  # a row of now with passages of then would name the wrong bytes
        read = read_found(home, fused, limit, wanted)
        pieces = surrounded(home, read.found, query, budget) if around else plain(read.found, query, budget)
    vault = [one.row.document_id for one in read.found if one.row.source == VAULT_SOURCE]
    memories = home.memories.of_documents(vault) if vault else {}
    entries = []
    for one, piece in zip(read.found, pieces, strict=True):
        entry = _entry(one, piece)
        memory = memories.get(one.row.document_id)
        if memory is not None:
            entry |= memory_facts(memory.fields)
        if explain:
            entry["explain"] = explained(one.hit)
        entries.append(entry)
    return Shown(entries, read.lost, read.left_out, read.reached)


def explained(hit: Fused) -> dict[str, Any]:
    """Where each leg had a document and with which score, and what came of it."""
    return {"ranks": hit.ranks, "scores": hit.scores, "lifts": hit.lifts, "fused": hit.score}


def _entry(one: Found, piece: Around) -> dict[str, Any]:
    row, passage = one.row, one.passage
    if piece.excerpt.text is one.text:
        at = Location(passage.start, passage.end, passage.line_start, passage.line_end)
    else:
        at = locate(piece.excerpt, piece.data, start=piece.start, line_start=piece.line_start, encoding=row.encoding)
    shown: dict[str, Any] = {
        "id": row.document_id,
        "content": piece.excerpt.text,
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
    if row.problem:
        shown["problem"] = row.problem
    return shown | _beside(one, piece, at)


def _beside(one: Found, piece: Around, at: Location) -> dict[str, Any]:
    """What there is to say of the surroundings, and of other places with the same text."""
    told: dict[str, Any] = {}
    within = [opener for opener in piece.within if not at.start <= opener["bytes"][0] < at.end]
    for name, value in (("within", within), ("before", piece.before), ("after", piece.after)):
        if value:
            told[name] = value
    if one.also:
        told["also"] = [source_of(row) for row in one.also[:ALSO_MOST]]
        if len(one.also) > ALSO_MOST:
            told["also_more"] = len(one.also) - ALSO_MOST
    return told


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
