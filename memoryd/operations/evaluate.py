"""How good is retrieval on a labelled set, leg by leg?

Any folder in BEIR form works, see `operations.beir`. Everything runs in a temporary home on the product's own road;
only the embedding cache is kept.
"""

from __future__ import annotations

import math
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memoryd.digest import document_id, sha256_hex, slug
from memoryd.errors import HomeError, ModelUnavailable
from memoryd.operations import answers, indexing, ingest, reading
from memoryd.operations.beir import Item, LabelledSet, read_set
from memoryd.operations.home import Caller, Home, open_home
from memoryd.operations.owner import own_home
from memoryd.operations.recover import recover
from memoryd.records import GLOBAL_SCOPE, Filter, LegHit, ScopeRecord
from memoryd.search.fusion import fuse

SOURCE = "eval"
DEPTH = 100
MODEL_SECONDS = 120.0
RESAMPLES = 2000
MEASURES = ("ndcg@10", "precision@5", "recall@5", "recall@10", "mrr")
Progress = Callable[[int, int, str], None]


@dataclass(slots=True)
class Scores:
    """One leg's measures, a list per measure with one number a query."""

    by_measure: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in MEASURES})

    def add(self, ranked: Sequence[str], relevant: Mapping[str, int]) -> None:
        """Score one query's ranking."""
        for name, value in measures(ranked, relevant).items():
            self.by_measure[name].append(value)

    def means(self) -> dict[str, float]:
        """The mean of each measure."""
        return {name: mean(values) for name, values in self.by_measure.items()}


def evaluate(
    folder: Path,
    *,
    cache_path: Path,
    progress: Progress = lambda _done, _total, _note: None,
) -> dict[str, Any]:
    """Index the set in a temporary home, ask all queries, return means, intervals and latencies.

    Raises InvalidInput when the folder is not in BEIR form, ModelError kinds when the model does not work.
    """
    labelled = read_set(folder)
    try:
        cache_path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HomeError(f"{cache_path.parent} cannot be made: {error.strerror}.", path=str(cache_path)) from error
    with tempfile.TemporaryDirectory(prefix="memoryd-eval-") as temporary:
        root = Path(temporary) / "home"
        lock = own_home(root)
        try:
            home = open_home(root, environment={}, cache_path=cache_path)
            try:
                recover(home)
                names = index_set(home, labelled, progress)
                return ask_all(home, labelled, names, progress)
            finally:
                home.close()
        finally:
            lock.release()


def scope_id(value: str) -> str:
    """The project scope that stands for one `metadata.scope` value."""
    return f"p-{slug(value, fallback='scope')}-{sha256_hex(value.encode())[:8]}"


def index_set(home: Home, labelled: LabelledSet, progress: Progress) -> dict[str, str]:
    """Store and index all documents; returns document id -> the set's own id."""
    values = {item.scope for item in (*labelled.documents, *labelled.queries) if item.scope is not None}
    for value in sorted(values):
        ingest.register_scope(home, ScopeRecord(id=scope_id(value), name=value, remote=None, root=None))
    ingest.store_documents(home, (_seen(document) for document in labelled.documents))
    total = len(labelled.documents)
    while indexing.catch_up(home):
        progress(max(0, total - indexing.pending(home)), total, "indexing")
    return {document_id(SOURCE, item.id.encode()): item.id for item in labelled.documents}


def _seen(item: Item) -> ingest.Seen:
    return ingest.Seen(
        SOURCE, item.id.encode(), _scope_of(item), "document", item.text.encode("utf-8"), title=item.title
    )


def _scope_of(item: Item) -> str:
    return GLOBAL_SCOPE if item.scope is None else scope_id(item.scope)


def ask_all(home: Home, labelled: LabelledSet, names: Mapping[str, str], progress: Progress) -> dict[str, Any]:
    """Ask every judged query: the product's whole search is timed, then each leg is scored by itself."""
    legs = {"lexical": Scores(), "dense": Scores(), "hybrid": Scores()}
    latencies: list[float] = []
    home.host.embed_query("warm", MODEL_SECONDS)  # loading the model is no query's latency
    for number, query in enumerate(labelled.queries, 1):
        if number % 25 == 0 or number == len(labelled.queries):
            progress(number, len(labelled.queries), "asking")
        text = query.text[: reading.QUERY_LIMIT] if query.text.strip() else "?"
        began = time.perf_counter()
        reading.search(home, Caller(), query=text, max_results=10, scope=_scope_of(query))
        latencies.append((time.perf_counter() - began) * 1000)
        outcome, _ = answers.ranked(home, text, "hybrid", Filter(scopes=(_scope_of(query),)), 1)
        if outcome.degraded:  # a leg that did not run would count as one that found nothing
            first = outcome.degraded[0]
            raise ModelUnavailable(f"{first['leg']} did not run for query {query.id[:80]!r}: {first['message']}")
        for name, found in _rankings(outcome.legs).items():
            ids = [names[one] for one in found if names.get(one) not in (None, query.self)]
            legs[name].add(ids[:DEPTH], labelled.judgements[query.id])
    return _report(legs, latencies)


def _rankings(legs: Mapping[str, list[LegHit]]) -> dict[str, list[str]]:
    lexical, dense = legs.get("lexical", []), legs.get("dense", [])
    return {
        "lexical": [hit.document_id for hit in fuse({"lexical": lexical})],
        "dense": [hit.document_id for hit in fuse({"dense": dense})],
        "hybrid": [hit.document_id for hit in fuse({"lexical": lexical, "dense": dense})],
    }


def _report(legs: Mapping[str, Scores], latencies: list[float]) -> dict[str, Any]:
    means = {name: scores.means() for name, scores in legs.items()}
    best = max(("lexical", "dense"), key=lambda name: means[name]["ndcg@10"])
    hybrid, other = legs["hybrid"].by_measure["ndcg@10"], legs[best].by_measure["ndcg@10"]
    differences = [a - b for a, b in zip(hybrid, other, strict=True)]
    low, high = paired_bootstrap(differences)
    return {
        "queries": len(latencies),
        "legs": {name: {k: round(v, 4) for k, v in values.items()} for name, values in means.items()},
        "best_leg": best,
        "hybrid_minus_best": {"ndcg@10": round(mean(differences), 4), "low": round(low, 4), "high": round(high, 4)},
        "latency_ms": {name: round(percentile(latencies, share), 2) for name, share in PERCENTILES.items()},
    }


PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def measures(ranked: Sequence[str], relevant: Mapping[str, int]) -> dict[str, float]:
    """nDCG@10 (linear gain, as trec_eval), precision@5, recall@5, recall@10 and reciprocal rank of one ranking."""
    gains = [relevant.get(document, 0) for document in ranked]
    ideal = _dcg(sorted(relevant.values(), reverse=True)[:10])
    first = next((rank for rank, gain in enumerate(gains, 1) if gain), None)
    return {
        "ndcg@10": _dcg(gains[:10]) / ideal if ideal else 0.0,
        "precision@5": sum(1 for gain in gains[:5] if gain) / 5,
        "recall@5": sum(1 for gain in gains[:5] if gain) / len(relevant),
        "recall@10": sum(1 for gain in gains[:10] if gain) / len(relevant),
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


def mean(values: Sequence[float]) -> float:
    """The mean; 0 for none."""
    return sum(values) / len(values) if values else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile; 0 for none."""
    if not values:
        return 0.0
    return sorted(values)[min(len(values) - 1, max(0, math.ceil(share * len(values)) - 1))]
