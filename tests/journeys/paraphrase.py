"""Is a question a real paraphrase: how many words, and which neighbouring words, does it share with its entry?

A question that repeats the entry's words proves only that a text search works. The rule that the demo's material obeys:
no two neighbouring content words of the question stand next to each other in any entry (stop words left out, case and
inflection ignored), and at most a third of its content words occur in the right entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

MAX_SHARED = 1 / 3

STOP_WORDS = frozenset(
    """a about again all am an and any are as at be been before being but by can could did do does doing done for from
    get gets got had has have having he her here his how i if in into is it its just may me might more most must my no
    not of off on once one only or our out over own per s she should so some such t than that the their them then there
    these they this those to too under until up us very was we were what when where whether which while who whom whose
    why will with without would you your""".split()
)

_SUFFIXES = (
    *(
        "ates",
        "ated",
        "ating",
        "ate",
        "ization",
        "isation",
        "ational",
        "ations",
        "ation",
        "ments",
        "ment",
        "nesses",
        "ness",
        "ities",
        "ity",
    ),
    *("ables", "able", "ibles", "ible", "ively", "ive", "ingly", "ings", "ing", "edly", "ions", "ion", "ers", "er"),
    *("ors", "or", "als", "ally", "al", "ies", "ied", "ed", "es", "ly", "s", "e", "y"),
)
_SHORTEST_STEM = 3


def words(text: str) -> list[str]:
    """Every word and number of the text in order, case-folded; hyphens, underscores and apostrophes part words."""
    return re.findall(r"[^\W_]+", text.casefold())


def content_words(text: str) -> list[str]:
    """The words that carry meaning, in order, as they are spelled."""
    return [word for word in words(text) if word not in STOP_WORDS]


def stem(word: str) -> str:
    """The word without its endings, so that `retry`, `retries` and `retried` count as one; crude on purpose.

    Endings come off until none is left: merging too much makes the rule harder to meet, never easier.
    """
    shorter = _without_suffix(word)
    while shorter != word:
        word, shorter = shorter, _without_suffix(shorter)
    return word


def _without_suffix(word: str) -> str:
    if word.isdigit():
        return word
    for suffix in _SUFFIXES:
        rest = word[: -len(suffix)]
        if word.endswith(suffix) and len(rest) >= _SHORTEST_STEM:
            doubled = len(rest) > _SHORTEST_STEM and rest[-1] == rest[-2] and rest[-1] not in "aeiou"
            return rest[:-1] if doubled else rest
    return word


def neighbours(text: str) -> list[tuple[str, str]]:
    """Each pair of content words that follow one another, as they are spelled, without repetitions."""
    found = content_words(text)
    return list(dict.fromkeys(zip(found, found[1:], strict=False)))


def stemmed(pairs: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """The same pairs by their stems."""
    return {(stem(first), stem(second)) for first, second in pairs}


def shared_neighbours(question: str, entry: str) -> set[tuple[str, str]]:
    """The stemmed neighbouring pairs that question and entry have in common; empty for a paraphrase."""
    return stemmed(neighbours(question)) & stemmed(neighbours(entry))


def shared_share(question: str, entry: str) -> float:
    """Which part (0 to 1) of the question's distinct content words stands in the entry, compared by stem."""
    asked = {stem(word) for word in content_words(question)}
    known = {stem(word) for word in content_words(entry)}
    return len(asked & known) / len(asked) if asked else 0.0


def entry_text(memory: Mapping[str, Any]) -> str:
    """All words of a memory that a search could see: title, tags, key and content."""
    return "\n".join([memory["title"], " ".join(memory["tags"]), memory.get("key") or "", memory["content"]])


def grep_pattern(pair: tuple[str, str]) -> str:
    """An extended regular expression for `git grep -i -E`: both stems with any ending, only stop words between."""
    first, second = (re.escape(stem(word)) + "[[:alnum:]]*" for word in pair)
    between = "|".join(sorted(STOP_WORDS))
    return f"(^|[^[:alnum:]]){first}([^[:alnum:]]+({between}))*[^[:alnum:]]+{second}"
