"""Which projects were ever seen, and by which name do people know them?"""

from __future__ import annotations

import sqlite3

from memoryd.catalog.db import Database
from memoryd.records import GLOBAL_SCOPE, ScopeRecord


class Scopes:
    """The newest `scope` record of each project."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def apply(self, tx: sqlite3.Connection, record: ScopeRecord) -> None:
        """Take a record over; an older one than the known one (by seq), or the same once more, changes nothing."""
        tx.execute(
            "INSERT INTO scopes VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET name = excluded.name,"
            " remote = excluded.remote, root = excluded.root, seq = excluded.seq WHERE excluded.seq > scopes.seq",
            (record.id, record.name, record.remote, record.root, record.seq),
        )

    def get(self, id: str) -> ScopeRecord | None:
        """The project's record; `global` has none."""
        found = self._db.row("SELECT id, name, remote, root, seq FROM scopes WHERE id = ?", (id,))
        return None if found is None else ScopeRecord(*found)

    def all(self) -> list[ScopeRecord]:
        """Every project, ordered by id."""
        return [
            ScopeRecord(*row) for row in self._db.rows("SELECT id, name, remote, root, seq FROM scopes ORDER BY id")
        ]

    def exists(self, id: str) -> bool:
        """Whether the scope is `global` or has a record."""
        return id == GLOBAL_SCOPE or self.get(id) is not None
