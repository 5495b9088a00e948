"""Behaviour of memoryd.models.maxsim."""

from __future__ import annotations

import numpy
import pytest

from memoryd.models.maxsim import maxsim, pack, unit, unpack


def rows(seed: int, count: int, dims: int = 384):
    return unit(numpy.random.default_rng(seed).normal(size=(count, dims)).astype(numpy.float32))


def test_it_is_the_mean_of_the_best_cosines():
    query, passage = rows(1, 3), rows(2, 5)
    expected = [max(float(numpy.dot(word, other)) for other in passage) for word in query]
    assert maxsim(query, passage) == pytest.approx(sum(expected) / 3, abs=1e-6)
    assert maxsim(query, query) == pytest.approx(1.0, abs=1e-5)


def test_nothing_is_near_to_nothing():
    assert maxsim(rows(1, 0), rows(2, 3)) == maxsim(rows(1, 3), rows(2, 0)) == 0.0
    assert pack(rows(1, 0)) == b"" and len(unpack(b"", 384)) == 0


def test_a_byte_for_a_number_keeps_the_direction():
    """The scores of 20 passages differ by less than a hundredth, and their order stays."""
    query = rows(1, 12)
    passages = [rows(n + 2, 40) for n in range(20)]
    exact = [maxsim(query, one) for one in passages]
    packed = [maxsim(query, unpack(pack(one), 384)) for one in passages]
    assert len(pack(passages[0])) == 40 * 384
    assert numpy.allclose(exact, packed, atol=0.01)
    assert numpy.argmax(exact) == numpy.argmax(packed)
