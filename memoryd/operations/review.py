"""Which memories want a look, why, and what is the one call that settles each?

Nothing is retired here. Every item carries a call that is ready to be made (it shows its plan first, as always) and the
same as a command. Leaving an item as it is is `leaving`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from memoryd.catalog.memories import MemoryRow
from memoryd.catalog.put_off import Item
from memoryd.errors import InvalidInput
from memoryd.extract.worddiff import word_difference
from memoryd.operations import callers, filed, twins, worn
from memoryd.operations.feedback import command_of, proposals
from memoryd.operations.fresh import try_drain
from memoryd.operations.freshness import mark
from memoryd.operations.guard import shown
from memoryd.operations.home import Caller, Home
from memoryd.operations.signals import told
from memoryd.operations.worn import DAY, Use
from memoryd.records import GLOBAL_SCOPE, REVIEW_SECTIONS

SECTIONS = REVIEW_SECTIONS
ITEMS = 50
"""Items of a section that one answer shows; all are counted."""
LOOK_SECONDS = 10.0
"""How long one answer looks for near duplicates; the next one goes on."""
EXCERPT = 400
"""Characters of a memory that an item shows."""
COUNT_SECONDS = 60.0
SCOPES_COUNTED = 100
CITED = 200
"""Memories with citations whose files one answer looks at."""
Scopes = tuple[str, ...]


def review(
    home: Home,
    caller: Caller,
    *,
    sections: Sequence[str] | None = None,
    limit: int = ITEMS,
    scope: str | None = None,
    look_seconds: float = LOOK_SECONDS,
) -> dict[str, Any]:
    """What wants a look in the caller's scopes, section by section, each item with the call that settles it.

    `looked` says how far the search for near duplicates came: where `done` is less than `of` and there is no `problem`,
    the same call again goes on. Raises ScopeUnknown, InvalidInput for an unknown section.
    """
    wanted = checked_sections(sections)
    try_drain(home)
    found = _Review(home, caller, callers.readable(home, caller, scope))
    if "near_duplicates" in wanted:
        found.look(look_seconds)
        home.reviewed.clear()
    made = {name: found.section(name) for name in wanted}
    return {
        "sections": {
            name: {"count": len(items), "items": [*map(found.finished, items[:limit])]} for name, items in made.items()
        },
        "total": sum(map(len, made.values())),
        "memories": len(found.rows),
        "counting_since": told(home.state.counting_since(home.clock())),
        "looked": {"done": found.looked.done, "of": found.looked.of, "problem": found.looked.problem},
        "next": "Nothing was changed. Make the `action` of an item, or leave it; `memoryd review` asks about each.",
    }


def counts(home: Home, scopes: Scopes) -> dict[str, int]:
    """How many items the sections have of which that is known without reading a memory; near duplicates as far as they
    were looked at. Counted at most once a minute, unless a memory or a verdict came."""
    now, seq = home.clock(), home.documents.last_seq()
    at, upto, known = home.reviewed.get(scopes, (0.0, -1, {}))
    if upto == seq and 0 <= now - at < COUNT_SECONDS:
        return known
    found = _Review(home, Caller(), scopes)
    counted = {name: len(found.keys(name)) for name in _KEYS}
    if len(home.reviewed) >= SCOPES_COUNTED:
        home.reviewed.clear()
    home.reviewed[scopes] = now, seq, counted
    return counted


def checked_sections(sections: Sequence[str] | None) -> tuple[str, ...]:
    unknown = [name for name in sections or () if name not in SECTIONS]
    if unknown:
        raise InvalidInput(f"There is no section {unknown[0][:80]!r}; there are {', '.join(SECTIONS)}.")
    return tuple(name for name in SECTIONS if not sections or name in sections)


class _Review:
    """One look at the memories in force of some scopes."""

    def __init__(self, home: Home, caller: Caller, scopes: Scopes) -> None:
        self._home = home
        self._caller = caller
        self._scopes = scopes
        self.rows = home.memories.listed(scopes, ("in_force",), (), _EVERY, 0)
        self._by_id = {row.fields.id: row for row in self.rows}
        self._uses = {one.row.fields.id: one for one in worn.uses(home, self.rows)}
        self._put_off = home.state.put_off.at(home.clock())
        self.looked = twins.Progress(home.pairs.known(), len(self.rows))

    def look(self, seconds: float) -> None:
        """Look for near duplicates, in all scopes: what was looked at is kept for everybody."""
        every = self._home.memories.listed(None, ("in_force",), (), _EVERY, 0)
        self.looked = twins.look(self._home, every, seconds)

    def section(self, name: str) -> list[dict[str, Any]]:
        """The items of a section that were not put off."""
        made = _MAKERS[name](self)
        return [one for one in made if _key(name, one) not in self._put_off]

    def keys(self, name: str) -> set[Item]:
        """What a section would show, without reading any memory's words."""
        found = _KEYS[name](self)
        return {one for one in ((name, first, second) for first, second in found) if one not in self._put_off}

    # -- what each section holds

    def feedback(self) -> list[dict[str, Any]]:
        items = []
        for row, said in worn.blamed(self._home, self.rows):
            last = said[0]
            why = f"said to be {last.verdict}" + (f" by {len(said)} sessions" if len(said) > 1 else "")
            first, second = proposals(row.fields.id, f"{last.verdict}: {last.note}" if last.note else why)
            action = first if last.verdict == "outdated" else second
            why += f": {shown(last.note)}" if last.note else ""
            items.append(self._item("feedback", row, why, action))
        return items

    def conflicting(self) -> list[dict[str, Any]]:
        items = []
        for one in filed.open_findings(self._home, self._scopes, "conflict"):
            row, kept = _oriented(one.memory, one.other)
            items.append(self._pair("conflicting", row, kept, one.finding.reason, one.finding.score))
        return items

    def citations(self) -> list[dict[str, Any]]:
        rows = [row for row in self.rows if row.fields.citations]
        entries: list[dict[str, Any]] = [
            {"citations": list(row.fields.citations), "scope": row.fields.scope} for row in rows[:CITED]
        ]
        mark(self._home, self._caller, entries, whole=True)
        items = []
        for row, entry in zip(rows, entries, strict=False):
            bad = [one for one in entry["citations"] if one["state"] in ("changed", "missing")]
            if bad:
                why = "; ".join(f"{one['at']} is {one['state']}" for one in bad[:3])
                action, _ = proposals(row.fields.id, why)
                items.append({**self._item("citations", row, why, action), "citations": bad})
        return items

    def near_duplicates(self) -> list[dict[str, Any]]:
        alike, reasons = self._alike()
        items = []
        for number, group in enumerate(twins.clusters(self.rows, alike), 1):
            for one in group[1:]:
                row, kept = _oriented(one, group[0])
                pair = _documents(row, kept)
                why = reasons.get(pair) or f"one of {len(group)} that say nearly the same"
                item = self._pair("near_duplicates", row, kept, why, alike.get(pair))
                items.append({**item, "cluster": number, "size": len(group)})
        return items

    def _alike(self) -> tuple[dict[tuple[str, str], float | None], dict[tuple[str, str], str]]:
        """Pairs of documents: found by looking, and filed by others; without what a person let stand, or calls a
        conflict."""
        rows = {row.fields.id: row for row in self.rows}
        settled = {
            _documents(rows[one.memory], rows[one.other])
            for one in self._home.state.findings.settled()
            if one.memory in rows and one.other in rows
        }
        disputed = filed.open_findings(self._home, self._scopes, "conflict")
        settled |= {_documents(one.memory, one.other) for one in disputed}
        here = {row.document_id for row in self.rows}
        found: dict[tuple[str, str], float | None] = {
            pair: how for pair, how in self._home.pairs.alike().items() if here.issuperset(pair)
        }
        reasons = {}
        for one in filed.open_findings(self._home, self._scopes, "similar"):
            pair = _documents(one.memory, one.other)
            found.setdefault(pair, one.finding.score)
            reasons[pair] = one.finding.reason
        return {pair: how for pair, how in found.items() if pair not in settled}, reasons

    def stale(self) -> list[dict[str, Any]]:
        items = []
        for one in worn.stale(self._home, self._uses.values()):
            why = f"not asked for since {(told(one.last) or 'ever')[:10]}"
            items.append(self._item("stale", one.row, why, _archive(one.row, why)))
        return items

    def never_recalled(self) -> list[dict[str, Any]]:
        now = self._home.clock()
        items = []
        for one in worn.never_recalled(self._home, self._uses.values()):
            since = max(one.made, self._home.state.counting_since(now))
            why = f"never recalled in {int((now - since) // DAY)} days"
            items.append(self._item("never_recalled", one.row, why, _archive(one.row, why)))
        return items

    def verbose(self) -> list[dict[str, Any]]:
        items = []
        for row, count in worn.verbose(self._home, self.rows):
            action, _ = proposals(row.fields.id, "")
            why = f"{count} words: say it shorter, or as several memories"
            items.append({**self._item("verbose", row, why, action), "words": count})
        return items

    # -- how an item is shown

    def _item(self, section: str, row: MemoryRow, why: str, action: dict[str, Any]) -> dict[str, Any]:
        fields = row.fields
        use = self._uses.get(fields.id) or Use(row, 0.0, 0, 0.0)
        return {
            "section": section,
            "id": fields.id,
            "title": fields.title,
            "type": fields.type,
            "scope": fields.scope,
            "created": fields.created,
            "recalls": use.recalls,
            "last_used": told(use.last),
            "why": why,
            "action": action,
            "command": command_of(action),
        }

    def _pair(self, section: str, row: MemoryRow, kept: MemoryRow, why: str, score: float | None) -> dict[str, Any]:
        """An item about two memories: the first one is proposed to be replaced by the other."""
        if row.fields.scope == kept.fields.scope:
            action: dict[str, Any] = {
                "tool": "memory_supersede",
                "arguments": {"id": row.fields.id, "by": kept.fields.id},
            }
        else:
            action = _archive(row, f"{kept.fields.id[:12]} in {kept.fields.scope} says it")
        item = self._item(section, row, why, action)
        item["other"] = {"id": kept.fields.id, "title": kept.fields.title, "scope": kept.fields.scope}
        item["likeness"] = None if score is None else round(score, 3)
        return item

    def finished(self, item: dict[str, Any]) -> dict[str, Any]:
        """An item with the first words of its memory, of a pair with what differs: only what is shown is read."""
        said = self._said(item["id"])
        item["excerpt"] = said if len(said) <= EXCERPT else f"{said[:EXCERPT]}..."
        if "other" in item:
            item["difference"] = word_difference(said, self._said(item["other"]["id"]))
        return item

    def _said(self, id: str) -> str:
        row = self._by_id.get(id)
        return shown((twins.stored_body(self._home, row) or "").strip()) if row is not None else ""


_EVERY = 1 << 40


def _archive(row: MemoryRow, reason: str) -> dict[str, Any]:
    return {"tool": "memory_archive", "arguments": {"id": row.fields.id, "reason": reason}}


def _oriented(one: MemoryRow, other: MemoryRow) -> tuple[MemoryRow, MemoryRow]:
    """The one to retire and the one to keep: what holds everywhere is kept, else the newer one."""
    retired, kept = sorted(
        (one, other), key=lambda row: (row.fields.scope == GLOBAL_SCOPE, row.fields.created, row.fields.id)
    )
    return retired, kept


def _documents(one: MemoryRow, other: MemoryRow) -> tuple[str, str]:
    first, second = sorted((one.document_id, other.document_id))
    return first, second


def _key(section: str, item: dict[str, Any]) -> Item:
    return section, item["id"], item["other"]["id"] if "other" in item else ""


def _alone(rows: Iterable[MemoryRow]) -> list[tuple[str, str]]:
    return [(row.fields.id, "") for row in rows]


def _conflict_keys(found: _Review) -> list[tuple[str, str]]:
    pairs = [_oriented(one.memory, one.other) for one in filed.open_findings(found._home, found._scopes, "conflict")]
    return [(row.fields.id, kept.fields.id) for row, kept in pairs]


def _twin_keys(found: _Review) -> list[tuple[str, str]]:
    groups = twins.clusters(found.rows, found._alike()[0])
    pairs = [_oriented(row, group[0]) for group in groups for row in group[1:]]
    return [(row.fields.id, kept.fields.id) for row, kept in pairs]


_MAKERS: dict[str, Callable[[_Review], list[dict[str, Any]]]] = {
    "feedback": _Review.feedback,
    "conflicting": _Review.conflicting,
    "citations": _Review.citations,
    "near_duplicates": _Review.near_duplicates,
    "stale": _Review.stale,
    "never_recalled": _Review.never_recalled,
    "verbose": _Review.verbose,
}
_KEYS: dict[str, Callable[[_Review], list[tuple[str, str]]]] = {
    "feedback": lambda found: _alone(row for row, _ in worn.blamed(found._home, found.rows)),
    "conflicting": _conflict_keys,
    "near_duplicates": _twin_keys,
    "stale": lambda found: _alone(one.row for one in worn.stale(found._home, found._uses.values())),
    "never_recalled": lambda found: _alone(one.row for one in worn.never_recalled(found._home, found._uses.values())),
}
