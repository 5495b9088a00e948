"""Which texts are the same words once more, and which say something else?"""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.extract.wording import same_words

RULE = """# Retries

Retry a failed upload 3 times, then give up. Never retry a `POST` to /api/v2/orders!
- The limit lives in `config/limits.toml`
- Ask Dana before you raise it
"""

TRIVIAL = [
    RULE.replace(" ", "  "),
    RULE.replace("\n", "\r\n") + "\n\n",
    RULE.replace("Retry", "retry").replace("Ask", "ASK"),
    RULE.replace("`", "").replace("!", ".").replace("- ", "* "),
    RULE.replace("# Retries", "Retries:"),
    "\n".join(reversed(RULE.splitlines())),
    RULE.replace("Retry a failed upload 3 times, then give up. ", "").rstrip()
    + " Retry a failed upload 3 times, then give up.",
    RULE.replace("give up", "**give up**"),
]

OTHER = [
    RULE.replace("3", "4"),
    RULE.replace("Never retry", "Retry"),
    RULE.replace("Dana", "Kim"),
    RULE.replace("/api/v2/orders", "/api/v1/orders"),
    RULE.replace("limits.toml", "limits.yaml"),
    RULE.replace("POST", "PUT"),
    RULE.replace("- Ask Dana before you raise it\n", ""),
    RULE.replace("give up", "give up gracefully"),
    RULE + "\n```\nretry = 3\n```\n",
]


@pytest.mark.parametrize("other", TRIVIAL)
def test_blanks_case_punctuation_and_order_make_no_difference(other):
    assert same_words(RULE, other)
    assert same_words(other, RULE)


@pytest.mark.parametrize("other", OTHER)
def test_numbers_names_negations_paths_and_sentences_do(other):
    assert not same_words(RULE, other)
    assert not same_words(other, RULE)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Prefer tabs over spaces.", "Prefer spaces over tabs."),
        ("Use A, not B.", "Use not A, B."),
        ("x < y", "y < x"),
        ("The offset is -5.", "The offset is 5."),
        ("Wait 5 s, try 7 times.", "Wait 7 s, try 5 times."),
        ("Fact 0 1.", "Fact 1 0."),
        ("Pass --force to it.", "Pass force to it."),
        ("Call FOO_BAR.", "Call foo_bar."),
        ("It is written in C++.", "It is written in C."),
        ("Use parseUrl.", "Use parseURL."),
        ("```\na  b\n```", "```\na b\n```"),
        ("It works, unless asked.", "Unless it works, asked."),
        ("1. Ask the owner.", "2. Ask the owner."),
        ("Keep 20% free.", "Keep 20 free."),
        ("Use FOO - 1.", "Use FOO + 1."),
        ("x == y", "x === y"),
        ("Look in ~/.config.", "Look in /.config."),
        ("Read `.env` first.", "Read `env` first."),
        ("It costs $5.", "It costs 5."),
        ("The runner's logs stay.", "The runners' logs stay."),
        ("always use PARSE_URL", "always use parse_url"),
        ("Always use PARSE_URL", "always use parse_url"),
        ("Do not merge. Rebase before you push.", "Do merge. Rebase not before you push."),
    ],
)
def test_what_order_case_or_marks_carry_is_kept(one, other):
    assert not same_words(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ask Dana only. After that, push to `main`.", "After that, push to `main`. Ask Dana only."),
        ("Ask Dana only; after that, push.", "Ask Dana only. After that, push."),
        ("- Never skip it\n- After lunch, run it", "- After lunch, run it\n- Never skip it"),
        ("- Never skip it\n- After lunch, run it", "* After lunch, run it * Never skip it"),
        ("Take `a_b`, the old one, or none.", "Take `a_b` - the old one - or none."),
        ("Use FOO - 1 there. See `x.py`.", "See `x.py`. Use FOO -\n1 there."),
        ("1. Build it. 2. Ship 2 of them.", "2. Ship 2 of them.\n1. Build it."),
        ("Title\n=====\n\nSome words", "Title\n----------\n\nSome words"),
        ("> Quoted words stand here", "Quoted words stand here"),
    ],
)
def test_where_a_sentence_or_an_item_stands_makes_no_difference(one, other):
    assert same_words(one, other)
    assert same_words(other, one)


NAMED = (
    "In the API of GitHub, call `parseUrl` and read MAX_SIZE before you ask. The daemon's log in /var/Log says why;"
    " don't guess what is written there for everybody to read."
)


@pytest.mark.parametrize("recased", [NAMED.lower(), NAMED.upper(), NAMED.title(), NAMED.swapcase()])
def test_a_text_put_in_other_letters_as_a_whole_is_the_same(recased):
    assert same_words(NAMED, recased)
    assert same_words(recased, NAMED)
    assert not same_words(NAMED, recased.replace("arse", "arser").replace("ARSE", "ARSER"))


@pytest.mark.parametrize(("part", "other"), [("parseUrl", "parseURL"), ("MAX_SIZE", "max_size"), ("Log", "log")])
def test_the_case_of_one_identifier_alone_is_a_difference(part, other):
    assert not same_words(NAMED, NAMED.replace(part, other))


@pytest.mark.parametrize(
    ("one", "other"), [("pre-commit hooks", "Pre commit hooks"), ("don't stop", "dont stop"), ("", " \n")]
)
def test_spellings_of_one_word_are_one(one, other):
    assert same_words(one, other)


@given(st.lists(st.sampled_from("alpha beta gamma 12 v1.2 foo_bar not over /a/b".split()), max_size=12), st.randoms())
def test_a_text_is_itself_whatever_its_blanks(tokens, chance):
    text = " ".join(tokens)
    assert same_words(text, "".join(token + chance.choice((" ", "  ", "\n", "\t")) for token in tokens))


@given(st.text(max_size=200), st.text(max_size=200))
def test_it_is_symmetric_and_never_fails(one, other):
    assert same_words(one, other) == same_words(other, one)
    assert same_words(one, one)


def test_a_long_text_is_compared_quickly_enough_to_be_compared_at_all():
    chance = random.Random(3)
    text = " ".join(chance.choice(("word", "a_b", "17", "<", "--x", "'", "/p/q")) for _ in range(30_000))
    assert same_words(text, text)
