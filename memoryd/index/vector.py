"""Which passages lie nearest to a query's vector, dense or sparse, within a filter?

One shard of an embedded engine that has no checksums and panics on some damage. So vectors are examined before they
are written, a sample is examined at open, the count is compared by the caller, and everything the engine raises is
turned into IndexDamaged here. Numbers are kept in 16 bits and search is exact below half a million passages.

The engine's own flush syncs some 60 files while it holds the interpreter (24 ms on an idle disk, half a second on a
busy one). Its write-ahead log alone is enough to bring every write back, so `flush` syncs that, with the interpreter
free, and leaves the rest to one full flush in 10,000 points and at the end.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import qdrant_edge as engine

from memoryd.errors import DiskFull, IndexDamaged, IndexProblem
from memoryd.index import packed
from memoryd.index.counted import Counted
from memoryd.index.cut import best
from memoryd.index.engine import (
    DENSE,
    INDEXED,
    SINGLE,
    SPARSE,
    TIE_MARGIN,
    VectorEntry,
    allowed,
    allows_nothing,
    document_of,
    payload,
    traits_of,
    visible,
)
from memoryd.index.present import Condition, Present
from memoryd.index.remembered import Memory, Remembered
from memoryd.index.shard import asked_for, deletion, is_half, layout
from memoryd.records import Filter, LegHit

__all__ = ["VectorEntry", "VectorIndex"]

UPSERT_POINTS = 50
"""Points of one engine call, which holds the interpreter for about 3 ms."""
FULL_FLUSH_POINTS = 10_000
"""Points written between two full flushes; what an opening after a crash replays in about a second."""
GRAPH_FROM = 500_000
"""Points from which on the engine's graph pays: it costs 0.8 ms of processor time a point. Below, search is exact."""
GRAPH_WIDTH = 256
"""Points that a search in the graph keeps in view."""
DELETE_DOCUMENTS = 500
TRIES = 4
"""How often the engine is asked at most where points come and go while it is asked."""
SAMPLE = 32
MIN_FREE = 48 << 20
"""Bytes that must be free before anything is written."""


class VectorIndex(Counted):
    """One directory of the engine's files. Searches may run in any thread while one thread writes."""

    def __init__(self, path: Path, dims: int, shard: engine.EdgeShard, *, sparse: bool) -> None:
        """Use `create` or `open`."""
        super().__init__(str(path), dims, sparse=sparse)
        self.path = path
        self._shard = shard
        self._unflushed = 0
        self._torn = False
        self._memory = Memory()
        self._present = Present()
        self._kinds = Present()

    @classmethod
    def create(cls, path: Path, dims: int, *, sparse: bool = False) -> VectorIndex:
        """A new, empty index in `path` (made where missing), with room for sparse vectors where asked for.

        Raises IndexDamaged where something lies there.
        """
        require_room(path.parent)
        with _border(path):
            path.mkdir(parents=True, exist_ok=True)
            shard = engine.EdgeShard.create(str(path), layout(dims, sparse))
            on_disk = engine.KeywordIndexParams(memory=engine.Memory.Cold)
            for name in INDEXED:
                shard.update(engine.UpdateOperation.create_field_index(name, on_disk))
            shard.flush()
        return cls(path, dims, shard, sparse=sparse)

    @classmethod
    def open(cls, path: Path, dims: int, *, sparse: bool = False) -> VectorIndex:
        """The index in `path`. Raises IndexDamaged where there is none, or it or its sample cannot be read."""
        with _border(path):
            # The engine makes an empty shard out of an empty directory; that would be a silent loss.
            if not any((path / "segments").glob("*/segment.json")):
                raise IndexDamaged(f"There is no vector index in {path}.", leg="vectors", path=str(path))
            config = layout(dims, sparse, half=is_half(path))
            found = cls(path, dims, engine.EdgeShard.load(str(path), config), sparse=sparse)
            try:
                found._examine()
            except BaseException:  # let go of what was taken, then raised on
                found.close()
                raise
            found._expected = found.count()
            return found

    def replace(self, document_ids: Sequence[str], entries: Sequence[VectorEntry]) -> None:
        """Make `entries` the only ones of these documents; seen by searches at once, durable after `flush`.

        Raises IndexProblem for a vector of another dimension, or one that is zero or not finite (nothing is written
        then), IndexDamaged where the engine fails.
        """
        require_room(self.path)
        points = [self._point(entry) for entry in entries]
        kept = {uuid.UUID(entry.passage_id) for entry in entries}
        with self._writing, self._using() as shard:
            self._steps += 1
            self._unflushed += len(entries) + len(document_ids)
            self._memory.forget(one.int for one in kept)
            # told before the engine has them: a search must know whom to leave out
            self._present = self._present.with_more(visible(entry.scope, entry.status) for entry in entries)
            self._kinds = self._kinds.with_more(entry.kind for entry in entries)
            try:
                before = shard.info().points_count
                for start in range(0, len(document_ids), DELETE_DOCUMENTS):
                    shard.update(deletion(list(document_ids[start : start + DELETE_DOCUMENTS]), kept))
                for start in range(0, len(points), UPSERT_POINTS):
                    shard.update(engine.UpdateOperation.upsert_points(points[start : start + UPSERT_POINTS]))
                self._expected += shard.info().points_count - before
            finally:
                self._memory.written()
                self._steps += 1

    def flush(self) -> None:
        """Make everything written so far durable. Raises IndexDamaged, and for good after a sync that failed."""
        with self._writing, self._using() as shard:
            if self._torn:
                raise IndexDamaged(f"A write to {self.path} failed before; it must be opened again.", leg="vectors")
            self._torn = True
            full = self._unflushed > FULL_FLUSH_POINTS
            if full:
                shard.flush()
                self._unflushed = 0
            else:
                _sync_log(self.path / "wal")
            self._torn = False
            if full:
                self._present, self._kinds = (Present(_groups(shard, name)) for name in ("visible", "kind"))

    def settle(self) -> None:
        """Make everything durable and, from GRAPH_FROM points on, quick to search: after a bulk of writes.

        The interpreter stands still for up to minutes: never in the daemon. Raises IndexDamaged.
        """
        with self._writing, self._using() as shard:
            if shard.info().points_count >= GRAPH_FROM:
                shard.optimize()
            shard.flush()
            self._unflushed = 0

    def count(self) -> int:
        """Points that are not deleted, exactly, in about 0.1 ms. Raises IndexDamaged."""
        with self._using() as shard:
            return int(shard.info().points_count)

    def few(self, kind: str, most: int) -> bool:
        """Whether there are points of this kind, but fewer than `most`. Raises IndexProblem kinds."""
        # a search does not wait for a write; the next one counts
        if self._kinds.doubtful(kind, most) and self._writing.acquire(blocking=False):
            try:
                with self._using() as shard:
                    self._kinds = Present(_groups(shard, "kind"))
            finally:
                self._writing.release()
        return self._kinds.few(kind, most)

    def search(self, vector: bytes, filter: Filter, limit: int) -> list[LegHit]:
        """The `limit` nearest passages by cosine, best first, equal scores by id.

        Raises IndexProblem for a vector that fits no point, IndexDamaged where the engine fails.
        """
        values = packed.dense(vector, self.dims, "The query")
        return self._nearest(engine.Query.Nearest(values), filter, limit)

    def search_sparse(self, weights: bytes, filter: Filter, limit: int) -> list[LegHit]:
        """The `limit` passages with the largest product of sparse weights, best first, equal scores by id.

        None without a token in common. Raises IndexProblem for bytes that are no sparse vector and for an index
        without sparse vectors, IndexDamaged where the engine fails.
        """
        ids, values = packed.sparse(weights, "The query")
        if not self.sparse:
            raise IndexProblem(f"The vector index in {self.path} holds no sparse vectors.", leg="vectors")
        if not ids:
            return []
        with _border(self.path):
            query = engine.Query.Nearest(engine.SparseVector(ids, values), using=SPARSE)
        return self._nearest(query, filter, limit)

    def _nearest(self, query: engine.Query, filter: Filter, limit: int) -> list[LegHit]:
        if limit < 1 or allows_nothing(filter):
            return []
        may = allowed(filter)
        whose = self._present.condition(may)
        seen: list[tuple[Remembered, float]] = []
        with self._using() as shard:
            for _ in range(TRIES):
                found = self._asked(shard, query, filter, whose, limit)
                seen = [(one, score) for one, score in found if one is not None and one.visible in may]
                if len(seen) == len(found):
                    break
                # some came or went since that was planned, and took places of others: named as what may be seen, those
                # of other scopes cannot
                whose = Condition(False, may)
        return best([LegHit(one[0], one[1], score, one[2]) for one, score in seen], limit)

    def _asked(
        self, shard: engine.EdgeShard, query: engine.Query, filter: Filter, whose: Condition, limit: int
    ) -> list[tuple[Remembered | None, float]]:
        """Points with their scores, best first, all that may be among the best `limit`; None for what is gone."""
        request = engine.QueryRequest(
            limit=limit + TIE_MARGIN,
            query=query,
            filter=asked_for(filter, whose),
            params=engine.SearchParams(exact=self._expected < GRAPH_FROM, hnsw_ef=GRAPH_WIDTH),
            with_payload=False,
        )
        moment = self._memory.moment()
        points = shard.query(request)
        lowest = points[limit - 1].score if len(points) > limit else float("-inf")
        # ids are made when they are looked at: not of those that cannot be among the best
        scored = [(cast("uuid.UUID", point.id), point.score) for point in points if point.score >= lowest]
        held = self._held(shard, [one for one, _ in scored], moment)
        return [(one, score) for one, (_, score) in zip(held, scored, strict=True)]

    def _held(self, shard: engine.EdgeShard, ids: Sequence[uuid.UUID], moment: int) -> list[Remembered | None]:
        """What is known of each of these points, the engine asked for the rest; None for one that is gone."""
        known = self._memory.known
        held = [known.get(one.int) for one in ids]
        missing = [id for id, one in zip(ids, held, strict=True) if one is None]
        if not missing:
            return held
        wanted = cast("list[engine.PointId]", missing)
        records = shard.retrieve(wanted, ["document_id", "traits", "visible"], False)
        fresh = {cast("uuid.UUID", record.id).int: _remembered(str(record.id), record.payload) for record in records}
        self._memory.learn(fresh, moment)
        return [one or fresh.get(id.int) for id, one in zip(ids, held, strict=True)]

    def ids(self) -> Iterator[tuple[str, str]]:
        """(document_id, passage_id) of every point, by passage id. Raises IndexDamaged."""
        for record in self._scroll(with_vector=False):
            yield document_of(record.payload), str(record.id)

    def _vectors(self) -> Iterator[tuple[str, object]]:
        for record in self._scroll(with_vector=True):
            yield str(record.id), record.vector

    def _vectors_of(self, passage_ids: Sequence[str]) -> Mapping[str, object]:
        with self._using() as shard:
            found = shard.retrieve([uuid.UUID(one) for one in passage_ids], False, [DENSE])
        return {str(record.id): record.vector for record in found}

    def close(self) -> None:
        """Wait for running calls, then let the files and their lock go; safe to call twice."""
        if not self._leave():
            return
        with _border(self.path):
            if self._unflushed and not self._torn:
                self._shard.flush()
            self._shard.close()

    @contextmanager
    def _using(self) -> Iterator[engine.EdgeShard]:
        with self._inside(), _border(self.path):
            yield self._shard

    def _scroll(self, *, with_vector: bool, limit: int | None = None) -> Iterator[engine.Record]:
        offset = None
        while True:
            request = engine.ScrollRequest(
                offset=offset,
                limit=limit or self.page,
                with_payload=["document_id"],
                with_vector=[DENSE] if with_vector else False,
            )
            with self._using() as shard:
                records, offset = shard.scroll(request)
            yield from records
            if offset is None or limit is not None:
                return

    def _examine(self) -> None:
        """A few stored vectors are whole and found, and the indexes that filters use know every point."""
        sample = list(self._scroll(with_vector=True, limit=SAMPLE))
        broken = [str(record.id) for record in sample if not packed.is_unit(record.vector, self.dims)]
        if sample and not broken:
            wanted = sample[len(sample) // 2]
            nearest = engine.QueryRequest(limit=1, query=engine.Query.Nearest(cast("list[float]", wanted.vector)))
            with self._using() as shard:
                best = shard.query(nearest)
            broken = [] if best and best[0].score > 0.999 else [str(wanted.id)]
        if broken:
            raise IndexDamaged(f"The vector index in {self.path} holds broken vectors: {broken[:3]}.", leg="vectors")
        self._examine_filters()

    def _examine_filters(self) -> None:
        count = self.count()
        for name in SINGLE:
            with self._using() as shard:
                groups = _groups(shard, name)
            known = sum(groups.values())
            if known != count:
                message = f"The vector index in {self.path} finds {known} of {count} points by {name}."
                raise IndexDamaged(message, leg="vectors")
            if name == "visible":
                self._present = Present(groups)
            elif name == "kind":
                self._kinds = Present(groups)

    def _point(self, entry: VectorEntry) -> engine.Point:
        held = payload(entry)
        values = packed.dense(entry.vector, self.dims, f"Passage {entry.passage_id}")
        ids, weights = packed.sparse(entry.sparse, f"Passage {entry.passage_id}")
        with _border(self.path):
            if not self.sparse:
                return engine.Point(entry.passage_id, values, held)
            both: engine.Vector = {DENSE: values, SPARSE: engine.SparseVector(ids, weights)}
            return engine.Point(entry.passage_id, both, held)


def _sync_log(folder: Path) -> None:
    left = [*sorted(folder.iterdir()), folder]
    while left:
        try:
            fd = os.open(left[0], os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # the engine prepares its next file under another name: look again
            left = [*sorted(folder.iterdir()), folder]
            continue
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        left.pop(0)


def require_room(path: Path, free: Callable[[Path], int] | None = None) -> None:
    """The engine writes into sparse mapped files: on a full disk the process would end by SIGBUS. Raises DiskFull, and
    IndexDamaged where there is no such directory any more."""
    try:
        left = free(path) if free is not None else shutil.disk_usage(path).free
    except FileNotFoundError as error:
        raise IndexDamaged(f"The vector index in {path} is gone.", path=str(path)) from error
    if left < MIN_FREE:
        raise DiskFull(f"Only {left >> 20} MiB are free for the vector index in {path}.", path=str(path))


def _remembered(passage: str, held: Mapping[str, Any] | None) -> Remembered:
    return Remembered(document_of(held), passage, traits_of(held), str((held or {}).get("visible", "")))


def _groups(shard: engine.EdgeShard, name: str) -> dict[str, int]:
    """How many points have each value of a field."""
    every = max(1, shard.info().points_count)
    groups = shard.facet(engine.FacetRequest(key=name, limit=every, exact=True))
    return {str(group.value): group.count for group in groups.hits}


@contextmanager
def _border(path: Path) -> Iterator[None]:
    """The engine's border: its errors are plain `Exception`s and its panics no `Exception`s at all."""
    try:
        yield
    except (IndexProblem, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # border: only the ways to end a program pass through
        busy = "WouldBlock" in str(error)
        message = f"The vector index in {path} is in use elsewhere." if busy else f"The vector index in {path}: {error}"
        kind = IndexProblem if busy else IndexDamaged
        raise kind(message, leg="vectors", path=str(path)) from error
