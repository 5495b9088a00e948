"""Is what was found about a pair kept once, settled for good, and carried over from a damaged file?"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from memoryd.catalog.findings import Finding
from memoryd.catalog.schema import STATE
from memoryd.catalog.state import Recall, State
from tests.catalog.make import ruin_recalls

PAIR = Finding("similar", "m2", "m1", 0.93, "the same words in another order", 10.0)
OTHER = Finding("conflict", "m2", "m1", None, "one number differs", 11.0)


def test_a_pair_is_filed_once_a_kind_in_whichever_order(state: State):
    assert state.findings.file(PAIR)
    assert not state.findings.file(PAIR)
    turned = Finding("similar", "m1", "m2", 0.5, "turned round", 12.0)
    assert not state.findings.file(turned)
    assert state.findings.file(OTHER)
    assert state.findings.open() == [OTHER, PAIR]
    assert state.findings.find("similar", "m1", "m2") == state.findings.find("similar", "m2", "m1") == PAIR
    assert state.findings.find("similar", "m1", "m3") is None


def test_what_is_settled_is_neither_open_nor_filed_again(state: State):
    state.findings.file(PAIR)
    assert state.findings.settle("similar", "m1", "m2", 20.0)
    assert not state.findings.settle("similar", "m1", "m2", 21.0)
    assert not state.findings.settle("conflict", "m1", "m2", 21.0)
    assert state.findings.open() == []
    assert not state.findings.file(PAIR)
    assert state.findings.open() == []


def test_a_state_of_the_first_step_is_taken_further_with_its_rows(tmp_path: Path):
    path = tmp_path / "state.db"
    connection = sqlite3.connect(path)
    connection.executescript(f"{STATE[0]};PRAGMA user_version=1;INSERT INTO recalls VALUES ('f', 3, 5.0);")
    connection.close()
    state = State(path)
    assert state.set_aside is None
    assert state.recalls.of(["f"])["f"].amount == 3
    assert state.findings.file(PAIR)
    state.close()


def test_findings_are_carried_over_from_a_damaged_file(tmp_path: Path):
    path = tmp_path / "state.db"
    state = State(path)
    state.findings.file(PAIR)
    state.findings.file(OTHER)
    state.findings.settle("conflict", "m1", "m2", 12.0)
    for start in range(0, 4000, 100):
        state.recalls.add({f"fact-{number}": Recall(1, 1.0) for number in range(start, start + 100)})
    state.close()
    ruin_recalls(path)
    again = State(path)
    assert again.set_aside is not None
    assert again.findings.open() == [PAIR]
    assert not again.findings.file(OTHER), "settled stays settled"
    again.close()


def test_erased_words_leave_no_finding(tmp_path: Path):
    state = State(tmp_path / "state.db")
    state.findings.file(Finding("similar", "m1", "m2", 0.9, "both name hunter2", 1.0))
    state.findings.file(Finding("similar", "m3", "m4", 0.9, "harmless", 1.0))
    state.findings.file(Finding("similar", "gone", "m4", 0.9, "harmless too", 1.0))
    assert state.erase(["gone"], ["hunter2"]) == 2
    assert [one.memory for one in state.findings.open()] == ["m3"]
    for path in tmp_path.iterdir():
        assert b"hunter2" not in path.read_bytes() and b"gone" not in path.read_bytes()
    state.close()
