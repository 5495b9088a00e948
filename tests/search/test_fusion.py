"""Rank fusion: what the legs agree on comes first, one leg alone keeps its order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.records import LegHit
from memoryd.search.fusion import K, fuse


def hits(*names: str) -> list[LegHit]:
    """`doc` or `doc/passage`, best first."""
    return [LegHit(*name.partition("/")[::2], score=float(len(names) - n)) for n, name in enumerate(names)]


def order(fused) -> list[str]:
    return [one.document_id for one in fused]


def test_a_document_found_by_both_legs_comes_first():
    fused = fuse({"lexical": hits("a/1", "b/1", "c/1"), "dense": hits("d/1", "b/2", "e/1")})
    assert order(fused)[0] == "b"
    assert fused[0].score == pytest.approx(2 / (K + 2))
    assert fused[0].ranks == {"lexical": 2, "dense": 2}
    assert fused[0].scores == {"lexical": 2.0, "dense": 2.0}


def test_first_in_every_leg_is_fully_relevant():
    fused = fuse({"lexical": hits("a/1", "b/1"), "dense": hits("a/1", "b/1")})
    assert fused[0].relevance == 1.0
    assert 0 < fused[1].relevance < 1


def test_nothing_found_is_an_empty_list():
    assert fuse({}) == []
    assert fuse({"lexical": [], "dense": []}) == []


@pytest.mark.parametrize("legs", [{}, {"dense": []}])
def test_case_37_one_leg_keeps_its_order(legs):
    found = hits("z/1", "a/2", "m/1", "b/7", "a/1")
    fused = fuse({"lexical": found, **legs})
    assert order(fused) == ["z", "a", "m", "b"]
    assert fused[0].relevance == 1.0
    assert all(set(one.ranks) == {"lexical"} for one in fused)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=80))
def test_case_37_any_single_leg_keeps_its_order(pairs):
    found = hits(*(f"d{document}/p{passage}" for document, passage in pairs))
    assert order(fuse({"dense": found})) == list(dict.fromkeys(hit.document_id for hit in found))


LEG = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), max_size=25).map(
    lambda pairs: hits(*(f"d{document}/{passage or ''}" for document, passage in pairs))
)


@given(LEG, LEG)
def test_every_document_appears_once_best_first(lexical, dense):
    fused = fuse({"lexical": lexical, "dense": dense})
    assert sorted(order(fused)) == sorted({hit.document_id for hit in [*lexical, *dense]})
    assert [one.score for one in fused] == sorted((one.score for one in fused), reverse=True)
    assert all(0 < one.relevance <= 1 for one in fused)


@given(LEG, LEG)
def test_the_order_in_which_legs_are_named_does_not_matter(lexical, dense):
    assert fuse({"lexical": lexical, "dense": dense}) == fuse({"dense": dense, "lexical": lexical})


def test_several_hits_of_one_document_take_one_rank():
    fused = fuse({"dense": hits("a/1", "a/2", "a/3", "b/1")})
    assert fused[1].ranks == {"dense": 2}
    assert fused[0].scores == {"dense": 4.0}


def test_equal_scores_are_ordered_by_id():
    fused = fuse({"lexical": hits("b/1", "d/1"), "dense": hits("a/1", "c/1")})
    assert order(fused) == ["a", "b", "c", "d"]


def test_the_passage_of_the_leg_that_ranks_the_document_higher_is_shown():
    fused = {one.document_id: one for one in fuse({"lexical": hits("x/1", "a/low"), "dense": hits("a/high", "x/2")})}
    assert fused["a"].passage_id == "high"
    assert fused["x"].passage_id == "1"


def test_a_passage_is_shown_rather_than_a_whole_document():
    assert fuse({"lexical": hits("a/", "b/1", "a/2")})[0].passage_id == "2"
    fused = fuse({"lexical": hits("a/"), "dense": hits("b/1", "a/3")})
    assert {one.document_id: one.passage_id for one in fused} == {"a": "3", "b": "1"}
    assert fuse({"lexical": hits("a/")})[0].passage_id == ""
