"""Short ways to make records for the tests of the catalog."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from memoryd.catalog.db import Database
from memoryd.catalog.documents import Documents
from memoryd.catalog.memories import Memories
from memoryd.digest import address_of, document_id, passage_id, sha256_hex
from memoryd.records import DocumentEvent, IndexedPassage, MemoryFields, Passage

A, B, C = (address_of(text) for text in (b"a", b"b", b"c"))


def event(
    seq: int, address: str | None = A, *, source: str = "docs", path: bytes = b"a.md", **more: Any
) -> DocumentEvent:
    """A `seen` record, or `gone` without an address."""
    given: dict[str, Any] = {"scope": "global", "kind": "document", "observed": f"at {seq}"} | more
    return DocumentEvent(
        source=source,
        path=path,
        event="gone" if address is None else "seen",
        address=address,
        size=0 if address is None else 10,
        seq=seq,
        **given,
    )


def apply(db: Database, *events: DocumentEvent, **more: Any) -> None:
    """Take records over in one transaction."""
    told: dict[str, Any] = {
        "title": "Title",
        "type": "",
        "status": "in_force",
        "extractor": "text@1",
        "encoding": "utf-8",
        "problem": None,
    } | more
    with db.write() as tx:
        for item in events:
            Documents(db).apply(tx, item, **told)


def passages(document: str, *texts: str) -> list[IndexedPassage]:
    """Passages as the extractor makes them, one after another."""
    made = []
    seen: Counter[str] = Counter()
    for number, text in enumerate(texts):
        digest = sha256_hex(text.encode())
        passage = Passage(text, number * 10, number * 10 + 10, number + 1, number + 1, ("Top", f"Part {number}"), "f")
        id = passage_id(document, digest, seen[text])
        seen[text] += 1
        made.append(IndexedPassage(id, document, passage, text, digest))
    return made


def memory(db: Database, at: int, id: str, *, path: str | None = None, source: str = "vault", **fields: Any) -> str:
    """A memory file seen by record `at`; its document id."""
    place = (path or f"{id}.md").encode()
    given: dict[str, Any] = {
        "fact": id,
        "seq": 1,
        "type": "fact",
        "title": f"Title of {id}",
        "scope": "global",
        "status": "in_force",
        "created": f"2026-01-01T00:00:{at % 60:02d}Z",
        "updated": "2026-01-01T00:00:00Z",
    } | fields
    address = address_of(f"{id} {at}".encode())
    apply(db, event(at, address, source=source, path=place, scope=given["scope"], kind="memory"), type=given["type"])
    document = document_id(source, place)
    with db.write() as tx:
        Memories(db).apply(tx, document, MemoryFields(id=id, **given), address=address, path=place)
    return document


def ruin_recalls(path: Path) -> None:
    """Overwrite the root page of a closed state.db's recalls (4096 bytes), so that SQLite finds the file damaged."""
    with closing(sqlite3.connect(path)) as connection:
        root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'recalls'").fetchone()[0]
    data = bytearray(path.read_bytes())
    data[(root - 1) * 4096 : root * 4096] = b"\xff" * 4096
    path.write_bytes(data)
