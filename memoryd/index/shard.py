"""How are filters, deletions and the layout of a shard said in the embedded engine's own words?"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import qdrant_edge as engine

from memoryd.index.engine import SPARSE, narrower
from memoryd.index.present import Condition
from memoryd.records import Filter

SEARCH_THREADS = 1
"""A search reads one segment; a second thread only waits for the first, at half a millisecond a search."""


def asked_for(filter: Filter, whose: Condition) -> engine.Filter | None:
    """What a hit must be and must not be; None where anything goes."""
    must: list[Any] = [_any_of(name, values) for name, values in narrower(filter)]
    others: list[Any] = []
    if whose.named:
        (others if whose.outside else must).append(_any_of("visible", whose.named))
    return engine.Filter(must=must or None, must_not=others or None) if must or others else None


def _any_of(name: str, values: Sequence[str]) -> engine.FieldCondition:
    match = engine.MatchValue(values[0]) if len(values) == 1 else engine.MatchAny(list(dict.fromkeys(values)))
    return engine.FieldCondition(name, match=match)


def deletion(document_ids: list[str], kept: set[uuid.UUID]) -> engine.UpdateOperation:
    """Let go of all points of these documents but the kept ones."""
    spared: list[Any] | None = [engine.HasIdCondition(cast("set[engine.PointId]", kept))] if kept else None
    gone = engine.Filter(must=[_any_of("document_id", document_ids)], must_not=spared)
    return engine.UpdateOperation.delete_points_by_filter(gone)


def is_half(path: Path) -> bool:
    """Whether the numbers in these segments have 16 bits: the engine opens them with no other setting."""
    return any('"float16"' in one.read_text("utf-8") for one in (path / "segments").glob("*/segment.json"))


def layout(dims: int, sparse: bool, *, half: bool = True) -> engine.EdgeConfig:
    """A shard of vectors with so many numbers, of 16 bits each or 32, on disk."""
    cold = engine.Memory.Cold
    number = engine.VectorStorageDatatype.Float16 if half else engine.VectorStorageDatatype.Float32
    vectors = engine.EdgeVectorParams(size=dims, distance=engine.Distance.Cosine, memory=cold, datatype=number)
    lexical = {SPARSE: engine.EdgeSparseVectorParams(memory=cold)} if sparse else None
    return engine.EdgeConfig(
        vectors=vectors, sparse_vectors=lexical, payload_memory=cold, max_search_threads=SEARCH_THREADS
    )
