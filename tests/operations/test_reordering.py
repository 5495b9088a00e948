"""Behaviour of memoryd.operations.reordering with the embedded model's token vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from memoryd.operations import gateway, reading
from memoryd.operations.home import Caller, Home
from memoryd.operations.reordering import reordered
from memoryd.records import Filter
from memoryd.search.fusion import Fused
from tests.operations.conftest import configure, opened, settle

LONG = [
    "The cat sleeps on the warm stove in the kitchen of the old house every single evening of the winter.",
    "Invoices of the supplier are due within thirty days after they were sent, else a fee of two percent is added.",
    "A database index makes reads of single rows faster and writes of many rows somewhat slower than before.",
]
QUERY = "When do I have to pay the bill?"


@pytest.fixture
def home(root) -> Iterator[Home]:
    configure(root, search={"reranker": "maxsim", "rerank_budget_ms": 60_000})
    with opened(root) as home:
        yield home


def hits(home: Home, texts: list[str]) -> list[Fused]:
    for text in texts:
        gateway.add(home, Caller(), content=text, type="fact", scope="global")
    settle(home)
    found = home.generation.lexical.search("the", Filter(scopes=("global",)), 50) + [
        hit for text in texts for hit in home.generation.lexical.search(text, Filter(scopes=("global",)), 1)
    ]
    passages = {hit.document_id: hit.passage_id for hit in found if hit.passage_id}
    return [Fused(document, passage, 1.0, 0.5, {}, {}) for document, passage in sorted(passages.items())]


def words(home: Home, hit: Fused) -> str:
    return home.documents.get_many([hit.document_id])[hit.document_id].title


def test_the_nearest_by_words_comes_first_and_the_rest_stays(home):
    found = hits(home, LONG)
    assert len(found) == 3
    whole = Fused("another", "", 1.0, 0.5, {}, {})
    last = Fused("last", found[0].passage_id, 0.1, 0.1, {}, {})
    order, reason = reordered(home, QUERY, [whole, *found, last], most=4)
    assert reason == "" and order[0] is whole and order[-1] is last
    assert "Invoices" in words(home, order[1])
    assert sorted(hit.document_id for hit in order[1:4]) == sorted(hit.document_id for hit in found)


def test_vectors_that_are_not_kept_are_made_from_the_passages(home):
    found = hits(home, LONG)
    before, _ = reordered(home, QUERY, found)
    rows = home.passages.get_many([hit.passage_id for hit in found])
    home.cache.drop([row.text_sha256 for row in rows.values()])
    after, reason = reordered(home, QUERY, found)
    assert reason == "" and after == before


def test_short_texts_and_single_hits_stay(home):
    found = hits(home, ["Keys rotate weekly.", "Cats sleep.", "Bills are due soon."])
    assert reordered(home, QUERY, found) == (found, "the passages found are too short for it")
    assert reordered(home, QUERY, found[:1]) == (found[:1], "there is nothing to reorder")


def test_without_a_reranker_nothing_moves_and_the_reason_is_told(root):
    with opened(root) as home:
        found = hits(home, LONG)
        order, reason = reordered(home, QUERY, found)
        assert order == found and "no reranker is in force" in reason


@pytest.mark.parametrize("reranker", ["maxsim", "bge-reranker"])
def test_a_search_reorders_its_best_hits_or_tells_why_not(root, reranker):
    """search.reranker"""
    configure(root, search={"reranker": reranker, "rerank_budget_ms": 60_000})
    with opened(root) as home:
        hits(home, LONG)
        found = reading.search(home, Caller(), query=f"{QUERY} index stove invoices", scope="global", explain=True)
        assert len(found["memories"]) >= 2 and found["explain"]["milliseconds"]["rerank"] > 0
        told = [one for one in found["index"]["degraded"] if one["leg"] == "rerank"]
        if reranker == "maxsim":
            assert told == [] and "Invoices" in found["memories"][0]["title"]
        else:  # the order is that of the legs
            assert "config.json is missing" in told[0]["message"] and told[0]["next_step"]


def test_what_legs_and_lifts_know_has_half_a_say(home):
    """The reranker alone would put the invoices first in both."""
    found = hits(home, LONG)
    (bill,) = (hit for hit in found if "Invoices" in words(home, hit))
    (cat,) = (hit for hit in found if "cat" in words(home, hit))
    (index,) = (hit for hit in found if "database" in words(home, hit))
    near = [replace(cat, score=1.0), replace(bill, score=0.9), replace(index, score=0.0)]
    far = [replace(cat, score=1.0), replace(index, score=0.99), replace(bill, score=0.0)]
    assert reordered(home, QUERY, near)[0][0].document_id == bill.document_id
    assert reordered(home, QUERY, far)[0][-1].document_id != cat.document_id
    assert reordered(home, QUERY, far)[0][0].document_id != bill.document_id
