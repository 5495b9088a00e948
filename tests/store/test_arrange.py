"""Similar chunks come to lie side by side, every chunk once, whatever is laid."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memoryd.store.arrange import Line


def line_of(*contents: str) -> str:
    line = Line()
    for content in contents:
        line.lay([char.encode() for char in content])
    return b"".join(line).decode()


def test_a_changed_chunk_lies_beside_the_one_that_it_replaced():
    assert line_of("abcdef", "abXdef") == "abXcdef"
    assert line_of("abc", "Xbc") == "aXbc"
    assert line_of("abc", "abX") == "abXc"


def test_contents_without_anything_in_common_lie_one_after_the_other():
    assert line_of("abc", "xyz", "pq") == "abcxyzpq"


def test_versions_find_their_place_again_after_other_contents():
    assert line_of("abc", "xyz", "aBc") == "aBbcxyz"


def test_a_content_without_new_chunks_moves_nothing():
    assert line_of("abc", "cba", "bb") == "abc"
    assert line_of("", "") == ""


@given(st.lists(st.text("abcdefghijklmnop", max_size=12), max_size=12))
def test_every_chunk_lies_in_the_line_once(contents):
    laid = line_of(*contents)
    assert sorted(laid) == sorted(set("".join(contents)))
    line = Line()
    for content in contents:
        line.lay([char.encode() for char in content])
    assert len(line) == len(laid)
    assert all(char.encode() in line for char in laid)
