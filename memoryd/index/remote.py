"""How are the vectors of one generation kept in a collection of a Qdrant server?

The same contract as the embedded engine (`index.engine`). Whether the collection is the right one is asked at the first
contact, not before: a server that is away keeps nobody from opening a home. Search is exact below EXACT_UP_TO points,
and by the server's own index beyond.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, Protocol

from memoryd.errors import IndexDamaged, IndexProblem, VectorServerProblem
from memoryd.index import packed
from memoryd.index.counted import Counted
from memoryd.index.cut import best
from memoryd.index.engine import (
    TIE_MARGIN,
    VectorEntry,
    allows_nothing,
    conditions,
    document_of,
    payload,
    traits_of,
)
from memoryd.index.qdrant import Found, Layout, Point, Server
from memoryd.records import Filter, LegHit

UPSERT_POINTS = 100
"""Points of one request: about 2 MB at 1024 dimensions; the server takes 32 MB."""
DELETE_DOCUMENTS = 500
EXACT_UP_TO = 100_000


class Mark(Protocol):
    """Whether the collection was made: known across restarts, so that a lost one is not taken for a new one."""

    def made(self) -> bool:
        """Whether `note_made` was called in this generation's life."""

    def note_made(self) -> None:
        """Remember it durably. Raises OSError."""


class Plan(NamedTuple):
    """A collection by name and how it is spread over a cluster."""

    name: str
    shards: int
    replicas: int


class RemoteIndex(Counted):
    """One collection. Searches may run in any thread while one thread writes."""

    page = 500

    def __init__(self, server: Server, plan: Plan, mark: Mark, dims: int, *, sparse: bool) -> None:
        """The server is this index's own: it is closed with it. Nothing is asked yet."""
        super().__init__(plan.name, dims, sparse=sparse)
        self.name = plan.name
        self._server = server
        self._plan = plan
        self._mark = mark
        self._met = threading.Event()
        self._meeting = threading.Lock()

    def meet(self) -> None:
        """See to it that the collection is there and the right one, now where the server lets us, else at first use.

        Raises IndexDamaged where it is gone or of another layout.
        """
        with suppress(VectorServerProblem), self._using():
            pass

    def replace(self, document_ids: Sequence[str], entries: Sequence[VectorEntry]) -> None:
        """See `VectorEngine`. Where a request fails, some documents may be written and others not: do it again."""
        points = [self._point(entry) for entry in entries]
        kept = [entry.passage_id for entry in entries]
        with self._writing, self._using() as server:
            self._steps += 1
            try:
                before = server.count(self.name)
                for start in range(0, len(document_ids), DELETE_DOCUMENTS):
                    server.delete(self.name, document_ids[start : start + DELETE_DOCUMENTS], kept)
                for start in range(0, len(points), UPSERT_POINTS):
                    server.upsert(self.name, points[start : start + UPSERT_POINTS], sparse=self.sparse)
                self._expected += server.count(self.name) - before
            finally:
                self._steps += 1

    def flush(self) -> None:
        """Every write was applied before its call ended; this asks whether the server still calls the collection whole.

        Raises IndexDamaged where it does not, VectorServer kinds.
        """
        with self._writing, self._using() as server:
            self._require(server.layout(self.name))

    def settle(self) -> None:
        """As `flush`: the server arranges its points by itself."""
        self.flush()

    def count(self) -> int:
        """Points in the collection, exactly; one round trip."""
        with self._using() as server:
            return server.count(self.name)

    def few(self, kind: str, most: int) -> bool:
        """False: it would cost a round trip."""
        del kind, most
        return False

    def search(self, vector: bytes, filter: Filter, limit: int) -> list[LegHit]:
        """The `limit` nearest passages by cosine, best first, equal scores by id. Raises IndexProblem kinds."""
        return self._nearest(packed.dense(vector, self.dims, "The query"), filter, limit)

    def search_sparse(self, weights: bytes, filter: Filter, limit: int) -> list[LegHit]:
        """The `limit` passages with the largest product of sparse weights. Raises IndexProblem kinds."""
        asked = packed.sparse(weights, "The query")
        if not self.sparse:
            raise IndexProblem(f"The collection {self.name} holds no sparse vectors.", leg="vectors")
        if not asked[0]:
            return []
        return [hit for hit in self._nearest(asked, filter, limit) if hit.score > 0]

    def _nearest(self, query: list[float] | tuple[list[int], list[float]], filter: Filter, limit: int) -> list[LegHit]:
        if limit < 1 or allows_nothing(filter):
            return []
        exact = self._expected <= EXACT_UP_TO
        with self._using() as server:
            found = server.nearest(self.name, query, conditions(filter), limit + TIE_MARGIN, exact=exact)
        return best(
            [LegHit(document_of(one.payload), one.id, one.score, traits_of(one.payload)) for one in found], limit
        )

    def ids(self) -> Iterator[tuple[str, str]]:
        """(document_id, passage_id) of every point, by passage id. Raises IndexProblem kinds."""
        for one in self._scroll(vectors=False):
            yield document_of(one.payload), one.id

    def _vectors(self) -> Iterator[tuple[str, object]]:
        for one in self._scroll(vectors=True):
            yield one.id, one.vector

    def _vectors_of(self, passage_ids: Sequence[str]) -> Mapping[str, object]:
        with self._using() as server:
            return {one.id: one.vector for one in server.fetch(self.name, passage_ids)}

    def close(self) -> None:
        """Wait for running calls, then let the connections go; safe to call twice."""
        if self._leave():
            self._server.close()

    def _scroll(self, *, vectors: bool) -> Iterator[Found]:
        offset = None
        while True:
            with self._using() as server:
                page, offset = server.page(self.name, offset, vectors=vectors, size=self.page)
            yield from page
            if offset is None:
                return

    @contextmanager
    def _using(self) -> Iterator[Server]:
        with self._inside():
            self._meet()
            yield self._server

    def _meet(self) -> None:
        if self._met.is_set():
            return
        with self._meeting:
            if not self._met.is_set():
                self._make_or_require()
                self._met.set()

    def _make_or_require(self) -> None:
        self._server.require_fit()
        if self._mark.made():
            self._require(self._server.layout(self.name))
            return
        layout = Layout(self.dims, self.sparse)
        self._server.make(self.name, layout, shards=self._plan.shards, replicas=self._plan.replicas)
        self._mark.note_made()

    def _require(self, found: Layout | None) -> None:
        if found is None:
            raise IndexDamaged(f"There is no collection {self.name} on {self._server.url}.", leg="vectors")
        if found != Layout(self.dims, self.sparse):
            message = f"The collection {self.name} is of {found}, wanted is {Layout(self.dims, self.sparse)}."
            raise IndexDamaged(message, leg="vectors")

    def _point(self, entry: VectorEntry) -> Point:
        whose = f"Passage {entry.passage_id}"
        try:
            passage = str(uuid.UUID(entry.passage_id))
        except ValueError as error:
            raise IndexProblem(f"{whose} has an id that is no UUID.", leg="vectors") from error
        values = packed.dense(entry.vector, self.dims, whose)
        return Point(passage, values, packed.sparse(entry.sparse, whose), payload(entry))
