"""Does a review name what wants a look, with a call that settles it, and retire nothing by itself?"""

from __future__ import annotations

import json

import pytest

from memoryd.errors import InvalidInput, NotFound
from memoryd.operations import filed, gateway, health, leaving, lifecycle, reading, review
from memoryd.operations.feedback import feedback
from memoryd.operations.home import Caller
from tests.operations.conftest import commits, configure, git, opened, settle

HERE = Caller(name="pid 1")
DAY = 86_400
CALLS = {"memory_supersede": lifecycle.supersede, "memory_archive": lifecycle.archive}


class Times:
    """A clock that a test moves by days."""

    def __init__(self) -> None:
        self.day = 0.0

    def __call__(self) -> float:
        return 1_800_000_000 + self.day * DAY


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def home(root, times):
    with opened(root, clock=times) as home:
        home.state.counting_since(times())
        yield home


def add(home, content, caller=HERE, scope="global", **more):
    return gateway.add(home, caller, content=content, type="fact", scope=scope, **more)["id"]


def section(home, name, caller=HERE, **more):
    return review.review(home, caller, sections=[name], **more)["sections"][name]["items"]


def ids(items):
    return [one["id"] for one in items]


def act(home, item, caller=HERE, **more):
    call = CALLS[item["action"]["tool"]]
    arguments = {**item["action"]["arguments"], **more}
    token = call(home, caller, **arguments)["confirm"]
    return call(home, caller, **arguments, confirm=token)


# -- used long ago, never used


def test_a_memory_that_nobody_asks_for_any_more_is_stale(home, times):
    id = add(home, "The proxy listens on port 8080.")
    reading.get(home, HERE, id=id)
    times.day = 179
    assert section(home, "stale") == []
    times.day = 180
    (item,) = section(home, "stale")
    assert (item["id"], item["recalls"]) == (id, 1)
    assert item["why"] == f"not asked for since {item['last_used'][:10]}"
    assert section(home, "never_recalled") == []
    before = commits(home)
    assert reading.get(home, HERE, id=id, metadata=True)["status"] == "in_force"
    assert commits(home) == before, "a review retires nothing"
    assert section(home, "stale") == [item], "and its own look is no recall"
    assert act(home, item)["outcome"] == "archived"
    assert section(home, "stale") == []


def test_a_recall_or_praise_ends_staleness(home, times):
    read, praised, left = (add(home, f"The proxy of rack {number} is new.") for number in range(3))
    for id in (read, praised, left):
        reading.get(home, HERE, id=id)
    times.day = 200
    reading.get(home, HERE, id=read)
    feedback(home, HERE, id=praised, verdict="useful")
    assert ids(section(home, "stale")) == [left]


def test_a_memory_that_was_never_recalled_is_proposed_for_the_archive(home, times):
    old = add(home, "The proxy listens on port 8080.")
    times.day = 50
    young = add(home, "Backups run at night.")
    times.day = 90
    (item,) = section(home, "never_recalled")
    assert (item["id"], item["why"]) == (old, "never recalled in 90 days")
    assert item["action"] == {"tool": "memory_archive", "arguments": {"id": old, "reason": item["why"]}}
    assert item["command"] == f"memoryd archive {old[:12]} 'never recalled in 90 days'"
    reading.search(home, HERE, query="proxy", mode="keyword")
    times.day = 140
    assert ids(section(home, "never_recalled")) == [old, young], "no index, nothing was shown"
    settle(home)
    reading.search(home, HERE, query="proxy", mode="keyword")
    assert ids(section(home, "never_recalled")) == [young]


def test_a_new_revision_inherits_the_recalls_of_its_fact(home, times):
    first = add(home, "The proxy listens on port 8080.")
    reading.get(home, HERE, id=first)
    words = "The proxy listens on port 9090."
    token = lifecycle.supersede(home, HERE, id=first, content=words)["confirm"]
    second = lifecycle.supersede(home, HERE, id=first, content=words, confirm=token)["id"]
    times.day = 100
    assert section(home, "never_recalled") == []
    times.day = 200
    assert ids(section(home, "stale")) == [second]


def test_nothing_is_called_unused_for_a_time_in_which_nobody_counted(root, times):
    with opened(root, clock=times) as home:
        home.state.counting_since(times())
        id = add(home, "The proxy listens on port 8080.")
    times.day = 100
    for name in ("state.db", "state.db-wal", "state.db-shm"):
        (root / name).unlink(missing_ok=True)
    with opened(root, clock=times) as home:
        assert section(home, "never_recalled") == []
        times.day = 189
        assert section(home, "never_recalled") == []
        times.day = 190
        assert ids(section(home, "never_recalled")) == [id]


# -- blamed, in conflict


def test_blame_is_shown_for_the_revision_that_was_blamed(home, times):
    id = add(home, "The proxy listens on port 8080.")
    feedback(home, HERE, id=id, verdict="wrong", note="it is 9090")
    times.day = 1
    feedback(home, Caller(name="pid 2"), id=id, verdict="wrong")
    (item,) = section(home, "feedback")
    assert item["why"] == "said to be wrong by 2 sessions"
    assert item["action"]["tool"] == "memory_archive"
    times.day = 2
    feedback(home, Caller(name="pid 3"), id=id, verdict="outdated", note="it is 9090")
    (item,) = section(home, "feedback")
    assert item["why"] == "said to be outdated by 3 sessions: it is 9090"
    assert (item["action"], item["command"]) == (
        {"tool": "memory_supersede", "arguments": {"id": id}, "needs": "content"},
        f"memoryd supersede {id[:12]} -",
    )
    assert act(home, item, content="The proxy listens on port 9090.")["outcome"] == "superseded"
    assert section(home, "feedback") == []


def test_new_blame_brings_an_item_back_that_was_put_off(home):
    id = add(home, "The proxy listens on port 8080.")
    feedback(home, HERE, id=id, verdict="wrong")
    leaving.put_off(home, HERE, section="feedback", id=id)
    assert section(home, "feedback") == []
    feedback(home, Caller(name="pid 2"), id=id, verdict="wrong")
    assert ids(section(home, "feedback")) == [id]


def test_a_filed_conflict_is_shown_until_one_is_retired_or_both_may_stand(home, times):
    old = add(home, "The proxy listens on port 8080.")
    times.day = 1
    new = add(home, "The proxy listens on port 9090.")
    filed.file(home, "conflict", new, old, 0.9, "one number differs")
    (item,) = section(home, "conflicting")
    assert (item["id"], item["other"]["id"], item["likeness"]) == (old, new, 0.9)
    assert item["difference"].endswith("[-8080.-] {+9090.+}")
    assert item["command"] == f"memoryd supersede {old[:12]} --by {new[:12]}"
    leaving.keep(home, HERE, section="conflicting", id=old, other=new)
    assert section(home, "conflicting") == []
    times.day = 2
    third = add(home, "The proxy listens on port 7070.")
    filed.file(home, "conflict", third, new, None, "one number differs")
    (item,) = section(home, "conflicting")
    assert act(home, item)["outcome"] == "superseded"
    assert section(home, "conflicting") == []
    assert reading.get(home, HERE, id=new)["successor"]["id"] == third


# -- near duplicates


BACKUP = "Backups of the billing database run every night at two and are kept for thirty days on the spare host."
TWICE = "Backups of the billing database run every night at two and are kept for thirty days on the spare machine."
THRICE = "Every night at two the backups of the billing database run; they are kept for thirty days on a spare host."
OTHERS = (
    "The office plants are watered on Mondays by whoever comes first.",
    "Feature flags are removed within two releases after they were switched on for everybody.",
    "The staging cluster is rebuilt from scratch on the first Monday of a month.",
)


def together(home, *texts, **more):
    """Memories that a person lets stand beside each other at first."""
    made = []
    for text in texts:
        answer = gateway.add(home, HERE, content=text, type="fact", scope="global", force="both are wanted", **more)
        made.append(answer["id"])
    settle(home)
    return made


def test_memories_that_say_nearly_the_same_are_a_cluster_with_the_words_that_differ(home, times):
    made = []
    for day, text in enumerate((BACKUP, *OTHERS, THRICE, TWICE)):
        times.day = day
        made += together(home, text)
    first, second, last = made[0], made[4], made[5]
    items = section(home, "near_duplicates")
    assert {(one["id"], one["other"]["id"]) for one in items} == {(first, last), (second, last)}
    assert {(one["cluster"], one["size"]) for one in items} == {(1, 3)}
    told = {one["id"]: one for one in items}[first]
    assert told["difference"] == "... on the spare [-host.-] {+machine.+}"
    assert told["action"] == {"tool": "memory_supersede", "arguments": {"id": first, "by": last}}
    assert act(home, told)["outcome"] == "superseded"
    settle(home)
    assert ids(section(home, "near_duplicates")) == [second]


def test_pairs_that_may_stand_beside_each_other_are_not_shown_again(root, times):
    with opened(root, clock=times) as home:
        first, second = together(home, BACKUP, TWICE)
        (item,) = section(home, "near_duplicates")
        leaving.keep(home, HERE, section="near_duplicates", id=item["id"], other=item["other"]["id"])
        assert section(home, "near_duplicates") == []
    times.day = 1000
    with opened(root, clock=times) as home:
        assert section(home, "near_duplicates") == []
        assert {first, second} == {one.fields.id for one in home.memories.listed(None, ("in_force",), (), 9, 0)}


def test_what_others_filed_as_similar_joins_the_clusters(home, times):
    one = add(home, OTHERS[0])
    times.day = 1
    two = add(home, OTHERS[1])
    filed.file(home, "similar", two, one, 0.7, "the gateway said so")
    (item,) = section(home, "near_duplicates")
    assert (item["id"], item["other"]["id"], item["why"]) == (one, two, "the gateway said so")
    assert item["likeness"] == 0.7


def test_what_holds_everywhere_stays_and_the_projects_copy_goes(home, times, project):
    mine = project("mine")
    (everywhere,) = together(home, BACKUP)
    times.day = 1
    own = gateway.add(home, mine, content=TWICE, type="fact", force="x")["id"]
    settle(home)
    assert section(home, "near_duplicates") == []
    (item,) = section(home, "near_duplicates", caller=mine)
    assert (item["id"], item["other"]["id"]) == (own, everywhere)
    assert item["action"]["tool"] == "memory_archive"
    assert act(home, item, caller=mine)["outcome"] == "archived"


def test_a_look_goes_on_where_the_last_one_ended(home):
    together(home, BACKUP, TWICE, *OTHERS)
    told = review.review(home, HERE, sections=["near_duplicates"], look_seconds=0)
    assert told["looked"] == {"done": 0, "of": 5, "problem": None}
    told = review.review(home, HERE, sections=["near_duplicates"])
    assert told["looked"] == {"done": 5, "of": 5, "problem": None}
    asked = []
    vectors = home.generation.vectors
    original = vectors.search
    vectors.search = lambda *given: asked.append(given) or original(*given)
    together(home, "The printer is on the second floor.")
    assert review.review(home, HERE)["looked"]["done"] == 6
    assert len(asked) < 6, "only the new one is looked at"


def test_what_is_not_embedded_yet_is_told(home):
    together(home, BACKUP)
    add(home, OTHERS[0])
    told = review.review(home, HERE, sections=["near_duplicates"])["looked"]
    assert (told["done"], told["of"]) == (1, 2)
    assert told["problem"] == "The vector index has not come to 1 of them yet."
    settle(home)
    assert review.review(home, HERE, sections=["near_duplicates"])["looked"]["problem"] is None


# -- too long


def test_a_long_memory_is_named_with_its_words(root, times):
    configure(root, review={"verbose_words": 20})
    with opened(root, clock=times) as home:
        long = add(home, "word " * 21)
        add(home, "word " * 20 + "\n", key="another")
        (item,) = section(home, "verbose")
        assert (item["id"], item["words"], item["action"]["needs"]) == (long, 21, "content")
        assert act(home, item, content="word")["outcome"] == "superseded"


# -- citations


def test_changed_and_missing_citations_are_named(home, project):
    from pathlib import Path

    mine = project("cites")
    folder = Path(mine.directory)
    (folder / "a.py").write_text("one\ntwo\nthree\n")
    (folder / "b.py").write_text("one\n")
    git("add", ".", cwd=folder)
    git("commit", "-q", "-m", "x", cwd=folder)
    id = gateway.add(home, mine, content="Two comes second.", type="fact", citations=["a.py#L2", "b.py"])["id"]
    assert section(home, "citations", caller=mine) == []
    (folder / "a.py").write_text("one\nfour\nthree\n")
    (folder / "b.py").unlink()
    (item,) = section(home, "citations", caller=mine)
    assert (item["id"], {one["state"] for one in item["citations"]}) == (id, {"changed", "missing"})
    assert "a.py#L2 is changed" in item["why"]


# -- scopes, counts


def test_an_unknown_section_is_refused(home):
    with pytest.raises(InvalidInput, match="no section 'odd'"):
        review.review(home, HERE, sections=["odd"])


def test_a_review_shows_and_settles_nothing_of_other_scopes(home, times, project, nobody):
    """Invariant 8: reviews, putting off and keeping are roads on which a scope is checked."""
    mine = project("mine")
    hidden = add(home, "The proxy listens on port 8080, says nobody else.", caller=mine, scope=None)
    other = add(home, "The proxy listens on port 9090, says nobody else.", caller=mine, scope=None)
    filed.file(home, "conflict", other, hidden, None, "numbers")
    feedback(home, mine, id=hidden, verdict="wrong")
    times.day = 100
    for caller in (nobody, project("other")):
        told = review.review(home, caller)
        assert told["total"] == 0 and told["memories"] == 0
        assert hidden not in json.dumps(told)
        assert set(health.status(home, caller)["review"].values()) == {0}
        for call in (leaving.keep, leaving.put_off):
            with pytest.raises(NotFound):
                call(home, caller, section="conflicting", id=hidden, other=other)
    assert review.review(home, mine)["total"] == 4


def test_status_counts_what_a_review_shows(home, times):
    first, second = together(home, BACKUP, TWICE)
    add(home, OTHERS[0])
    feedback(home, HERE, id=first, verdict="wrong")
    filed.file(home, "conflict", second, first, None, "x")
    times.day = 100
    told = review.review(home, HERE)
    counted = health.status(home, HERE)["review"]
    assert counted == {name: told["sections"][name]["count"] for name in counted}
    assert counted == {"feedback": 1, "conflicting": 1, "near_duplicates": 0, "stale": 0, "never_recalled": 3}


def test_items_are_counted_beyond_those_that_are_shown(home, times):
    for number in range(5):
        add(home, f"The proxy of rack {number} listens on port 808{number}.", key=f"rack {number}")
    times.day = 100
    told = review.review(home, HERE, sections=["never_recalled"], limit=2)["sections"]["never_recalled"]
    assert (told["count"], len(told["items"])) == (5, 2)
