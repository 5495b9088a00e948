"""Is feedback counted once a session, kept from other scopes, and followed by calls that can be made as they stand?"""

from __future__ import annotations

import json

import pytest

from memoryd.errors import ContentTooLarge, InvalidInput, NotFound, SecretFound
from memoryd.operations import gateway, lifecycle, reading
from memoryd.operations.feedback import NOTE_LIMIT, feedback
from memoryd.operations.home import Caller
from tests.operations.conftest import commits, opened

ONE, TWO = Caller(name="pid 1"), Caller(name="pid 2")
PORT = "The proxy listens on port 8080."


def add(home, caller, content=PORT, scope="global"):
    return gateway.add(home, caller, content=content, type="fact", scope=scope)["id"]


def supersede(home, id, content):
    token = lifecycle.supersede(home, ONE, id=id, content=content)["confirm"]
    return lifecycle.supersede(home, ONE, id=id, content=content, confirm=token)["id"]


def told(home, id):
    return reading.get(home, ONE, id=id, metadata=True)


def test_the_same_word_by_the_same_session_once_more_changes_nothing(root):
    with opened(root) as home:
        id = add(home, ONE)
        first = feedback(home, ONE, id=id, verdict="wrong", note="it is 9090")
        again = feedback(home, ONE, id=id[:8], verdict="wrong", note="said twice")
        assert (first["outcome"], again["outcome"]) == ("noted", "known")
        assert first["feedback"] == again["feedback"] == {"useful": 0, "wrong": 1, "outdated": 0}
        assert feedback(home, TWO, id=id, verdict="wrong")["feedback"]["wrong"] == 2
    with opened(root) as home:
        assert feedback(home, ONE, id=id, verdict="wrong")["outcome"] == "known"
        newest = told(home, id)["feedback"]["newest"]
        assert [(one["by"], one["note"]) for one in newest] == [("pid 2", None), ("pid 1", "it is 9090")]


def test_nothing_is_retired_and_the_proposals_can_be_made_as_they_stand(home):
    id = add(home, ONE)
    before = commits(home)
    answer = feedback(home, ONE, id=id, verdict="outdated", note="moved in May")
    assert commits(home) == before
    assert reading.get(home, ONE, id=id)["status"] == "in_force"
    newer, none = answer["proposals"]
    assert (newer["tool"], newer["needs"], none["tool"]) == ("memory_supersede", "content", "memory_archive")
    assert lifecycle.supersede(home, ONE, **newer["arguments"], content="It is 9090.")["outcome"] == "preview"
    preview = lifecycle.archive(home, ONE, **none["arguments"])
    assert preview["outcome"] == "preview"
    assert "outdated: moved in May" in preview["diff"][0]
    assert feedback(home, TWO, id=id, verdict="useful")["proposals"] == []


def test_the_longest_note_makes_a_proposal_that_is_taken(home):
    id = add(home, ONE)
    answer = feedback(home, ONE, id=id, verdict="outdated", note="n" * NOTE_LIMIT)
    assert lifecycle.archive(home, ONE, **answer["proposals"][1]["arguments"])["outcome"] == "preview"
    with pytest.raises(ContentTooLarge):
        feedback(home, ONE, id=id, verdict="wrong", note="n" * (NOTE_LIMIT + 1))


def test_counts_follow_the_fact_and_words_stay_with_their_revision(home):
    first = add(home, ONE)
    feedback(home, ONE, id=first, verdict="wrong")
    second = supersede(home, first, "The proxy listens on port 9090.")
    feedback(home, ONE, id=second, verdict="useful")
    counts = told(home, second)["feedback"]
    assert (counts["useful"], counts["wrong"]) == (1, 1)
    assert [one["id"] for one in counts["newest"]] == [second, first]
    late = feedback(home, TWO, id=first, verdict="outdated")
    assert (late["proposals"], late["successor"]["id"]) == ([], second)


def test_a_fact_that_took_another_one_over_brings_its_counts_along(home):
    old, new = add(home, ONE), add(home, ONE, "The proxy listens on port 9090 since May.")
    feedback(home, ONE, id=new, verdict="useful")
    reading.get(home, ONE, id=new)
    reading.get(home, ONE, id=old)
    token = lifecycle.supersede(home, ONE, id=old, by=new)["confirm"]
    lifecycle.supersede(home, ONE, id=old, by=new, confirm=token)
    said = told(home, new)
    assert said["fact"] == old
    assert (said["feedback"]["useful"], said["recalls"]["count"]) == (1, 2)


def test_h_outside_the_scopes_is_answered_like_missing(home, project, nobody):
    """Invariant 8: feedback is one of the roads on which a scope is checked."""
    mine = project("mine")
    hidden = add(home, mine, scope=None)
    for caller in (nobody, project("other")):
        with pytest.raises(NotFound) as outside:
            feedback(home, caller, id=hidden, verdict="wrong")
        with pytest.raises(NotFound) as missing:
            feedback(home, caller, id="0" * 64, verdict="wrong")
        assert json.dumps(outside.value.to_dict()).replace(hidden, "X") == json.dumps(missing.value.to_dict()).replace(
            "0" * 64, "X"
        )
    assert home.state.feedback.against() == []


def test_refusals_are_typed_and_note_nothing(home):
    id = add(home, ONE)
    with pytest.raises(SecretFound):
        feedback(home, ONE, id=id, verdict="wrong", note="the password is: Tr0ub4dor&3xyz!")
    with pytest.raises(InvalidInput, match="useful, wrong, outdated"):
        feedback(home, ONE, id=id, verdict="bad")
    with pytest.raises(NotFound):
        feedback(home, ONE, id="no id", verdict="wrong")
    assert home.state.feedback.of([id]) == []


def test_revisions_that_did_not_last_a_day_are_counted_as_churn(root):
    now = [1_800_000_000.0]
    with opened(root, clock=lambda: now[0]) as home:
        id = add(home, ONE)
        for number, hours in enumerate((1, 25, 2)):
            now[0] += hours * 3600
            id = supersede(home, id, f"The proxy listens on port 909{number}.")
        assert told(home, id)["churn"] == 2
