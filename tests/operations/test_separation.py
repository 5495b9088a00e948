"""Where lies the cut between two classes, and how well are they told apart?"""

from __future__ import annotations

import random

import pytest

from memoryd.operations.separation import auc, between, reached


def test_the_cut_is_the_middle_of_the_gap():
    cut = between([0.8, 0.9], [0.1, 0.4])
    assert (pytest.approx(cut.value), cut.gap) == (0.6, True)


def test_where_the_classes_overlap_at_most_one_in_a_hundred_reaches_the_cut():
    other = [number / 1000 for number in range(1000)]
    cut = between([0.5, 0.9951, 1.0], other)
    assert not cut.gap
    assert reached(other, cut.value) == 0.01
    assert reached([0.5, 0.9951, 1.0], cut.value) == pytest.approx(2 / 3)


def test_of_few_none_reaches_it():
    cut = between([0.3, 0.7], [0.1, 0.5])
    assert (pytest.approx(cut.value), cut.gap) == (0.6, False)
    assert reached([0.1, 0.5], between([0.2, 0.4], [0.1, 0.5]).value) == 0, "also above all that is related"


def test_auc_counts_pairs_and_ties_half():
    chance = random.Random(1)
    related = [round(chance.random(), 1) for _ in range(40)]
    other = [round(chance.random() * 0.8, 1) for _ in range(30)]
    counted = sum((a > b) + (a == b) / 2 for a in related for b in other) / 1200
    assert auc(related, other) == pytest.approx(counted)
    assert (auc([1], [0]), auc([0], [1]), auc([1], [1])) == (1, 0, 0.5)
