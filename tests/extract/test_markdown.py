"""Is a heading taken for a heading, and nothing else for one?"""

from __future__ import annotations

import textwrap

import pytest

from memoryd.extract.markdown import MAX_HEADING, front_matter, outline
from memoryd.extract.text import line_starts


def headings(text: str) -> list[tuple[int, str]]:
    found = outline(text, line_starts(text), 0)
    return [(one.level, one.path[-1] if one.path else "") for one in found.blocks if one.level]


def blocks(text: str) -> list[str]:
    return [text[one.start : one.end] for one in outline(text, line_starts(text), 0).blocks]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# One", [(1, "One")]),
        ("###### Six ######", [(6, "Six")]),
        ("####### seven", []),
        ("#tag", []),
        ("   ## Three blanks", [(2, "Three blanks")]),
        ("    # code", []),
        ("\t# code", []),
        ("## C# and #", [(2, "C# and")]),
        ("## C#", [(2, "C#")]),
        ("#\ttab", [(1, "tab")]),
        ("#", [(1, "")]),
        ("Title\n=====", [(1, "Title")]),
        ("Two\nlines\n---", [(2, "Two lines")]),
        ("---\n\ntext", []),
        ("text\n\n---", []),
        ("- item\n---", []),
        ("> quote\n---", []),
        ("| a |\n---", []),
        ("a\n- - -", []),
        ("```\n# no\n```\n# yes", [(1, "yes")]),
        ("~~~ py\n# no\n```\n# no\n~~~~\n# yes", [(1, "yes")]),
        ("````\n```\n# no\n````\n# yes", [(1, "yes")]),
        ("``` a`b\n# yes", [(1, "yes")]),
        ("```\n# never closed", []),
        ("- item\n\n    ```\n    # no\n# no\n    ```\n# yes", [(1, "yes")]),
        ("text\n\n    ```\n    code\n\n# yes", [(1, "yes")]),
        ("<!-- a\n# no\n-->\n# yes", [(1, "yes")]),
        ("<!-- one line -->\n# yes", [(1, "yes")]),
        ("<pre>\n# no\n</pre>\n# yes", [(1, "yes")]),
        ("<prefix>\n\n# yes", [(1, "yes")]),
        ("> # quoted", []),
        ("# " + "x" * MAX_HEADING, []),
        ("# a\r\n\r\nB\r\n---\r\n", [(1, "a"), (2, "B")]),
        ("# a\r# b\r", [(1, "a"), (1, "b")]),
    ],
)
def test_what_is_a_heading(text: str, expected: list[tuple[int, str]]):
    assert headings(text) == expected


def test_paths_follow_levels():
    text = "# A\n\n### C\n\ndeep\n\n## B\n\nless\n\n# D\n\nend\n"
    found = outline(text, line_starts(text), 0).blocks
    assert [one.path for one in found if not one.level] == [("A", "C"), ("A", "B"), ("D",)]


def test_blocks_are_what_a_reader_sees():
    text = "intro\nmore\n\n```\ncode\n\nmore code\n```\nafter\n# H\ntext\n"
    assert blocks(text) == ["intro\nmore", "```\ncode\n\nmore code\n```", "after", "# H", "text"]


@pytest.mark.parametrize(
    ("text", "title", "body"),
    [
        ("---\ntitle: A b\n---\nbody", "A b", "body"),
        ('---\nx: 1\ntitle: "A \\"q\\" \\u00e9" \n---\nbody', 'A "q" é', "body"),
        ("---\ntitle: 'It''s'\n...\nbody", "It's", "body"),
        ("---\ntitle: Plain # note\n---\n", "Plain", ""),
        ("---\ntitle: C# notes\n---\n", "C# notes", ""),
        ("---\ntitle: >\n  folded\n---\nbody", "", "body"),
        ("---\r\ntitle: A\r\n---\r\nbody", "A", "body"),
        ("---\rtitle: A\r---\rbody", "A", "body"),
        ("---\n---\nbody", "", "body"),
        ("---\n\n# comment\ntags: [a]\n---\nbody", "", "body"),
        ('+++\ntitle = "T"\n+++\nbody', "T", "body"),
        ("---\nnested:\n  title: no\n---\nbody", "", "body"),
    ],
)
def test_front_matter_is_found(text: str, title: str, body: str):
    starts = line_starts(text)
    first, found = front_matter(text, starts)
    assert (found, text[starts[first] :]) == (title, body)


@pytest.mark.parametrize(
    "text",
    [
        "---\ntitle: never closed\n\nbody",
        "---\nJust words between two rules.\n\n---\nbody",
        "\n---\ntitle: x\n---\n",
        "",
        "--\ntitle: x\n--\n",
        "body\n---\nx: 1\n---\n",
    ],
)
def test_what_only_looks_like_front_matter_stays_body(text: str):
    assert front_matter(text, line_starts(text)) == (0, "")


def test_first_heading_is_the_first_top_one():
    text = textwrap.dedent("""
        ## Before

        # Title *here*

        # Second
        """)
    assert outline(text, line_starts(text), 0).first_heading == "Title *here*"
