"""Which two memories did somebody find to say the same, or to contradict each other, and was that settled?

A pair is filed once a kind, whichever of the two is named first; settled, it is not filed again.
"""

from __future__ import annotations

from dataclasses import dataclass

from memoryd.catalog.db import Database

KINDS = ("similar", "conflict")


@dataclass(frozen=True, slots=True)
class Finding:
    """`memory` is the one that was looked at, `other` the one it was compared with; `created`: seconds since 1970."""

    kind: str
    memory: str
    other: str
    score: float | None
    reason: str
    created: float


_COLUMNS = "kind, memory, other, score, reason, created"


class Findings:
    """What was filed about pairs of memories."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def file(self, finding: Finding) -> bool:
        """Note it; False, and nothing changes, where this kind is known of the pair, settled or not.

        Does not wait for the disk: power loss may cost the last ones.
        """
        values = (finding.kind, finding.memory, finding.other, finding.score, finding.reason, finding.created)
        with self._db.write(durable=False) as tx:
            return tx.execute("INSERT OR IGNORE INTO findings VALUES (?, ?, ?, ?, ?, ?, NULL)", values).rowcount > 0

    def open(self) -> list[Finding]:
        """What nobody settled, the newest first."""
        found = self._db.rows(
            f"SELECT {_COLUMNS} FROM findings WHERE settled IS NULL ORDER BY created DESC, kind, memory, other"
        )
        return [Finding(*row) for row in found]

    def settled(self) -> list[Finding]:
        """What somebody let stand, the newest first."""
        found = self._db.rows(f"SELECT {_COLUMNS} FROM findings WHERE settled IS NOT NULL ORDER BY settled DESC")
        return [Finding(*row) for row in found]

    def find(self, kind: str, memory: str, other: str) -> Finding | None:
        """What was filed about the pair, in either order, settled or not."""
        row = self._db.row(f"SELECT {_COLUMNS} FROM findings WHERE {_PAIR}", (kind, memory, other, memory, other))
        return None if row is None else Finding(*row)

    def settle(self, kind: str, memory: str, other: str, now: float) -> bool:
        """Note that both may stand beside each other; False where that was noted before, or nothing was filed."""
        with self._db.write() as tx:
            done = tx.execute(
                f"UPDATE findings SET settled = ? WHERE settled IS NULL AND {_PAIR}",
                (now, kind, memory, other, memory, other),
            )
            return done.rowcount > 0


_PAIR = "kind = ? AND min(memory, other) = min(?, ?) AND max(memory, other) = max(?, ?)"
