"""Which statement revises which: another value or the contrary of the same thing, never a sibling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.extract.ruling import is_statement, revises


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("Prefix all table names with 'app_'.", "Prefix all table names with 'svc_'.", "value"),
        ("The retry limit is 5.", "The retry limit is 7.", "value"),
        ("The staging server listens on port 8080.", "The staging server listens on port 9090.", "value"),
        ("Use Jenkins for releases.", "Use Buildkite for releases.", "value"),
        ("Take Postgres as the main database.", "Take SQLite as the main database.", "value"),
        ("Squash commits before merging.", "Never squash commits before merging.", "contrary"),
        ("Always sign release tags", "Do not sign release tags", "contrary"),
        ("Enable the response cache.", "Disable the response cache.", "contrary"),
        ("Rotate the keys every 30 days.", "Rotate the keys every 90 days.", "value"),
        ("Logs are kept for two weeks.", "Logs are kept for six weeks.", "value"),
        ("The owner of billing is Kim.", "The owner of billing is Dana.", "value"),
    ],
)
def test_another_value_and_the_contrary_revise(old, new, kind):
    found = revises(old, new)
    assert found is not None
    assert found.kind == kind
    assert 0 < found.score <= 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Prefix all table names with 'app_'.", "Prefix all index names with 'app_'."),
        ("Use Jenkins for releases.", "Use Jenkins for nightly tests."),
        ("Add a docstring to each function.", "Add a type to each function."),
        ("Import the json module lazily.", "Import the yaml module lazily."),
        ("Use a linter.", "Use a debugger."),
        ("The retry limit is 5.", "The upload limit is 5."),
        ("Write tests in pytest.", "Review code on Mondays."),
        ("Include the ticket number in commit titles.", "Include the ticket number in branch names."),
        ("Ship on Fridays.", ""),
    ],
)
def test_siblings_and_strangers_do_not(one, other):
    assert revises(one, other) is None
    assert revises(other, one) is None


def test_the_same_statement_revises_nothing():
    assert revises("Use tabs for indentation.", "use tabs for indentation") is None


def test_long_texts_and_code_are_no_statements():
    assert is_statement("Use tabs for indentation.")
    assert not is_statement("word " * 60)
    assert not is_statement("Run this:\n```\nmake\n```")
    assert not is_statement("One. Two is here. Three is there.")


@given(st.text(max_size=120), st.text(max_size=120))
def test_it_never_fails_and_scores_stay_in_bounds(one, other):
    found = revises(one, other)
    assert found is None or 0 < found.score <= 1
