"""What does each arm of retrieval answer to each question of a set, how good is it, and how long does it take?

Arms are the single legs, plain reciprocal rank fusion and the product's own recipe (`hybrid`); ablations are the recipe
with one part switched off or replaced.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memoryd.errors import ModelUnavailable
from memoryd.operations import reading
from memoryd.operations.contest import HYBRID, RRF, contest
from memoryd.operations.home import Caller, Home
from memoryd.operations.scoring import Scores, difference, percentile
from memoryd.records import Filter

DEPTH = 100
MODEL_SECONDS = 120.0
PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: where it may look, what is relevant (grades by document id), what is left out, and its kinds."""

    id: str
    text: str
    scopes: tuple[str, ...]
    relevant: Mapping[str, int]
    left_out: str | None = None
    categories: tuple[str, ...] = ()


@dataclass(slots=True)
class Outcome:
    """What was measured over all questions, each list in their order."""

    arms: dict[str, Scores] = field(default_factory=dict)
    ablations: dict[str, Scores] = field(default_factory=dict)
    milliseconds: list[float] = field(default_factory=list)


def ask_all(home: Home, asked: Sequence[Asked], *, ablate: bool, progress: Progress) -> Outcome:
    """Ask everything: the product's whole search is timed, then each arm is scored by itself.

    Raises ModelUnavailable where a leg did not run: it would count as one that found nothing.
    """
    outcome = Outcome()
    home.host.embed_query("warm", MODEL_SECONDS)  # loading the model is no question's latency
    for number, one in enumerate(asked, 1):
        if number % 25 == 0 or number == len(asked):
            progress(number, len(asked), "asking")
        text = one.text[: reading.QUERY_LIMIT] if one.text.strip() else "?"
        began = time.perf_counter()
        reading.search(home, Caller(), query=text, max_results=10, scope=one.scopes[-1])
        outcome.milliseconds.append((time.perf_counter() - began) * 1000)
        _score(home, one, text, ablate, outcome)
    return outcome


def _score(home: Home, one: Asked, text: str, ablate: bool, outcome: Outcome) -> None:
    ranked = contest(home, text, Filter(scopes=one.scopes), DEPTH, ablate=ablate)
    if ranked.degraded:
        first = ranked.degraded[0]
        raise ModelUnavailable(f"{first['leg']} did not run for query {one.id[:80]!r}: {first['message']}")
    for kind, found in ((outcome.arms, ranked.arms), (outcome.ablations, ranked.ablations)):
        for name, documents in found.items():
            kept = [document for document in documents if document != one.left_out]
            kind.setdefault(name, Scores()).add(kept, one.relevant)


def told(asked: Sequence[Asked], outcome: Outcome) -> dict[str, Any]:
    """The outcome as a report holds it (see docs/eval.md)."""
    legs = [name for name in outcome.arms if name not in (HYBRID, RRF)]
    means = {name: scores.means() for name, scores in outcome.arms.items()}
    best = max(legs, key=lambda name: means[name]["ndcg@10"])
    hybrid = outcome.arms[HYBRID].by_measure["ndcg@10"]
    return {
        "queries": len(asked),
        "arms": {name: _rounded(values) for name, values in means.items()},
        "best_leg": best,
        "hybrid_minus_best": difference(hybrid, outcome.arms[best].by_measure["ndcg@10"]),
        "categories": _categories(asked, outcome),
        "ablations": {name: _ablation(scores, hybrid) for name, scores in outcome.ablations.items()},
        "latency_ms": {name: round(percentile(outcome.milliseconds, share), 2) for name, share in PERCENTILES.items()},
        "per_query": {
            name: [round(1000 * value) for value in scores.by_measure["ndcg@10"]]
            for name, scores in outcome.arms.items()
        },
    }


def _ablation(scores: Scores, hybrid: Sequence[float]) -> dict[str, float]:
    values = scores.by_measure["ndcg@10"]
    return {"ndcg@10": _rounded(scores.means())["ndcg@10"], **difference(values, hybrid)}


def _categories(asked: Sequence[Asked], outcome: Outcome) -> dict[str, Any]:
    places: dict[str, list[int]] = {}
    for place, one in enumerate(asked):
        for category in one.categories:
            places.setdefault(category, []).append(place)
    return {
        category: {
            "queries": len(chosen),
            "arms": {name: _rounded(scores.means(chosen)) for name, scores in outcome.arms.items()},
        }
        for category, chosen in places.items()
    }


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in values.items()}
