"""Behaviour of memoryd.operations.reranking with the embedded model."""

from __future__ import annotations

import re

import pytest

from memoryd.operations import gateway
from memoryd.operations.home import Caller
from memoryd.operations.reranking import rerank
from tests.operations.conftest import configure, opened, settle

PASSAGES = [("a" * 64, "The cat sleeps on the warm stove."), ("b" * 64, "Invoices are due within thirty days.")]
QUERY = "When do I have to pay the bill?"


def test_passages_are_scored_and_their_token_vectors_kept(root):
    configure(root, search={"reranker": "maxsim"})
    with opened(root) as home:
        first = rerank(home, QUERY, PASSAGES, 60_000)
        assert first.scores is not None and first.scores[1] > first.scores[0]
        model = home.host.identity.fingerprint
        assert set(home.cache.get_tokens(model, [digest for digest, _ in PASSAGES])) == {"a" * 64, "b" * 64}
        assert rerank(home, QUERY, [(digest, "") for digest, _ in PASSAGES], 60_000).scores == first.scores
        assert rerank(home, QUERY, [], 60_000).scores == []


@pytest.mark.parametrize(
    ("search", "reason"),
    [
        ({}, "embedded model"),
        ({"reranker": "off"}, "`off`"),
        ({"reranker": "maxsim", "rerank_budget_ms": 0}, "allows no time"),
        ({"reranker": "maxsim", "rerank_budget_ms": 1}, "0.001 s|time allowed"),
    ],
)
def test_a_reranking_that_does_not_happen_has_its_reason(root, search, reason):
    """search.rerank_budget_ms"""
    configure(root, search=search)
    with opened(root) as home:
        done = rerank(home, QUERY, PASSAGES)
        assert done.scores is None and re.search(reason, done.reason)


def test_a_cross_encoder_is_looked_for_where_the_settings_say(root, tmp_path):
    """model.reranker_path"""
    configure(root, search={"reranker": "bge-reranker"}, model={"reranker_path": str(tmp_path / "elsewhere")})
    with opened(root) as home:
        done = rerank(home, QUERY, PASSAGES, 60_000)
        assert done.scores is None and str(tmp_path / "elsewhere" / "config.json") in done.reason


def test_token_vectors_are_kept_at_index_time_where_they_are_used(root):
    sizes = []
    for reranker in ("auto", "maxsim"):
        configure(root, search={"reranker": reranker})
        with opened(root) as home:
            words = f"Rotate the signing keys, says {reranker}."
            gateway.add(home, Caller(), content=words, type="fact", scope="global")
            settle(home)
            sizes.append(home.cache.sizes(home.host.identity.fingerprint)["tokens"])
    assert sizes[0] == 0 < sizes[1]
