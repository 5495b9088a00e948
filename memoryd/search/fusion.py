"""How do the lists of several legs become one list of documents?

Reciprocal rank fusion: a document scores the sum over legs of 1 / (K + its rank there). Only ranks count, so legs whose
scores cannot be compared need no calibration. Every other way of fusing replaces `fuse` alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memoryd.records import LegHit

K = 60
"""Ranks count from 1, so the first hit of a leg scores 1 / 61."""


@dataclass(frozen=True, slots=True)
class Fused:
    """One document of the fused list.

    `passage_id` names the passage to show, '' where no leg found one. `score` is the fused score, `relevance` that
    score as a share of the best possible one (first in every leg that found anything), above 0 up to 1. `ranks`
    (from 1) and `scores` hold what each leg said, by its name; a leg that did not find the document is left out.
    """

    document_id: str
    passage_id: str
    score: float
    relevance: float
    ranks: dict[str, int]
    scores: dict[str, float]


_Best = tuple[int, float, str]
"""A document in one leg: its rank among documents, its best score, its best passage ('' for none)."""


def fuse(legs: Mapping[str, Sequence[LegHit]], limit: int | None = None) -> list[Fused]:
    """The best `limit` documents of all legs (all when None), best first.

    Each leg's hits come best first and may name a document several times. One leg alone keeps its order. Equal scores
    go by the best single rank, then by document id.
    """
    collapsed = {name: _collapse(hits) for name, hits in sorted(legs.items()) if hits}
    keys: dict[str, tuple[float, int]] = {}
    for found in collapsed.values():
        for document_id, (rank, _, _) in found.items():
            score, best = keys.get(document_id, (0.0, rank))
            keys[document_id] = (score - 1 / (K + rank), min(best, rank))
    ordered = sorted((score, best, document_id) for document_id, (score, best) in keys.items())
    return [_fused(document_id, collapsed, -score) for score, _, document_id in ordered[:limit]]


def _collapse(hits: Sequence[LegHit]) -> dict[str, _Best]:
    found: dict[str, _Best] = {}
    for document_id, passage_id, score in hits:
        held = found.get(document_id)
        if held is None:
            found[document_id] = (len(found) + 1, score, passage_id)
        elif passage_id and not held[2]:
            # A whole document says nothing about where to look: show its best passage, however low that stands.
            found[document_id] = (held[0], held[1], passage_id)
    return found


def _fused(document_id: str, legs: Mapping[str, Mapping[str, _Best]], score: float) -> Fused:
    found = {name: leg[document_id] for name, leg in legs.items() if document_id in leg}
    named = [(rank, passage_id) for rank, _, passage_id in found.values() if passage_id]
    return Fused(
        document_id=document_id,
        passage_id=min(named)[1] if named else "",
        score=score,
        relevance=min(1.0, score * (K + 1) / len(legs)),
        ranks={name: rank for name, (rank, _, _) in found.items()},
        scores={name: score for name, (_, score, _) in found.items()},
    )
