"""Which pieces of a text are secrets, where do they stand, and how does the text read without them?

Pure: no network, no settings, nothing kept between calls. A finding says what and where, never what was found.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memoryd.extract.assignments import assignments
from memoryd.extract.text import line_starts
from memoryd.extract.tokens import Span, tokens

ROUNDS = 5
"""Replacing a piece may bring its neighbours together; each round looks once more."""
_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINES = re.compile(
    r"(?:[ \t>|*#/\"'+-]|\\[nr]|\r|\n|[A-Za-z-]{4,20}: [^\n\\]{1,100})*(?P<body>[A-Za-z0-9+/=]{16})"
)
_BODY = re.compile(r"[A-Za-z0-9+/=]+(?:(?:\\[nr]|[ \t\r\n])+[A-Za-z0-9+/=]{2,100}(?=[ \t]*(?:[\r\n\\\"']|\Z)))*")
_PUTTY = re.compile(r"PuTTY-User-Key-File-[23]: ")
_PUTTY_LINES = re.compile(r"[^\r\n]*(?:\r?\n[A-Za-z0-9+/=][A-Za-z0-9+/=:. -]{0,200})*")


@dataclass(frozen=True, slots=True)
class Finding:
    """A secret: its kind, its line and columns there (1-based, in characters, both included), its place in the text.

    Of a secret of several lines the columns are those of the first.
    """

    kind: str
    line: int
    columns: tuple[int, int]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets, and how many of each kind were replaced."""

    text: str
    counts: dict[str, int]


def findings(text: str) -> list[Finding]:
    """The secrets of a text in order; of pieces that overlap one finding remains, over all of them."""
    spans = _joined(sorted(_spans(text), key=lambda span: (span[1], -span[2])))
    if not spans:
        return []
    starts = line_starts(text)
    found = []
    for kind, start, end in spans:
        line = bisect_right(starts, start, hi=len(starts) - 1)
        first = starts[line - 1]
        last = min(end, first + len(text[first : starts[line]].rstrip("\r\n")))
        found.append(Finding(kind, line, (start - first + 1, last - first), start, end))
    return found


def redact(text: str) -> Redacted:
    """The text with each secret replaced by `[redacted: <kind>]`; what comes out holds no finding."""
    counts: Counter[str] = Counter()
    for _ in range(ROUNDS):
        found = findings(text)
        if not found:
            break
        counts.update(one.kind for one in found)
        text = _replaced(text, found)
    return Redacted(text, dict(counts))


def _replaced(text: str, found: Sequence[Finding]) -> str:
    parts, at = [], 0
    for one in found:
        parts += [text[at : one.start], f"[redacted: {one.kind}]"]
        at = one.end
    return "".join([*parts, text[at:]])


def _spans(text: str) -> Iterator[Span]:
    yield from _private_keys(text)
    yield from tokens(text)
    yield from assignments(text)


def _joined(spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for kind, start, end in spans:
        if joined and start < joined[-1][2]:
            before = joined[-1]
            named = before[0] if before[0] != "assigned-secret" else kind
            joined[-1] = (named, before[1], max(end, before[2]))
        else:
            joined.append((kind, start, end))
    return joined


def _private_keys(text: str) -> Iterator[Span]:
    """Blocks of private keys, to their END line or as far as key letters go; a BEGIN line alone is only a mention."""
    begins = [(match.start(), match.end()) for match in _BEGIN.finditer(text)]
    for number, (start, after) in enumerate(begins):
        body = _KEY_LINES.match(text, after, after + 400)
        if body is None:
            continue
        limit = begins[number + 1][0] if number + 1 < len(begins) else len(text)
        ending = text.find("-----END ", after, limit)
        closing = text.find("-----", ending + 9, ending + 60) if ending >= 0 else -1
        lines = _BODY.match(text, body.start("body"), limit)
        end = closing + 5 if closing >= 0 else lines.end() if lines is not None else body.end()
        yield "private-key", start, end
    done = 0
    for match in _PUTTY.finditer(text):
        lines = _PUTTY_LINES.match(text, match.end()) if match.start() >= done else None
        if lines is not None and "\n" in lines[0]:
            done = lines.end()
            yield "private-key", match.start(), done
