"""Which long work runs, how far is it, and how did earlier work end?"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from memoryd.catalog.db import Database
from memoryd.catalog.schema import in_json

Outcome = Literal["done", "failed", "cancelled"]
KEPT = 200
"""Ended jobs that are kept; older ones go when a new one begins."""


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job; times are seconds since 1970, `result` is None until it ends, `finished` until its end is known.

    `abandoned`: the daemon ended before the job did.
    """

    id: str
    kind: str
    args: dict[str, Any]
    state: Literal["running", "done", "failed", "cancelled", "abandoned"]
    done: int
    total: int
    note: str
    result: dict[str, Any] | None
    started: float
    updated: float
    finished: float | None


_SELECT = "SELECT number, kind, args, state, done, total, note, result, started, updated, finished FROM jobs"


class Jobs:
    """The jobs of this home. Each call is a transaction of its own: never call it inside another one."""

    def __init__(self, db: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._clock = clock

    def create(self, kind: str, args: dict[str, Any]) -> str:
        """Note that a job begins; its id. `args` is JSON-ready."""
        now = self._clock()
        with self._db.write(durable=False) as tx:
            tx.execute(
                "DELETE FROM jobs WHERE state <> 'running' AND number <= (SELECT max(number) FROM jobs) - ?", (KEPT,)
            )
            cursor = tx.execute(
                "INSERT INTO jobs (kind, args, state, started, updated) VALUES (?, ?, 'running', ?, ?)",
                (kind, json.dumps(args), now, now),
            )
            return f"job-{cursor.lastrowid}"

    def progress(self, id: str, done: int, total: int, note: str = "") -> None:
        """Note how far a running job is; an ended or unknown one stays as it is."""
        with self._db.write(durable=False) as tx:
            tx.execute(
                "UPDATE jobs SET done = ?, total = ?, note = ?, updated = ? WHERE number = ? AND state = 'running'",
                (done, total, note, self._clock(), _number(id)),
            )

    def finish(self, id: str, outcome: Outcome, result: dict[str, Any]) -> None:
        """Note how a running job ended; the first end stands."""
        now = self._clock()
        with self._db.write() as tx:
            tx.execute(
                "UPDATE jobs SET state = ?, result = ?, updated = ?, finished = ?"
                " WHERE number = ? AND state = 'running'",
                (outcome, json.dumps(result), now, now, _number(id)),
            )

    def get(self, id: str) -> JobRow | None:
        """One job."""
        row = self._db.row(f"{_SELECT} WHERE number = ?", (_number(id),))
        return None if row is None else _job(row)

    def listed(self, limit: int) -> list[JobRow]:
        """The newest jobs, the newest first."""
        return [_job(row) for row in self._db.rows(f"{_SELECT} ORDER BY number DESC LIMIT ?", (limit,))]

    def erase(self, needles: Sequence[str]) -> int:
        """Forget the jobs whose arguments, notes or results hold one of the needles; how many."""
        words = {form for needle in needles for form in (needle, in_json(needle))}
        held = "instr(args || note || coalesce(result, ''), ?) > 0"
        with self._db.write() as tx:
            return sum(tx.execute(f"DELETE FROM jobs WHERE {held}", (word,)).rowcount for word in sorted(words))

    def abandon_running(self) -> list[str]:
        """At a start: mark what an ended daemon left running; the ids."""
        now = self._clock()
        with self._db.write() as tx:
            found = tx.execute("SELECT number FROM jobs WHERE state = 'running' ORDER BY number").fetchall()
            tx.execute(
                "UPDATE jobs SET state = 'abandoned', updated = ?, finished = ? WHERE state = 'running'", (now, now)
            )
        return [f"job-{row[0]}" for row in found]


def _number(id: str) -> int:
    digits = id.removeprefix("job-")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 18 else -1


def _job(row: Any) -> JobRow:
    number, kind, args, state, done, total, note, result, started, updated, finished = row
    outcome = None if result is None else cast("dict[str, Any]", json.loads(result))
    return JobRow(
        f"job-{number}", kind, json.loads(args), state, done, total, note, outcome, started, updated, finished
    )
