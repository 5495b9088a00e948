"""Where may a text be cut so that no passage is too long, none is confetti and nothing is lost?

A block is what a reader sees as one thing: a paragraph, a fenced code, a heading line. Blocks are packed into spans
of at most MAX_WORDS words and MAX_CHARS characters; only a block that is longer than that by itself is cut inside.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

MAX_WORDS = 200
MAX_CHARS = 1600
SMALL_WORDS = 40
"""A section below this is joined with its neighbour, until FULL_WORDS stand together: many topics blur a vector."""
FULL_WORDS = 100
_MAX_INDENT = 200

_WORD = re.compile(r"\S+")
_SENTENCE = re.compile(r"[.!?][\"')\]]*\s|[。！？]")


@dataclass(frozen=True, slots=True)
class Block:
    """A half-open character range. `level` is 1-6 for a heading and 0 for text.

    `path` holds the headings above it; a heading's own words are the last part of its own path. A `solid` block is
    not cut where it fits into one span (fenced code).
    """

    start: int
    end: int
    words: int
    level: int = 0
    path: tuple[str, ...] = ()
    solid: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """What one passage covers, and the headings that stand above all of its text."""

    start: int
    end: int
    path: tuple[str, ...] = ()


def block(text: str, start: int, end: int, *, level: int = 0, path: tuple[str, ...] = (), solid: bool = False) -> Block:
    """A block without trailing blanks; words are only counted where the block is short enough for them to matter."""
    inside = text[start:end].rstrip()
    words = MAX_WORDS + 1 if len(inside) > MAX_CHARS else len(inside.split())
    return Block(start, start + len(inside), words, level, path, solid)


def pack(text: str, blocks: Sequence[Block], breaks: Sequence[int] = ()) -> Iterator[Span]:
    """Spans in order, without overlap, that cover every block; each is within both limits.

    `breaks` are ascending positions inside long blocks where something new begins (a list item): good places to cut.
    """
    outline = _Outline(blocks)
    group = _Group()
    for index, one in enumerate(blocks):
        if group.blocks and not outline.joins(group, index):
            if not one.level and group.only_headings and not (one.solid and _fits(one.words, one.end - one.start)):
                one = Block(group.start, one.end, MAX_WORDS + 1, 0, one.path)  # noqa: PLW2901 - a heading stays with its text
            else:
                yield group.span()
            group = _Group()
        if not _fits(one.words, one.end - one.start):
            *whole, last = split(text, one.start, one.end, breaks)
            yield from (Span(start, end, one.path) for start, end in whole)
            one = block(text, *last, path=one.path)  # noqa: PLW2901 - the rest may take what follows
        group.add(one, index)
    if group.blocks:
        yield group.span()


def split(text: str, start: int, end: int, breaks: Sequence[int] = ()) -> Iterator[tuple[int, int]]:
    """Ranges within both limits that cover every word of a range, cut at the best place that is near each limit."""
    end = start + len(text[start:end].rstrip())
    at = _skip_blanks(text, max(start - 1, 0), start, end)
    while at < end:
        if end - at <= MAX_CHARS and len(text[at:end].split()) <= MAX_WORDS:
            yield at, end
            return
        cut = _cut(text, at, end, breaks)
        yield at, at + len(text[at:cut].rstrip())
        at = _skip_blanks(text, at, cut, end)


class _Group:
    """Blocks that will be one span."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.first = 0
        self.words = 0
        self.only_headings = True

    @property
    def start(self) -> int:
        return self.blocks[0].start

    def add(self, one: Block, index: int) -> None:
        if not self.blocks:
            self.first = index
        self.blocks.append(one)
        self.words += one.words
        self.only_headings = self.only_headings and one.level > 0

    def span(self) -> Span:
        paths = [one.path for one in self.blocks if not one.level] or [one.path for one in self.blocks]
        return Span(self.start, self.blocks[-1].end, _common(paths))


class _Outline:
    """Which blocks belong to the section that a heading opens, and how long that section is."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = blocks
        self._until = [len(blocks)] * len(blocks)
        self._words = [0]
        open_headings: list[int] = []
        for index, one in enumerate(blocks):
            self._words.append(self._words[-1] + one.words)
            while one.level and open_headings and blocks[open_headings[-1]].level >= one.level:
                self._until[open_headings.pop()] = index
            if one.level:
                open_headings.append(index)

    def joins(self, group: _Group, index: int) -> bool:
        """Whether the block at `index` goes into the group of the blocks before it."""
        one = self.blocks[index]
        if not _fits(group.words + one.words, one.end - group.start):
            return False
        if not one.level or (group.only_headings and one.level > group.blocks[-1].level):
            return True
        return self._one_section(group, index) or self._both_small(group, index)

    def _one_section(self, group: _Group, index: int) -> bool:
        """The group began a section that fits whole (the document itself is one, too)."""
        if group.first and not group.blocks[0].level:
            return False
        until = self._until[group.first] if group.blocks[0].level else len(self.blocks)
        if not group.first and self._fits_range(0, len(self.blocks), 0, self.blocks[0].start):
            return True
        return index < until and self._fits_range(group.first, until, 0, group.start)

    def _both_small(self, group: _Group, index: int) -> bool:
        until = self._until[index]
        section = self._words[until] - self._words[index]
        if group.words >= FULL_WORDS or min(group.words, section) >= SMALL_WORDS:
            return False
        return self._fits_range(index, until, group.words, group.start)

    def _fits_range(self, first: int, until: int, words: int, start: int) -> bool:
        return _fits(words + self._words[until] - self._words[first], self.blocks[until - 1].end - start)


def _fits(words: int, chars: int) -> bool:
    return words <= MAX_WORDS and chars <= MAX_CHARS


def _common(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    low, high = min(paths), max(paths)
    same = 0
    while same < min(len(low), len(high)) and low[same] == high[same]:
        same += 1
    return low[:same]


def _skip_blanks(text: str, floor: int, begin: int, end: int) -> int:
    """The next position with a word, or the start of its line where only a short indentation lies between."""
    at = begin
    while at < end:
        window = text[at : min(end, at + 4096)]
        blanks = len(window) - len(window.lstrip())
        at += blanks
        if blanks < len(window):
            line = max(text.rfind("\n", floor, at), text.rfind("\r", floor, at)) + 1
            return line if line >= begin and at - line <= _MAX_INDENT else at
    return end


def _cut(text: str, at: int, end: int, breaks: Sequence[int]) -> int:
    limit = _reach(text, at, end)
    low = max(at + 1, at + (limit - at) // 2)
    wanted = bisect_right(breaks, limit) - 1
    if wanted >= 0 and breaks[wanted] >= low:
        return breaks[wanted]
    for mark in ("\n\n", "\n", "\r"):
        found = text.rfind(mark, low, limit)
        if found >= 0:
            return found + len(mark)
    sentences = [match.end() for match in _SENTENCE.finditer(text, low, limit)]
    if sentences:
        return sentences[-1]
    return _word_boundary(text, at, limit)


def _word_boundary(text: str, at: int, limit: int) -> int:
    if text[limit - 1].isspace() or text[limit : limit + 1].isspace():
        return limit
    head = text[at:limit].rsplit(None, 1)
    return limit - len(head[1]) if len(head) == 2 else limit


def _reach(text: str, at: int, end: int) -> int:
    """The furthest end of a piece that begins at `at`; near the end of the range the last pieces get equal shares."""
    words, chars = MAX_WORDS, MAX_CHARS
    rest = end - at
    if rest <= 4 * MAX_CHARS:
        total = len(text[at:end].split())
        pieces = max(-(-total // MAX_WORDS), -(-rest // MAX_CHARS), 2)
        words = min(words, total * 23 // (pieces * 20) + 1)
        chars = min(chars, rest * 23 // (pieces * 20) + 1)
    limit = min(end, at + chars)
    over = next(islice(_WORD.finditer(text, at, limit), words, None), None)
    return over.start() if over else limit
