"""Do two texts say the same words, so that one is but the other once more?

Blanks, letter case, punctuation, Markdown marks and the order of words do not count. Everything that can carry another
meaning does: numbers, identifiers and paths (with their case and inner punctuation), operators, code to the byte, and
what a negation or a comparison stands next to.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*\n(.*?)(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"^[ \t]*(?:#{1,6}|[-*+]|>+|\d{1,3}[.)])(?:[ \t]+|$)", re.MULTILINE)
_TOKEN = re.compile(
    r"(?P<name>(?:(?<![^\s'\"`(\[])-{1,2}(?=\w))?[^\W]+(?:[./:@#\\+-]+[^\W]+)*(?:\+\+|\(\)|#)?)"
    r"|(?P<operator>(?<!\S)(?:[<>=!+*/%&|^~-]{1,3})(?!\S)|->|=>|[<>=!]=|[<>])"
)
_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"'})
_CONTRACTED = re.compile(r"\b(\w+)'(\w{1,2})\b")
_PLAIN = re.compile(r"[^\W\d_]+\Z")
_INNER_CAPITAL = re.compile(r"[^\W\d_]*[a-zß-ÿ][A-Z]")
_JOINED = re.compile(r"[^\W\d_]+(?:[-./:][^\W\d_]+)+\Z")
NEGATIONS = frozenset(
    (
        *("no", "not", "never", "none", "nothing", "nobody", "neither", "nor", "without", "cannot", "avoid", "except"),
        *("dont", "doesnt", "didnt", "isnt", "arent", "wasnt", "wont", "cant", "couldnt", "shouldnt", "mustnt"),
        *("unless", "stop", "disable", "forbid", "only"),
    )
)
COMPARISONS = frozenset(
    (
        "over",
        "than",
        "instead",
        "rather",
        "versus",
        "vs",
        "before",
        "after",
        "->",
        "=>",
        "<",
        ">",
        "<=",
        ">=",
        "=",
        "==",
    )
)


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text in order, and its fenced code, each block as it stands."""

    tokens: tuple[str, ...]
    code: tuple[str, ...]


def words(text: str) -> Words:
    """What of a text counts: plain words in lower case, all else as it stands."""
    whole = unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n")).translate(_APOSTROPHES)
    code = tuple(
        "\n".join(line.rstrip() for line in match[2].split("\n")).strip("\n") for match in _FENCE.finditer(whole)
    )
    prose = _MARK.sub("", _CONTRACTED.sub(r"\1\2", _FENCE.sub("\n", whole)))
    return Words(tuple(_tokens(prose)), code)


def _tokens(prose: str) -> Iterator[str]:
    for match in _TOKEN.finditer(prose):
        found = match[0]
        if match["operator"]:
            yield found
        elif _JOINED.match(found) and found.count("-") == len(re.findall(r"[-./:]", found)):
            yield from (part.lower() for part in found.split("-"))  # `pre-commit` is `pre commit`
        elif _PLAIN.match(found) and not _INNER_CAPITAL.match(found):
            yield found.lower()
        else:
            yield found


def same_words(one: str, other: str) -> bool:
    """Whether two texts differ in nothing that carries a meaning of its own."""
    left, right = words(one), words(other)
    if left.code != right.code or len(left.tokens) != len(right.tokens):
        return False
    return Counter(left.tokens) == Counter(right.tokens) and _bound(left.tokens) == _bound(right.tokens)


def _bound(tokens: Sequence[str]) -> Counter[tuple[str, str]]:
    """What negations and comparisons stand next to: moved elsewhere, they say something else."""
    found: Counter[tuple[str, str]] = Counter()
    for at, token in enumerate(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else ""
        if token in NEGATIONS or token in COMPARISONS:
            found[token, following] += 1
        if following in COMPARISONS:
            found[token, following] += 1
    return found


def overlap(one: Words, other: Words) -> float:
    """The share of distinct words that both texts have (Jaccard), 0 to 1."""
    left, right = {*one.tokens, *one.code}, {*other.tokens, *other.code}
    return len(left & right) / len(left | right) if left or right else 1.0
