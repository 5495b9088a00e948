"""What stands around a found passage: the rest of its definition or section, the turns before and after it?

All results share one budget. The more relevant a hit, the more of it its own words and what stands around them may
take: an answer often stands a few lines beside the words that were found. All of it is exact pieces of stored bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from memoryd.catalog.passages import PassageRow
from memoryd.digest import document_id
from memoryd.errors import MemorydError
from memoryd.extract.text import slice_text
from memoryd.extract.turns import speaker_of
from memoryd.operations.found import Found, source_of
from memoryd.operations.home import Home
from memoryd.search.excerpt import Excerpt, Location, cost, cut, cut_excerpts, locate, split_budget, wanted_terms

REACH = 4
"""Passages before and after the found one that may join it."""
LEAST_ROOM = 400
"""With less budget than this in all, no definition or section is looked up: too little of it would fit."""
LEAST_WEIGHT = 1 / 8
"""What the least relevant hit may take at least, in shares of what the most relevant one may."""
LEAST_TURN = 60
"""Of a turn at least so many bytes are shown, or all of it."""
HEADER_CHARS = 400
TURN_BYTES = 4000
"""A document beyond this is no turn of a conversation."""
ROLES = frozenset({"user", "assistant", "human", "ai", "system", "tool", "agent", "you"})
"""How headings of a transcript begin that name who speaks."""

_LAST_NUMBER = re.compile(rb"\d{1,9}(?=[^\d/]*\Z)")


@dataclass(slots=True)
class Around:
    """`excerpt` (and where its text begins) takes the place of the passage's own; `within` are first lines of the
    definitions around it, `before` and `after` a conversation's turns, as answers show them."""

    excerpt: Excerpt
    data: bytes
    start: int
    line_start: int
    within: list[dict[str, Any]] = field(default_factory=list)
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


def surrounded(home: Home, found: Sequence[Found], query: str, budget: int) -> list[Around]:
    """Each hit's words with what of its surroundings fits, all together in `budget` bytes of UTF-8."""
    rows = _beside(home, found) if budget >= LEAST_ROOM else {}
    runs = {at: _run(found[at].passage, beside) for at, beside in rows.items()}
    more = {at: run[-1].end - run[0].start - _size(found[at].passage) for at, run in runs.items()}
    wants = [cost(one.text) + more.get(at, 0) for at, one in enumerate(found)]
    shares = split_budget(wants, budget, _weights(found))
    wanted = wanted_terms(query)
    around = [
        Around(cut(one.text, wanted, share), one.data, one.passage.start, one.passage.line_start)
        for one, share in zip(found, shares, strict=True)
    ]
    room = budget - sum(cost(one.excerpt.text) for one in around)
    room -= _put_headers(home, found, around, rows, room)
    room -= _widen(home, found, around, runs, shares, room)
    if room >= LEAST_TURN:
        _put_turns(home, found, around, room)
    return around


def plain(found: Sequence[Found], query: str, budget: int) -> list[Around]:
    """Each hit's words alone, all together in `budget` bytes of UTF-8, as evenly as they need it."""
    excerpts = cut_excerpts(query, [one.text for one in found], budget=budget)
    return [
        Around(excerpt, one.data, one.passage.start, one.passage.line_start)
        for one, excerpt in zip(found, excerpts, strict=True)
    ]


def _beside(home: Home, found: Sequence[Found]) -> dict[int, list[PassageRow]]:
    """The passages around each hit that is part of a document, by the hit's place."""
    parted = [at for at, one in enumerate(found) if not _alone(one)]
    beside = home.passages.around([found[at].passage.id for at in parted], REACH) if parted else {}
    return {at: beside[found[at].passage.id] for at in parted}


def _weights(found: Sequence[Found]) -> list[float]:
    top = max((one.hit.relevance for one in found), default=0.0)
    return [max(one.hit.relevance, LEAST_WEIGHT * top) or 1.0 for one in found]


def _alone(one: Found) -> bool:
    """Whether the passage is all that there is of its document, as far as that can be told without asking."""
    return not one.passage.ordinal and one.passage.end + 2 >= one.row.size


# -- the rest of a definition or section


def _widen(
    home: Home,
    found: Sequence[Found],
    around: list[Around],
    runs: dict[int, list[PassageRow]],
    shares: Sequence[int],
    room: int,
) -> int:
    """Let whole passages of the same definition or section join, as many as fit a hit's share; how many bytes they
    took."""
    spans = _spans(found, around, runs, shares, room)
    asked = [(found[at].row.address or "", first.start, last.end) for at, (first, last) in spans.items()]
    used = 0
    for (at, (first, _)), data in zip(spans.items(), home.store.read_ranges(asked) if asked else (), strict=True):
        if isinstance(data, MemorydError):
            continue  # the passage itself could be read, and is shown
        text = slice_text(data, 0, len(data), found[at].row.encoding)
        more = cost(text) - cost(around[at].excerpt.text)
        if used + more <= room:
            used += more
            around[at].excerpt, around[at].data = Excerpt("", text, whole=True), data
            around[at].start, around[at].line_start = first.start, first.line_start
    return used


def _spans(
    found: Sequence[Found],
    around: list[Around],
    runs: dict[int, list[PassageRow]],
    shares: Sequence[int],
    room: int,
) -> dict[int, tuple[PassageRow, PassageRow]]:
    """First and last passage of each hit that may grow, by the hit's place."""
    spans = {}
    for at, run in runs.items():
        passage, shown = found[at].passage, around[at].excerpt
        if shown.whole:
            first, last = _grown(run, passage, min(room, shares[at] - cost(shown.text)))
            room -= last.end - first.start - _size(passage)
            if first is not last:
                spans[at] = (first, last)
    return spans


def _size(row: PassageRow) -> int:
    return row.end - row.start


def _run(passage: PassageRow, beside: Sequence[PassageRow]) -> list[PassageRow]:
    """The passages next to each other, this one among them, that are of one definition, section or conversation."""
    held = {row.ordinal: row for row in beside}
    run = [passage]
    for step in (-1, 1):
        at = passage.ordinal + step
        while abs(at - passage.ordinal) <= REACH and at in held and _together(passage, held[at]):
            run.insert(0 if step < 0 else len(run), held[at])
            at += step
    return run


def _together(passage: PassageRow, other: PassageRow) -> bool:
    if passage.symbol:
        return other.symbol == passage.symbol or other.symbol.startswith(f"{passage.symbol}.")
    if other.symbol:
        return False
    deep = len(passage.heading)
    same = other.heading[:deep] == passage.heading if deep else not other.heading
    return same or (_is_turn(passage) and _is_turn(other))


def _is_turn(row: PassageRow) -> bool:
    words = row.heading[-1].split() if row.heading else []
    return bool(words) and words[0].strip(":*").casefold() in ROLES


def _grown(run: Sequence[PassageRow], passage: PassageRow, share: int) -> tuple[PassageRow, PassageRow]:
    """First and last passage of the widest piece of a run around `passage` that takes at most `share` bytes more."""
    first = last = next(at for at, row in enumerate(run) if row.ordinal == passage.ordinal)
    limit = _size(passage) + share
    grew = True
    while grew:
        grew = False
        if first and run[last].end - run[first - 1].start <= limit:
            first, grew = first - 1, True
        if last + 1 < len(run) and run[last + 1].end - run[first].start <= limit:
            last, grew = last + 1, True
    return run[first], run[last]


# -- first lines of the definitions around it


def _put_headers(
    home: Home, found: Sequence[Found], around: list[Around], rows: dict[int, list[PassageRow]], room: int
) -> int:
    """Name the definitions around a piece of code by their first lines; how many bytes these take."""
    wanted = [(at, name, row) for at, beside in rows.items() for name, row in _openers(found[at].passage, beside)]
    asked = [(found[at].row.address or "", row.start, row.end) for at, _, row in wanted]
    used = 0
    for (at, name, row), data in zip(wanted, home.store.read_ranges(asked) if asked else (), strict=True):
        if isinstance(data, MemorydError):
            continue
        header = _header(slice_text(data, 0, len(data), found[at].row.encoding), name.rsplit(".", 1)[-1])
        if header is not None and used + cost(header.text) <= room:
            place = locate(header, data, start=row.start, line_start=row.line_start, encoding=found[at].row.encoding)
            around[at].within.append({"symbol": name, **_shown(header.text, place)})
            used += cost(header.text)
    return used


def _openers(passage: PassageRow, beside: Sequence[PassageRow]) -> Iterator[tuple[str, PassageRow]]:
    """The names of the definitions that a passage is part of, outer ones first, each with the passage it begins in."""
    parts = passage.symbol.split(".") if passage.symbol else []
    for deep in range(1, len(parts) + 1):
        name = ".".join(parts[:deep])
        row = next((row for row in beside if row.symbol == name), None)
        if row is not None and row.ordinal < passage.ordinal:
            yield name, row


def _header(text: str, name: str) -> Excerpt | None:
    """The lines of a passage in which the definition of `name` begins, up to the colon that ends them."""
    begin = re.search(rf"^[ \t]*((?:async[ \t]+)?(?:def|class)[ \t]+{re.escape(name)}\b)", text, re.MULTILINE)
    if begin is None:
        return None
    start = begin.start(1)
    end = re.compile(r":[ \t]*(?:#.*)?$", re.MULTILINE).search(text, begin.end(), start + HEADER_CHARS)
    shown = text[start : end.start() + 1 if end is not None else _line_end(text, start)]
    return Excerpt(text[:start], shown, whole=False)


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


# -- the turns before and after


def _put_turns(home: Home, found: Sequence[Found], around: list[Around], room: int) -> None:
    """Where documents are turns of a conversation, each of which its path numbers, show the one before and after."""
    wanted: dict[str, tuple[int, int]] = {}
    for at, one in enumerate(found):
        if one.row.size <= TURN_BYTES and speaker_of(one.text):
            for step in (-1, 1):
                for path in numbered_beside(one.row.path, step):
                    wanted[document_id(one.row.source, path)] = (at, step)
    rows = home.documents.get_many(list(wanted)) if wanted else {}
    turns = [
        (*wanted[id], row)
        for id, row in rows.items()
        if row.address is not None and row.status == "in_force" and row.size <= TURN_BYTES
        if row.scope == found[wanted[id][0]].row.scope
    ]
    firsts = home.passages.firsts([row.document_id for *_, row in turns]) if turns else {}
    turns = [turn for turn in turns if turn[2].document_id in firsts]
    places = [firsts[row.document_id] for *_, row in turns]
    read = home.store.read_ranges([(t[2].address or "", p.start, p.end) for t, p in zip(turns, places, strict=True)])
    texts = [
        "" if isinstance(data, MemorydError) else slice_text(data, 0, len(data), row.encoding)
        for data, (*_, row) in zip(read, turns, strict=True)
    ]
    shares = split_budget([cost(text) for text in texts], room)
    for (at, step, row), place, data, text, share in zip(turns, places, read, texts, shares, strict=True):
        if isinstance(data, MemorydError) or share < min(LEAST_TURN, cost(text)):
            continue
        piece = cut(text, frozenset(), share)
        where = locate(piece, data, start=place.start, line_start=place.line_start, encoding=row.encoding)
        told = {"source": source_of(row), "address": row.address, **_shown(piece.text, where)}
        if step < 0:
            around[at].before = told
        else:
            around[at].after = told


def numbered_beside(path: bytes, step: int) -> list[bytes]:
    """The paths that differ from this one only in that the last number of the file's name is `step` more."""
    found = _LAST_NUMBER.search(path)
    if found is None or int(found[0]) + step < 0:
        return []
    plain = b"%d" % (int(found[0]) + step)
    names = dict.fromkeys([plain.rjust(len(found[0]), b"0"), plain])
    return [path[: found.start()] + name + path[found.end() :] for name in names]


def _shown(text: str, place: Location) -> dict[str, Any]:
    return {"content": text, "bytes": [place.start, place.end], "lines": [place.line_start, place.line_end]}
