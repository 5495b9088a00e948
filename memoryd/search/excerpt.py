"""Which part of each found passage is shown, so that all results fit a budget and the query's words are in view?

Pure functions. A budget counts tokens, estimated as UTF-8 bytes / 4, which suits Latin text and code and is generous
to other scripts. Excerpts are exact pieces of their passages, without ellipses, so that offsets stay true.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from memoryd.extract.text import REPLACEMENT, raw_size, raw_text
from memoryd.index.analysis import places, query_terms

BYTES_PER_TOKEN = 4
_SPAN = re.compile(r"\S+")
_LINE_SLACK = 3
"""A window starts or ends at a line border that costs at most 1 / this of its room, else at a word border."""

_STARTS = 64
"""Hits of one passage that are tried as a window's first."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """`before` + `text` is the beginning of the passage; `text` is what is shown, `whole` where that is all of it."""

    before: str
    text: str
    whole: bool


@dataclass(frozen=True, slots=True)
class Location:
    """Where an excerpt stands in the stored bytes: a half-open byte range; lines from 1, inclusive."""

    start: int
    end: int
    line_start: int
    line_end: int


def cut_excerpts(query: str, texts: Sequence[str], *, budget: int) -> list[Excerpt]:
    """One excerpt for each passage text, in order; together they take at most about `budget` bytes of UTF-8.

    Passages that need less than an even share leave the rest to longer ones. A text that is not empty always shows
    at least one character.
    """
    costs = [cost(text) for text in texts]
    if sum(costs) <= budget:
        return [Excerpt("", text, whole=True) for text in texts]
    wanted = wanted_terms(query)
    shares = split_budget(costs, budget)
    return [cut(text, wanted, share) for text, share in zip(texts, shares, strict=True)]


def wanted_terms(query: str) -> frozenset[str]:
    """The terms of a query that an excerpt should show."""
    terms = query_terms(query)
    return frozenset(terms.words) | frozenset(terms.codes)


def split_budget(costs: Sequence[int], budget: int, weights: Sequence[float] | None = None) -> list[int]:
    """Each one's share of `budget`, even or by `weights` (above 0): never more than its cost, and what one leaves over
    goes to the others.

    The shares sum up to min(sum of costs, budget), save for less than a byte of rounding down each.
    """
    weights = weights or [1.0] * len(costs)
    shares = [0] * len(costs)
    left, waiting = max(0, budget), math.fsum(weights)
    for place in sorted(range(len(costs)), key=lambda place: costs[place] / weights[place]):
        shares[place] = min(costs[place], left, int(left * weights[place] / max(weights[place], waiting)))
        left -= shares[place]
        waiting -= weights[place]
    return shares


def cut(text: str, wanted: frozenset[str], room: int) -> Excerpt:
    """The whole text where it fits `room` bytes of UTF-8, else the window that holds most of the wanted terms."""
    if cost(text) <= room:
        return Excerpt("", text, whole=True)
    return _Window(text, max(1, room)).best(wanted)


def locate(excerpt: Excerpt, data: bytes = b"", *, start: int, line_start: int, encoding: str = "utf-8") -> Location:
    """Offsets of an excerpt whose passage begins at byte `start`, line `line_start`, stored in `encoding`.

    `data` are the passage's bytes: where some mean nothing, only they say how many stand behind a U+FFFD.
    """
    before, text = excerpt.before, excerpt.text
    if data and (REPLACEMENT in before or REPLACEMENT in text):
        whole = raw_text(data, encoding)
        before, text = whole[: len(before)], whole[len(before) : len(before) + len(text)]
    begin = start + raw_size(before, encoding)
    end = begin + raw_size(text, encoding)
    first = line_start + _lines(excerpt.before)
    return Location(begin, end, first, first + _lines(excerpt.text.rstrip("\r\n")))


def _lines(text: str) -> int:
    if "\r" not in text:
        return text.count("\n")
    return text.replace("\r\n", "\n").replace("\r", "\n").count("\n")


def _width(char: str) -> int:
    return 1 if char < "\x80" else 2 if char < "\u0800" else 3 if char < "\U00010000" else 4


def cost(text: str) -> int:
    """What a text takes of a budget: bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class _Window:
    """Cuts one text that does not fit its room."""

    def __init__(self, text: str, room: int) -> None:
        self.text = text
        self.room = room
        self.sums: Sequence[int] = range(len(text) + 1) if text.isascii() else [0, *accumulate(map(_width, text))]
        spans = [(match.start(), match.end()) for match in _SPAN.finditer(text)]
        self.word_starts = [start for start, _ in spans]
        self.word_ends = [end for _, end in spans]

    def best(self, wanted: frozenset[str]) -> Excerpt:
        """The first window with the most different wanted terms; without any, the beginning."""
        hits = [(place.start, place.end, place.terms) for place in places(self.text, wanted)]
        chosen, most = self._window(self._start_of_text()), (0, 0)
        for start, _, _ in hits[:: 1 + len(hits) // _STARTS]:
            window = self._window(self._begin(start))
            inside = [terms for begin, end, terms in hits if begin >= window[0] and end <= window[1]]
            held = (len(frozenset().union(*inside)), len(inside))
            if held > most:
                chosen, most = window, held
        start, end = chosen
        return Excerpt(self.text[:start], self.text[start:end], whole=False)

    def _start_of_text(self) -> int:
        return self.word_starts[0] if self.word_starts else 0

    def _begin(self, hit: int) -> int:
        """Where a window around a hit begins: its line where that is near, else its word or, in long runs, itself."""
        line = max(self.text.rfind("\n", 0, hit), self.text.rfind("\r", 0, hit)) + 1
        line += len(self.text[line:hit]) - len(self.text[line:hit].lstrip())
        if self._size(line, hit) * _LINE_SLACK <= self.room:
            return line
        word = self.word_starts[max(0, bisect_right(self.word_starts, hit) - 1)]
        return word if self._size(word, hit) * _LINE_SLACK <= self.room else hit

    def _window(self, start: int) -> tuple[int, int]:
        """The widest window from `start`; one that reaches the end of the text grows to the front instead."""
        limit = bisect_right(self.sums, self.sums[start] + self.room) - 1
        end = self.word_ends[-1] if self.word_ends else len(self.text)
        if limit >= end:
            return self._grown(start, end), end
        return start, max(self._close(start, limit), start + 1)

    def _grown(self, start: int, end: int) -> int:
        """The earliest line or word that leaves the end in the window, not behind `start`."""
        earliest = bisect_left(self.sums, self.sums[end] - self.room)
        line = self.text.find("\n", max(0, earliest - 1), start) + 1
        if line and self._size(earliest, line) * _LINE_SLACK <= self.room:
            earliest = line
        place = bisect_left(self.word_starts, earliest)
        return self.word_starts[place] if place < len(self.word_starts) and self.word_starts[place] <= start else start

    def _close(self, start: int, limit: int) -> int:
        line = self.text.rfind("\n", start, limit + 1)
        if line > start and self._size(line, limit) * _LINE_SLACK <= self.room:
            limit = line
        place = bisect_right(self.word_ends, limit) - 1
        return self.word_ends[place] if place >= 0 and self.word_ends[place] > start else limit

    def _size(self, start: int, end: int) -> int:
        return self.sums[end] - self.sums[start]
