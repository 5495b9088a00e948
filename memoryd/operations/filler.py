"""What does a process do that fills one part of a new set of views beside the living daemon, and when does it end?

`python -P -m memoryd.operations.filler`: one line of orders on stdin, lines of progress on stdout, the last of which
says how it ended. It reads packs, catalog and embedding cache, and writes only the part that it was told to fill. It
ends as soon as its stdin ends, so it never outlives a daemon that was killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from memoryd.catalog.documents import DocumentRow
from memoryd.config import VectorConfig
from memoryd.errors import MemorydError
from memoryd.index.engine import VectorEngine
from memoryd.index.generations import Generation
from memoryd.index.lexical import LexicalIndex
from memoryd.index.marks import IndexIdentity
from memoryd.index.places import places_for
from memoryd.models.child import die_with_parent
from memoryd.models.identity import ModelIdentity
from memoryd.operations.calm import rarely_collected
from memoryd.operations.filling import Orders
from memoryd.operations.home import Home
from memoryd.operations.legs import index_lexical, index_vectors
from memoryd.operations.onlooking import NoModel, onlooking
from memoryd.operations.shadow import replayed

NICENESS = 15
PAGE = 500
LEXICAL_COMMIT = 20_000
"""Documents between two commits: each ends a segment, and a killed process begins anew anyway."""
LEXICAL_HEAP = 128 << 20
VECTOR_PAGE = 100
VECTOR_FLUSH = 20_000
Tell = Callable[[dict[str, Any]], None]


@dataclass(slots=True)
class _Legs:
    """The one leg that is filled, in the shape that indexing knows."""

    lexical: LexicalIndex | None = None
    vectors: VectorEngine | None = None
    lacking: list[str] = field(default_factory=list)


def fill(orders: Orders, tell: Tell) -> dict[str, Any]:
    """Do what was ordered; what the last line says: counts, and which documents have passages without a vector.

    Raises MemorydError kinds.
    """
    with onlooking(Path(orders.root), Path(orders.cache), ModelIdentity(**orders.model)) as home, rarely_collected():
        if orders.part == "catalog":
            count = replayed(home, Path(orders.target), lambda done: tell({"done": done}))
            return {"count": count, "notices": home.notices}
        work = _fill_lexical if orders.part == "lexical" else _fill_vectors
        return {**work(home, orders, tell), "notices": home.notices}


def _pages(home: Home, until: int, size: int, tell: Tell) -> Iterator[list[DocumentRow]]:
    """The documents in the order of their newest record."""
    reached = done = 0
    while reached < until:
        rows = [row for row in home.documents.changed_after(reached, size) if row.seq <= until]
        if not rows:
            return
        yield rows
        reached = rows[-1].seq
        done += len(rows)
        tell({"done": done})


def _fill_lexical(home: Home, orders: Orders, tell: Tell) -> dict[str, Any]:
    index = LexicalIndex.open(Path(orders.target))
    index.heap = LEXICAL_HEAP
    legs = _Legs(lexical=index)
    waiting = 0
    for rows in _pages(home, orders.until, PAGE, tell):
        index_lexical(home, cast("Generation", legs), rows)
        waiting += len(rows)
        if waiting >= LEXICAL_COMMIT:
            index.commit()
            waiting = 0
    index.commit()
    count = index.count()
    index.close()
    return {"count": count}


def _fill_vectors(home: Home, orders: Orders, tell: Tell) -> dict[str, Any]:
    index = _vectors_of(home, orders)
    legs = _Legs(vectors=index)
    model = cast("NoModel", home.host)
    waiting = 0
    for rows in _pages(home, orders.until, VECTOR_PAGE, tell):
        asked = model.asked
        index_vectors(home, cast("Generation", legs), rows)
        if model.asked > asked:
            legs.lacking += [row.document_id for row in rows]
        waiting += len(rows)
        if waiting >= VECTOR_FLUSH:
            index.flush()
            waiting = 0
    index.settle()
    count = index.count()
    index.close()
    return {"count": count, "lacking": legs.lacking}


def _vectors_of(home: Home, orders: Orders) -> VectorEngine:
    key_file = None if orders.key_file is None else Path(orders.key_file)
    places = places_for(home.root, home.files, VectorConfig(**orders.vector), key_file, os.environ)
    model = orders.model
    identity = IndexIdentity(model["fingerprint"], int(model["dims"]), 0, 0, orders.sparse, places.place)
    return places.open(Path(orders.target), identity)


def _end_with_stdin() -> None:
    """The daemon holds the other end and never writes again: when it is gone, so are we."""
    while os.read(0, 4096):
        pass
    os._exit(0)


def main() -> int:
    """Read the orders, fill, say how it ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
    os.nice(NICENESS)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # whatever a library prints goes to the log

    def tell(line: dict[str, Any]) -> None:
        out.write(json.dumps(line) + "\n")

    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, 65_536)
        if not piece:
            return 1
        line += piece
    threading.Thread(target=_end_with_stdin, name="parent", daemon=True).start()
    try:
        tell({"end": fill(Orders(**json.loads(line)), tell)})
    except MemorydError as error:
        tell({"error": error.to_dict()})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
