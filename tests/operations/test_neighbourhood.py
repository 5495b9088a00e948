"""What do the memories in force say of likeness?"""

from __future__ import annotations

import pytest

from memoryd.operations import gateway, neighbourhood
from memoryd.operations.nearness import Cuts
from memoryd.operations.neighbourhood import survey
from tests.operations.conftest import settle

TEXTS = (
    "The import of the price list runs at night and takes an hour. Look into its log first when it fails, then ask Dana.",
    "The export of the stock list runs at noon and takes a minute. Look into its log first when it fails, then ask Kim.",
    "Invoices are numbered without gaps, a cancelled invoice keeps its number, and the credit note gets one of its own.",
)


def look(home):
    settle(home)
    return survey(home, lambda _done, _total, _note: None, lambda: False)


def remember(home, caller, *texts, **other):
    return [gateway.add(home, caller, content=text, type="fact", **other)["id"] for text in texts]


def test_each_memory_has_its_nearest_neighbour_in_its_own_scope(home, project):
    remember(home, project("one"), *TEXTS)
    remember(home, project("two"), TEXTS[0])
    found = look(home)
    assert (found.in_force, found.measured, found.unchecked, found.same_words) == (4, 4, 0, [])
    assert len(found.nearest) == 3, "the only memory of a scope has no neighbour, not even its twin in another one"
    assert max(found.nearest) > 0.4 > min(found.nearest)
    told = found.told(Cuts(0.4, 2.0))
    assert (told["flagged"], told["proposed"]) == (pytest.approx(2 / 3, abs=0.001), 0)


def test_the_same_memory_written_once_more_is_caught_in_every_form(home, project):
    remember(home, project("app"), *TEXTS)
    told = look(home).told(Cuts(0.4, 0.6))
    assert {name: (one["made"], one["caught"]) for name, one in told["readds"].items()} == {
        "blanks": (3, 3),
        "punctuation": (3, 3),
        "order": (2, 2),
    }
    assert told["missed"] == []


def test_what_says_the_same_words_or_another_value_is_no_distinct_neighbour(home, project):
    caller = project("app")
    one, two = remember(home, caller, TEXTS[0], "The page size is 25.")
    (twin,) = remember(home, caller, TEXTS[0].upper(), force="to be found")
    remember(home, caller, "The page size is 40.")
    found = look(home)
    assert found.same_words == [tuple(sorted((one, twin)))]
    assert found.revised == 2
    assert all(value < 0.6 for value in found.nearest)


def test_only_a_sample_is_measured_always_the_same(home, project, monkeypatch):
    monkeypatch.setattr(neighbourhood, "SAMPLE", 2)
    remember(home, project("app"), *TEXTS)
    first, second = look(home), look(home)
    assert (first.in_force, first.measured) == (3, 2)
    assert first == second
