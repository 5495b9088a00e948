"""Terms of texts and queries: what a reader would look for is a term, on both sides the same."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.index.analysis import (
    MAX_TERM,
    STOP_WORDS,
    code_analyser,
    exact_names,
    normalise,
    places,
    query_terms,
    streams,
    word_analyser,
)

WORDS = word_analyser()
CODES = code_analyser()

ANY_TEXT = st.text(max_size=200) | st.text(
    alphabet="aB1_ -./:+#>@éÅ\u0301\u200d中文かな한글กำПа\u0627\u0651🚀\ud800\x00\n'\"*[", max_size=60
)


def codes(text: str) -> list[str]:
    return CODES.analyze(streams(text)[1])


def words(text: str) -> list[str]:
    return WORDS.analyze(streams(text)[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("foo_bar.baz()", {"foo_bar.baz", "foo_bar", "baz", "foo", "bar"}),
        ("HTTPServerError", {"httpservererror", "http", "server", "error"}),
        ("getUserName2", {"getusername2", "get", "user", "name2"}),
        ("src/app/main.py:42", {"src/app/main.py:42", "main.py", "src", "app", "main", "py", "42"}),
        ("std::vector<int>", {"std::vector", "std", "vector", "int"}),
        ("ptr->next", {"ptr->next", "ptr", "next"}),
        ("C++ and C#", {"c++", "c", "and", "c#"}),
        ("run --dry-run -v", {"run", "--dry-run", "dry-run", "dry", "-v", "v"}),
        ("--flag=value", {"--flag", "flag", "value"}),
        ("task-6", {"task-6", "task", "6"}),
        ("v1.0.21", {"v1.0.21", "v1", "0", "21"}),
        ("__init__", {"__init__", "init"}),
        ("me@host.example", {"me@host.example", "host.example", "me", "host", "example"}),
        ("ship it 🚀", {"ship", "it", "🚀"}),
        ("* >>> [ \\ \" ' | ~ \x00", set()),
    ],
)
def test_code_terms_hold_the_whole_and_its_parts(text, expected):
    assert set(codes(text)) == expected


def test_code_terms_are_neither_stemmed_nor_dropped():
    assert codes("the running is") == ["the", "running", "is"]


def test_word_terms_are_stemmed_and_stop_words_dropped():
    assert words("The servers were running in foo_bar.py") == ["server", "run", "foo", "bar", "py"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Café", "Cafe\u0301"),
        ("Müller", "muller"),
        ("ﬁle Ｃ＋＋ ①", "file C++ 1"),
        ("soft\u00adhyphen zero\u200bwidth", "softhyphen zerowidth"),
        ("Ёлка", "елка"),
        ("مُحَمَّد", "محمد"),
        ("Straße", "STRASSE"),
        ("がっこう", unicodedata.normalize("NFD", "がっこう")),
        ("한국어", unicodedata.normalize("NFD", "한국어")),
    ],
)
def test_writings_of_one_word_are_one_term(one, other):
    assert codes(one) == codes(other) != []
    assert words(one) == words(other) != []


def test_unspaced_scripts_become_pairs_in_both_views():
    expected = ["数据", "据库", "库"]
    assert codes("数据库") == words("数据库") == expected
    assert codes("使用Redis缓存") == ["使用", "用", "redis", "缓存", "存"]
    assert "ไทย"[:2] in codes("ภาษาไทย")


def test_indic_words_keep_their_vowel_signs():
    assert codes("हिन्दी भाषा") == ["हिन्दी", "भाषा"]


def test_a_very_long_token_is_cut_alike_on_both_sides():
    blob = "x" * 5000
    assert codes(blob) == ["x" * MAX_TERM] == list(query_terms(blob).codes)


def test_a_query_of_stop_words_alone_keeps_them():
    assert query_terms("to be or not").codes == ("to", "be", "or", "not")
    assert query_terms("to be or not").words == ()
    assert query_terms("the NOT operator").codes == ("operator",)


@pytest.mark.parametrize("text", ["", "   \n\t", '* [ \\ " >>>', "\x00\x01"])
def test_a_query_of_nothing_has_no_terms(text):
    terms = query_terms(text)
    assert (terms.words, terms.codes, terms.prefix) == ((), (), "")


@pytest.mark.parametrize(
    ("query", "prefix"),
    [
        ("vector quant", "quant"),
        ("src/fo", "src/fo"),
        ("--dr", "--dr"),
        ("getUs ", "getus"),
        ("a b", ""),
        ("-v", ""),
        ("what is this?", ""),
        ("this is the", ""),
        ("库", "库"),
        ("数据库", ""),
    ],
)
def test_the_last_token_is_a_prefix_where_it_may_be_unfinished(query, prefix):
    assert query_terms(query).prefix == prefix


@given(ANY_TEXT)
def test_a_text_as_its_own_query_asks_only_for_its_own_terms(text):
    terms = query_terms(text)
    assert set(terms.words) == set(words(text))
    assert set(terms.codes) <= set(codes(text))
    assert set(codes(text)) - set(terms.codes) <= STOP_WORDS


@given(ANY_TEXT)
def test_terms_never_hold_blanks_and_are_bounded(text):
    for term in [*codes(text), *words(text)]:
        assert term and not any(char.isspace() for char in term)
        assert len(term) <= MAX_TERM
        term.encode("utf-8")


@given(ANY_TEXT)
def test_normalising_twice_changes_nothing(text):
    assert normalise(normalise(text)) == normalise(text)


@given(ANY_TEXT)
def test_places_are_pieces_of_the_text_in_order(text):
    wanted = frozenset(words(text)) | frozenset(codes(text))
    found = list(places(text, wanted))
    assert [place.start for place in found] == sorted(place.start for place in found)
    assert all(0 <= place.start < place.end <= len(text) for place in found)
    assert all(place.terms and place.terms <= wanted for place in found)


def test_places_name_the_terms_that_a_query_asks_for():
    text = "Call foo_bar.baz() in 数据库 servers"
    wanted = frozenset({"foo_bar", "baz", "server", "数据", "in"})
    assert [(text[place.start : place.end], set(place.terms)) for place in places(text, wanted)] == [
        ("foo_bar.baz", {"foo_bar", "baz"}),
        ("in", {"in"}),
        ("数据", {"数据"}),
        ("servers", {"server"}),
    ]
    assert list(places(text, frozenset({"absent"}))) == []


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("what does src/foo.py do", ("src/foo.py",)),
        ("Foo::bar and fooBar", ("foo.bar", "foobar")),
        ("foo_bar()", ("foo_bar",)),
        ("heron", ("heron",)),
        ("delivery backlog tasks", ()),
        ("the back end of task 6", ()),
        ("", ()),
    ],
)
def test_case_42_a_phrase_names_nothing(query, names):
    assert exact_names(query) == names
