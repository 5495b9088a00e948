"""Excerpts: exact pieces of their passages, within the budget, with the query's words in view."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.search.excerpt import BYTES_PER_TOKEN, Excerpt, cut, cut_excerpts, locate, split_budget, wanted_terms

PIECES = st.text(alphabet="ab é中ไ🚀\n\r\t.-_e\u0301\u200d", max_size=400)


def filler(words: int, start: int = 0) -> str:
    return " ".join(f"filler{n}" for n in range(start, start + words))


def size(text: str) -> int:
    return len(text.encode("utf-8"))


def test_a_passage_that_fits_is_shown_whole():
    assert cut_excerpts("anything", ["short text\n"], budget=200) == [Excerpt("", "short text\n", whole=True)]


def test_the_window_holds_the_words_of_the_query():
    text = f"{filler(100)} the eviction policy decides {filler(100, 100)}"
    (shown,) = cut_excerpts("eviction policies", [text], budget=120)
    assert "eviction policy" in shown.text
    assert not shown.whole
    assert text.startswith(shown.before + shown.text)


def test_the_window_with_most_different_words_wins():
    text = f"cache cache cache {filler(80)} cache eviction memory {filler(80, 80)}"
    (shown,) = cut_excerpts("memory eviction cache", [text], budget=120)
    assert "cache eviction memory" in shown.text


def test_identifiers_and_chinese_are_brought_into_view():
    text = f"{filler(80)} call foo_bar.baz() now {filler(80, 80)}"
    assert "foo_bar.baz()" in cut_excerpts("foo_bar.baz", [text], budget=100)[0].text
    run = "填" * 300 + "数据库配置" + "充" * 300
    assert "数据库配置" in cut_excerpts("数据库配置", [run], budget=160)[0].text


def test_without_a_hit_the_beginning_is_shown():
    text = f"\n  First words {filler(100)}"
    (shown,) = cut_excerpts("absent", [text], budget=80)
    assert shown.text.startswith("First words")


def test_a_hit_at_the_end_uses_the_whole_room():
    text = f"{filler(100)} eviction"
    (shown,) = cut_excerpts("eviction", [text], budget=160)
    assert shown.text.endswith("eviction")
    assert size(shown.text) > 40 * BYTES_PER_TOKEN * 0.8


def test_borders_are_those_of_words_or_lines():
    text = "\n".join(f"line {n} has words enough to be cut somewhere" for n in range(40))
    (shown,) = cut_excerpts("line 20", [text], budget=160)
    assert shown.text.startswith("line ")
    assert shown.text.endswith("somewhere")
    words = filler(300)
    (shown,) = cut_excerpts("filler150", [words], budget=100)
    assert set(shown.text.split()) <= set(words.split())


def test_results_share_the_budget():
    texts = ["short", filler(300), "tiny", filler(300)]
    shown = cut_excerpts("filler5", texts, budget=800)
    assert shown[0].whole and shown[2].whole
    assert sum(size(one.text) for one in shown) <= 200 * BYTES_PER_TOKEN
    # What the short ones leave over goes to the long ones.
    assert min(size(shown[1].text), size(shown[3].text)) > 200 * BYTES_PER_TOKEN / 4


def test_no_results_need_no_budget():
    assert cut_excerpts("query", [], budget=400) == []


@given(st.lists(st.integers(0, 500), max_size=20), st.integers(-5, 3000))
def test_shares_keep_to_the_budget_and_waste_little(costs, budget):
    shares = split_budget(costs, budget)
    assert all(0 <= share <= cost for share, cost in zip(shares, costs, strict=True))
    assert sum(shares) <= max(0, budget)
    assert sum(shares) >= min(sum(costs), max(0, budget) - len(costs))
    pairs = sorted(zip(costs, shares, strict=True))
    assert [share for _, share in pairs] == sorted(share for _, share in pairs)


@given(st.lists(st.tuples(st.integers(0, 3000), st.floats(0.125, 1.0)), min_size=1, max_size=20), st.integers(-5, 8000))
def test_weighed_shares_keep_to_the_budget_and_go_by_weight(items, budget):
    costs, weights = [cost for cost, _ in items], [weight for _, weight in items]
    shares = split_budget(costs, budget, weights)
    assert all(0 <= share <= cost for share, cost in zip(shares, costs, strict=True))
    assert sum(shares) <= max(0, budget)
    assert sum(shares) >= min(sum(costs), max(0, budget) - len(costs))
    short = [(weight, share) for cost, weight, share in zip(costs, weights, shares, strict=True) if share < cost]
    assert all(one[1] <= other[1] + len(costs) for one in short for other in short if one[0] <= other[0])


@given(PIECES, st.text(max_size=30), st.integers(1, 200))
def test_case_30_an_excerpt_is_an_exact_piece_and_never_splits_a_character(text, query, room):
    shown = cut(text, wanted_terms(query), room)
    assert text.startswith(shown.before + shown.text)
    assert bool(shown.text) == bool(text)
    assert shown.whole == (size(text) <= room)
    if not shown.whole:
        assert size(shown.text) <= max(room, size(shown.text[0]))
    data = text.encode("utf-8")
    place = locate(shown, start=100, line_start=7)
    assert data[place.start - 100 : place.end - 100].decode("utf-8") == shown.text


@given(PIECES, st.integers(4, 120))
def test_some_wanted_word_is_in_view_wherever_it_stands(text, room):
    text = f"{text} needle {text}"
    assert "needle" in cut(text, wanted_terms("needle"), max(room, 8)).text


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_and_bytes_are_those_of_the_file(newline):
    lines = [f"row {n} größer" for n in range(60)]
    head = newline.join(["first", "second", ""])
    text = newline.join(lines)
    data = (head + text).encode("utf-8")
    (shown,) = cut_excerpts("row 33", [text], budget=48)
    place = locate(shown, start=size(head), line_start=3)
    assert data[place.start : place.end].decode("utf-8") == shown.text
    held = data.decode("utf-8").split(newline)[place.line_start - 1 : place.line_end]
    assert newline.join(held) == shown.text
    assert "row 33 größer" in held


def test_offsets_follow_the_stored_encoding():
    text = "é" * 3 + " mot " + "à" * 40
    shown = cut(text, wanted_terms("mot"), 12)
    data = text.encode("utf-16-le")
    place = locate(shown, start=0, line_start=1, encoding="utf-16-le")
    assert data[place.start : place.end].decode("utf-16-le") == shown.text
