"""Does what a person leaves as it is stay out of reviews as long as was said, and no longer?"""

from __future__ import annotations

import pytest

from memoryd.errors import InvalidInput, NotFound
from memoryd.operations import leaving
from tests.operations.conftest import opened
from tests.operations.test_review import HERE, Times, add, ids, section


@pytest.fixture
def times() -> Times:
    return Times()


def test_what_was_put_off_comes_back_after_that_many_days(root, times):
    with opened(root, clock=times) as home:
        home.state.counting_since(times())
        id = add(home, "The proxy listens on port 8080.")
        times.day = 100
        assert leaving.put_off(home, HERE, section="never_recalled", id=id[:10], days=7)["id"] == id
    with opened(root, clock=times) as home:
        assert section(home, "never_recalled") == []
        times.day = 107
        assert ids(section(home, "never_recalled")) == [id]
        leaving.keep(home, HERE, section="never_recalled", id=id)
        times.day = 107 + leaving.KEEP_DAYS - 1
        assert section(home, "never_recalled") == []
        times.day += 1
        assert ids(section(home, "never_recalled")) == [id]


def test_refusals_are_typed(home):
    id = add(home, "The proxy listens on port 8080.")
    with pytest.raises(InvalidInput, match="no section 'odd'"):
        leaving.put_off(home, HERE, section="odd", id=id)
    with pytest.raises(InvalidInput, match="is a pair"):
        leaving.keep(home, HERE, section="conflicting", id=id)
    with pytest.raises(InvalidInput, match="two memories"):
        leaving.keep(home, HERE, section="near_duplicates", id=id, other=id)
    with pytest.raises(NotFound):
        leaving.put_off(home, HERE, section="stale", id="0" * 64)


def test_the_words_of_a_memory_are_read_without_a_recall(home):
    id = add(home, "The proxy listens on port 8080.")
    assert leaving.words(home, HERE, id=id[:10])["content"] == "The proxy listens on port 8080."
    assert home.noticed.peek() == {}
    with pytest.raises(NotFound):
        leaving.words(home, HERE, id="0" * 64)
