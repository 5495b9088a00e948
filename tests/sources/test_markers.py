"""Are the marks of a merge told from words about them, in every form of line ending?"""

from __future__ import annotations

import pytest

from memoryd.sources.markers import conflict_line

MARKS = b"<<<<<<< HEAD\none\n=======\ntwo\n>>>>>>> theirs\n"


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (MARKS, 1),
        (b"a\n\n" + MARKS, 3),
        (b"a\n" + MARKS.replace(b"\n", b"\r\n"), 2),
        (b"a\r" + MARKS.replace(b"\n", b"\r"), 2),
        (b"a\n<<<<<<< HEAD\none\n||||||| base\nzero\n=======\ntwo\n>>>>>>> theirs", 2),
        (b"<<<<<<< HEAD\none\n```\n=======\ntwo\n```\n>>>>>>> theirs\n", 1),
        (b"```\ncode\n```\n" + MARKS, 4),
        (b"```\n" + MARKS + b"```\n", None),
        (b"~~~~ diff\n" + MARKS + b"~~~\n" + MARKS + b"~~~~\n", None),
        (b"   ```\n" + MARKS + b"   ```\n", None),
        (b"> <<<<<<< HEAD\n> =======\n> >>>>>>> x\n", None),
        (b"Title\n=======\n<<<<<<< HEAD\n", None),
        (b"<<<<<<< HEAD\n>>>>>>> x\n=======\n", None),
        (b"<<<<<<<< eight\n=======\n>>>>>>> x\n", None),
        (b"", None),
    ],
)
def test_the_line_of_the_first_mark(data, line):
    assert conflict_line(data) == line
