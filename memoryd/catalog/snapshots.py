"""Which states of directories and corpora were kept, and which of them does a label, a number or a root mean?"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from memoryd.catalog.db import Database
from memoryd.records import SnapshotRecord

_SELECT = "SELECT label, source, scope, root, created, seq, files, size, left_out FROM snapshots"
_WITHIN = "(?2 IS NULL OR scope IN (SELECT value FROM json_each(?2)))"
Scopes = Sequence[str] | None
"""Scopes of which something may be seen; None = all."""


class Snapshots:
    """One row a `snapshot` record; every look-up sees only what lies in the scopes named."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def apply(self, tx: sqlite3.Connection, record: SnapshotRecord) -> None:
        """Take a record over; the same once more changes nothing."""
        tx.execute(
            "INSERT OR IGNORE INTO snapshots (label, source, scope, root, created, seq, files, size, left_out)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            _values(record),
        )

    def remove(self, tx: sqlite3.Connection, seq: int) -> None:
        """Forget the row of a record that a tombstone names."""
        tx.execute("DELETE FROM snapshots WHERE seq = ?", (seq,))

    def all(self, scopes: Scopes, limit: int = -1) -> list[SnapshotRecord]:
        """The newest first, at most `limit` (-1: all)."""
        return self._found(f"{_SELECT} WHERE {_WITHIN} ORDER BY seq DESC LIMIT ?1", limit, scopes)

    def labelled(self, label: str, scopes: Scopes) -> list[SnapshotRecord]:
        """Those of a label, oldest first."""
        return self._found(f"{_SELECT} WHERE label = ?1 AND {_WITHIN} ORDER BY seq", label, scopes)

    def numbered(self, seq: int, scopes: Scopes) -> SnapshotRecord | None:
        """The one of a record number."""
        found = self._found(f"{_SELECT} WHERE seq = ?1 AND {_WITHIN}", seq, scopes)
        return found[0] if found else None

    def rooted(self, prefix: str, scopes: Scopes) -> list[SnapshotRecord]:
        """Those whose root begins with `prefix` (hex digits), oldest first."""
        sql = f"{_SELECT} WHERE root >= ?1 AND root < ?3 AND {_WITHIN}"
        return sorted(self._found(sql, prefix, scopes, prefix + "g"), key=lambda record: record.seq)

    def last_of(self, source: str) -> SnapshotRecord | None:
        """The newest one of a source, whatever its scope."""
        found = self._found(f"{_SELECT} WHERE source = ?1 AND {_WITHIN} ORDER BY seq DESC LIMIT 1", source, None)
        return found[0] if found else None

    def count(self, scopes: Scopes) -> int:
        """How many there are."""
        row = self._db.row(f"SELECT count(*), ?1 FROM snapshots WHERE {_WITHIN}", (0, _listed(scopes)))
        return int(row[0]) if row is not None else 0

    def _found(self, sql: str, first: str | int, scopes: Scopes, *more: str) -> list[SnapshotRecord]:
        return [SnapshotRecord(*row) for row in self._db.rows(sql, (first, _listed(scopes), *more))]


def _values(record: SnapshotRecord) -> tuple[str | int, ...]:
    named = (record.label, record.source, record.scope, record.root, record.created)
    return (*named, record.seq, record.files, record.size, record.left_out)


def _listed(scopes: Scopes) -> str | None:
    return None if scopes is None else json.dumps(list(scopes))
