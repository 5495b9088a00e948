"""What should a session know before its first step, in few words?

Rules in force first, then what is remembered for the task, what is open or no longer matches its sources, and what
changed since the project's last session. One line each, with the beginning of an id that memory_get takes; only what is
in force. Sections share one budget of tokens: what one leaves over the others may use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memoryd.catalog.memories import MemoryRow
from memoryd.errors import InvalidInput, NotFound, StoreError
from memoryd.extract.orders import is_order
from memoryd.operations import answers, callers, filed
from memoryd.operations.freshness import mark
from memoryd.operations.home import Caller, Home, utc_text
from memoryd.operations.known import body_of
from memoryd.operations.reading import QUERY_LIMIT, gap_of
from memoryd.records import GLOBAL_SCOPE, Filter

BRIEF_TOKENS = 800
LEAST_TOKENS, MOST_TOKENS = 100, 8000
CHARACTERS_A_TOKEN = 4
LINE_MOST = 240
"""Characters of a memory that its line shows."""
LOOKED_AT = 2000
"""Memories in force, the newest ones, among which rules and decisions are looked for."""
TASK_HITS = 12
RULES, TASK, OPEN, DECISIONS, CHANGED = 0.7, 0.85, 0.92, 0.96, 1.0
"""The share of the budget that is used up to the end of each section; at the end rules take what is left."""
LEAST_RELEVANCE = 0.02
"""Pages and code that are less likely to help with the task are none of its lines: every start of a session pays."""
RULES_TITLE = "## Rules in force"
ID_DIGITS = 8
CITED_MOST, RETIRED_MOST = 200, 200
"""Memories whose citations are looked at, and retired ones that are looked through."""
SESSION_GAP = 1800.0
"""Seconds without a brief after which the next one begins another session of the project."""


_HEADING = re.compile(r"\A(#{1,6}\s+)+")
_ID = re.compile(r"\[([0-9a-f]{8,64})\]")
"""What would read as a section of the brief, or as the id of a line, in the words of a memory."""


@dataclass(frozen=True, slots=True)
class _Line:
    """What a line says of something, and how it is named in brackets."""

    text: str
    name: str
    fact: str = ""

    def __str__(self) -> str:
        text, name = (_ID.sub(r"(\1)", _one_line(one)) for one in (self.text, self.name))
        return f"- {text} [{name}]"


@dataclass(slots=True)
class _Page:
    """Lines by section, within a budget of tokens."""

    most: int
    sections: dict[str, list[str]] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)
    facts: list[str] = field(default_factory=list)
    used: int = 0

    def section(self, title: str, lines: Iterable[_Line], share: float) -> int:
        """Add what fits of a section; how many lines those are. Nothing has two lines on a page."""
        limit = int(self.most * share)
        count = 0
        for line in lines:
            if line.name in self.shown:
                continue
            cost = _cost(str(line)) + (0 if title in self.sections else _cost(title))
            if self.used + cost > limit:
                break
            self.sections.setdefault(title, []).append(str(line))
            self.shown.add(line.name)
            self.facts += [line.fact] * bool(line.fact)
            self.used += cost
            count += 1
        return count

    def text(self) -> str:
        """All lines, each section under its title."""
        return "\n".join(line for title, lines in self.sections.items() for line in (title, *lines))


def recall(
    home: Home, caller: Caller, *, task: str, scope: str | None = None, max_tokens: int = BRIEF_TOKENS
) -> dict[str, Any]:
    """A brief for the start of work, of at most `max_tokens` (four characters each).

    Raises InvalidInput for a blank task, ScopeError kinds.
    """
    if not task.strip():
        raise InvalidInput("`task` is blank.", parameter="task")
    scopes = callers.readable(home, caller, scope)
    wanted = Filter(scopes=scopes)
    outcome, index = answers.ranked(home, task[:QUERY_LIMIT], "hybrid", wanted, TASK_HITS)
    found = answers.hits(home, task[:QUERY_LIMIT], outcome.hits, TASK_HITS, wanted)
    index["degraded"] += found.lost
    page = _Page(max(LEAST_TOKENS, min(max_tokens, MOST_TOKENS)))
    counts = _Brief(home, caller, scopes).fill(page, found.entries)
    home.noticed.listed(caller.session, page.facts, home.clock())
    return {"brief": page.text(), "tokens": page.used, **counts, "index": index, "next": _next(counts, index)}


def is_rule(row: MemoryRow) -> bool:
    """Whether a memory tells how work is to be done: a preference, or words that read as an order."""
    return row.fields.type == "preference" or (row.fields.type != "note" and is_order(row.fields.title))


class _Brief:
    """What one caller's brief is made of."""

    def __init__(self, home: Home, caller: Caller, scopes: tuple[str, ...]) -> None:
        self._home = home
        self._scopes = scopes
        self._is_own = callers.readable(home, caller, None)[-1] == scopes[-1]
        rows = home.memories.listed(scopes, ("in_force",), (), LOOKED_AT, 0)
        self._held = sorted(rows, key=lambda row: row.fields.scope == GLOBAL_SCOPE)  # the project's own first
        self._cited = _citations(home, caller, self._held)

    def fill(self, page: _Page, near: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """All sections, the most important first; how many lines each has."""
        place = {str(one["id"]): at for at, one in enumerate(near)}
        rules = [row for row in self._held if is_rule(row)]
        rules.sort(key=lambda row: place.get(row.fields.id, len(place)))
        decisions = (row for row in self._held if row.fields.type in ("decision", "lesson"))
        counts = {"rules": page.section(RULES_TITLE, map(self._line, rules), RULES)}
        counts["for_task"] = page.section("## For this task", self._for_task(near), TASK)
        counts["open"] = page.section("## To be settled", self._unsettled(), OPEN)
        counts["decisions"] = page.section("## Recent decisions and lessons", map(self._line, decisions), DECISIONS)
        counts["changed"] = page.section("## Changed since the last session", self._changes(), CHANGED)
        counts["rules"] += page.section(RULES_TITLE, map(self._line, rules), 1.0)
        counts["rules_left_out"] = sum(_name(row) not in page.shown for row in rules)
        return counts

    def _line(self, row: MemoryRow) -> _Line:
        return _Line(_words(self._home, row) + self._cites(row), _name(row), row.fields.fact)

    def _cites(self, row: MemoryRow) -> str:
        told = self._cited.get(row.fields.id, ())
        return f" (cites {'; '.join(f'{at}: {state}' for at, state in told[:2])})" if told else ""

    def _for_task(self, near: Sequence[Mapping[str, Any]]) -> Iterator[_Line]:
        by_id = {row.fields.id: row for row in self._held}
        for one in near:
            row = by_id.get(str(one["id"]))
            if row is not None:
                yield self._line(row)
            elif one["kind"] != "memory" and one["relevance"] >= LEAST_RELEVANCE:
                first, last = one["lines"]
                words = _flat(str(one["content"]))
                yield _Line(_cut(words), f"{one['source']}#L{first}-L{last}")

    def _unsettled(self) -> Iterator[_Line]:
        """Memories that contradict another one, and those whose sources changed."""
        for one in filed.open_findings(self._home, self._scopes, "conflict"):
            text = f"{_words(self._home, one.memory)} <- may replace {_name(one.other)}: call memory_supersede if so"
            yield _Line(text, _name(one.memory), one.memory.fields.fact)
        for row in self._held:
            stale = [told for told in self._cited.get(row.fields.id, ()) if told[1] in ("changed", "missing")]
            if stale:
                yield self._line(row)

    def _changes(self) -> Iterator[_Line]:
        """What came and what was retired since the project's last session, the newest first."""
        since = self._home.state.visits.since(self._scopes[-1], self._home.clock(), SESSION_GAP, note=self._is_own)
        if since is None:
            return
        moment = utc_text(since)
        for row in self._held:
            if row.fields.created > moment:
                yield _Line(f"new: {_words(self._home, row)}", _name(row), row.fields.fact)
        for row in self._home.memories.listed(self._scopes, ("superseded", "archived"), (), RETIRED_MOST, 0):
            if row.fields.updated > moment:
                yield _Line(f"{row.fields.status} since: {_flat(row.fields.title)}", _name(row))


def _citations(home: Home, caller: Caller, held: Sequence[MemoryRow]) -> dict[str, list[tuple[str, str]]]:
    """Place and state of what memories cite, those that do not match first, by memory id."""
    cited = [row for row in held if row.fields.citations][:CITED_MOST]
    told: list[dict[str, Any]] = [{"scope": row.fields.scope, "citations": list(row.fields.citations)} for row in cited]
    mark(home, caller, told)
    return {
        row.fields.id: sorted(
            ((one["at"], one["state"]) for one in entry["citations"]), key=lambda one: one[1] == "fresh"
        )
        for row, entry in zip(cited, told, strict=True)
    }


def _words(home: Home, row: MemoryRow) -> str:
    """The words of a short memory, of a longer one its title and beginning; on one line."""
    try:
        body = _flat(body_of(home, row))
    except (NotFound, StoreError):
        body = _flat(row.fields.title)
    title = _flat(row.fields.title)
    return _cut(body if body.lstrip("#*->` ").startswith(title[:40]) else f"{title}: {body}")


def _flat(text: str) -> str:
    """On one line, and no line of it a heading."""
    return _one_line(" ".join(_HEADING.sub("", line.lstrip(), count=1) for line in text.splitlines()))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _cut(text: str) -> str:
    return text if len(text) <= LINE_MOST else f"{text[:LINE_MOST].rsplit(' ', 1)[0]} ..."


def _name(row: MemoryRow) -> str:
    return row.fields.id[:ID_DIGITS]


def _cost(text: str) -> int:
    return -(-(len(text) + 1) // CHARACTERS_A_TOKEN)


def _next(counts: Mapping[str, Any], index: dict[str, Any]) -> str:
    gap = gap_of(index)
    if gap:
        return f"This brief is not complete: {gap}. Search again before you take it for all there is."
    if not any(counts.values()):
        return "Nothing is remembered here yet: add what you decide and learn with memory_add."
    more = f" {counts['rules_left_out']} more rules did not fit: search for them." if counts["rules_left_out"] else ""
    return f"Search before you re-derive anything; memory_get reads a whole entry by the id in brackets.{more}"
