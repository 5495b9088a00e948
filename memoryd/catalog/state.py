"""What must survive although neither a pack nor the vault holds it?

state.db is truth of its own: begun writes, recall counts, feedback, findings, answers already given. A damaged file is
set aside, and every row that can still be read is carried over.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from memoryd.catalog.db import Database, open_or_replace
from memoryd.catalog.feedback import Feedback
from memoryd.catalog.findings import Findings
from memoryd.catalog.put_off import PutOff
from memoryd.catalog.schema import STATE, in_json
from memoryd.catalog.visits import Visits

ANSWER_SECONDS = 30 * 86_400
"""How long the answer to a redeemed token is kept."""


@dataclass(frozen=True, slots=True)
class Intent:
    """A write of one memory file that was begun. Intents with one id are one write.

    `sha256`: hex digits of the bytes to be written; `parent`: the vault's HEAD before, None in an empty vault;
    `pid` and `started` (seconds since 1970): the git process, or this one until git runs.
    """

    id: str
    path: bytes
    sha256: str
    parent: str | None
    pid: int
    started: float


@dataclass(frozen=True, slots=True)
class Recall:
    """How often a fact was handed out, and when last (seconds since 1970)."""

    amount: int
    last: float


class Intents:
    """The writes that were begun and not yet settled."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, *intents: Intent) -> None:
        """Note all of them at once; durable on return. A noted (id, path) is replaced."""
        with self._db.write() as tx:
            tx.executemany("REPLACE INTO intents VALUES (?, ?, ?, ?, ?, ?)", [astuple(intent) for intent in intents])

    def name_git(self, id: str, pid: int, started: float) -> None:
        """Note which git process carries the write out; durable on return."""
        with self._db.write() as tx:
            tx.execute("UPDATE intents SET pid = ?, started = ? WHERE id = ?", (pid, started, id))

    def all(self) -> list[Intent]:
        """Every intent, the oldest first."""
        found = self._db.rows("SELECT id, path, sha256, parent, pid, started FROM intents ORDER BY started, id, path")
        return [Intent(*row) for row in found]

    def drop(self, id: str) -> None:
        """Forget a settled write; an unknown one is fine.

        Does not wait for the disk: an intent that comes back after a power loss is settled once more.
        """
        with self._db.write(durable=False) as tx:
            tx.execute("DELETE FROM intents WHERE id = ?", (id,))


class Recalls:
    """How often facts were handed out, or (in a table of its own) read whole after a search."""

    def __init__(self, db: Database, table: str = "recalls") -> None:
        self._db = db
        self._table = table

    def add(self, counted: Mapping[str, Recall]) -> None:
        """Add these counts. Does not wait for the disk: power loss may cost the last ones."""
        with self._db.write(durable=False) as tx:
            tx.executemany(
                f"INSERT INTO {self._table} VALUES (?, ?, ?) ON CONFLICT (fact) DO UPDATE SET"
                " amount = amount + excluded.amount, last = max(last, excluded.last)",
                [(fact, count.amount, count.last) for fact, count in counted.items()],
            )

    def of(self, facts: Iterable[str]) -> dict[str, Recall]:
        """What is counted for these facts; a fact that was never handed out is left out."""
        found = self._db.rows(
            f"SELECT fact, amount, last FROM {self._table} WHERE fact IN (SELECT value FROM json_each(?))",
            (json.dumps(list(facts)),),
        )
        return {fact: Recall(amount, last) for fact, amount, last in found}

    def all(self) -> dict[str, Recall]:
        """What is counted for every fact."""
        found = self._db.rows(f"SELECT fact, amount, last FROM {self._table}")
        return {fact: Recall(amount, last) for fact, amount, last in found}


class Answers:
    """What redeemed tokens were answered."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def remember(self, token_hash: str, answer: dict[str, Any], now: float) -> dict[str, Any]:
        """Keep the answer unless one is kept already; the one that stands. Durable on return.

        Answers older than 30 days go.
        """
        with self._db.write() as tx:
            tx.execute("DELETE FROM answers WHERE given < ? AND token <> ?", (now - ANSWER_SECONDS, token_hash))
            tx.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?)", (token_hash, json.dumps(answer), now))
            kept = tx.execute("SELECT answer FROM answers WHERE token = ?", (token_hash,)).fetchone()
        return cast("dict[str, Any]", json.loads(kept[0]))

    def recall(self, token_hash: str) -> dict[str, Any] | None:
        """The answer that this token got, or None."""
        found = self._db.row("SELECT answer FROM answers WHERE token = ?", (token_hash,))
        return None if found is None else cast("dict[str, Any]", json.loads(found[0]))


class State:
    """The soft state of a home. Raises FormatUnsupported, DiskFull, HomeError at construction.

    `set_aside` is the damaged file that was found (else None), `damage` what was wrong with it, `carried` the number of
    rows that could be taken over from it.
    """

    def __init__(self, path: Path) -> None:
        self._db = open_or_replace(path, STATE, synchronous="FULL")
        self.set_aside = self._db.set_aside
        self.damage = self._db.damage
        self.carried = 0 if self.set_aside is None else _carry_over(self.set_aside, self._db)
        self.intents = Intents(self._db)
        self.recalls = Recalls(self._db)
        self.answers = Answers(self._db)
        self.findings = Findings(self._db)
        self.fetches = Recalls(self._db, "fetches")
        self.feedback = Feedback(self._db)
        self.put_off = PutOff(self._db)
        self.visits = Visits(self._db)

    def counting_since(self, now: float, *, begin: bool = True) -> float:
        """Since when recalls are counted here: `now` for the first one who asks, which `begin` notes down.

        Raises as a write does where there is something to note.
        """
        found = self._db.row("SELECT at FROM marks WHERE name = 'counting'")
        if found is None and not begin:
            return now
        if found is None:
            with self._db.write() as tx:
                tx.execute("INSERT OR IGNORE INTO marks VALUES ('counting', ?)", (now,))
            return now
        return float(found[0])

    def erase(self, facts: Iterable[str], needles: Sequence[str]) -> int:
        """Forget what is counted for these facts and everything that holds one of the needles; how many rows went.

        Nothing of them is left in the file.
        """
        with self._db.write() as tx:
            before = tx.total_changes
            for fact in facts:
                for sql in _OF_FACT:
                    tx.execute(sql, {"fact": fact})
            for needle in needles:
                tx.execute(
                    "DELETE FROM answers WHERE instr(answer, ?) > 0 OR instr(answer, ?) > 0", (needle, in_json(needle))
                )
                for sql in _SAYING:
                    tx.execute(sql, {"needle": needle})
            dropped = tx.total_changes - before
        self._db.compact()
        return dropped

    def checkpoint(self) -> bool:
        """Empty the write-ahead log; False where readers held it."""
        return self._db.checkpoint()

    def problems(self) -> list[str]:
        """What SQLite's integrity check finds."""
        return self._db.problems()

    def close(self) -> None:
        """Close the file; twice is fine."""
        self._db.close()


_TABLES = {
    "intents": 6,
    "recalls": 3,
    "answers": 3,
    "findings": 7,
    "feedback": 6,
    "fetches": 3,
    "marks": 2,
    "put_off": 4,
}
"""Each table and its number of columns."""
_OF_FACT = (
    "DELETE FROM recalls WHERE fact = :fact",
    "DELETE FROM fetches WHERE fact = :fact",
    "DELETE FROM feedback WHERE :fact IN (fact, memory)",
    "DELETE FROM findings WHERE :fact IN (memory, other)",
    "DELETE FROM put_off WHERE :fact IN (memory, other)",
)
_SAYING = (
    "DELETE FROM findings WHERE :needle IN (memory, other) OR instr(reason, :needle) > 0",
    "DELETE FROM feedback WHERE :needle = memory OR instr(note, :needle) > 0",
    "DELETE FROM put_off WHERE :needle IN (memory, other)",
)
"""Ids are needles too."""


def _carry_over(damaged: Path, target: Database) -> int:
    carried = 0
    for table, width in _TABLES.items():
        rows = _readable(damaged, table, width)
        marks = ", ".join("?" * width)
        with target.write() as tx:
            for row in rows:
                carried += max(0, _insert(tx, table, marks, row))
    return carried


def _insert(tx: sqlite3.Connection, table: str, marks: str, row: Sequence[Any]) -> int:
    try:
        return tx.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", row).rowcount
    except sqlite3.IntegrityError:  # a row that damage has bent out of shape
        return 0


def _readable(damaged: Path, table: str, width: int) -> list[tuple[Any, ...]]:
    """The rows of a table up to the first one that cannot be read."""
    rows: list[tuple[Any, ...]] = []
    try:
        connection = sqlite3.connect(f"file:{quote(str(damaged))}?mode=ro", uri=True)
    except sqlite3.Error:  # the file itself is gone, only its log was there
        return rows
    try:
        for row in connection.execute(f"SELECT * FROM {table}"):
            if len(row) == width:
                rows.append(row)
    except sqlite3.DatabaseError:  # not a database, no such table, or damage from here on
        pass
    finally:
        connection.close()
    return rows
