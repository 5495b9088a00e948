"""Which of the best passages say most nearly what was asked, word by word, in the time that is allowed?

MaxSim over the token vectors of query and passage, or a cross-encoder; both run in the model's process. Token vectors
of passages are kept by the passage's hash, where they are used; those that are missing are made if the time does.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from memoryd.errors import DiskFull, IndexProblem
from memoryd.models.choice import CROSS_ENCODER, MAXSIM, reranker_for
from memoryd.operations.home import Home


@dataclass(frozen=True, slots=True)
class Reranked:
    """One score a passage, the larger the nearer (maxsim: a cosine, bge-reranker: 0 to 1); or None and why."""

    scores: list[float] | None
    reason: str = ""


def rerank(home: Home, query: str, passages: Sequence[tuple[str, str]], budget_ms: float | None = None) -> Reranked:
    """Score passages (`text_sha256`, embedded text) against a query within `budget_ms` (else as configured).

    Never raises: where there is no time, no model or no reranker, it says so and the order stays as it is.
    """
    named = home.config.search.reranker
    chosen = reranker_for(named, home.host.identity)
    if chosen is None:
        why = "search.reranker is `off`" if named == "off" else "with the embedded model there is none by default"
        return Reranked(None, f"no reranker is in force: {why}")
    seconds = (home.config.search.rerank_budget_ms if budget_ms is None else budget_ms) / 1000
    if seconds <= 0:
        return Reranked(None, "search.rerank_budget_ms allows no time")
    if not passages:
        return Reranked([])
    if chosen == MAXSIM:
        return _maxsim(home, query, passages, seconds)
    folder = home.loaded.reranker_folder(home.root)
    done = home.host.rerank(f"{CROSS_ENCODER}:{folder}", query, [(text, b"") for _, text in passages], seconds)
    return Reranked(done.scores, done.reason)


def _maxsim(home: Home, query: str, passages: Sequence[tuple[str, str]], seconds: float) -> Reranked:
    fingerprint = home.host.identity.fingerprint
    try:
        known = home.cache.get_tokens(fingerprint, [digest for digest, _ in passages])
    except IndexProblem as error:
        return Reranked(None, error.message)
    candidates = [("" if digest in known else text, known.get(digest, b"")) for digest, text in passages]
    done = home.host.rerank(MAXSIM, query, candidates, seconds)
    made = {digest: tokens for (digest, _), tokens in zip(passages, done.made, strict=False) if tokens}
    with suppress(DiskFull, IndexProblem):  # then they are made again the next time
        home.cache.put_tokens(fingerprint, made)
    return Reranked(done.scores, done.reason)
