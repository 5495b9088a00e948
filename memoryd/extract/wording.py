"""Do two texts say the same words, so that one is but the other once more?

Blanks, letter case, punctuation, Markdown marks and the order of words do not count. Everything that can carry another
meaning does: numbers, identifiers and paths (with their case and inner punctuation), operators, code to the byte, and
what a negation or a comparison stands next to within its sentence.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*\n(.*?)(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_MARKS = re.compile(r"^[ \t]*>+(?:[ \t]+|$)|(?<!\S)([-=*~_^#+])\1{3,}(?!\S)", re.MULTILINE)
"""Quoted lines, and lines drawn under a title or between two parts."""
_TOKEN = re.compile(
    r"(?P<name>(?:(?<![^\s'\"`(\[=,:])(?:-{1,2}|\*\.|~?/\.?|(?:\.{1,2}/)+\.?|\.|\$|@)(?=\w))?"
    r"\w+(?:[./:@#\\+-]+\w+)*(?:'s(?!\w))?(?:\+\+|\(\)|#|(?<=\d)%)?)"
    r"|(?P<operator>(?<!\S)(?:[<>=!+*/%&|^~-]{1,3})(?!\S)|->|=>|[<>=!]=|[<>])",
    re.IGNORECASE,
)
_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"'})
_CONTRACTED = re.compile(r"\b(\w+)'(t|re|ve|ll|d|m)\b", re.IGNORECASE)
_PLAIN = re.compile(r"[^\W\d_]+(?:'s)?\Z", re.IGNORECASE)
_INNER_CAPITAL = re.compile(r"[^\W\d_]*[a-zß-ÿ][A-Z]")
_HYPHENED = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+(?:'s)?\Z", re.IGNORECASE)
_SIGNS = frozenset(("-", "--", "---", "*", "**", "***", "+"))
"""What may be a dash, a mark of a list or a line as well as an operator."""
_END = re.compile(
    r"[.!?;:]['\")\]`*_]*(?:\s|\Z)|\n[ \t]*\n|\n[ \t]*(?:[-*+#]|\d{1,3}[.)])[ \t]|(?<!\S)[-*+]{1,3}(?!\S)"
)
"""Between two words: here ends a sentence, a paragraph or an item of a list."""
_BESIDE = re.compile(r"['\"`)(\]\[]*[ \t\n]+['\"`)(\]\[]*\Z")
NEGATIONS = frozenset(
    (
        *("no", "not", "never", "none", "nothing", "nobody", "neither", "nor", "without", "cannot", "avoid", "except"),
        *("dont", "doesnt", "didnt", "isnt", "arent", "wasnt", "wont", "cant", "couldnt", "shouldnt", "mustnt"),
        *("unless", "stop", "disable", "forbid", "only"),
    )
)
COMPARISONS = frozenset(
    (
        *("over", "than", "instead", "rather", "versus", "vs", "before", "after"),
        *("->", "=>", "<", ">", "<=", ">=", "=", "=="),
    )
)
KEPT_CHARACTERS = 2000
"""The words of texts up to this length are kept: an add looks at the same ones again and again."""
LOUD = 2 / 3
"""Share of plain words with a capital from which on a text is taken for one written in capitals, or as a title."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text in order, and its fenced code, each block as it stands.

    `ends` are the places after which a sentence ends. `capitals` of `plain` words begin with a capital letter; `quiet`
    is a text without any.
    """

    tokens: tuple[str, ...]
    code: tuple[str, ...]
    ends: frozenset[int] = field(default=frozenset(), compare=False)
    plain: int = field(default=0, compare=False)
    capitals: int = field(default=0, compare=False)
    quiet: bool = field(default=False, compare=False)

    @property
    def loud(self) -> bool:
        """Whether its letters were all put in upper case, or the first one of each word."""
        return self.plain > 2 and self.capitals >= LOUD * self.plain


def words(text: str) -> Words:
    """What of a text counts: plain words in lower case, all else as it stands."""
    return _kept_words(text) if len(text) <= KEPT_CHARACTERS else _words(text)


@lru_cache(maxsize=512)
def _kept_words(text: str) -> Words:
    return _words(text)


def _words(text: str) -> Words:
    whole = unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n")).translate(_APOSTROPHES)
    code = tuple(
        "\n".join(line.rstrip() for line in match[2].split("\n")).strip("\n") for match in FENCE.finditer(whole)
    )
    prose = _MARKS.sub("", _CONTRACTED.sub(r"\1\2", FENCE.sub("\n\n", whole)))
    found = list(_matches(prose))
    tokens: list[str] = []
    ends: set[int] = set()
    for at, match in enumerate(found):
        tokens += _counted(match)
        following = found[at + 1].start() if at + 1 < len(found) else len(prose)
        if _END.search(prose, match.end(), min(following + 1, len(prose))):
            ends.add(len(tokens) - 1)
    plain = [match[0] for match in found if _PLAIN.match(match[0])]
    capitals = sum(word[0].isupper() for word in plain)
    return Words(tuple(tokens), code, frozenset(ends), len(plain), capitals, prose == prose.lower())


def _matches(prose: str) -> Iterator[re.Match[str]]:
    """Names and operators; a dash or a mark of a list is none."""
    found = list(_TOKEN.finditer(prose))
    for at, match in enumerate(found):
        inside = 0 < at < len(found) - 1
        if match["operator"] not in _SIGNS or (inside and _is_arithmetic(prose, *found[at - 1 : at + 2])):
            yield match


def _is_arithmetic(prose: str, before: re.Match[str], sign: re.Match[str], after: re.Match[str]) -> bool:
    """Whether a sign stands between two operands of one sentence, or beside a number."""
    if before["operator"] or after["operator"] or not _BESIDE.match(prose, before.end(), sign.start()):
        return False
    beside = (before[0], after[0])
    return any(one[0].isdigit() for one in beside) or all(len(one) == 1 or not _PLAIN.match(one) for one in beside)


def _counted(match: re.Match[str]) -> list[str]:
    found = match[0]
    if match["operator"]:
        return [found]
    if _HYPHENED.match(found):
        return found.lower().split("-")  # `pre-commit` is `pre commit`
    return [found.lower() if _PLAIN.match(found) and not _INNER_CAPITAL.match(found) else found]


def same_words(one: str, other: str) -> bool:
    """Whether two texts differ in nothing that carries a meaning of its own."""
    left, right = words(one), words(other)
    if left.code != right.code or len(left.tokens) != len(right.tokens):
        return False
    if _recased(left, right):
        left, right = _folded(left), _folded(right)
    return Counter(left.tokens) == Counter(right.tokens) and _alike(_bound(left), _bound(right))


def _recased(left: Words, right: Words) -> bool:
    """Whether one of two texts was put in other letters as a whole: then the case of identifiers is lost as well."""
    if left.loud != right.loud:
        return True
    return left.quiet != right.quiet and max(left.capitals, right.capitals) > 1


def _folded(found: Words) -> Words:
    return Words(tuple(token.lower() for token in found.tokens), found.code, found.ends)


def _bound(found: Words) -> Counter[tuple[str, str]]:
    """What negations, comparisons and several numbers stand next to, if it is in their sentence: moved elsewhere, or in
    each other's place, they say something else."""
    beside: Counter[tuple[str, str]] = Counter()
    last = len(found.tokens) - 1
    several = len({token for token in found.tokens if token[:1].isdigit()}) > 1
    for at, token in enumerate(found.tokens):
        if several and token[:1].isdigit():
            beside[f"< {token}", found.tokens[at - 1] if at and at - 1 not in found.ends else ""] += 1
        if token in NEGATIONS or token in COMPARISONS:
            beside[token, found.tokens[at + 1] if at < last and at not in found.ends else ""] += 1
        if token in COMPARISONS:
            beside[f"< {token}", found.tokens[at - 1] if at and at - 1 not in found.ends else ""] += 1
    return beside


def _alike(left: Counter[tuple[str, str]], right: Counter[tuple[str, str]]) -> bool:
    """Whether the same stands next to the same. What ends a sentence here may go on there, with other punctuation."""
    here, there = left - right, right - left
    for token in {name for name, _ in (*here, *there)}:
        bare = {side: found[token, ""] for side, found in (("here", here), ("there", there))}
        full = {
            side: sum(count for (name, beside), count in found.items() if name == token and beside)
            for side, found in (("here", here), ("there", there))
        }
        if full["here"] > bare["there"] or full["there"] > bare["here"]:
            return False
    return True


def overlap(one: Words, other: Words) -> float:
    """The share of distinct words that both texts have (Jaccard), 0 to 1."""
    left, right = {*one.tokens, *one.code}, {*other.tokens, *other.code}
    return len(left & right) / len(left | right) if left or right else 1.0
