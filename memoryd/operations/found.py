"""Which texts stand behind ranked documents, each text once, and what could not be shown?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from memoryd.catalog.documents import DocumentRow
from memoryd.catalog.passages import PassageRow
from memoryd.digest import document_id
from memoryd.errors import ContentDamaged, MemorydError
from memoryd.extract.text import slice_text
from memoryd.operations.home import Home
from memoryd.records import VAULT_SOURCE, Filter, ancestors, shown_path
from memoryd.search.fusion import Fused
from memoryd.search.pipeline import reason


@dataclass(frozen=True, slots=True)
class Found:
    """A document of an answer with the passage to show; `also` are the documents that hold the same text, best
    first."""

    hit: Fused
    row: DocumentRow
    passage: PassageRow
    text: str
    data: bytes
    also: list[DocumentRow] = field(default_factory=list)


@dataclass(slots=True)
class Reading:
    """What was read of a ranked list. `lost` says as `index.degraded` does what could not be read; `left_out` names
    for each document that is not shown why: `changed`, `unreadable`, or the id of the document that it repeats."""

    found: list[Found] = field(default_factory=list)
    lost: list[dict[str, str]] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    reached: int = 0
    """How many of the ranked documents were looked at."""


def read_found(home: Home, fused: Sequence[Fused], limit: int, wanted: Filter) -> Reading:
    """The first `limit` of the ranked documents that can be shown and say something else than those before.

    Those beyond take the place of documents that vanished, were retired or no longer are what was `wanted` (the index
    may not have heard yet), cannot be read, or only repeat.
    """
    read = Reading()
    texts: dict[str, Found] = {}
    while len(read.found) < limit and read.reached < len(fused):
        part = fused[read.reached : read.reached + limit - len(read.found)]
        read.reached += len(part)
        for one in _looked(home, part, read, wanted):
            same = texts.setdefault(" ".join(one.text.split()), one)
            if same is one:
                read.found.append(one)
            else:
                same.also.append(one.row)
                read.left_out[one.row.document_id] = same.row.document_id
    return read


def may_show(row: DocumentRow, wanted: Filter) -> bool:
    """Whether a document is, now, what a search asked for: invariant 8 holds for what is shown, not only for the index
    that found it a moment ago."""
    return (
        row.address is not None
        and row.status == "in_force"
        and row.scope in wanted.scopes
        and (not wanted.kinds or row.kind in wanted.kinds)
        and (not wanted.types or row.type in wanted.types)
        and (not wanted.path_prefix or wanted.path_prefix in ancestors(row.source, row.path))
    )


def _looked(home: Home, fused: Sequence[Fused], read: Reading, wanted: Filter) -> list[Found]:
    """The passages of these documents with their verified text; what cannot be read is noted, also for the home."""
    rows = home.documents.get_many([hit.document_id for hit in fused])
    passages = _passages(home, fused)
    retired = retired_meanwhile(home)
    named = [
        (hit, row, row.address, passages[hit.document_id])
        for hit in fused
        if (row := rows.get(hit.document_id)) is not None and row.address is not None and may_show(row, wanted)
        if hit.document_id in passages and hit.document_id not in retired
    ]
    if len(named) < len(fused):
        there = {hit.document_id for hit, _, _, _ in named}
        read.left_out |= {hit.document_id: "changed" for hit in fused if hit.document_id not in there}
    texts = home.store.read_ranges([(address, passage.start, passage.end) for _, _, address, passage in named])
    found = []
    for (hit, row, address, passage), data in zip(named, texts, strict=True):
        if isinstance(data, MemorydError):
            home.notices[address] = data.message
            read.lost.append(_loss(row, address, data))
            read.left_out[row.document_id] = "unreadable"
        else:
            found.append(Found(hit, row, passage, slice_text(data, 0, len(data), row.encoding), data))
    return found


def retired_meanwhile(home: Home) -> set[str]:
    """Documents of memories that were retired a moment ago, which the catalog may not have heard of."""
    return {document_id(VAULT_SOURCE, one.path) for one in list(home.fresh) if one.fields.status != "in_force"}


def _loss(row: DocumentRow, address: str, error: MemorydError) -> dict[str, str]:
    message = f"{source_of(row)} is left out, its content {address} cannot be read: {error.message}"
    return reason("content", ContentDamaged(message))


def _passages(home: Home, fused: Sequence[Fused]) -> dict[str, PassageRow]:
    """The passage to show of each document: the one that was found, else (none, or since gone) the first one."""
    known = home.passages.get_many([hit.passage_id for hit in fused if hit.passage_id])
    chosen = {hit.document_id: known[hit.passage_id] for hit in fused if hit.passage_id in known}
    rest = [hit.document_id for hit in fused if hit.document_id not in chosen]
    return {**chosen, **home.passages.firsts(rest)} if rest else chosen


def source_of(row: DocumentRow) -> str:
    """`<label>/<path>`; `vault/...` for memories."""
    return f"{row.source}/{shown_path(row.path)}"
