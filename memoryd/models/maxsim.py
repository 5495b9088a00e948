"""How near are the words of a query to those of a passage, each compared with its best counterpart?

MaxSim (Khattab and Zaharia, ColBERT, 2020): the mean over the query's token vectors of the largest cosine with any
token vector of the passage. Only the child imports this file.
"""

from __future__ import annotations

import numpy
import numpy.typing

Matrix = numpy.typing.NDArray[numpy.float32]
LARGEST = 127


def unit(rows: Matrix) -> Matrix:
    """Each row of unit length; a row of zeros stays."""
    norms = numpy.linalg.norm(rows, axis=1, keepdims=True)
    return numpy.asarray(rows / numpy.maximum(norms, 1e-12), dtype=numpy.float32)


def pack(rows: Matrix) -> bytes:
    """Rows as signed bytes, each scaled to its largest number: only directions are kept."""
    largest = numpy.maximum(numpy.abs(rows).max(axis=1, keepdims=True, initial=0.0), 1e-12)
    return bytes(numpy.rint(rows / largest * LARGEST).astype(numpy.int8).tobytes())


def unpack(raw: bytes, dims: int) -> Matrix:
    """Unit rows again."""
    return unit(numpy.frombuffer(raw, dtype=numpy.int8).reshape(-1, dims).astype(numpy.float32))


def maxsim(query: Matrix, passage: Matrix) -> float:
    """-1 to 1, for unit rows; 0 where either has none."""
    if not len(query) or not len(passage):
        return 0.0
    return float((query @ passage.T).max(axis=1).mean())
