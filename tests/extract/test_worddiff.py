"""Does one line show which words differ, and stay short?"""

from __future__ import annotations

import pytest

from memoryd.extract.worddiff import CHARACTERS_MOST, WORDS_MOST, word_difference


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("the port is 8080", "the port is 9090", "the port is [-8080-] {+9090+}"),
        ("a b", "a  b\n", ""),
        ("", "", ""),
        ("", "new", "{+new+}"),
        ("it went", "", "[-it went-]"),
        ("one two three four five x", "one two three four five y", "... three four five [-x-] {+y+}"),
        (
            "x one two three four five six seven y",
            "a one two three four five six seven b",
            "[-x-] {+a+} one two three ... five six seven [-y-] {+b+}",
        ),
    ],
)
def test_words_that_differ_stand_among_a_few_that_do_not(before: str, after: str, line: str):
    assert word_difference(before, after) == line


def test_long_texts_cost_little_and_stay_short():
    before = " ".join(f"w{number}" for number in range(5000))
    line = word_difference(before, f"first {before}")
    assert line.startswith("{+first+} w0 w1 w2 ...")
    assert line.endswith("...")
    other = " ".join(f"v{number}" for number in range(WORDS_MOST))
    assert len(word_difference(before, other)) <= CHARACTERS_MOST + 4
