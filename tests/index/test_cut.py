"""Behaviour of memoryd.index.cut: the best of a list are those of the same list sorted whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memoryd.index.cut import best
from memoryd.records import NO_TRAITS, LegHit

ids, scores = st.sampled_from("abcdef"), st.sampled_from([0.1, 0.25, 0.5, 0.75])
hits = st.builds(LegHit, ids, st.sampled_from(["", "p", "q"]), scores, st.just(NO_TRAITS))


@given(st.lists(hits, unique=True), st.integers(0, 30))
def test_equal_scores_go_by_ids_also_across_the_cut(found, limit):
    as_found = sorted(found, key=lambda hit: -hit.score)  # as an engine gives them: equal ones in any order
    wanted = sorted(found, key=lambda hit: (-hit.score, hit.document_id, hit.passage_id))
    assert best(as_found, limit) == wanted[:limit]
