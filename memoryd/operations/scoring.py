"""How good is one ranking, and how sure is a mean over many queries?"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

RESAMPLES = 2000
MEASURES = ("ndcg@10", "precision@5", "recall@5", "recall@10", "recall_any@10", "recall_all@10", "mrr")


@dataclass(slots=True)
class Scores:
    """One arm's measures, a list per measure with one number a query, in the order asked."""

    by_measure: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in MEASURES})

    def add(self, ranked: Sequence[str], relevant: Mapping[str, int]) -> None:
        """Score one query's ranking."""
        for name, value in measures(ranked, relevant).items():
            self.by_measure[name].append(value)

    def means(self, places: Sequence[int] | None = None) -> dict[str, float]:
        """The mean of each measure, over the queries at `places` (all when None)."""
        return {name: mean(_chosen(values, places)) for name, values in self.by_measure.items()}


def _chosen(values: Sequence[float], places: Sequence[int] | None) -> Sequence[float]:
    return values if places is None else [values[place] for place in places]


def measures(ranked: Sequence[str], relevant: Mapping[str, int]) -> dict[str, float]:
    """nDCG@10 (linear gain, as trec_eval), precision, recall and reciprocal rank of one ranking.

    `recall@k` is the share of the relevant documents among the first k, `recall_any@10` 1 where there is one,
    `recall_all@10` 1 where all are (as many as fit ten places).
    """
    gains = [relevant.get(document, 0) for document in ranked]
    ideal = _dcg(sorted(relevant.values(), reverse=True)[:10])
    first = next((rank for rank, gain in enumerate(gains, 1) if gain), None)
    found = sum(1 for gain in gains[:10] if gain)
    return {
        "ndcg@10": _dcg(gains[:10]) / ideal if ideal else 0.0,
        "precision@5": sum(1 for gain in gains[:5] if gain) / 5,
        "recall@5": sum(1 for gain in gains[:5] if gain) / len(relevant),
        "recall@10": found / len(relevant),
        "recall_any@10": float(found > 0),
        "recall_all@10": float(found >= min(10, len(relevant))),
        "mrr": 1 / first if first else 0.0,
    }


def _dcg(gains: Iterable[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def paired_bootstrap(differences: Sequence[float], *, resamples: int = RESAMPLES, seed: int = 7) -> tuple[float, float]:
    """The 95 % percentile interval of the mean of paired differences (Efron and Tibshirani, 1993, chapter 13)."""
    if not differences:
        return 0.0, 0.0
    chance = random.Random(seed)
    count = len(differences)
    means = sorted(sum(chance.choices(differences, k=count)) / count for _ in range(resamples))
    return means[int(0.025 * resamples)], means[min(resamples - 1, int(0.975 * resamples))]


def difference(one: Sequence[float], other: Sequence[float]) -> dict[str, float]:
    """The mean of `one` minus `other`, query by query, with its 95 % interval: `mean`, `low`, `high`."""
    differences = [a - b for a, b in zip(one, other, strict=True)]
    low, high = paired_bootstrap(differences)
    return {"mean": round(mean(differences), 4), "low": round(low, 4), "high": round(high, 4)}


def mean(values: Sequence[float]) -> float:
    """The mean; 0 for none."""
    return sum(values) / len(values) if values else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile; 0 for none."""
    if not values:
        return 0.0
    return sorted(values)[min(len(values) - 1, max(0, math.ceil(share * len(values)) - 1))]
