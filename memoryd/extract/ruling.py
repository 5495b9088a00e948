"""Does a short statement say something new about the very thing that an older one speaks of?

    always start function names with 'a_'   ->  always start function names with 'b_'      another value
    always use a linter                     ->  never use a linter                         the contrary
    always start function names with 'a_'  and  always start method names with 'a_'        another subject: no revision

Grammar tells the two apart, not nearness: in an order (`use X for Y`) the subject is what it is about (Y), in a
statement (`the limit is 5`) what stands before the verb. A difference there is another subject; elsewhere it is another
value.
What can hold side by side (`add`, `import`, `include` this and that) revises nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from memoryd.extract.wording import words

SHORT = 40
"""Words up to which a text is taken for one statement."""
_NEGATIVE = frozenset(
    (
        *("never", "not", "dont", "doesnt", "isnt", "arent", "cannot", "cant", "wont", "shouldnt", "mustnt"),
        *("no", "avoid", "stop", "without", "disable", "forbid", "forbidden", "longer"),
    )
)
_FILLING = frozenset(
    (
        *(
            "always",
            "please",
            "must",
            "should",
            "shall",
            "will",
            "we",
            "you",
            "i",
            "they",
            "a",
            "an",
            "the",
            "to",
            "do",
        ),
        *(
            "does",
            "be",
            "sure",
            "make",
            "remember",
            "need",
            "needs",
            "now",
            "from",
            "on",
            "your",
            "our",
            "their",
            "new",
        ),
        *("code", "also", "just", "it", "that", "this", "enable", "instead", "but", "and", "as", "of"),
    )
)
_COPULAS = frozenset(
    (
        *(
            "is",
            "are",
            "was",
            "were",
            "has",
            "have",
            "=",
            "equals",
            "means",
            "defaults",
            "uses",
            "runs",
            "lives",
            "lies",
        ),
        *("listens", "returns", "expects", "requires", "takes", "needs", "belongs", "points", "depends", "stores"),
        *("goes", "contains", "supports", "starts", "ends", "comes", "stands", "stays", "owns", "handles", "sits"),
    )
)
_SIDE_BY_SIDE = frozenset(
    (
        *("add", "include", "import", "append", "attach", "install", "enable", "log", "document", "test", "mention"),
        *("list", "support", "register", "write", "contain", "contains", "supports", "requires", "import", "read"),
    )
)
"""Verbs whose objects add up: one more takes nothing back."""
_ABOUT = frozenset(("for", "in", "on", "inside", "within", "when", "if", "during", "across", "among", "per", "while"))
"""What follows says what an order is about."""
_VALUED = frozenset(
    ("with", "to", "as", "at", "by", "every", "until", "than", "after", "before", "via", "using", "from")
)
"""What follows is what is to be so."""
_PURPOSE = frozenset(("for", "as"))
_QUANTITY = re.compile(
    r"[-+]?\d[\w.,:%/-]*\Z|(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty"
    r"|sixty|hundred|thousand|once|twice|thrice|single|double|triple|half|zero|several|few|many|more|less|most|least"
    r"|times|minutes?|hours?|days?|weeks?|months?|seconds?|daily|weekly|monthly|hourly)\Z"
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True, slots=True)
class Revision:
    """That a statement revises another one: how sure (0 to 1), and in what: `contrary` or `value`."""

    score: float
    kind: str


@dataclass(frozen=True, slots=True)
class _Statement:
    tokens: tuple[str, ...]
    """Without polarity and filling words at its head."""
    core: frozenset[str]
    negative: bool


def is_statement(text: str) -> bool:
    """Whether a text is short enough to be taken for one statement."""
    found = words(text)
    sentences = [part for part in _SENTENCE.split(text.strip()) if part.strip()]
    return not found.code and 2 <= len(found.tokens) <= SHORT and len(sentences) <= 2


def revises(old: str, new: str) -> Revision | None:
    """What makes `new` a revision of `old`; None where they may hold side by side, or cannot be told apart so."""
    before, after = _statement(old), _statement(new)
    if not before.core or not after.core:
        return None
    if before.negative != after.negative:
        return _contrary(before, after)
    return _value(before.tokens, after.tokens)


def _statement(text: str) -> _Statement:
    tokens = words(text).tokens
    core = frozenset(_stem(token) for token in tokens if token not in _FILLING and token not in _NEGATIVE)
    negative = any(token in _NEGATIVE for token in tokens[:6])
    return _Statement(
        tuple(_stem(token) for token in tokens if token not in _NEGATIVE and token != "always"), core, negative
    )


def _stem(token: str) -> str:
    """Without the ending of a plural."""
    if token in _COPULAS or len(token) < 4 or not token.isalpha():
        return token
    return token[:-1] if token.endswith("s") and not token.endswith(("ss", "us", "is")) else token


def _contrary(before: _Statement, after: _Statement) -> Revision | None:
    """The same said with the other polarity; one of them may go on with what to do instead."""
    shared = before.core & after.core
    smaller = min(len(before.core), len(after.core))
    if before.core != after.core and (len(shared) < 2 or len(shared) < 0.75 * smaller):
        return None
    return Revision(0.6 + 0.4 * len(shared) / len(before.core | after.core), "contrary")


def _value(before: Sequence[str], after: Sequence[str]) -> Revision | None:
    """One place differs, and it is not the subject."""
    slots = [code for code in SequenceMatcher(None, before, after, autojunk=False).get_opcodes() if code[0] != "equal"]
    if not slots:
        return None
    start, end = slots[0][1], slots[-1][2]
    other_start, other_end = slots[0][3], slots[-1][4]
    was, now = before[start:end], after[other_start:other_end]
    head, tail = before[:start], before[end:]
    shared = [token for token in (*head, *tail) if token not in _FILLING]
    if len(shared) < 2 or max(len(was), len(now)) > 8 or not was or not now:
        return None
    if not _is_value(head, was, now, tail):
        return None
    return Revision(len(shared) / (len(shared) + min(len(was), len(now))), "value")


def _is_value(head: Sequence[str], was: Sequence[str], now: Sequence[str], tail: Sequence[str]) -> bool:
    if _is_quantity(was) and _is_quantity(now):
        return True
    verb = next((at for at, token in enumerate(head) if token in _COPULAS), None)
    if verb:  # `the limit is 5`: the subject comes before
        return head[verb] not in _SIDE_BY_SIDE
    first = next((token for token in head if token not in _FILLING), "")
    if first in _SIDE_BY_SIDE or not first:
        return False
    before = next((token for token in reversed(head) if token in _ABOUT or token in _VALUED), None)
    if before is not None:
        return before in _VALUED
    return any(token in _PURPOSE for token in tail)


def _is_quantity(tokens: Sequence[str]) -> bool:
    return any(_QUANTITY.match(token) for token in tokens)
