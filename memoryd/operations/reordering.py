"""In which order do the best hits of a search stand once their words were compared with the query's?

The first hits change places among themselves by their fused scores and the reranker's together; what stands behind them
stays. Hits without a passage, and very short texts (a line says what its vector says), are no ground for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from memoryd.catalog.passages import PassageRow
from memoryd.extract.passages import embedded_again
from memoryd.models.choice import MAXSIM, reranker_for
from memoryd.operations.home import Home
from memoryd.operations.legs import texts_of
from memoryd.operations.reranking import Reranked, rerank
from memoryd.search.fusion import Fused

MOST = 20
NOTHING, TOO_SHORT = "there is nothing to reorder", "the passages found are too short for it"
SHARE = 0.5
"""Of the reranker's scores in the order; the rest is the fused score."""
SHORT_BYTES = 80
"""Where half of the passages are shorter, they stay as they are."""


def in_force(home: Home) -> bool:
    """Whether the settings and the model ask for a reordering."""
    return reranker_for(home.config.search.reranker, home.host.identity) is not None


def left_out(reason: str) -> dict[str, str] | None:
    """How an answer names a reordering that did not happen for want of time or model; None where it had no ground."""
    if reason in ("", NOTHING, TOO_SHORT):
        return None
    step = "The order is that of the legs. A larger `search.rerank_budget_ms` gives it more time; `off` asks for none."
    return {
        "leg": "rerank",
        "code": "rerank-left-out",
        "message": f"{reason[:1].upper()}{reason[1:]}.",
        "next_step": step,
    }


def reordered(home: Home, query: str, hits: Sequence[Fused], *, most: int = MOST) -> tuple[list[Fused], str]:
    """The hits, the first `most` of them with the reranker's word; or as they were, and why.

    Waits at most `search.rerank_budget_ms`; never raises for the model.
    """
    first = [hit for hit in hits[:most] if hit.passage_id]
    rows = home.passages.get_many([hit.passage_id for hit in first])
    first = [hit for hit in first if hit.passage_id in rows]
    if len(first) < 2:
        return list(hits), NOTHING
    if median(rows[hit.passage_id].end - rows[hit.passage_id].start for hit in first) < SHORT_BYTES:
        return list(hits), TOO_SHORT
    done = _scored(home, query, [rows[hit.passage_id] for hit in first])
    if done.scores is None:
        return list(hits), done.reason
    # alone the reranker loses what legs and lifts know (ADR 0029)
    fused, again = _stretched([hit.score for hit in first]), _stretched(done.scores)
    order = sorted(range(len(first)), key=lambda at: -((1 - SHARE) * fused[at] + SHARE * again[at]))
    best = iter([first[place] for place in order])
    moved = {id(hit) for hit in first}
    return [next(best) if id(hit) in moved else hit for hit in hits], ""


def _stretched(scores: Sequence[float]) -> list[float]:
    """From 0 to 1, so that two kinds of scores compare."""
    low, high = min(scores), max(scores)
    return [(score - low) / (high - low) if high > low else 0.0 for score in scores]


def _scored(home: Home, query: str, rows: Sequence[PassageRow]) -> Reranked:
    """Only passages whose token vectors are not kept are read."""
    identity = home.host.identity
    if reranker_for(home.config.search.reranker, identity) == MAXSIM:
        known = home.cache.with_tokens(identity.fingerprint, [row.text_sha256 for row in rows])
    else:
        known = set()
    texts = _texts(home, [row for row in rows if row.text_sha256 not in known])
    return rerank(home, query, [(row.text_sha256, texts.get(row.id, "")) for row in rows])


def _texts(home: Home, rows: Sequence[PassageRow]) -> dict[str, str]:
    documents = home.documents.get_many([row.document_id for row in rows])
    found = {}
    for row in rows:
        if (document := documents.get(row.document_id)) is not None:
            for _, text in texts_of(home, document, [row]):
                found[row.id] = embedded_again(document.title, row.heading, text, row.text_sha256)
    return found
