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


@dataclass(frozen=True, slots=True)
class _Best:
    """A document in one leg: its rank among documents, its best score, its best passage ('' for none)."""

    rank: int
    score: float
    passage_id: str


def fuse(legs: Mapping[str, Sequence[LegHit]], limit: int | None = None) -> list[Fused]:
    """The best `limit` documents of all legs (all when None), best first.

    Each leg's hits come best first and may name a document several times. One leg alone keeps its order. Equal scores
    go by the best single rank, then by document id.
    """
    collapsed = {name: _collapse(hits) for name, hits in sorted(legs.items()) if hits}
    keys: dict[str, tuple[float, int]] = {}
    for found in collapsed.values():
        for document_id, best in found.items():
            score, rank = keys.get(document_id, (0.0, best.rank))
            keys[document_id] = (score + 1 / (K + best.rank), min(rank, best.rank))
    ordered = sorted(keys, key=lambda document_id: (-keys[document_id][0], keys[document_id][1], document_id))
    return [_fused(document_id, collapsed, keys[document_id][0]) for document_id in ordered[:limit]]


def _collapse(hits: Sequence[LegHit]) -> dict[str, _Best]:
    found: dict[str, _Best] = {}
    for hit in hits:
        held = found.get(hit.document_id)
        if held is None:
            found[hit.document_id] = _Best(len(found) + 1, hit.score, hit.passage_id)
        elif not held.passage_id and hit.passage_id:
            # A whole document says nothing about where to look: show its best passage, however low that stands.
            found[hit.document_id] = _Best(held.rank, held.score, hit.passage_id)
    return found


def _fused(document_id: str, legs: Mapping[str, Mapping[str, _Best]], score: float) -> Fused:
    found = {name: leg[document_id] for name, leg in legs.items() if document_id in leg}
    named = [(best.rank, best.passage_id) for best in found.values() if best.passage_id]
    return Fused(
        document_id=document_id,
        passage_id=min(named)[1] if named else "",
        score=score,
        relevance=min(1.0, score * (K + 1) / len(legs)),
        ranks={name: best.rank for name, best in found.items()},
        scores={name: best.score for name, best in found.items()},
    )
