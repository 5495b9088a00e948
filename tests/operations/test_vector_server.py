"""A home whose vectors lie on a server: it is filled, the server goes and comes back, loses everything, is given up."""

from __future__ import annotations

import pytest

from memoryd.operations import building, doctor, forget, gateway, health, indexing, reading, rebuild
from memoryd.operations.burial import interrupted
from memoryd.operations.erasure import plan
from memoryd.operations.home import Caller
from tests.operations.conftest import configure, opened, settle

pytest.importorskip("qdrant_client")  # Reason: an optional part

from memoryd.errors import VectorServerAway
from memoryd.index import qdrant
from tests.standin import StandIn

pytestmark = pytest.mark.extras
HERE = Caller()
PATIENT = {"model_wait_ms": 60_000}
TEXTS = ("The queue holds forty jobs.", "The release is cut on Tuesday.", "Billing owns the invoices.")


@pytest.fixture
def standin():
    server = StandIn()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def no_rest(monkeypatch):
    monkeypatch.setattr(qdrant, "AWAY_SECONDS", 0.0)
    monkeypatch.setattr(qdrant, "PAUSES", (0.0, 0.0))


def add(home, *texts):
    for text in texts:
        gateway.add(home, HERE, content=text, type="fact", scope="global")


def found(home, mode="semantic", query="How many tasks are waiting?"):
    answer = reading.search(home, HERE, query=query, mode=mode)
    return [one["title"] for one in answer["memories"]], [one["code"] for one in answer["index"]["degraded"]]


def points(standin):
    return {one.name: standin.client.count(one.name).count for one in standin.client.get_collections().collections}


def test_a_home_lives_on_while_its_server_comes_and_goes(root, standin):
    configure(root, search=PATIENT, vector={"url": standin.url})
    with opened(root) as home:
        add(home, *TEXTS)
        settle(home)
        assert list(points(standin).values()) == [3]
        titles, degraded = found(home)
        assert "queue" in titles[0] and degraded == []
        assert standin.url in health.status(home, HERE)["index"]["vectors"] and health.degraded(home) == []
        standin.stop()
        assert [one["code"] for one in health.degraded(home)] == ["vector-server-away"]
        assert found(home)[1][:1] == ["vector-server-away"]
        titles, degraded = found(home, "hybrid", "queue jobs")
        assert "queue" in titles[0] and "vector-server-away" in degraded
        add(home, "The backup runs at night.")
        with pytest.raises(VectorServerAway):
            settle(home)
        assert "backup" in found(home, "keyword", "backup night")[0][0]
        assert indexing.pending(home) == 1 and home.renew == ""
        back = StandIn(standin.server_address[1], standin.client)
        try:
            settle(home)
            assert health.degraded(home) == []
            titles, degraded = found(home, query="When does the backup run?")
            assert "backup" in titles[0] and degraded == [] and home.generation.number == 1
        finally:
            back.stop()
    with opened(root) as home:  # a start without the server
        assert "queue" in found(home, "keyword", "queue jobs")[0][0]
        assert "vector-server-away" in found(home)[1]


def test_a_server_that_lost_everything_is_filled_again(root, standin):
    configure(root, search=PATIENT, vector={"url": standin.url})
    with opened(root) as home:
        add(home, *TEXTS)
        settle(home)
        for name in points(standin):
            standin.client.delete_collection(name)
        assert "index-damaged" in found(home)[1]
        add(home, "The backup runs at night.")
        settle(home)
        assert (home.generation.number, list(points(standin).values())) == (2, [4])
        titles, degraded = found(home)
        assert "queue" in titles[0] and degraded == []


def test_points_lost_on_the_server_are_written_again(root, standin):
    configure(root, search=PATIENT, vector={"url": standin.url})
    with opened(root) as home:
        add(home, *TEXTS)
        settle(home)
        (name,) = points(standin)
        lost = standin.client.scroll(name, limit=2)[0]
        standin.client.delete(name, [one.id for one in lost])
        assert "index-mismatch" in found(home)[1]
        settle(home)
        assert points(standin) == {name: 3} and found(home)[1] == []


def test_a_home_moves_to_a_server_and_back(root, standin, monkeypatch):
    """The old vectors serve until the new ones stand; the second filling happens in a process of its own."""
    configure(root, search=PATIENT)
    with opened(root) as home:
        add(home, *TEXTS)
        settle(home)
        before = found(home)
    configure(root, search=PATIENT, vector={"url": standin.url})
    with monkeypatch.context() as patch, opened(root) as home:
        patch.setattr(building, "BESIDE_FROM", 1)
        assert home.generation.vectors is not None and "queue" in found(home)[0][0] and points(standin) == {}
        report = rebuild.rebuild(home)
        assert report["generation"] == 2 and list(points(standin).values()) == [3]
        assert found(home) == before
    configure(root, search=PATIENT)
    with opened(root) as home:
        assert "queue" in found(home, "keyword", "queue jobs")[0][0]
        rebuild.rebuild(home)
        assert found(home) == before
    assert list(points(standin).values()) == [3]  # what a server holds that is no longer named stays there


def test_what_is_forgotten_leaves_the_server_too(root, standin):
    """A server that cannot be reached is named among what remains, and the erasure is to be done again."""
    configure(root, search=PATIENT, vector={"url": standin.url})
    with opened(root) as home:
        one = gateway.add(home, HERE, content=TEXTS[0], type="fact", scope="global")
        add(home, TEXTS[1])
        settle(home)
        (address,) = plan(home, [one["id"]]).addresses
        standin.trouble = lambda *_: 503
        done = forget.run(home, plan(home, [address]))
        assert any(standin.url in left for left in done["remains"]) and interrupted(home) == [address]
        assert list(points(standin).values()) == [2]
        standin.trouble = lambda *_: None
        done = forget.run(home, plan(home, [address]))
        assert done["remains"] == [] and interrupted(home) == [] and sum(points(standin).values()) == 0
        settle(home)
        assert list(points(standin).values()) == [1]


def test_doctor_looks_at_the_server(root, standin):
    configure(root, vector={"url": standin.url, "timeout_seconds": 1})
    with opened(root):
        pass

    def said():
        return {one["name"]: one for one in doctor.examine(doctor.Place(root, {}))}

    assert said()["vectors"]["ok"] and "1 collections of this home" in said()["vectors"]["message"]
    standin.key = "a key"
    assert said()["vectors"]["code"] == "vector-server-refused" and said()["index"]["ok"]
    standin.stop()
    assert said()["vectors"]["code"] == "vector-server-away" and said()["index"]["ok"]
