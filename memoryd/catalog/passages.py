"""Where in a document's stored bytes does each passage stand?

The text itself is not here: it is cut out of the verified bytes by these offsets.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from memoryd.catalog.db import Database
from memoryd.catalog.schema import unpacked
from memoryd.records import IndexedPassage


class PassageRow(NamedTuple):
    """`start`/`end` are byte offsets into the stored bytes, lines 1-based and inclusive; `text_sha256` names what is
    embedded for it."""

    id: str
    document_id: str
    ordinal: int
    start: int
    end: int
    line_start: int
    line_end: int
    heading: tuple[str, ...]
    symbol: str
    text_sha256: str


_SELECT = (
    "SELECT p.id, d.document_id, p.ordinal, p.start, p.end, p.line_start, p.line_end, p.heading, p.symbol,"
    " p.text_sha256 FROM passages p JOIN documents d ON d.number = p.document"
)
_AROUND = (
    f"{_SELECT.replace(' FROM', ', h.id FROM')} JOIN passages h ON h.document = p.document"
    " AND p.ordinal BETWEEN h.ordinal - ?2 AND h.ordinal + ?2"
    " WHERE h.id IN (SELECT value FROM json_each(?1))"
    f" UNION ALL {_SELECT.replace(' FROM', ', h.id FROM')} JOIN passages h ON h.document = p.document"
    " AND p.ordinal < h.ordinal - ?2 AND p.symbol <> '' AND h.symbol <> ''"
    " AND (p.symbol = h.symbol OR substr(h.symbol, 1, length(p.symbol) + 1) = p.symbol || '.')"
    " WHERE h.id IN (SELECT value FROM json_each(?1))"
)


class Passages:
    """The passages of the documents that are not gone."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def replace(self, tx: sqlite3.Connection, document_id: str, passages: Sequence[IndexedPassage]) -> None:
        """Give a document these passages, in this order, instead of those it had.

        Raises ValueError where the document is unknown or gone (apply its event first).
        """
        found = tx.execute("SELECT number, address FROM documents WHERE document_id = ?", (document_id,)).fetchone()
        if found is None or found[1] is None:
            raise ValueError(f"document {document_id} is unknown or gone")
        number = found[0]
        tx.execute("DELETE FROM passages WHERE document = ?", (number,))
        tx.executemany(
            "INSERT INTO passages (id, document, ordinal, start, end, line_start, line_end, heading, symbol,"
            " text_sha256) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [_values(number, ordinal, item) for ordinal, item in enumerate(passages)],
        )

    def remove(self, tx: sqlite3.Connection, document_id: str) -> None:
        """Take a document's passages away; nothing happens where it has none."""
        tx.execute(
            "DELETE FROM passages WHERE document = (SELECT number FROM documents WHERE document_id = ?)", (document_id,)
        )

    def of_document(self, document_id: str) -> list[PassageRow]:
        """A document's passages in their order; empty for an unknown one."""
        found = self._db.rows(f"{_SELECT} WHERE d.document_id = ? ORDER BY p.ordinal", (document_id,))
        return [_passage(row) for row in found]

    def of_documents(self, ids: Sequence[str]) -> dict[str, list[PassageRow]]:
        """The passages of several documents in their order; a document without any has an empty list."""
        found: dict[str, list[PassageRow]] = {id: [] for id in ids}
        rows = self._db.rows(
            f"{_SELECT} WHERE d.document_id IN (SELECT value FROM json_each(?)) ORDER BY p.document, p.ordinal",
            (json.dumps(list(found)),),
        )
        for row in map(_passage, rows):
            found[row.document_id].append(row)
        return found

    def firsts(self, document_ids: Sequence[str]) -> dict[str, PassageRow]:
        """The first passage of each of these documents, by document; one without any is left out."""
        found = self._db.rows(
            f"{_SELECT} WHERE d.document_id IN (SELECT value FROM json_each(?)) AND p.ordinal = 0",
            (json.dumps(list(document_ids)),),
        )
        return {row.document_id: row for row in map(_passage, found)}

    def get_many(self, ids: Sequence[str]) -> dict[str, PassageRow]:
        """The passages of these ids; unknown ids are left out."""
        found = self._db.rows(f"{_SELECT} WHERE p.id IN (SELECT value FROM json_each(?))", (json.dumps(list(ids)),))
        return {row.id: row for row in map(_passage, found)}

    def around(self, ids: Sequence[str], reach: int) -> dict[str, list[PassageRow]]:
        """What stands beside each of these passages (itself included), by its id and in order: up to `reach` passages
        before and after it, and the earlier ones that name a definition it is part of (itself or one around it)."""
        asked = (json.dumps(list(ids)), reach)
        found: dict[str, dict[int, PassageRow]] = {id: {} for id in ids}
        for row in self._db.rows(_AROUND, asked):
            found[row[-1]][row[2]] = _passage(row[:-1])
        return {id: [rows[ordinal] for ordinal in sorted(rows)] for id, rows in found.items()}

    def count(self) -> int:
        """Passages of documents that are not gone."""
        found = self._db.row("SELECT amount FROM totals WHERE name = 'passages'")
        return int(found[0]) if found else 0

    def entries(self) -> int:
        """What a keyword index holds of them: each passage, and once more each document with several."""
        found = self._db.row("SELECT sum(amount) FROM totals WHERE name IN ('passages', 'long_documents')")
        return int(found[0]) if found else 0

    def count_texts(self, hashes: Iterable[str]) -> int:
        """How many passages have one of these `text_sha256`; reads all of them."""
        found = self._db.row(
            "SELECT count(*) FROM passages WHERE text_sha256 IN (SELECT value FROM json_each(?))",
            (json.dumps(sorted(hashes)),),
        )
        return int(found[0]) if found else 0

    def texts_after(self, number: int, limit: int) -> list[tuple[int, str, str]]:
        """(number, document id, text_sha256) of passages with a later number, in order, at most `limit`."""
        return self._db.rows(
            "SELECT p.number, d.document_id, p.text_sha256 FROM passages p JOIN documents d ON d.number = p.document"
            " WHERE p.number > ? ORDER BY p.number LIMIT ?",
            (number, limit),
        )

    def drawn(self, shares: Sequence[float], up_to_seq: int) -> list[PassageRow]:
        """The passages at these shares (0 to 1) of all, those left out whose document changed after `up_to_seq`."""
        row = self._db.row("SELECT max(number) FROM passages")
        last = int(row[0] or 0) if row else 0
        found = self._db.rows(
            f"{_SELECT} WHERE d.seq <= ?1 AND p.number IN (SELECT (SELECT min(number) FROM passages WHERE number >="
            " j.value) FROM json_each(?2) j)",
            (up_to_seq, json.dumps([int(share * last) for share in shares])),
        )
        return [_passage(row) for row in found]

    def pairs(self, up_to_seq: int) -> Iterator[tuple[str, str]]:
        """(document id, passage id) of every passage whose document's newest record is not later than `up_to_seq`."""
        found = self._db.rows(
            "SELECT d.document_id, p.id FROM passages p JOIN documents d ON d.number = p.document WHERE d.seq <= ?",
            (up_to_seq,),
        )
        yield from found


def _values(number: int, ordinal: int, item: IndexedPassage) -> tuple[Any, ...]:
    passage = item.passage
    return (
        item.id,
        number,
        ordinal,
        passage.start,
        passage.end,
        passage.line_start,
        passage.line_end,
        json.dumps(passage.heading),
        passage.symbol,
        item.text_sha256,
    )


def _passage(row: Any) -> PassageRow:
    return PassageRow._make((*row[:7], unpacked(row[7]), *row[8:]))
