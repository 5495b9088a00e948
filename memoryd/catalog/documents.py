"""Which content is where now, and which was there before?

Path identity and content identity are apart: a document is a (source, path), its history a row for each record, its
address whatever was seen there last. Sequence numbers, not arrival, decide what is newest.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from memoryd.catalog.db import Database
from memoryd.catalog.schema import unpacked
from memoryd.digest import document_id
from memoryd.records import DocumentEvent, Kind, Status

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A document as the newest record left it; `address` is None when it is gone, the rest is then the last known.

    `type` is the memory's type or empty; `problem` says why its text could not be read whole; `exec` the file's bit.
    """

    document_id: str
    source: str
    path: bytes
    scope: str
    kind: Kind
    type: str
    status: Status
    address: str | None
    size: int
    title: str
    tags: tuple[str, ...]
    seq: int
    extractor: str
    encoding: str
    problem: str | None
    observed: str
    exec: bool


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One record of a document; `address` is None for `gone`."""

    seq: int
    event: Literal["seen", "gone"]
    address: str | None
    size: int
    observed: str


_COLUMNS = (
    "d.document_id, d.source, d.path, d.scope, d.kind, d.type, d.status, d.address, d.size, d.title, d.tags, d.seq,"
    " d.extractor, d.encoding, d.problem, d.observed, d.exec"
)
_SELECT = f"SELECT {_COLUMNS} FROM documents d"
_TOLD = "title = ?, type = ?, status = ?, extractor = ?, encoding = ?, problem = ?"


class Documents:
    """The documents of all sources; every lookup runs over an index, every total over kept counts."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def apply(
        self,
        tx: sqlite3.Connection,
        event: DocumentEvent,
        *,
        title: str,
        type: str,
        status: Status,
        extractor: str,
        encoding: str,
        problem: str | None,
    ) -> bool:
        """Take one record over: a history row, and the current row where the record is the newest.

        True where the record is the document's current state; False where a newer one is known: then nothing that was
        derived from this one (passages, frontmatter) belongs into the catalog. The same record once more changes no
        state; what was derived from its bytes (title to problem) is taken anew. `gone` keeps that as last known. When
        the address changes, the document's passages and memory row go: write the new ones afterwards, in the same
        transaction. Raises ValueError for a record without seq.
        """
        if event.seq <= 0:
            raise ValueError("a record has no seq before it is committed")
        address = event.address if event.event == "seen" else None
        told = (_clean(title), type, status, extractor, encoding, problem)
        identity = document_id(event.source, event.path)
        found = tx.execute("SELECT number, seq, first_seq FROM documents WHERE document_id = ?", (identity,)).fetchone()
        number = self._insert(tx, identity, event, address, told) if found is None else found[0]
        newest = found is None or event.seq >= found[1]
        if found is not None and event.seq > found[1]:
            self._update(tx, number, event, address, told)
        elif found is not None and newest:
            tx.execute(f"UPDATE documents SET {_TOLD} WHERE number = ? AND address IS NOT NULL", (*told, number))
        elif found is not None and event.seq < found[2]:
            tx.execute("UPDATE documents SET first_seq = ? WHERE number = ?", (event.seq, number))
        tx.execute(
            "INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?, ?, ?, ?)",
            (event.seq, number, event.event, event.scope, address, event.size, event.observed),
        )
        return newest

    def _insert(
        self, tx: sqlite3.Connection, identity: str, event: DocumentEvent, address: str | None, told: tuple[Any, ...]
    ) -> int:
        cursor = tx.execute(
            "INSERT INTO documents (document_id, source, path, scope, kind, address, size, exec, tags, seq, first_seq,"
            " observed, title, type, status, extractor, encoding, problem)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (identity, event.source, event.path, *_state(event, address), event.seq, event.seq, event.observed, *told),
        )
        return cast("int", cursor.lastrowid)

    def _update(
        self, tx: sqlite3.Connection, number: int, event: DocumentEvent, address: str | None, told: tuple[Any, ...]
    ) -> None:
        sets = "scope = ?, kind = ?, address = ?, size = ?, exec = ?, tags = ?, seq = ?, observed = ?"
        values = (*_state(event, address), event.seq, event.observed)
        if address is not None:
            sets += f", {_TOLD}"
            values += told
        tx.execute(f"UPDATE documents SET {sets} WHERE number = ?", (*values, number))

    def bury(self, tx: sqlite3.Connection, seqs: Sequence[int]) -> None:
        """Take these records back: they leave the history.

        A document whose newest record goes counts as gone; one without any record is no longer known.
        """
        self._bury(tx, "seq IN (SELECT value FROM json_each(?))", (json.dumps(list(seqs)),))

    def bury_content(self, tx: sqlite3.Connection, address: str, before: int) -> None:
        """Take back every record of this content that is older than `before`.

        What was derived from the content (title, type, why it could not be read) goes from documents that are gone.
        """
        for number in self._bury(tx, "address = ? AND seq < ?", (address, before)):
            blank = "title = '', type = '', status = 'in_force', extractor = '', encoding = 'utf-8', problem = NULL"
            tx.execute(f"UPDATE documents SET {blank} WHERE number = ? AND address IS NULL", (number,))

    def _bury(self, tx: sqlite3.Connection, where: str, values: tuple[Any, ...]) -> list[int]:
        """Numbers of the documents that lost records."""
        found = tx.execute(f"SELECT document, seq FROM events WHERE {where}", values).fetchall()
        tx.execute(f"DELETE FROM events WHERE {where}", values)
        for number, seq in found:
            tx.execute("UPDATE documents SET address = NULL WHERE number = ? AND seq = ?", (number, seq))
        numbers = sorted({number for number, _seq in found})
        for number in numbers:
            first = "(SELECT coalesce(min(e.seq), documents.seq) FROM events e WHERE e.document = documents.number)"
            tx.execute(f"UPDATE documents SET first_seq = {first} WHERE number = ?", (number,))
            none_left = "NOT EXISTS (SELECT 1 FROM events e WHERE e.document = documents.number)"
            tx.execute(f"DELETE FROM documents WHERE number = ? AND {none_left}", (number,))
        return numbers

    def seen_after(self, address: str, seq: int) -> bool:
        """Whether a record newer than `seq` saw this content."""
        return self._db.row("SELECT 1 FROM events WHERE address = ? AND seq > ?", (address, seq)) is not None

    def get(self, document_id: str) -> DocumentRow | None:
        """The document of this id, gone or not."""
        return _one(self._db.row(f"{_SELECT} WHERE d.document_id = ?", (document_id,)))

    def get_many(self, ids: Sequence[str]) -> dict[str, DocumentRow]:
        """The documents of these ids, gone or not; unknown ids are left out."""
        found = self._db.rows(
            f"{_SELECT} WHERE d.document_id IN (SELECT value FROM json_each(?))", (json.dumps(list(ids)),)
        )
        return {row.document_id: row for row in map(_document, found)}

    def by_path(self, source: str, path: bytes) -> DocumentRow | None:
        """The document at this place, gone or not."""
        return self.get(document_id(source, path))

    def by_address(self, address: str, scopes: Sequence[str] | None) -> list[DocumentRow]:
        """The documents that hold this content now, oldest first; `scopes` None = all, empty = none."""
        found = self._db.rows(
            f"{_SELECT} WHERE d.address = ?1 AND {_within('d.scope')} ORDER BY d.first_seq", (address, _listed(scopes))
        )
        return [_document(row) for row in found]

    def ever_at(self, address: str, scopes: Sequence[str] | None) -> list[DocumentRow]:
        """The documents that hold or once held this content, oldest first, gone ones included.

        Both the scope it was seen under then and the document's scope now must be allowed, so that a document moved
        out of sight takes its past along.
        """
        found = self._db.rows(
            f"{_SELECT} WHERE {_within('d.scope')} AND d.number IN"
            f" (SELECT e.document FROM events e WHERE e.address = ?1 AND {_within('e.scope')}) ORDER BY d.first_seq",
            (address, _listed(scopes)),
        )
        return [_document(row) for row in found]

    def addresses(self, prefix: str, scopes: Sequence[str] | None) -> list[str]:
        """The addresses (at most two) that begin with `prefix` among what `ever_at` would show."""
        found = self._db.rows(
            "SELECT DISTINCT e.address FROM events e JOIN documents d ON d.number = e.document"
            f" WHERE e.address >= ?1 AND e.address <= ?3 AND {_within('d.scope')} AND {_within('e.scope')}"
            " ORDER BY e.address LIMIT 2",
            (prefix, _listed(scopes), prefix + "g"),
        )
        return [row[0] for row in found]

    def history(self, document_id: str, scopes: Sequence[str] | None = None) -> list[HistoryRow]:
        """Every record of the document that was seen under one of the scopes (None = all), oldest first.

        Empty for an unknown id.
        """
        found = self._db.rows(
            "SELECT e.seq, e.event, e.address, e.size, e.observed FROM documents d JOIN events e"
            f" ON e.document = d.number WHERE d.document_id = ?1 AND {_within('e.scope')} ORDER BY e.seq",
            (document_id, _listed(scopes)),
        )
        return [HistoryRow(*row) for row in found]

    def current(self, source: str) -> Iterator[DocumentRow]:
        """The documents of a source that are not gone, ordered by path.

        Read page by page, so that a slow consumer holds no snapshot; hold the store lane where it must not change.
        """
        last = None
        while True:
            beyond = "" if last is None else " AND d.path > ?3"
            parameters = (source, _PAGE) if last is None else (source, _PAGE, last)
            page = self._db.rows(
                f"{_SELECT} WHERE d.source = ?1 AND d.address IS NOT NULL{beyond} ORDER BY d.path LIMIT ?2", parameters
            )
            yield from map(_document, page)
            if len(page) < _PAGE:
                return
            last = page[-1][2]

    def with_problems(self, source: str) -> list[DocumentRow]:
        """The documents of a source that are not gone and have a problem, ordered by path."""
        found = self._db.rows(
            f"{_SELECT} WHERE d.source = ? AND d.problem IS NOT NULL AND d.address IS NOT NULL ORDER BY d.path",
            (source,),
        )
        return [_document(row) for row in found]

    def sources(self) -> list[str]:
        """The sources that have documents which are not gone, sorted."""
        found = self._db.rows("SELECT DISTINCT source FROM tallies WHERE documents > 0 ORDER BY source")
        return [row[0] for row in found]

    def changed_after(self, seq: int, limit: int) -> list[DocumentRow]:
        """Documents whose newest record is later than `seq`, ordered by it, gone ones included, at most `limit`."""
        found = self._db.rows(f"{_SELECT} WHERE d.seq > ? ORDER BY d.seq LIMIT ?", (seq, limit))
        return [_document(row) for row in found]

    def count_changed_after(self, seq: int) -> int:
        """How many documents `changed_after` would give without a limit."""
        return self._number("SELECT count(*) FROM documents WHERE seq > ?", seq)

    def live_count(self, source: str | None = None) -> int:
        """Documents that are not gone, of one source or of all."""
        if source is None:
            return self._number("SELECT coalesce(sum(documents), 0) FROM tallies")
        return self._number("SELECT coalesce(sum(documents), 0) FROM tallies WHERE source = ?", source)

    def counts(self) -> dict[str, dict[str, int]]:
        """Documents that are not gone: {"kind": {...}, "scope": {...}, "source": {...}}."""
        found: dict[str, dict[str, int]] = {"kind": {}, "scope": {}, "source": {}}
        for *names, amount in self.tallies():
            for group, name in zip(found.values(), names, strict=True):
                group[name] = group.get(name, 0) + amount
        return found

    def tallies(self) -> list[tuple[str, str, str, int]]:
        """(kind, scope, source, documents that are not gone), without those of none."""
        return self._db.rows("SELECT kind, scope, source, documents FROM tallies WHERE documents > 0")

    def last_seq(self) -> int:
        """The sequence number of the newest document record taken over; 0 without any."""
        return self._number("SELECT coalesce(max(seq), 0) FROM documents")

    def _number(self, sql: str, *parameters: Any) -> int:
        return int(cast("tuple[int]", self._db.row(sql, parameters))[0])


def _state(event: DocumentEvent, address: str | None) -> tuple[Any, ...]:
    return event.scope, event.kind, address, event.size, event.exec, json.dumps(event.tags)


def _within(column: str) -> str:
    """SQL condition: the scope in `column` is allowed by parameter 2 (a JSON list, or NULL for all)."""
    return f"(?2 IS NULL OR {column} IN (SELECT value FROM json_each(?2)))"


def _listed(scopes: Sequence[str] | None) -> str | None:
    return None if scopes is None else json.dumps(list(scopes))


def _clean(text: str) -> str:
    """SQLite takes no unpaired surrogates; a strange title must not stop a document."""
    return text.encode("utf-8", "replace").decode()


def _one(row: Any | None) -> DocumentRow | None:
    return None if row is None else _document(row)


def _document(row: Any) -> DocumentRow:
    values = list(row)
    values[10] = unpacked(values[10])
    values[16] = bool(values[16])
    return DocumentRow(*values)
