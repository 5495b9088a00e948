"""What did sessions say of a memory: useful, wrong, outdated?

One session has one word on a revision: the last one stands, the same one again changes nothing. Counts follow the fact.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from memoryd.catalog.db import Database

VERDICTS = ("useful", "wrong", "outdated")


@dataclass(frozen=True, slots=True)
class Verdict:
    """`memory` is the revision that was judged, `session` who did it, `given` when (seconds since 1970)."""

    memory: str
    session: str
    fact: str
    verdict: str
    note: str | None
    given: float


_COLUMNS = "memory, session, fact, verdict, note, given"


class Feedback:
    """The verdicts that stand."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def give(self, said: Verdict) -> bool:
        """Note it, instead of what the session said of this revision before; durable on return.

        False, and nothing changes, where it said the same before.
        """
        values = (said.memory, said.session, said.fact, said.verdict, said.note, said.given)
        with self._db.write() as tx:
            done = tx.execute(
                "INSERT INTO feedback VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (memory, session) DO UPDATE SET"
                " fact = excluded.fact, verdict = excluded.verdict, note = excluded.note, given = excluded.given"
                " WHERE verdict <> excluded.verdict",
                values,
            )
            return done.rowcount > 0

    def of(self, facts: Iterable[str]) -> list[Verdict]:
        """What was said of any revision of these facts, the newest first."""
        found = self._db.rows(
            f"SELECT {_COLUMNS} FROM feedback WHERE fact IN (SELECT value FROM json_each(?))"
            " ORDER BY given DESC, memory, session",
            (json.dumps(list(facts)),),
        )
        return [Verdict(*row) for row in found]

    def praise(self) -> list[Verdict]:
        """Every verdict `useful`, the newest first."""
        found = self._db.rows(f"SELECT {_COLUMNS} FROM feedback WHERE verdict = 'useful' ORDER BY given DESC")
        return [Verdict(*row) for row in found]

    def against(self) -> list[Verdict]:
        """Every verdict `wrong` or `outdated`, the newest first."""
        found = self._db.rows(
            f"SELECT {_COLUMNS} FROM feedback WHERE verdict <> 'useful' ORDER BY given DESC, memory, session"
        )
        return [Verdict(*row) for row in found]
