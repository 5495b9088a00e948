"""Behaviour of memoryd.index.qdrant over a real connection: what is sent, and how failures are borne.

At the other end stands `tests.standin`; the contract suite runs on a real server where QDRANT_URL names one.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from memoryd.errors import IndexDamaged, VectorServerAway, VectorServerRefused, VectorServerUnfit
from tests.contracts.test_vector_engines import Made
from tests.index.entries import DIMS, EVERYWHERE, entry, sparse, unit

pytest.importorskip("qdrant_client")  # Reason: an optional part

from memoryd.index import qdrant as module
from memoryd.index.qdrant import Access, Server
from memoryd.index.remote import Plan, RemoteIndex
from tests.standin import StandIn

pytestmark = pytest.mark.extras
NAME = "memoryd-0123-1"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.fixture
def standin() -> Iterator[StandIn]:
    server = StandIn()
    yield server
    server.stop()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def asking(url: str, clock: Clock, *, key=lambda: None, timeout: int = 5) -> Server:
    return Server(Access(url, key, timeout, direct=True), clock=clock, sleep=clock.sleep)


def index_on(server: Server, *, shards: int = 1, replicas: int = 1, with_sparse: bool = False) -> RemoteIndex:
    return RemoteIndex(server, Plan(NAME, shards, replicas), Made(), DIMS, sparse=with_sparse)


@pytest.fixture
def index(standin, clock) -> Iterator[RemoteIndex]:
    made = index_on(asking(standin.url, clock))
    yield made
    made.close()


def write(index: RemoteIndex, *names: str) -> None:
    entries = [entry(name) for name in names]
    index.replace([one.document_id for one in entries], entries)


def test_a_collection_is_made_for_its_cluster_and_its_filters(standin, clock):
    """Shards, replicas, a majority of which must have a write, and an index of every field that filters use."""
    index = index_on(asking(standin.url, clock), shards=3, replicas=3, with_sparse=True)
    index.meet()
    made = standin.made[NAME]
    assert (made["shard_number"], made["replication_factor"], made["write_consistency_factor"]) == (3, 3, 2)
    assert (made["vectors"]["size"], made["vectors"]["distance"]) == (DIMS, "Cosine")
    assert list(made["sparse_vectors"]) == ["sparse"]
    assert sorted(standin.fields[NAME]) == sorted(
        f"{name} keyword" for name in ("visible", "kind", "type", "document_id", "ancestors")
    )
    index.close()


def test_every_write_waits_until_the_server_applied_it(standin, index):
    write(index, "a.md")
    index.replace([entry("a.md").document_id], [])
    writes = [one for one in standin.asked if "/points?" in one or "/points/delete?" in one]
    assert len(writes) == 3 and all("wait=true" in one for one in writes)


def test_a_bulk_goes_up_in_batches(standin, index, monkeypatch):
    monkeypatch.setattr("memoryd.index.remote.UPSERT_POINTS", 10)
    write(index, *[f"{n}.md" for n in range(25)])
    assert len([one for one in standin.asked if one.startswith("PUT") and "/points?" in one]) == 3
    assert index.count() == 25


def test_a_server_that_is_away_fails_at_once_and_is_found_again(standin, clock, index):
    write(index, "a.md")
    standin.stop()
    with pytest.raises(VectorServerAway) as caught:
        index.search(unit(1), EVERYWHERE, 5)
    assert standin.url in caught.value.message and "`vector.url`" in caught.value.next_step
    back = StandIn(standin.server_address[1], standin.client)
    try:
        for call in (index.count, index.flush, lambda: write(index, "b.md")):
            with pytest.raises(VectorServerAway):
                call()
        assert back.asked == []  # nobody waits for a server that was just found away
        clock.now += module.AWAY_SECONDS
        assert [hit.document_id for hit in index.search(unit(1), EVERYWHERE, 5)] == [entry("a.md").document_id]
        assert index.count() == 1
    finally:
        back.stop()


def test_a_server_that_was_started_again_between_two_calls_is_no_failure(standin, index):
    """The connections kept from before are dead; nobody is told."""
    write(index, "a.md")
    standin.stop()
    back = StandIn(standin.server_address[1], standin.client)
    try:
        assert index.count() == 1
        write(index, "b.md")
        assert index.count() == 2
    finally:
        back.stop()


def test_a_server_that_does_not_answer_is_waited_for_once(standin, clock):
    hung = threading.Event()
    index = index_on(asking(standin.url, clock, timeout=1))
    index.meet()
    standin.asked.clear()
    standin.trouble = lambda *_: hung.wait(30) and None
    try:
        for _ in range(3):
            with pytest.raises(VectorServerAway, match="does not answer"):
                index.search(unit(1), EVERYWHERE, 5)
        assert len(standin.asked) == 1
    finally:
        hung.set()
    index.close()


def test_a_port_where_nobody_takes_a_connection_is_left_after_the_time_limit(clock):
    """A full backlog: the connection is never made."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        filling = [socket.socket() for _ in range(4)]
        for one in filling:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        with pytest.raises(VectorServerAway):
            index_on(asking(f"http://127.0.0.1:{port}", clock, timeout=1)).count()
        for one in filling:
            one.close()


def test_a_write_is_sent_again_while_the_server_fails(standin, clock, index):
    write(index, "a.md")
    failures = [503, 503]
    standin.trouble = lambda method, path: failures.pop() if method == "PUT" and failures else None
    write(index, "b.md")
    assert clock.slept == list(module.PAUSES) and index.count() == 2
    failures = [500] * 9
    with pytest.raises(VectorServerAway, match="500"):
        write(index, "c.md")


def test_a_write_that_failed_half_way_is_whole_when_done_again(standin, clock, index):
    write(index, "a.md", "b.md")
    standin.trouble = lambda method, path: 503 if method == "PUT" else None
    with pytest.raises(VectorServerAway):
        write(index, "a.md", "c.md")
    standin.trouble = lambda *_: None
    clock.now += module.AWAY_SECONDS
    write(index, "a.md", "c.md")
    assert {found for found, _ in index.ids()} == {entry(name).document_id for name in ("a.md", "b.md", "c.md")}


def test_a_key_is_sent_and_a_changed_one_is_taken_up(standin, clock):
    keys = ["wrong"]
    standin.key = "right"
    index = index_on(asking(standin.url, clock, key=lambda: keys[0]))
    with pytest.raises(VectorServerRefused) as caught:
        index.count()
    assert "api_key_file" in caught.value.next_step
    keys[0] = "right"
    assert index.count() == 0
    assert set(standin.keys) == {"wrong", "right"}
    index.close()


def test_a_key_stands_in_no_message_and_no_log(standin, clock, caplog):
    secret = "s3cr3t-k3y-of-the-server"
    index = index_on(asking(standin.url, clock, key=lambda: secret))
    standin.key = "another"
    with caplog.at_level(logging.DEBUG), pytest.raises(VectorServerRefused) as caught:
        index.count()
    standin.key = secret
    with caplog.at_level(logging.DEBUG):
        index.count()
        standin.trouble = lambda *_: 500
        with pytest.raises(VectorServerAway) as second:
            index.count()
    shown = f"{caught.value.to_dict()} {second.value.to_dict()} {index.__dict__} {caplog.text}"
    assert secret in standin.keys and secret not in shown
    index.close()


def test_a_redirect_takes_no_key_elsewhere(standin, clock):
    other = StandIn()
    try:
        index = index_on(asking(standin.url, clock, key=lambda: "key"))
        standin.trouble = lambda *_: 307
        with pytest.raises(VectorServerUnfit, match="307"):
            index.count()
        assert other.asked == []
    finally:
        other.stop()


def test_on_this_machine_no_proxy_sees_a_request(standin, clock, monkeypatch):
    proxy = StandIn()
    try:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        assert index_on(asking(standin.url, clock, key=lambda: "key")).count() == 0
        assert proxy.asked == [] and "key" in standin.keys
    finally:
        proxy.stop()


@pytest.mark.parametrize("version", ["1.9.7", "2.0.0", "0.11.0", "dev", ""])
def test_a_version_that_is_not_known_to_work_is_refused(standin, clock, version):
    standin.version = version
    index = index_on(asking(standin.url, clock))
    with pytest.raises(VectorServerUnfit, match=r"needs 1\.10") as caught:
        index.search(unit(1), EVERYWHERE, 5)
    assert "keyword search" in caught.value.next_step and standin.made == {}
    index.close()


def test_a_later_version_of_the_same_major_one_is_taken(standin, clock):
    standin.version = "1.37.2-rc1"
    index = index_on(asking(standin.url, clock))
    assert index.count() == 0
    index.close()


def test_something_that_is_no_qdrant_server_is_named(clock):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            with contextlib.suppress(OSError):  # the listener ends while the second one is waited for
                while True:
                    one, _peer = listener.accept()
                    one.recv(4096)
                    one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
                    one.close()

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        index = index_on(asking(f"http://127.0.0.1:{listener.getsockname()[1]}", clock))
        with pytest.raises(VectorServerUnfit, match="not what a Qdrant server says"):
            index.count()


def test_a_collection_that_goes_under_our_hands_is_damage(standin, index):
    write(index, "a.md")
    standin.client.delete_collection(NAME)
    for call in (index.count, index.flush, lambda: index.search(unit(1), EVERYWHERE, 5), lambda: list(index.ids())):
        with pytest.raises(IndexDamaged):
            call()


def test_a_collection_that_the_server_calls_broken_is_damage(standin, index, monkeypatch):
    write(index, "a.md")
    told = standin.client.get_collection(NAME)
    monkeypatch.setattr(standin.client, "get_collection", lambda _name: told.model_copy(update={"status": "red"}))
    with pytest.raises(IndexDamaged, match="broken"):
        index.flush()


def test_what_was_left_of_a_making_that_failed_is_removed(standin, clock):
    """The collection stands, its indexes do not, and nobody wrote down that it was made."""
    index = index_on(asking(standin.url, clock))
    standin.trouble = lambda method, path: 503 if path.endswith("/index") else None
    with pytest.raises(VectorServerAway):
        index.count()
    assert standin.client.collection_exists(NAME)
    standin.trouble = lambda *_: None
    clock.now += module.AWAY_SECONDS
    assert index.count() == 0
    assert len(standin.fields[NAME]) == 5
    index.close()


def test_large_collections_are_searched_by_the_servers_own_index(standin, index, monkeypatch):
    asked = []
    plain = standin.client.query_points
    monkeypatch.setattr(
        standin.client, "query_points", lambda *args, **more: asked.append(more) or plain(*args, **more)
    )
    bodies = []
    answer = standin.answer
    monkeypatch.setattr(standin, "answer", lambda verb, path, body: bodies.append(body) or answer(verb, path, body))
    write(index, "a.md")
    index.search(unit(1), EVERYWHERE, 5)
    monkeypatch.setattr("memoryd.index.remote.EXACT_UP_TO", 0)
    index.search(unit(1), EVERYWHERE, 5)
    params = [one["params"] for one in bodies if one and "params" in one]
    assert [(one["exact"], one["hnsw_ef"]) for one in params] == [(True, 256), (False, 256)]
    assert len(asked) == 2


def test_sparse_and_dense_travel_whole(standin, clock):
    index = index_on(asking(standin.url, clock), with_sparse=True)
    one = entry("a.md", sparse=sparse({4_000_000_000: 0.25}))
    index.replace([one.document_id], [one])
    (found,) = index.search_sparse(sparse({4_000_000_000: 2.0}), EVERYWHERE, 5)
    assert found.score == pytest.approx(0.5)
    assert index.differing({one.passage_id: one.vector}) == []
    index.close()


def test_pauses_are_real_without_a_clock_of_its_own(standin):
    began = time.monotonic()
    failures = [503]
    standin.trouble = lambda method, path: failures.pop() if method == "DELETE" and failures else None
    Server(Access(standin.url, lambda: None, 5, direct=True)).remove("nothing")
    assert time.monotonic() - began >= module.PAUSES[0]
