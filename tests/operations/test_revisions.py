"""Does the chain of a fact tell who superseded whom, and what was in force at any moment?"""

from __future__ import annotations

from pathlib import Path

import pytest

from memoryd.errors import InvalidInput, NotFound
from memoryd.operations import gateway, lifecycle, reading
from memoryd.operations.home import Caller
from memoryd.operations.reconcile import reconcile_vault
from tests.operations.conftest import git, opened

HERE = Caller()
DAY = 86_400
START = 1_767_225_600  # 2026-01-01


class Times:
    """A clock that a test moves by days, counted from 2026-01-01."""

    def __init__(self) -> None:
        self.day = 0.0

    def __call__(self) -> float:
        return START + self.day * DAY


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def home(root, times):
    with opened(root, clock=times) as home:
        yield home


def add(home, content, caller=HERE, scope="global"):
    return gateway.add(home, caller, content=content, type="fact", scope=scope)["id"]


def supersede(home, id, content=None, by=None):
    words = {"content": content} if by is None else {"by": by}
    token = lifecycle.supersede(home, HERE, id=id, **words)["confirm"]
    return lifecycle.supersede(home, HERE, id=id, **words, confirm=token)["id"]


def archive(home, id):
    token = lifecycle.archive(home, HERE, id=id, reason="gone")["confirm"]
    lifecycle.archive(home, HERE, id=id, reason="gone", confirm=token)


def words(home, id, as_of, caller=HERE):
    return reading.get(home, caller, id=id, as_of=as_of)["content"].rstrip().rpartition("\n")[2]


def chain(home, id, caller=HERE):
    return reading.get(home, caller, id=id, metadata=True)["revisions"]


def days(revision):
    """When it was in force, as days of January."""
    return [
        tuple(None if text is None else int(text[8:10]) for text in (one["from"], one["until"]))
        for one in revision["in_force"]
    ]


def made_abc(home, times):
    ids = [add(home, "port A")]
    for letter in "BC":
        times.day += 10
        ids.append(supersede(home, ids[-1], f"port {letter}"))
    times.day += 10
    return ids


def test_a_chain_of_three_is_told_oldest_first_with_who_superseded_whom(home, times):
    ids = made_abc(home, times)
    for id in ids:
        told = chain(home, id)
        assert [one["id"] for one in told] == ids
        assert [one["supersedes"] for one in told] == [None, *ids[:2]]
        assert [one["superseded_by"] for one in told] == [*ids[1:], None]
        assert [days(one) for one in told] == [[(1, 11)], [(11, 21)], [(21, None)]]


def test_as_of_answers_what_was_in_force_whichever_revision_is_named(home, times):
    ids = made_abc(home, times)
    for id in ids:
        asked = {"2026-01-05": "port A", "2026-01-11T00:00:01Z": "port B", "2026-01-20": "port B", "now": "port C"}
        assert {day: words(home, id, day) for day in asked} == asked
    told = reading.get(home, HERE, id=ids[0][:10], as_of="2026-01-15")
    assert told["id"] == ids[1]
    assert told["as_of"] == {
        "moment": "2026-01-15T00:00:00Z",
        "from": "2026-01-11T00:00:00Z",
        "until": "2026-01-21T00:00:00Z",
    }
    assert not told["current"], "the file of then did not know its successor yet"
    assert "status: in_force" in told["content"]
    assert words(home, ids[0], "10 days ago") == "port C"


def test_before_the_first_revision_and_no_moment_are_refused_by_name(home, times):
    id = add(home, "port A")
    with pytest.raises(NotFound, match="first remembered 2026-01-01"):
        words(home, id, "2025-12-31")
    with pytest.raises(InvalidInput, match="says no moment"):
        words(home, id, "last spring")
    with pytest.raises(InvalidInput, match="goes with the `id`"):
        reading.get(home, HERE, source="vault/x", as_of="2026-01-01")
    with pytest.raises(NotFound, match="no memory"):
        words(home, "0" * 64, "2026-01-01")


def test_words_that_came_back_are_three_revisions(home, times):
    """A -> B -> A."""
    first = add(home, "port A")
    times.day = 10
    second = supersede(home, first, "port B")
    times.day = 20
    third = supersede(home, second, "port A")
    times.day = 30
    assert [(one["id"], days(one)) for one in chain(home, third)] == [
        (first, [(1, 11)]),
        (second, [(11, 21)]),
        (third, [(21, None)]),
    ]
    assert [words(home, first, day) for day in ("2026-01-02", "2026-01-12", "2026-01-22")] == [
        "port A",
        "port B",
        "port A",
    ]


def test_an_archived_memory_was_in_force_until_then(home, times):
    id = add(home, "port A")
    times.day = 10
    archive(home, id)
    times.day = 20
    assert words(home, id, "2026-01-10") == "port A"
    with pytest.raises(NotFound, match="it was retired then"):
        words(home, id, "2026-01-12")
    (told,) = chain(home, id)
    assert (days(told), told["archive_reason"]) == ([(1, 11)], "gone")


def test_an_archived_memory_that_was_opened_again_leaves_a_gap(home, times):
    """Archived on the 11th, its words in force again on the 21st as a revision of their own."""
    id = add(home, "port A")
    times.day = 10
    archive(home, id)
    times.day = 20
    again = supersede(home, id, "port A")
    assert [days(one) for one in chain(home, id)] == [[(1, 11)], [(21, None)]]
    with pytest.raises(NotFound, match="it was retired then"):
        words(home, again, "2026-01-12")
    assert words(home, id, "2026-01-22") == words(home, id, "2026-01-02") == "port A"


def test_a_revert_in_git_puts_the_old_one_in_force_again(home, times):
    id = add(home, "port A")
    times.day = 10
    newer = supersede(home, id, "port B")
    times.day = 20
    git("revert", "--no-edit", "HEAD", cwd=home.vault.path)
    reconcile_vault(home)
    times.day = 30
    (told,) = chain(home, id)
    assert days(told) == [(1, 11), (21, None)]
    assert words(home, id, "now") == "port A"
    with pytest.raises(NotFound):
        words(home, newer, "2026-01-12")


def test_an_edit_by_hand_is_read_as_it_was_then(home, times):
    id = add(home, "port A")
    path = Path(home.vault.path) / reading.get(home, HERE, id=id)["source"].removeprefix("vault/")
    times.day = 10
    path.write_text(path.read_text().replace("port A", "port A, by hand"))
    reconcile_vault(home)
    times.day = 20
    assert [words(home, id, day) for day in ("2026-01-05", "2026-01-15")] == ["port A", "port A, by hand"]
    assert days(chain(home, id)[0]) == [(1, None)], "one time in force, in two states"


def test_a_memory_that_took_another_ones_place_is_found_from_both(home, times):
    old = add(home, "port A")
    times.day = 5
    new = add(home, "port B, found out elsewhere")
    times.day = 10
    supersede(home, old, by=new)
    times.day = 20
    for id in (old, new):
        assert [(one["id"], days(one)) for one in chain(home, id)] == [(old, [(1, 11)]), (new, [(6, None)])]
    assert words(home, old, "2026-01-08") == "port A", "both were in force: the one that was asked for"
    assert words(home, new, "2026-01-08") == "port B, found out elsewhere"
    assert words(home, old, "2026-01-15") == "port B, found out elsewhere"
    assert words(home, new, "2026-01-03") == "port A"


def test_a_successor_with_a_fact_of_its_own_ends_the_chain(home, times):
    first, second = add(home, "port A"), add(home, "port A, said twice")
    times.day = 5
    new = add(home, "port B")
    times.day = 10
    supersede(home, first, by=new)
    supersede(home, second, by=new)
    assert [one["id"] for one in chain(home, second)] == [second, new]
    assert words(home, second, "now") == "port B"


def test_a_vault_from_elsewhere_tells_by_its_frontmatter(root, times, tmp_path):
    with opened(root, clock=times) as home:
        ids = made_abc(home, times)
        vault = home.vault.path
    other = tmp_path / "other"
    other.mkdir()
    git("clone", "-q", vault, other / "vault", cwd=tmp_path)
    times.day = 100
    with opened(other, clock=times) as home:
        assert [days(one) for one in chain(home, ids[2])] == [[(1, 11)], [(11, 21)], [(21, None)]]
        assert words(home, ids[2], "2026-01-12") == "port B"


def test_a_file_that_was_broken_meanwhile_keeps_its_time(home, times):
    id = add(home, "port A")
    path = Path(home.vault.path) / reading.get(home, HERE, id=id)["source"].removeprefix("vault/")
    whole = path.read_text()
    times.day = 10
    path.write_text(whole.replace("type: fact", "type: [oops"))
    reconcile_vault(home)
    path.write_text(whole)
    reconcile_vault(home)
    times.day = 20
    assert words(home, id, "2026-01-15") == "port A"
    assert days(chain(home, id)[0]) == [(1, None)]


def test_a_rebuilt_catalog_tells_the_same(root, times):
    with opened(root, clock=times) as home:
        ids = made_abc(home, times)
        before = chain(home, ids[0])
    for name in ("catalog.db", "catalog.db-wal", "catalog.db-shm"):
        (root / name).unlink(missing_ok=True)
    times.day = 200
    with opened(root, clock=times) as home:
        assert chain(home, ids[0]) == before


def test_other_scopes_are_neither_answered_nor_shown(home, times, project, nobody):
    """Invariant 8: neither the chain nor a moment leads out of the caller's scopes."""
    mine = project("mine")
    id = add(home, "port A", caller=mine, scope=None)
    with pytest.raises(NotFound) as outside:
        words(home, id, "now", caller=nobody)
    with pytest.raises(NotFound) as missing:
        words(home, "0" * 64, "now", caller=nobody)
    assert str(outside.value).replace(id, "X") == str(missing.value).replace("0" * 64, "X")
    path = Path(home.vault.path) / reading.get(home, mine, id=id)["source"].removeprefix("vault/")
    times.day = 10
    scope = path.relative_to(home.vault.path).parts[0]
    path.write_text(path.read_text().replace(f"scope: {scope}", "scope: global"))
    reconcile_vault(home)
    assert words(home, id, "now", caller=nobody) == "port A"
    assert words(home, id, "2026-01-05", caller=mine) == "port A"
    assert len(chain(home, id, caller=mine)[0]["in_force"]) == 1
    assert reading.get(home, mine, id=id, as_of="2026-01-05")["address"] not in str(chain(home, id, caller=nobody))
