"""When was a project last worked on, before now?"""

from __future__ import annotations

from contextlib import suppress

from memoryd.catalog.db import Database
from memoryd.errors import HomeError, StoreError


class Visits:
    """The moments of briefs by scope, in the `marks` of state.db."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def since(self, scope: str, now: float, gap: float, *, note: bool = True) -> float | None:
        """When the session before this one was last seen (seconds since 1970); None for the first session.

        A brief that comes within `gap` seconds of the one before belongs to the same session; without `note` this one
        belongs to none, for instance that of another project. Does not wait for the disk, and goes without it.
        """
        last, before = self._mark(f"brief {scope}"), self._mark(f"before {scope}")
        begins = last is None or now - last > gap
        if begins:
            before = last
        if not note:
            return before
        with suppress(HomeError, StoreError), self._db.write(durable=False) as tx:
            for name, at in ((f"brief {scope}", now), (f"before {scope}", before)):
                if at is not None:
                    tx.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", (name, at))
        return before

    def _mark(self, name: str) -> float | None:
        row = self._db.row("SELECT at FROM marks WHERE name = ?", (name,))
        return None if row is None else float(row[0])
