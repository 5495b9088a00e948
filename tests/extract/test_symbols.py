"""Are the definitions of a Python file found where they stand?"""

from __future__ import annotations

import textwrap
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.extract.symbols import PARSE_LIMIT, definitions

SOURCE = textwrap.dedent(
    '''
    import os

    @decorate(
        "x",
    )
    def plain(a, b):
        """Doc."""
        def inner():
            return a
        return inner

    class Outer(Base):
        value = 1

        @property
        async def method(self):
            pass

        class Inner:
            def deep(self): ...

    if os.name == "posix":
        def conditional():
            pass
    else:
        try:
            class Fallback: pass
        except ImportError:
            def last(): pass
    '''
).lstrip("\n")


def test_names_kinds_and_places():
    found = {one.name: one for one in definitions(SOURCE)}
    assert {name: one.kind for name, one in found.items()} == {
        "plain": "function",
        "plain.inner": "function",
        "Outer": "class",
        "Outer.method": "method",
        "Outer.Inner": "class",
        "Outer.Inner.deep": "method",
        "conditional": "function",
        "Fallback": "class",
        "last": "function",
    }
    plain = found["plain"]
    assert (plain.line_start, plain.line_end, plain.depth) == (3, 10, 0)
    assert SOURCE[plain.start_char : plain.end_char].startswith("@decorate(")
    assert SOURCE[plain.start_char : plain.end_char].endswith("return inner\n")
    assert plain.statements == (7, 8, 10)
    assert found["Outer.Inner.deep"].depth == 2
    starts = [one.line_start for one in definitions(SOURCE)]
    assert starts == sorted(starts)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_do_not_move_definitions(end: str):
    text = SOURCE.replace("\n", end)
    found = {one.name: one for one in definitions(text)}
    assert text[found["Outer"].start_char : found["Outer"].end_char].startswith("class Outer")
    assert text[found["Fallback"].start_char : found["Fallback"].end_char].strip() == "class Fallback: pass"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "def broken(:\n    pass",
        "print 'old'",
        "x = '\0'",
        "(" * 400 + ")" * 400,
        "-" * 50_000 + "1",
        "\n".join(" " * depth + "if x:" for depth in range(400)),
        "class A:\n  def b(self):\n\tpass\n        pass",
        "def f(): pass\n" + "#" * PARSE_LIMIT,
    ],
    ids=range(9),
)
def test_what_does_not_parse_has_no_definitions(text: str):
    assert definitions(text) == []


def test_doubtful_escapes_are_not_logged():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [one.name for one in definitions('def f():\n    return "\\d" is 1\n')] == ["f"]


@given(st.text(max_size=80))
def test_no_text_raises(text: str):
    for one in definitions(text):
        assert 0 <= one.start_char < one.end_char <= len(text)
