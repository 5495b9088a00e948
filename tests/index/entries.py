"""Entries and vectors that the tests of the indexes share."""

from __future__ import annotations

import array
import math
import random
from collections.abc import Mapping, Sequence

from memoryd.digest import document_id, passage_id, sha256_hex
from memoryd.index.lexical import LexicalEntry
from memoryd.index.vector import VectorEntry
from memoryd.records import Filter, ancestors

DIMS = 8
EVERYWHERE = Filter(scopes=("global",))


def packed(values: Sequence[float]) -> bytes:
    return array.array("f", values).tobytes()


def unit(seed: object, dims: int = DIMS) -> bytes:
    """A unit vector that `seed` decides."""
    draw = random.Random(str(seed))
    values = [draw.gauss(0, 1) for _ in range(dims)]
    norm = math.sqrt(math.fsum(value * value for value in values))
    return packed([value / norm for value in values])


def cosine(one: bytes, two: bytes) -> float:
    a, b = array.array("f", one), array.array("f", two)
    top = math.fsum(x * y for x, y in zip(a, b, strict=True))
    return top / math.sqrt(math.fsum(x * x for x in a) * math.fsum(y * y for y in b))


def entry(name: str, part: int = 0, *, vector: bytes | None = None, dims: int = DIMS, **changes) -> VectorEntry:
    """Passage `part` of the document at `name` (a path below the corpus `docs`)."""
    document = document_id("docs", name.encode())
    fields = {
        "passage_id": passage_id(document, sha256_hex(f"{name} {part}".encode()), 0),
        "document_id": document,
        "scope": "global",
        "kind": "document",
        "type": "",
        "status": "in_force",
        "ancestors": ancestors("docs", name.encode()),
        "vector": vector if vector is not None else unit((name, part), dims),
    }
    return VectorEntry(**(fields | changes))


def words(name: str, text: str) -> LexicalEntry:
    """The whole document at `name`, as the lexical index knows it."""
    document = document_id("docs", name.encode())
    return LexicalEntry(
        document, "", "global", "document", "", "in_force", ancestors("docs", name.encode()), name, text
    )


def sparse(weights: Mapping[int, float]) -> bytes:
    """A sparse vector as it travels."""
    ids = sorted(weights)
    return array.array("I", ids).tobytes() + packed([weights[one] for one in ids])


def oracle(entries: list[VectorEntry], query: bytes, wanted: Filter, limit: int) -> list[str]:
    """Passage ids by exact cosine, by the plain reading of a filter."""
    seen = [
        one
        for one in entries
        if one.scope in wanted.scopes
        and one.status in wanted.statuses
        and (not wanted.kinds or one.kind in wanted.kinds)
        and (not wanted.types or one.type in wanted.types)
        and (wanted.path_prefix is None or wanted.path_prefix in one.ancestors)
    ]
    seen.sort(key=lambda one: -cosine(one.vector, query))
    return [one.passage_id for one in seen[:limit]]
