"""Synonyms as a person writes them."""

from __future__ import annotations

from memoryd.search.synonyms import Synonyms, parse

TEXT = """
# what we call things
k8s kubernetes
cache, redis, key value store   # three ways
lonely
,,,
"""


def test_a_line_holds_words_or_phrases_between_commas():
    assert len(parse(TEXT).groups) == 2
    assert parse("") == parse("# nothing") == Synonyms(())


def test_words_of_a_line_count_beside_each_other():
    words = parse(TEXT)
    assert words.beside(["kubernet"]) == {"k8s": 1.0}
    assert words.beside(["redi", "error"]) == {"cach": 1.0, "key": 1 / 3, "valu": 1 / 3, "store": 1 / 3}


def test_a_phrase_counts_only_as_a_whole():
    words = parse(TEXT)
    assert words.beside(["key", "error"]) == {}
    assert words.beside(["store", "valu", "key"]) == {"cach": 1.0, "redi": 1.0}
    assert words.beside([]) == {}
