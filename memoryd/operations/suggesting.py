"""Which other queries would show something that this answer did not?

A suggestion is the title of a ranked document that was not shown. It is made only where the words of that title find a
document that may be shown first, and what was shown already is far behind: no model is asked for it.
"""

from __future__ import annotations

from collections.abc import Collection

from memoryd.catalog.documents import DocumentRow
from memoryd.operations import answers
from memoryd.operations.found import may_show, retired_meanwhile
from memoryd.operations.home import Home
from memoryd.records import Filter
from memoryd.search.pipeline import Mode, Ranked

MOST = 2
LOOKED_AT = 3
"""Ranked documents beyond those shown whose titles are tried."""
DEPTH = 6
"""Entries that a title's words are looked up for."""
RIVAL = 0.7
"""Share of the best score from which on a document that was shown might come before the new one."""


def suggestions(
    home: Home, query: str, outcome: Ranked, shown: answers.Shown, most: int, mode: Mode, wanted: Filter
) -> list[str]:
    """Up to two titles, each of which brings something that was not shown; `most` results are shown for each."""
    rest = [hit.document_id for hit in outcome.hits[shown.reached : shown.reached + LOOKED_AT]]
    if not rest:
        return []
    seen = {hit.document_id for hit in outcome.hits[: shown.reached]}
    live = _live(home, rest, wanted)
    known = {str(one["title"]).casefold() for one in shown.entries} | {query.strip().casefold()}
    titles = dict.fromkeys(live[one].title.strip() for one in rest if one in live)
    tried = [title for title in titles if title and title.casefold() not in known]
    if mode == "semantic":
        return [title for title in tried[:1] if _found_by_meaning(home, title, live, most, wanted)]
    found: list[str] = []
    for title in tried:
        if _found_by_words(home, title, seen, live, most - (mode == "hybrid"), wanted):
            found.append(title)
            if len(found) == MOST:
                break
    return found


def _live(home: Home, ids: list[str], wanted: Filter) -> dict[str, DocumentRow]:
    """Those of the documents that an answer could show now."""
    retired = retired_meanwhile(home)
    rows = home.documents.get_many(ids)
    return {id: row for id, row in rows.items() if may_show(row, wanted) and id not in retired}


def _found_by_meaning(home: Home, title: str, live: Collection[str], most: int, wanted: Filter) -> bool:
    hits = answers.ranked(home, title, "semantic", wanted, most)[0].hits
    return any(hit.document_id in live for hit in hits)


def _found_by_words(
    home: Home, title: str, seen: Collection[str], live: Collection[str], most: int, wanted: Filter
) -> bool:
    """Whether the words of a title find a new document first, and fewer shown ones than `most` come near."""
    generation = home.generation
    if generation is None or generation.lexical is None:
        return False
    hits = generation.lexical.search(f"{title} .", wanted, DEPTH)  # its last word is whole: nothing longer is meant
    if not hits or hits[0].document_id not in live:
        return False
    near = {hit.document_id for hit in hits if hit.document_id in seen and hit.score >= RIVAL * hits[0].score}
    return len(near) < most
