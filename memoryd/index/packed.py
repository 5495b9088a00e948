"""How do vectors travel as bytes, and are those of a passage fit to be stored?

A dense vector is float32 little-endian, one number a dimension. A sparse one is n token ids (u32 little-endian,
ascending) followed by their n weights (float32 little-endian, above zero); no byte at all is one without any token.
"""

from __future__ import annotations

import math
import sys
from array import array
from itertools import pairwise

from memoryd.errors import IndexProblem

SPARSE_ENTRY = 8
"""Bytes of one token in a sparse vector."""


def floats(vector: bytes) -> list[float]:
    """The numbers of a dense vector."""
    return _array("f", vector).tolist()


def dense(vector: bytes, dims: int, whose: str) -> list[float]:
    """The numbers of a vector that can be stored. Raises IndexProblem: wrong dimension, zero, or not finite."""
    if len(vector) != dims * 4:
        raise IndexProblem(f"{whose} has a vector of {len(vector) / 4:g} dimensions, the index {dims}.", leg="vectors")
    values = floats(vector)
    norm = math.hypot(*values)
    if not math.isfinite(norm) or norm < 1e-12:
        raise IndexProblem(f"{whose} has a vector that is zero or not finite.", leg="vectors")
    return values


def sparse(weights: bytes, whose: str) -> tuple[list[int], list[float]]:
    """Token ids and weights of a sparse vector. Raises IndexProblem where the bytes are none."""
    count, rest = divmod(len(weights), SPARSE_ENTRY)
    ids = list(map(int, _array("I", weights[: count * 4])))
    values = _array("f", weights[count * 4 : count * SPARSE_ENTRY]).tolist()
    ascending = all(one < two for one, two in pairwise(ids))
    if rest or not ascending or not all(math.isfinite(value) and value > 0 for value in values):
        raise IndexProblem(f"{whose} has a sparse vector that is none.", leg="vectors")
    return ids, values


def is_unit(vector: object, dims: int) -> bool:
    """Whether a stored vector is whole and of unit length."""
    if not isinstance(vector, list) or len(vector) != dims:
        return False
    norm = math.hypot(*vector)
    return math.isfinite(norm) and abs(norm - 1.0) < 1e-3


def is_same(stored: object, wanted: list[float]) -> bool:
    """Whether the stored unit vector points where the wanted one does."""
    if not isinstance(stored, list) or len(stored) != len(wanted):
        return False
    norm = math.hypot(*wanted)
    return norm > 0 and math.fsum(a * b for a, b in zip(stored, wanted, strict=True)) / norm > 0.999


def _array(kind: str, raw: bytes) -> array[float]:
    values: array[float] = array(kind, raw)
    if sys.byteorder == "big":
        values.byteswap()
    return values
