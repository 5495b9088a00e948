"""How does one query become a ranked list: which legs run, how long is the model waited for, what is missing?

Filters go inside each leg's query; a leg that cannot run is named with its reason, never passed over in silence.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from memoryd.errors import IndexProblem, MemorydError, ModelError
from memoryd.index.lexical import LexicalIndex
from memoryd.index.vector import VectorIndex
from memoryd.records import Filter, LegHit
from memoryd.search.fusion import Fused, fuse

Mode = Literal["hybrid", "keyword", "semantic"]
LEXICAL = "lexical"
DENSE = "dense"


@dataclass(frozen=True, slots=True)
class Legs:
    """What a search runs on; a leg that cannot open is None and its problem stands in `problems`."""

    lexical: LexicalIndex | None
    vectors: VectorIndex | None
    embed: Callable[[str], bytes]
    problems: dict[str, IndexProblem] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ranked:
    """The outcome: the best fused hits, how many documents any leg found, the legs that ran, why others did not, and
    milliseconds a step."""

    hits: list[Fused]
    total: int
    legs: dict[str, list[LegHit]]
    degraded: list[dict[str, str]]
    timings: dict[str, float]


def rank(query: str, legs: Legs, *, mode: Mode, filter: Filter, candidates: int, limit: int) -> Ranked:
    """Run the legs that `mode` asks for, `candidates` deep, and fuse them into the best `limit` documents.

    Never raises for a leg, only reports it.
    """
    found: dict[str, list[LegHit]] = {}
    degraded: list[dict[str, str]] = []
    timings: dict[str, float] = {}
    wanted: list[tuple[str, Callable[[], list[LegHit]]]] = []
    if mode in ("hybrid", "keyword"):
        wanted.append((LEXICAL, lambda: _lexical(legs, query, filter, candidates)))
    if mode in ("hybrid", "semantic"):
        wanted.append((DENSE, lambda: _dense(legs, query, filter, candidates, timings)))
    for name, run in wanted:
        began = time.perf_counter()
        try:
            found[name] = run()
        except (IndexProblem, ModelError) as error:
            degraded.append(reason(name, error))
        timings[name] = _milliseconds(began) - timings.get("embed", 0.0) * (name == DENSE)
    began = time.perf_counter()
    hits = fuse(found, limit)
    timings["fusion"] = _milliseconds(began)
    total = len({hit.document_id for hits_of_leg in found.values() for hit in hits_of_leg})
    return Ranked(hits, total, found, degraded, timings)


def reason(leg: str, error: MemorydError) -> dict[str, str]:
    """How an answer names a leg that did not run (or ran on wrong counts)."""
    return {"leg": leg, "code": error.code, "message": error.message, "next_step": error.next_step}


def _lexical(legs: Legs, query: str, filter: Filter, candidates: int) -> list[LegHit]:
    if legs.lexical is None:
        raise legs.problems.get("lexical") or IndexProblem("The lexical index is not open.")
    return legs.lexical.search(query, filter, candidates)


def _dense(legs: Legs, query: str, filter: Filter, candidates: int, timings: dict[str, float]) -> list[LegHit]:
    if legs.vectors is None:
        raise legs.problems.get("vectors") or IndexProblem("The vector index is not open.")
    began = time.perf_counter()
    try:
        vector = legs.embed(query)
    finally:
        timings["embed"] = _milliseconds(began)
    return legs.vectors.search(vector, filter, candidates)


def _milliseconds(began: float) -> float:
    return (time.perf_counter() - began) * 1000
