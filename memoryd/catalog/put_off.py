"""Which items of a review did a person put off, and until when?"""

from __future__ import annotations

from memoryd.catalog.db import Database

Item = tuple[str, str, str]
"""The section of a review, a memory's id, and the other memory's id where there is one (else '')."""


class PutOff:
    """Items that are not shown until a moment (seconds since 1970)."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def put(self, item: Item, until: float) -> None:
        """Leave it out of reviews until then; durable on return."""
        with self._db.write() as tx:
            tx.execute("REPLACE INTO put_off VALUES (?, ?, ?, ?)", (*item, until))

    def drop(self, section: str, memory: str) -> None:
        """Show it again in this section: something new is known of the memory."""
        with self._db.write() as tx:
            tx.execute("DELETE FROM put_off WHERE section = ? AND memory = ?", (section, memory))

    def at(self, now: float) -> set[Item]:
        """What is left out now."""
        return {(row[0], row[1], row[2]) for row in self._db.rows("SELECT * FROM put_off WHERE until > ?", (now,))}
