"""Are the measures the textbook's, and do intervals say how sure a mean is?"""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.operations.scoring import MEASURES, Scores, difference, mean, measures, paired_bootstrap, percentile

LOG = math.log2


def test_measures_against_numbers_worked_out_by_hand():
    """Ranking b, x, a, y, c with grades a=2, b=1, c=1: gains 1, 0, 2, 0, 1."""
    found = measures(["b", "x", "a", "y", "c"], {"a": 2, "b": 1, "c": 1})
    dcg = 1 / LOG(2) + 2 / LOG(4) + 1 / LOG(6)
    ideal = 2 / LOG(2) + 1 / LOG(3) + 1 / LOG(4)
    assert found["ndcg@10"] == pytest.approx(dcg / ideal)
    assert found["precision@5"] == pytest.approx(3 / 5)
    assert found["recall@5"] == found["recall@10"] == pytest.approx(1.0)
    assert found["recall_any@10"] == found["recall_all@10"] == found["mrr"] == 1.0


def test_measures_at_their_cut_offs():
    ranked = [f"x{n}" for n in range(5)] + ["a"] + [f"y{n}" for n in range(4)] + ["b"]
    found = measures(ranked, {"a": 1, "b": 1, "never": 1})
    assert found["precision@5"] == found["recall@5"] == 0.0
    assert found["recall@10"] == pytest.approx(1 / 3)
    assert (found["recall_any@10"], found["recall_all@10"]) == (1.0, 0.0)
    assert found["mrr"] == pytest.approx(1 / 6)
    assert found["ndcg@10"] == pytest.approx((1 / LOG(7)) / (1 / LOG(2) + 1 / LOG(3) + 1 / LOG(4)))
    assert measures([], {"a": 1}) == dict.fromkeys(found, 0.0)


def test_all_of_more_than_ten_is_ten():
    relevant = {f"d{n}": 1 for n in range(12)}
    assert measures(list(relevant), relevant)["recall_all@10"] == 1.0
    assert measures([*list(relevant)[:9], "x"], relevant)["recall_all@10"] == 0.0


@given(
    st.lists(st.sampled_from("abcdefghij"), unique=True),
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 3), min_size=1),
)
def test_measures_are_shares_and_the_ideal_order_is_perfect(ranked, relevant):
    assert all(0.0 <= value <= 1.0 + 1e-12 for value in measures(ranked, relevant).values())
    ideal = sorted(relevant, key=lambda name: -relevant[name])
    assert measures(ideal, relevant)["ndcg@10"] == pytest.approx(1.0)


def test_intervals_means_and_percentiles():
    low, high = paired_bootstrap([0.1] * 50)
    assert low == pytest.approx(0.1) == high
    low, high = paired_bootstrap([0.0, 0.2] * 100)
    assert low < 0.1 < high
    assert paired_bootstrap([0.0, 0.2] * 100) == (low, high), "the same numbers give the same interval"
    assert paired_bootstrap([]) == (0.0, 0.0)
    assert mean([]) == 0.0
    assert percentile([], 0.5) == 0.0
    assert [percentile(range(1, 101), share) for share in (0.5, 0.95, 0.99, 1.0)] == [50, 95, 99, 100]


def test_a_difference_is_taken_query_by_query():
    found = difference([1.0, 0.5, 0.5, 1.0] * 20, [0.9, 0.4, 0.4, 0.9] * 20)
    assert found == {"mean": 0.1, "low": 0.1, "high": 0.1}
    with pytest.raises(ValueError, match="shorter"):
        difference([1.0, 1.0], [1.0])


def test_scores_are_averaged_over_all_queries_or_some():
    scores = Scores()
    scores.add(["a"], {"a": 1})
    scores.add(["b"], {"a": 1})
    scores.add(["b"], {"b": 1})
    assert scores.means()["mrr"] == pytest.approx(2 / 3)
    assert scores.means([0, 2]) == {**dict.fromkeys(MEASURES, 1.0), "precision@5": 0.2}
