"""Which records does the catalog still know, by their numbers?

For a repair: where a pack has lost records, their rows here say nearly the same. Of a former state of a document the
row keeps all but kind, exec bit, tags and title, which are then the document's of today.
"""

from __future__ import annotations

from collections.abc import Iterator

from memoryd.catalog.db import Database
from memoryd.catalog.schema import unpacked
from memoryd.records import ARTIFACT_SOURCE, DocumentEvent, ScopeRecord, SnapshotRecord

_EVENTS = (
    "SELECT d.source, d.path, e.scope, d.kind, e.event, e.address, e.size, d.exec, d.tags, e.observed, d.title, e.seq"
    " FROM events e JOIN documents d ON d.number = e.document WHERE e.seq BETWEEN ? AND ? ORDER BY e.seq"
)
_SNAPSHOTS = (
    "SELECT label, source, scope, root, created, seq, files, size, left_out FROM snapshots"
    " WHERE seq BETWEEN ? AND ? ORDER BY seq"
)
_PAGE = 1000


class Told:
    """Reads over the rows of all kinds of records."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def addresses(self) -> Iterator[str]:
        """Every content that a document holds or held, each once, in order."""
        last = ""
        sql = "SELECT DISTINCT address FROM events WHERE address > ? ORDER BY address LIMIT ?"
        while rows := self._db.rows(sql, (last, _PAGE)):
            yield from (row[0] for row in rows)
            last = rows[-1][0]

    def documents(self, first: int, last: int) -> list[DocumentEvent]:
        """The document records of these numbers, both included."""
        found = []
        for *head, tags, observed, title, seq in self._db.rows(_EVENTS, (first, last)):
            source, path, scope, kind, event, address, size, exec_ = head
            given = title if source == ARTIFACT_SOURCE else ""
            found.append(
                DocumentEvent(
                    source, path, scope, kind, event, address, size, bool(exec_), unpacked(tags), observed, given, seq
                )
            )
        return found

    def snapshots(self, first: int, last: int) -> list[SnapshotRecord]:
        """The snapshot records of these numbers."""
        return [SnapshotRecord(*row) for row in self._db.rows(_SNAPSHOTS, (first, last))]

    def scopes(self, first: int, last: int) -> list[ScopeRecord]:
        """The scope records of these numbers; an older record of a scope left no row."""
        sql = "SELECT id, name, remote, root, seq FROM scopes WHERE seq BETWEEN ? AND ? ORDER BY seq"
        return [ScopeRecord(*row) for row in self._db.rows(sql, (first, last))]
