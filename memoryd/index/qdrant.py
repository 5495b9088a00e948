"""How is a Qdrant server asked, and what does it mean when it does not answer, refuses, or answers something else?

Optional (extra `qdrant`). Nothing here waits longer than `timeout_seconds` for one request. After a
server was found away, calls fail at once for AWAY_SECONDS; then the next one tries again, so that a leg comes back by
itself. Every write waits until the server applied it and is idempotent, so it may be sent again.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import httpx
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from memoryd.errors import (
    IndexDamaged,
    IndexProblem,
    VectorServerAway,
    VectorServerRefused,
    VectorServerUnfit,
)
from memoryd.index.engine import DENSE, INDEXED, SPARSE

AWAY_SECONDS = 10.0
PAUSES = (0.2, 1.0)
"""Seconds before a write is sent again."""
OLDEST = (1, 10)
"""The version of the server from which on it answers all that is asked here; of the same major version."""
GRAPH_WIDTH = 256
"""Points that a search in the server's own index keeps in view."""
PORT = 6333
"""Where the server is asked when the URL names no port."""
SAID = 200
"""Characters of a server's own words that are handed on."""
Result = TypeVar("Result")


class Layout(NamedTuple):
    """What a collection is made for."""

    dims: int
    sparse: bool


class Point(NamedTuple):
    """What is stored under one id; `sparse` is (token ids, weights)."""

    id: str
    dense: list[float]
    sparse: tuple[list[int], list[float]]
    payload: dict[str, Any]


class Found(NamedTuple):
    """One point as the server gives it; `vector` is None where not asked for."""

    id: str
    score: float
    payload: dict[str, Any] | None
    vector: list[float] | None


@dataclass(frozen=True, slots=True)
class Access:
    """Where the server is and how it lets us in. `key` is asked at each connection, so a changed one is taken up."""

    url: str
    key: Callable[[], str | None]
    timeout_seconds: int
    direct: bool
    """Whether proxies that the environment names are passed by."""


class Server:
    """One server or cluster; any thread may ask.

    Everything raises VectorServerProblem kinds, and IndexDamaged where a collection is gone.
    """

    def __init__(
        self,
        access: Access,
        *,
        connect: Callable[[Access], QdrantClient] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Nothing is asked yet."""
        self._access = access
        self._connect = connect or _client
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._client: QdrantClient | None = None
        self._away: VectorServerAway | None = None
        self._away_until = 0.0

    @property
    def url(self) -> str:
        """Where it is."""
        return self._access.url

    # -- what it is

    def require_fit(self) -> None:
        """Raises VectorServerUnfit where it is no Qdrant server of a version that is known to work."""
        told = self._ask(lambda client: client.info())
        numbers = str(told.version).split("-")[0].split(".")[:2]
        try:
            found = (int(numbers[0]), int(numbers[1]))
        except (ValueError, IndexError):
            found = (0, 0)
        if found[0] != OLDEST[0] or found < OLDEST:
            wanted = f"{OLDEST[0]}.{OLDEST[1]} or a later {OLDEST[0]}.x"
            raise VectorServerUnfit(f"{self.url} is version {told.version}; memoryd needs {wanted}.", url=self.url)

    def collections(self) -> list[str]:
        """Names of all its collections."""
        return [one.name for one in self._ask(lambda client: client.get_collections()).collections]

    # -- one collection

    def make(self, name: str, layout: Layout, *, shards: int, replicas: int) -> None:
        """An empty collection with an index of each field that filters use; one of that name is removed before."""
        self.remove(name)
        dense = models.VectorParams(size=layout.dims, distance=models.Distance.COSINE)
        sparse = {SPARSE: models.SparseVectorParams()} if layout.sparse else None
        self._try(
            lambda client: client.create_collection(
                name,
                vectors_config=dense,
                sparse_vectors_config=sparse,
                shard_number=shards,
                replication_factor=replicas,
                write_consistency_factor=replicas // 2 + 1,
            ),
            pauses=(),  # what was made although no answer came is removed before the next try
        )
        for field in INDEXED:
            self._write(partial(_index_field, name=name, field=field))

    def remove(self, name: str) -> None:
        """Let a collection go, if there is one."""
        self._write(lambda client: client.delete_collection(name))

    def layout(self, name: str) -> Layout | None:
        """What it was made for; None where there is none. Raises IndexDamaged where the server calls it broken."""
        if not self._ask(lambda client: client.collection_exists(name)):
            return None
        told = self._ask(lambda client: client.get_collection(name))
        if str(getattr(told.status, "value", told.status)) == "red":
            raise IndexDamaged(f"The server calls the collection {name} broken.", leg="vectors", collection=name)
        dense, sparse = told.config.params.vectors, told.config.params.sparse_vectors
        if isinstance(dense, dict):
            dense = dense.get(DENSE)
        return Layout(dense.size if dense is not None else 0, SPARSE in (sparse or {}))

    def count(self, name: str) -> int:
        """Points in it, exactly."""
        return int(self._ask(lambda client: client.count(name, exact=True)).count)

    def upsert(self, name: str, points: Sequence[Point], *, sparse: bool) -> None:
        """Store these points, over those of the same ids; returns when searches see them."""
        held = [
            models.PointStruct(
                id=one.id,
                vector={DENSE: one.dense, SPARSE: models.SparseVector(indices=one.sparse[0], values=one.sparse[1])}
                if sparse
                else one.dense,
                payload=one.payload,
            )
            for one in points
        ]
        self._write(lambda client: client.upsert(name, held, wait=True))

    def delete(self, name: str, document_ids: Sequence[str], kept: Sequence[str]) -> None:
        """Remove the points of these documents but those `kept`; returns when searches see it."""
        spared = [models.HasIdCondition(has_id=list(kept))] if kept else None
        gone = models.Filter(must=[_any_of("document_id", document_ids)], must_not=spared)
        self._write(lambda client: client.delete(name, models.FilterSelector(filter=gone), wait=True))

    def nearest(
        self,
        name: str,
        query: list[float] | tuple[list[int], list[float]],
        conditions: Sequence[tuple[str, Sequence[str]]],
        limit: int,
        *,
        exact: bool,
    ) -> list[Found]:
        """Best points for a dense vector, or for (token ids, weights) of a sparse one."""
        sparse = isinstance(query, tuple)
        wanted = models.SparseVector(indices=query[0], values=query[1]) if isinstance(query, tuple) else query
        points = self._ask(
            lambda client: client.query_points(
                name,
                query=wanted,
                using=SPARSE if sparse else None,
                query_filter=models.Filter(must=[_any_of(field, values) for field, values in conditions]),
                search_params=models.SearchParams(exact=exact, hnsw_ef=GRAPH_WIDTH),
                limit=limit,
                with_payload=["document_id", "traits"],
            )
        ).points
        return [Found(str(one.id), one.score, one.payload, None) for one in points]

    def page(self, name: str, offset: Any, *, vectors: bool, size: int) -> tuple[list[Found], Any]:
        """The next points by id, and the offset of the page after them (None: that was the last one)."""
        records, following = self._ask(
            lambda client: client.scroll(
                name, limit=size, offset=offset, with_payload=["document_id"], with_vectors=vectors
            )
        )
        return [Found(str(one.id), 0.0, one.payload, _dense(one.vector)) for one in records], following

    def fetch(self, name: str, ids: Sequence[str]) -> list[Found]:
        """Those of the points that are there, with their vectors."""
        records = self._ask(lambda client: client.retrieve(name, list(ids), with_payload=False, with_vectors=True))
        return [Found(str(one.id), 0.0, None, _dense(one.vector)) for one in records]

    def close(self) -> None:
        """Let the connections go; safe to call twice."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    # -- one request

    def _ask(self, run: Callable[[QdrantClient], Result]) -> Result:
        """One answer. A kept connection that the server closed meanwhile is no reason to fail."""
        return self._try(run, pauses=(0.0,))

    def _write(self, run: Callable[[QdrantClient], Any]) -> None:
        self._try(run, pauses=PAUSES)

    def _try(self, run: Callable[[QdrantClient], Result], *, pauses: Sequence[float]) -> Result:
        """Once and after each pause; nobody waits for a second time limit."""
        self._require_there()
        left = list(pauses)
        while True:
            try:
                result = run(self._connected())
            except (ResponseHandlingException, UnexpectedResponse, ResourceExhaustedResponse, ValueError) as error:
                problem = self._meaning(error)
                if not isinstance(problem, VectorServerAway):
                    if isinstance(problem, VectorServerRefused):
                        self._reconnect()
                    raise problem from error
                if not left or _is_timeout(error):
                    self._note_away(problem)
                    raise problem from error
                self._sleep(left.pop(0))
                continue
            self._away = None
            return result

    def _require_there(self) -> None:
        away = self._away
        if away is not None and self._clock() < self._away_until:
            raise VectorServerAway(away.message, **away.details)

    def _note_away(self, problem: VectorServerAway) -> None:
        self._away_until = self._clock() + AWAY_SECONDS
        self._away = problem
        self._reconnect()

    def _reconnect(self) -> None:
        """The next call connects anew, with the key as it is then; calls under way keep what they have."""
        with self._lock:
            self._client = None

    def _connected(self) -> QdrantClient:
        with self._lock:
            if self._client is None:
                self._client = self._connect(self._access)
            return self._client

    def _meaning(self, error: Exception) -> IndexProblem:
        if isinstance(error, UnexpectedResponse):
            return self._status(error.status_code or 0, error.content)
        if isinstance(error, ResponseHandlingException) and isinstance(error.source, httpx.HTTPError):
            what = str(error.source) or type(error.source).__name__
            return VectorServerAway(f"The Qdrant server at {self.url} does not answer: {what}.", url=self.url)
        if isinstance(error, ResourceExhaustedResponse):
            return VectorServerAway(f"The Qdrant server at {self.url} is overloaded.", url=self.url)
        if isinstance(error, ResponseHandlingException | json.JSONDecodeError | UnicodeDecodeError):
            return VectorServerUnfit(f"What {self.url} answers is not what a Qdrant server says.", url=self.url)
        if "not found" in str(error):
            return IndexDamaged(f"The collection is gone: {error}.", leg="vectors")
        return VectorServerUnfit(f"{self.url}: {str(error)[:SAID]}", url=self.url)

    def _status(self, status: int, content: bytes) -> IndexProblem:
        said = "".join(sign if sign.isprintable() else " " for sign in content[:SAID].decode("utf-8", "replace"))
        if status in (401, 403):
            return VectorServerRefused(f"The Qdrant server at {self.url} refuses the key ({status}).", url=self.url)
        if status == 404 and "ollection" in said:
            return IndexDamaged(f"The collection is gone from {self.url}: {said}", leg="vectors")
        if status == 429 or status >= 500:
            return VectorServerAway(f"The Qdrant server at {self.url} fails ({status}): {said}", url=self.url)
        return VectorServerUnfit(f"{self.url} does not take the request ({status}): {said}", url=self.url)


def _client(access: Access) -> QdrantClient:
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it writes a line for each request
    key = access.key()
    return QdrantClient(
        url=access.url,
        port=PORT,
        headers={"api-key": key} if key else None,
        timeout=access.timeout_seconds,
        check_compatibility=False,
        limits=httpx.Limits(max_connections=16, max_keepalive_connections=4),
        trust_env=not access.direct,
        follow_redirects=False,
    )


def _index_field(client: QdrantClient, name: str, field: str) -> None:
    client.create_payload_index(name, field, models.PayloadSchemaType.KEYWORD, wait=True)


def _is_timeout(error: Exception) -> bool:
    return isinstance(error, ResponseHandlingException) and isinstance(error.source, httpx.TimeoutException)


def _any_of(field: str, values: Sequence[str]) -> models.FieldCondition:
    return models.FieldCondition(key=field, match=models.MatchAny(any=list(values)))


def _dense(vector: Any) -> list[float] | None:
    found = vector.get(DENSE) if isinstance(vector, dict) else vector
    return list(found) if found is not None else None
