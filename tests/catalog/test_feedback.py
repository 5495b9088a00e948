"""Does one session have one word on a revision, counted by fact, and is it carried over from a damaged file?"""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

from memoryd.catalog.feedback import Verdict
from memoryd.catalog.schema import STATE
from memoryd.catalog.state import Recall, State
from tests.catalog.make import ruin_recalls

WRONG = Verdict("m2", "pid 1", "m1", "wrong", "the port is 9090", 10.0)


def test_the_same_word_again_changes_nothing_and_another_one_stands(state: State):
    assert state.feedback.give(WRONG)
    assert not state.feedback.give(replace(WRONG, note="other", given=11.0))
    assert state.feedback.of(["m1"]) == [WRONG]
    useful = replace(WRONG, verdict="useful", note=None, given=12.0)
    assert state.feedback.give(useful)
    assert state.feedback.of(["m1"]) == [useful]
    assert state.feedback.against() == []


def test_words_of_several_sessions_on_several_revisions_are_those_of_the_fact(state: State):
    first = replace(WRONG, memory="m1", given=5.0)
    other = replace(WRONG, session="pid 2", verdict="outdated", given=20.0)
    foreign = replace(WRONG, memory="x", fact="x", given=30.0)
    for one in (WRONG, first, other, foreign):
        state.feedback.give(one)
    assert state.feedback.of(["m1"]) == [other, WRONG, first]
    assert state.feedback.against() == [foreign, other, WRONG, first]


def test_a_state_of_an_earlier_step_is_taken_further(tmp_path: Path):
    for version in range(1, len(STATE)):
        path = tmp_path / f"{version}.db"
        connection = sqlite3.connect(path)
        connection.executescript(f"{';'.join(STATE[:version])};PRAGMA user_version={version};")
        connection.execute("INSERT INTO recalls VALUES ('f', 3, 5.0)")
        connection.commit()
        connection.close()
        state = State(path)
        assert state.set_aside is None
        assert state.recalls.all() == {"f": Recall(3, 5.0)}
        assert state.feedback.give(WRONG)
        state.close()


def test_all_soft_state_is_carried_over_from_a_damaged_file(tmp_path: Path):
    path = tmp_path / "state.db"
    state = State(path)
    state.feedback.give(WRONG)
    state.fetches.add({"m1": Recall(2, 9.0)})
    state.put_off.put(("stale", "m2", ""), 99.0)
    assert state.counting_since(4.0) == 4.0
    state.recalls.add({f"fact-{number}": Recall(1, 1.0) for number in range(4000)})
    state.close()
    ruin_recalls(path)
    again = State(path)
    assert again.set_aside is not None
    assert again.feedback.of(["m1"]) == [WRONG]
    assert again.fetches.all() == {"m1": Recall(2, 9.0)}
    assert again.put_off.at(98.0) == {("stale", "m2", "")}
    assert again.counting_since(50.0) == 4.0
    again.close()


def test_what_was_put_off_comes_back_in_time(state: State):
    state.put_off.put(("stale", "m1", ""), 10.0)
    state.put_off.put(("stale", "m1", ""), 20.0)
    state.put_off.put(("similar", "m1", "m2"), 15.0)
    assert state.put_off.at(14.0) == {("stale", "m1", ""), ("similar", "m1", "m2")}
    assert state.put_off.at(15.0) == {("stale", "m1", "")}
    assert state.put_off.at(20.0) == set()


def test_erased_words_leave_no_feedback(tmp_path: Path):
    state = State(tmp_path / "state.db")
    state.feedback.give(replace(WRONG, note="it is hunter2"))
    state.feedback.give(replace(WRONG, memory="gone-id", fact="other"))
    state.feedback.give(replace(WRONG, memory="m9", fact="m9"))
    state.fetches.add({"gone-fact": Recall(1, 1.0)})
    state.put_off.put(("stale", "gone-id", ""), 99.0)
    assert state.erase(["gone-fact"], ["hunter2", "gone-id"]) == 4
    assert [one.memory for one in state.feedback.against()] == ["m9"]
    for path in tmp_path.iterdir():
        assert b"hunter2" not in path.read_bytes() and b"gone-" not in path.read_bytes()
    state.close()
