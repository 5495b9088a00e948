"""Behaviour of memoryd.index.packed."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.errors import IndexProblem
from memoryd.index import packed
from tests.index.entries import sparse, unit

weights = st.dictionaries(st.integers(0, 2**32 - 1), st.floats(0.015625, 1000, width=32), max_size=20)


@given(tokens=weights)
def test_a_sparse_vector_comes_out_as_it_went_in(tokens):
    assert packed.sparse(sparse(tokens), "It") == (sorted(tokens), [tokens[one] for one in sorted(tokens)])


@pytest.mark.parametrize(
    "raw",
    [
        b"1234567",
        struct.pack("<2I2f", 5, 5, 1.0, 1.0),
        struct.pack("<2I2f", 6, 5, 1.0, 1.0),
        struct.pack("<If", 5, 0.0),
        struct.pack("<If", 5, -1.0),
        struct.pack("<If", 5, float("nan")),
        struct.pack("<If", 5, float("inf")),
    ],
    ids=["length", "twice", "order", "zero", "below", "nan", "inf"],
)
def test_bytes_that_are_no_sparse_vector_are_refused(raw):
    with pytest.raises(IndexProblem, match="It has a sparse vector"):
        packed.sparse(raw, "It")


def test_a_stored_vector_is_compared_by_direction():
    one = packed.floats(unit(1))
    assert packed.is_unit(one, 8) and packed.is_same(one, [value * 3 for value in one])
    assert not packed.is_same(one, packed.floats(unit(2))) and not packed.is_same(None, one)
    assert not packed.is_unit(one[:-1], 8) and not packed.is_unit([value * 2 for value in one], 8)
