"""Is a memory that is written once more changed in nothing but blanks, punctuation or order?"""

from __future__ import annotations

import pytest

from memoryd.extract.wording import same_words
from memoryd.operations.readds import readds

PLAIN = "Never retry a payment. After a timeout, look into the log first; then ask Dana."
CODE = "Start it so. It takes 3 seconds:\n\n```sh\nmake  all ; make check.\n```\n\nThen wait, please. Never stop it."


@pytest.mark.parametrize("text", [PLAIN, CODE])
def test_every_form_differs_and_says_the_same_words(text):
    made = readds(text)
    assert set(made) == {"blanks", "punctuation", "order"}
    for other in made.values():
        assert other != text
        assert same_words(text, other)


def test_fenced_code_stays_as_it_is():
    assert all("```sh\nmake  all ; make check.\n```\n" in other for other in readds(CODE).values())


def test_what_cannot_be_changed_is_left_out():
    assert readds("word") == {}
    assert set(readds("One sentence only.")) == {"blanks", "punctuation"}


def test_lines_are_reversed_as_lines():
    assert readds("- one\n- two")["order"] == "- two\n- one"
