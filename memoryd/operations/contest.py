"""What would each leg alone, plain rank fusion, and the recipe without one of its parts have answered?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memoryd.operations import answers
from memoryd.operations.home import Home
from memoryd.records import Filter, LegHit

HYBRID = "hybrid"
RRF = "rrf"
K = 60
"""Of plain reciprocal rank fusion (Cormack, Clarke and Buettcher, 2009); ranks count from 1."""


@dataclass(slots=True)
class Contest:
    """Documents best first, by the name of the arm or of the ablation; `degraded` as an answer tells it."""

    arms: dict[str, list[str]]
    degraded: list[dict[str, str]]
    ablations: dict[str, list[str]] = field(default_factory=dict)


def contest(home: Home, query: str, wanted: Filter, depth: int) -> Contest:
    """Every arm's first `depth` documents for one query."""
    outcome, _ = answers.ranked(home, query, "hybrid", wanted, depth)
    arms = {name: documents(hits)[:depth] for name, hits in outcome.legs.items()}
    arms[RRF] = by_ranks(list(arms.values()))[:depth]
    arms[HYBRID] = [hit.document_id for hit in outcome.hits]
    return Contest(arms, outcome.degraded)


def documents(hits: Sequence[LegHit]) -> list[str]:
    """A leg's documents, each where it stands first."""
    return list(dict.fromkeys(hit.document_id for hit in hits))


def by_ranks(lists: Sequence[Sequence[str]]) -> list[str]:
    """Plain reciprocal rank fusion; equal scores by id."""
    scores: Mapping[str, float] = _scores(lists)
    return sorted(scores, key=lambda document: (-scores[document], document))


def _scores(lists: Sequence[Sequence[str]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in lists:
        for rank, document in enumerate(one, 1):
            found[document] = found.get(document, 0.0) + 1 / (K + rank)
    return found
