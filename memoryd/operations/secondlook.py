"""Which new memories contradict or repeat an older one, whoever wrote them and whether or not the model had a say then?

Every memory that came into the catalog is compared once its vectors are there: added without the model, dropped in,
pulled or edited by hand. What is found is filed for review; nothing is retired here. The mark of how far that came is a
part of the catalog: after a rebuild all are looked at again, and what was settled stays settled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from memoryd.catalog.memories import MemoryRow
from memoryd.errors import NotFound, StoreError
from memoryd.operations import filed
from memoryd.operations.comparing import Near, compare
from memoryd.operations.home import Home
from memoryd.operations.known import body_of
from memoryd.records import VAULT_SOURCE

LOOKED_AT = "compared"
"""Catalog meta: the sequence number of the last document that was looked at."""
TOGETHER = 20


def look_again(home: Home, stop: Callable[[], bool] = lambda: False) -> bool:
    """Compare the next memories whose vectors are indexed; True when there may be more. Raises StoreError kinds."""
    generation = home.generation
    if generation is None or generation.vectors is None:
        return False
    begun = int(home.catalog.meta(LOOKED_AT) or 0)
    reached = generation.watermark.vector_seq
    rows = [row for row in home.documents.changed_after(begun, TOGETHER) if row.seq <= reached]
    done = begun
    for row in rows:
        if stop():
            break
        memory = home.memories.by_document(row.document_id) if row.source == VAULT_SOURCE else None
        if memory is not None and memory.fields.status == "in_force":
            _look_at(home, memory)
        done = row.seq
    if done > begun:
        with home.catalog.write() as tx:
            home.catalog.set_meta(tx, LOOKED_AT, str(done))
    return bool(rows) and not stop()


def _look_at(home: Home, memory: MemoryRow) -> None:
    try:
        new = replace(memory.fields, body=body_of(home, memory))
    except (NotFound, StoreError):
        return  # it cannot be read; `check` says so
    found = compare(home, new, wait=0.0, whole=True)
    for near in found.variants:
        _file(home, "similar", memory, near, "the same words, but for blanks, case, punctuation or order")
    for near in found.revised:
        _file(home, "conflict", memory, near, near.reason)


def _file(home: Home, kind: str, memory: MemoryRow, near: Near, reason: str) -> None:
    """The newer one of the two is the one that was looked at."""
    newer, older = memory, near.row
    if newer.fields.created < older.fields.created:
        newer, older = older, newer
    filed.file(home, kind, newer.fields.id, older.fields.id, round(near.likeness, 3), reason)
