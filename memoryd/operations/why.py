"""Why was something returned for a query, or why not?

The same search again, looked at from one entry: every gate between the stored file and the answer is named in its
order, and the first that was closed is the reason. What lies outside the caller's scopes is told as unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memoryd.catalog.documents import DocumentRow
from memoryd.errors import NotFound
from memoryd.extract.text import slice_text
from memoryd.index.analysis import places
from memoryd.operations import answers, reading
from memoryd.operations.entries import located
from memoryd.operations.found import retired_meanwhile, source_of
from memoryd.operations.home import Caller, Home
from memoryd.operations.known import successor
from memoryd.records import Filter, ancestors
from memoryd.search.excerpt import wanted_terms
from memoryd.search.fusion import LEXICAL, Fused
from memoryd.search.pipeline import Mode, Ranked

DEEP = 1000
"""How many candidates a leg is asked for where the search itself did not reach the entry."""
WORDS_MOST = 12
LEGS = {"lexical": "keyword", "exact": "keyword", "dense": "semantic", "sparse": "semantic"}
"""The mode that runs each leg without the other side."""
ALWAYS = ("lexical", "dense")
"""Legs that run for every query; the others run where a query names something, or a model weighs words."""
INDEX_OF = {"lexical": "lexical", "exact": "lexical", "dense": "vectors", "sparse": "vectors"}
"""The index that each leg asks."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A search as it was asked, and the scopes that the caller reads."""

    text: str
    mode: Mode
    wanted: Filter
    most: int


def why(
    home: Home,
    caller: Caller,
    *,
    query: str,
    id: str,
    max_results: int = 8,
    mode: Mode = "hybrid",
    path_prefix: str | None = None,
    kinds: Sequence[str] | None = None,
    types: Sequence[str] | None = None,
    scope: str | None = None,
) -> dict[str, Any]:
    """Whether a search like this one returns the entry `id` (a memory's or document's id, `sha256:...` or
    `label/path`), its place and ranks, and the `reason` where it does not; see docs/tools for the reasons.

    Raises InvalidInput kinds and ScopeError kinds, AmbiguousAddress.
    """
    text, wanted = reading.asked(home, caller, query, path_prefix, kinds, types, scope)
    asked = _Asked(text, mode, wanted, max_results)
    try:
        row, address = _named(home, wanted.scopes, id)
    except NotFound as error:
        return {"id": id, "returned": False, "reason": "unknown", "message": error.message, "next": error.next_step}
    named = {"id": row.document_id, "source": source_of(row), "title": row.title, "scope": row.scope, "mode": mode}
    if row.address != address:
        return {
            **named,
            **_no("former", f"{source_of(row)} holds other content now.", "Searches see what it holds now."),
        }
    return {**named, **(_closed(home, row, wanted) or _looked_for(home, row, asked))}


def _no(reason: str, message: str, next: str, **more: Any) -> dict[str, Any]:
    return {"returned": False, "reason": reason, "message": message, "next": next, **more}


def _named(home: Home, scopes: tuple[str, ...], id: str) -> tuple[DocumentRow, str]:
    kind = "address" if id.startswith("sha256:") else "source" if "/" in id else "id"
    given = {"id": None, "address": None, "source": None} | {kind: id}
    return located(home, scopes, given["id"], given["address"], given["source"])


# -- before any leg is asked


def _closed(home: Home, row: DocumentRow, wanted: Filter) -> dict[str, Any] | None:
    """What keeps the entry out of every search, or out of one with these filters."""
    if row.status not in wanted.statuses or row.document_id in retired_meanwhile(home):
        return _retired(home, row, wanted.scopes)
    if wanted.kinds and row.kind not in wanted.kinds:
        return _no("filter", f"It is of kind {row.kind}; asked for: {', '.join(wanted.kinds)}.", "Leave `kinds` out.")
    if wanted.types and row.type not in wanted.types:
        held = f"of type {row.type}" if row.type else "no memory"
        return _no("filter", f"It is {held}; asked for: {', '.join(wanted.types)}.", "Leave `types` out.")
    if wanted.path_prefix and wanted.path_prefix not in ancestors(row.source, row.path):
        return _no("filter", f"It does not lie below {wanted.path_prefix}.", "Leave `path_prefix` out.")
    if not home.passages.firsts([row.document_id]):
        held = row.problem or "there is no text in it"
        return _no("no-text", f"There is nothing in it to search: {held}.", "Read it with memory_get.")
    return None


def _retired(home: Home, row: DocumentRow, scopes: tuple[str, ...]) -> dict[str, Any]:
    memory = home.memories.by_document(row.document_id)
    status = row.status if row.status != "in_force" else "retired"
    if memory is None:
        return _no(status, f"It is {status}.", "Read it with memory_get.")
    fields = memory.fields
    last = successor(home, fields.id, scopes)
    if last is not None:
        told = {"successor": {"id": last.fields.id, "title": last.fields.title}}
        return _no(status, f"It is {status} by {last.fields.id}.", "Ask why for its successor.", **told)
    said = f": {fields.archive_reason}" if fields.archive_reason else ""
    return _no(status, f"It is {status}{said}.", "Read it with memory_get; searches show what is in force.")


# -- what the legs say


def _looked_for(home: Home, row: DocumentRow, asked: _Asked) -> dict[str, Any]:
    """The search once more with every candidate, and what became of this one."""
    outcome, index = answers.ranked(home, asked.text, asked.mode, asked.wanted, DEEP)
    place = next((at for at, hit in enumerate(outcome.hits, 1) if hit.document_id == row.document_id), None)
    depth = outcome.depths
    under = next((hit for hit in outcome.dropped if hit.document_id == row.document_id), None)
    if under is not None:
        return {**_under_floor(under), "legs": _legs(home, row, asked, outcome), "depth": depth, "index": index}
    if place is None:
        beyond, _ = answers.ranked(home, asked.text, asked.mode, asked.wanted, DEEP, candidates=DEEP)
        told: dict[str, Any] = {"legs": _legs(home, row, asked, beyond), "depth": depth, "index": index}
        return {**_not_found(home, row, asked, told["legs"], depth), **told}
    told = {"legs": _legs(home, row, asked, outcome), "depth": depth, "index": index}
    hit = outcome.hits[place - 1]
    told |= {"place": place, "relevance": hit.relevance, "explain": answers.explained(hit)}
    # the search itself ranks no more than it may show and a few in reserve
    shown = answers.hits(home, asked.text, outcome.hits[: asked.most + reading.SPARE], asked.most, asked.wanted)
    return {**_became(home, row, asked, shown, place), **told}


def _under_floor(hit: Fused) -> dict[str, Any]:
    message = f"It was found, with a relevance of {hit.relevance:.3f}, which is under the floor."
    told = {"relevance": hit.relevance, "explain": answers.explained(hit)}
    other = ", or in mode keyword" if LEXICAL in hit.scores else ""  # which finds nothing else
    return _no("floor", message, f"Ask with words that stand in it{other}.", **told)


def _became(home: Home, row: DocumentRow, asked: _Asked, shown: answers.Shown, place: int) -> dict[str, Any]:
    left_out = shown.left_out.get(row.document_id)
    if left_out is None and place <= shown.reached:
        return {"returned": True, "reason": "returned", "message": f"It is returned, ranked {place}.", "next": ""}
    if left_out is None:
        message = f"It is ranked {place}, and {asked.most} results were asked for."
        words = f"with words that stand in {row.title!r}"
        more = f"for more with `max_results`, or {words}" if place <= reading.MOST_RESULTS else words
        return _no("max-results", message, f"Ask {more}.")
    if left_out == "unreadable":
        return _no("unreadable", "Its stored content cannot be read.", "Run `memoryd repair`.")
    other = home.documents.get(left_out) if left_out != "changed" else None
    if other is None:
        return _no("changed", "It changed while it was looked for.", "Ask again in a moment.")
    message = f"It repeats the text of {source_of(other)}, which ranks higher and names it under `also`."
    return _no("duplicate", message, f"Read {source_of(other)}, or this one with memory_get.", of=source_of(other))


def _legs(home: Home, row: DocumentRow, asked: _Asked, outcome: Ranked) -> dict[str, dict[str, Any]]:
    """For each leg that ran or should have: whether it ran and has the entry; its rank and score, or null."""
    waits = _waiting(home, row)
    legs: dict[str, dict[str, Any]] = {}
    for leg, alone in LEGS.items():
        hits = outcome.legs.get(leg, [])
        if hits or (asked.mode in ("hybrid", alone) and leg in ALWAYS):
            ranks = {id: at for at, id in enumerate(dict.fromkeys(hit.document_id for hit in hits), 1)}
            score = next((hit.score for hit in hits if hit.document_id == row.document_id), None)
            legs[leg] = {"ran": leg in outcome.legs, "indexed": INDEX_OF[leg] not in waits}
            legs[leg] |= {"rank": ranks.get(row.document_id), "score": score}
    return legs


def _waiting(home: Home, row: DocumentRow) -> set[str]:
    """The indexes that have not taken in this state of the document."""
    if home.generation is None:
        return {"lexical", "vectors"}
    mark = home.generation.watermark
    return {name for name, seq in (("lexical", mark.lexical_seq), ("vectors", mark.vector_seq)) if row.seq > seq}


def _not_found(
    home: Home, row: DocumentRow, asked: _Asked, legs: Mapping[str, Mapping[str, Any]], depth: Mapping[str, int]
) -> dict[str, Any]:
    """Why no leg that ran has it among its candidates."""
    ran = [leg for leg in legs.values() if leg["ran"]]
    if not ran:
        return _no("degraded", "No leg of this search ran.", "`index.degraded` says why and what to do.")
    if not any(leg["indexed"] for leg in ran):
        return _no("pending", "It is not indexed yet.", "Ask again in a moment.")
    words = _words_in(home, row, asked.text)
    ranks = [f"{name} no. {leg['rank']}" for name, leg in legs.items() if leg["rank"] is not None]
    deep = ", ".join(f"{depth[name]} {name}" for name, leg in legs.items() if leg["ran"] and name in depth)
    if not ranks and not words:
        return _no("no-words", "No word of the query stands in it.", "Use words of its text, or mode semantic.")
    said = f": {', '.join(ranks)}" if ranks else ""
    message = f"It is beyond the candidates of each leg that ran ({deep}){said}."
    return _no("candidates", message, "Use words that stand only in it, or narrow with `path_prefix`.", words=words)


def _words_in(home: Home, row: DocumentRow, query: str) -> list[str]:
    """The terms of the query that stand in the entry's text."""
    found: set[str] = set()
    data = home.store.read(row.address or "")
    wanted = wanted_terms(query)
    for passage in home.passages.of_document(row.document_id):
        for place in places(slice_text(data, passage.start, passage.end, row.encoding), wanted):
            found |= place.terms
    return sorted(found)[:WORDS_MOST]
