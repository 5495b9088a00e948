"""A stand-in for a Qdrant server: the part of its REST interface that memoryd uses, answered by the client's local mode.

It shows that what the client sends over a real connection is well formed and how memoryd bears failures; how the real
server works it cannot show.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import warnings
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from qdrant_client import QdrantClient, models


class StandIn(ThreadingHTTPServer):
    """One server on a free port of the loopback; `port` starts it again where a former one was."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int = 0, client: QdrantClient | None = None) -> None:
        self.client = client or QdrantClient(":memory:")
        self.made: dict[str, dict[str, Any]] = {}
        self.fields: dict[str, list[str]] = {}
        self.asked: list[str] = []
        self.keys: list[str | None] = []
        self.key: str | None = None
        self.version = "1.20.0"
        self.trouble: Callable[[str, str], int | None] = lambda _method, _path: None
        """Gives the status of an answer that is none; it may also wait."""
        self.one = threading.Lock()
        self._connections: list[socket.socket] = []
        super().__init__(("127.0.0.1", port), _Handler)
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def get_request(self) -> Any:
        connection, peer = super().get_request()
        self._connections.append(connection)
        return connection, peer

    def handle_error(self, *_: Any) -> None:
        """A client that went away is nobody's failure."""

    def stop(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()
        for connection in self._connections:
            with contextlib.suppress(OSError):  # closed already
                connection.shutdown(socket.SHUT_RDWR)

    def answer(self, method: str, path: str, body: Any) -> Any:
        """The `result` of one request."""
        with self.one, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the local mode says that it keeps no payload indexes
            for verb, pattern, work in _ROUTES:
                found = re.fullmatch(pattern, path)
                if verb == method and found:
                    return work(self, *found.groups(), body)
        raise LookupError(path)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body go out as two writes: the second would wait 40 ms

    def _serve(self) -> None:
        server: Any = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        server.asked.append(f"{self.command} {self.path}")
        server.keys.append(self.headers.get("api-key"))
        status = server.trouble(self.command, path)
        if status is None and server.key is not None and self.headers.get("api-key") != server.key:
            status = 401
        if status is not None:
            self._send(status, {"status": {"error": "in trouble"}, "time": 0.0})
            return
        if path == "/":
            self._send(200, {"title": "stand-in", "version": server.version, "commit": None})
            return
        try:
            result = server.answer(self.command, path, json.loads(body) if body else None)
        except ValueError as error:
            self._send(404 if "not found" in str(error) else 400, {"status": {"error": str(error)}, "time": 0.0})
            return
        self._send(200, {"result": result, "status": "ok", "time": 0.0})

    do_GET = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815 - names that the library looks for

    def _send(self, status: int, data: Any) -> None:
        raw = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: Any) -> None:
        pass


def _plain(found: Any) -> Any:
    return found.model_dump(mode="json") if hasattr(found, "model_dump") else found


def _create(server: StandIn, name: str, body: Any) -> Any:
    asked = models.CreateCollection.model_validate(body)
    if server.client.collection_exists(name):
        raise ValueError(f"Collection {name} already exists")
    server.made[name] = body
    server.fields[name] = []
    return server.client.create_collection(
        name, vectors_config=asked.vectors, sparse_vectors_config=asked.sparse_vectors
    )


def _index(server: StandIn, name: str, body: Any) -> Any:
    assert server.client.count(name).count == 0, "indexes are made before points are stored"
    server.fields[name].append(f"{body['field_name']} {body['field_schema']}")
    return _plain(server.client.create_payload_index(name, body["field_name"], body["field_schema"]))


def _upsert(server: StandIn, name: str, body: Any) -> Any:
    return _plain(server.client.upsert(name, models.PointsList.model_validate(body).points))


def _delete(server: StandIn, name: str, body: Any) -> Any:
    chosen = models.PointIdsList if "points" in body else models.FilterSelector
    return _plain(server.client.delete(name, chosen.model_validate(body)))


def _query(server: StandIn, name: str, body: Any) -> Any:
    asked = models.QueryRequest.model_validate(body)
    query = asked.query.nearest if isinstance(asked.query, models.NearestQuery) else asked.query
    return _plain(
        server.client.query_points(
            name,
            query=query,
            using=asked.using,
            query_filter=asked.filter,
            limit=asked.limit,
            with_payload=asked.with_payload,
        )
    )


def _scroll(server: StandIn, name: str, body: Any) -> Any:
    asked = models.ScrollRequest.model_validate(body)
    points, offset = server.client.scroll(
        name,
        limit=asked.limit,
        offset=asked.offset,
        with_payload=asked.with_payload,
        with_vectors=asked.with_vector,
    )
    return {"points": [_plain(one) for one in points], "next_page_offset": offset}


def _retrieve(server: StandIn, name: str, body: Any) -> Any:
    asked = models.PointRequest.model_validate(body)
    found = server.client.retrieve(name, asked.ids, asked.with_payload, asked.with_vector)
    return [_plain(one) for one in found]


_ROUTES: tuple[tuple[str, str, Callable[..., Any]], ...] = (
    ("GET", r"/collections", lambda server, _: _plain(server.client.get_collections())),
    ("GET", r"/collections/([^/]+)/exists", lambda s, name, _: {"exists": s.client.collection_exists(name)}),
    ("GET", r"/collections/([^/]+)", lambda s, name, _: _plain(s.client.get_collection(name))),
    ("PUT", r"/collections/([^/]+)", _create),
    ("DELETE", r"/collections/([^/]+)", lambda s, name, _: s.client.delete_collection(name)),
    ("PUT", r"/collections/([^/]+)/index", _index),
    ("PUT", r"/collections/([^/]+)/points", _upsert),
    ("POST", r"/collections/([^/]+)/points/delete", _delete),
    ("POST", r"/collections/([^/]+)/points/query", _query),
    ("POST", r"/collections/([^/]+)/points/scroll", _scroll),
    ("POST", r"/collections/([^/]+)/points/count", lambda s, name, _: _plain(s.client.count(name))),
    ("POST", r"/collections/([^/]+)/points", _retrieve),
)
