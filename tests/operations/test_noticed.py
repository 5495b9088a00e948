"""Is what answers showed counted once each, apart for what was read after a search, and never lost to a full disk?"""

from __future__ import annotations

from memoryd.catalog.state import Recall
from memoryd.errors import DiskFull
from memoryd.operations import gateway, noticed, reading
from memoryd.operations.brief import recall
from memoryd.operations.home import Caller
from memoryd.operations.noticed import FETCH_SECONDS, Noticed
from tests.operations.conftest import opened, settle

ONE, TWO = ("pid 1", "/a"), ("pid 2", "/a")


def test_what_is_read_soon_after_a_search_of_the_same_session_is_a_fetch():
    seen = Noticed()
    seen.listed(ONE, ["f", "g", "f"], 100.0)
    seen.read(TWO, "f", 101.0)
    seen.read(ONE, "f", 100.0 + FETCH_SECONDS)
    seen.read(ONE, "f", 100.0 + FETCH_SECONDS)
    seen.read(ONE, "g", 100.5 + FETCH_SECONDS)
    late = 100.0 + FETCH_SECONDS
    assert seen.waiting(["f", "g"]) == ([Recall(4, late), Recall(2, late + 0.5)], [Recall(1, late)])
    assert seen.take() == ({"f": Recall(4, late), "g": Recall(2, late + 0.5)}, {"f": Recall(1, late)})
    assert seen.take() == ({}, {})


def test_what_could_not_be_kept_waits_on():
    seen = Noticed()
    seen.listed(ONE, ["f"], 1.0)
    recalls, fetches = seen.take()
    seen.listed(ONE, ["f"], 2.0)
    seen.give_back(recalls, fetches)
    assert seen.take() == ({"f": Recall(2, 2.0)}, {})


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(noticed, "FACTS_WAITING", 3)
    monkeypatch.setattr(noticed, "SHOWN_KEPT", 2)
    seen = Noticed()
    seen.listed(ONE, ["a", "b", "c", "d"], 1.0)
    assert sorted(seen.take()[0]) == ["a", "b", "c"]
    for fact in "abcd":
        seen.read(ONE, fact, 2.0)
    assert sorted(seen.take()[1]) == ["c", "d"], "only the last ones shown are remembered"


def test_searches_briefs_and_reads_count_and_facts_do_not(home):
    me = Caller(name="pid 7")
    added = gateway.add(home, me, content="The zoo opens at nine.", type="fact", scope="global")
    settle(home)
    reading.search(home, me, query="zoo", mode="keyword")
    recall(home, me, task="zoo")
    reading.get(home, me, id=added["id"])
    reading.get(home, me, address=added["address"])
    told = reading.get(home, me, id=added["id"], metadata=True)
    assert (told["recalls"]["count"], told["fetched_after_search"]["count"]) == (4, 1), "before it is written down"
    settle(home)
    assert reading.get(home, me, id=added["id"], metadata=True)["recalls"] == told["recalls"]
    assert home.state.recalls.of([added["fact"]])[added["fact"]].amount == 4
    assert home.state.fetches.all()[added["fact"]].amount == 1


def test_counts_outlive_the_daemon(root):
    with opened(root) as home:
        fact = gateway.add(home, Caller(), content="x y z", type="fact", scope="global")["fact"]
        reading.get(home, Caller(), id=fact)
    with opened(root) as home:
        assert home.state.recalls.of([fact])[fact].amount == 1


def test_a_search_waits_for_no_disk(home, monkeypatch):
    """Nothing is written to state.db by a search or a read; the counts come with the next round of the background."""
    fact = gateway.add(home, Caller(), content="The zoo opens at nine.", type="fact", scope="global")["fact"]
    settle(home)
    written = []
    original = home.state.recalls.add
    monkeypatch.setattr(home.state.recalls, "add", lambda counts: (written.append(counts), original(counts)))
    reading.search(home, Caller(), query="zoo", mode="keyword")
    reading.get(home, Caller(), id=fact)
    assert written == []
    settle(home)
    assert [counts[fact].amount for counts in written] == [2]


def test_counting_begins_with_the_home_and_not_with_the_first_review(root):
    with opened(root, clock=lambda: 1_000.0):
        pass
    with opened(root, clock=lambda: 2_000.0) as home:
        assert home.state.counting_since(3_000.0) == 1_000.0


def test_a_full_disk_costs_no_counts(home, monkeypatch):
    fact = gateway.add(home, Caller(), content="The zoo opens at nine.", type="fact", scope="global")["fact"]
    reading.get(home, Caller(), id=fact)
    with monkeypatch.context() as full:
        full.setattr(home.state.recalls, "add", _refuse)
        home.count_recalls()
    assert home.state.recalls.of([fact]) == {}
    home.count_recalls()
    assert home.state.recalls.of([fact])[fact].amount == 1


def _refuse(_counts):
    raise DiskFull("no space left")
