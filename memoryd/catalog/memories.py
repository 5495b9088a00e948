"""Which memories are there, which of their revisions is in force, and what took the place of what?

One row a memory file. Where several files hold one id (a copied file), the one in force, and then the one that was
seen first, stands for it; `duplicates` names such ids.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from memoryd.catalog.db import Database
from memoryd.catalog.schema import unpacked
from memoryd.records import MemoryFields

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = chr(0x10FFFF)


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """A memory file's frontmatter (`fields.body` is empty: read the content) and where the file is."""

    fields: MemoryFields
    document_id: str
    address: str
    path: bytes


_SELECT = (
    "SELECT m.id, m.fact, m.seq, m.type, m.title, m.scope, m.status, m.created, m.updated, m.tags, m.key, m.supersedes,"
    " m.superseded_by, m.archive_reason, m.citations, d.document_id, m.address, m.path"
    " FROM memories m JOIN documents d ON d.number = m.document"
)
_VISIBLE = "(:scopes IS NULL OR {0}.scope IN (SELECT value FROM json_each(:scopes)))"
# Among the files of one id that the caller may see, the one that no better one stands before.
_CHOSEN = (
    f"{_VISIBLE.format('m')} AND NOT EXISTS (SELECT 1 FROM memories o JOIN documents od ON od.number = o.document"
    f" WHERE o.id = m.id AND o.document <> m.document AND {_VISIBLE.format('o')}"
    " AND (o.status <> 'in_force', od.first_seq) < (m.status <> 'in_force', d.first_seq))"
)
_MATCHING = (
    f"{_CHOSEN} AND (:statuses IS NULL OR m.status IN (SELECT value FROM json_each(:statuses)))"
    " AND (:types IS NULL OR m.type IN (SELECT value FROM json_each(:types)))"
)


class Memories:
    """The frontmatter of every memory file that is not gone.

    Where a method takes `scopes`: None = all, an empty sequence = none.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    def apply(
        self, tx: sqlite3.Connection, document_id: str, fields: MemoryFields, *, address: str, path: bytes
    ) -> None:
        """Take a file's frontmatter over, instead of what was known of that file.

        Raises ValueError where the document is unknown or gone (apply its event first).
        """
        found = tx.execute("SELECT number, address FROM documents WHERE document_id = ?", (document_id,)).fetchone()
        if found is None or found[1] is None:
            raise ValueError(f"document {document_id} is unknown or gone")
        values = _values(found[0], fields, address, path)
        tx.execute(f"REPLACE INTO memories VALUES ({', '.join('?' * len(values))})", values)

    def remove(self, tx: sqlite3.Connection, document_id: str) -> None:
        """Forget a file's frontmatter; nothing happens where there is none."""
        tx.execute(
            "DELETE FROM memories WHERE document = (SELECT number FROM documents WHERE document_id = ?)", (document_id,)
        )

    def get(self, id: str, scopes: Sequence[str] | None = None) -> MemoryRow | None:
        """The memory of exactly this id."""
        found = self._found("m.id = :id", "m.id", scopes, id=id)
        return found[0] if found else None

    def find(self, prefix: str, scopes: Sequence[str] | None = None) -> list[MemoryRow]:
        """The memories whose id begins with `prefix` (at most 20), ordered by id."""
        where = "m.id >= :prefix AND m.id < :beyond"
        return self._found(where, "m.id LIMIT 20", scopes, prefix=prefix, beyond=prefix + _LAST)

    def get_many(self, ids: Sequence[str], scopes: Sequence[str] | None = None) -> dict[str, MemoryRow]:
        """As `get` for several; an id that nothing holds is left out."""
        found = self._found("m.id IN (SELECT value FROM json_each(:ids))", "m.id", scopes, ids=json.dumps(list(ids)))
        return {row.fields.id: row for row in found}

    def keyed(self, scope: str, key: str) -> list[MemoryRow]:
        """The memories in force under this key in a scope, the newest first."""
        where = "m.key = :key AND m.status = 'in_force'"
        return self._found(where, "m.created_at DESC, m.id LIMIT 20", (scope,), key=key)

    def by_document(self, document_id: str) -> MemoryRow | None:
        """The memory in this very file, whatever other file holds its id."""
        row = self._db.row(f"{_SELECT} WHERE d.document_id = ?", (document_id,))
        return None if row is None else _memory(row)

    def of_documents(self, document_ids: Sequence[str]) -> dict[str, MemoryRow]:
        """As `by_document` for several; a document that is no memory is left out."""
        found = self._db.rows(
            f"{_SELECT} WHERE d.document_id IN (SELECT value FROM json_each(?))", (json.dumps(list(document_ids)),)
        )
        return {row.document_id: row for row in map(_memory, found)}

    def revisions(self, fact: str, scopes: Sequence[str] | None, limit: int) -> list[MemoryRow]:
        """The newest `limit` revisions of a fact, oldest first."""
        return self._found("m.fact = :fact", "m.seq DESC LIMIT :limit", scopes, fact=fact, limit=limit)[::-1]

    def successor(self, id: str) -> MemoryRow | None:
        """What took the memory's place: the next one in force, else the last that is known; None without any."""
        seen = {id}
        last: MemoryRow | None = None
        row = self.get(id)
        while row is not None and (target := row.fields.superseded_by) is not None and target not in seen:
            seen.add(target)
            row = self.get(target)
            last = row or last
            if row is not None and row.fields.status == "in_force":
                break
        return last

    def listed(
        self, scopes: Sequence[str] | None, statuses: Sequence[str], types: Sequence[str], limit: int, offset: int
    ) -> list[MemoryRow]:
        """Memories, the newest `created` instant first (unreadable times last); every filter applies before paging.

        Empty `statuses` or `types` mean no restriction.
        """
        parameters = _filters(scopes, statuses, types) | {"limit": limit, "offset": offset}
        found = self._db.rows(
            f"{_SELECT} WHERE {_MATCHING} ORDER BY m.created_at DESC, m.id LIMIT :limit OFFSET :offset", parameters
        )
        return [_memory(row) for row in found]

    def counts(self, scopes: Sequence[str] | None) -> dict[str, int]:
        """Memories by status, each id counted once; a status without any is left out."""
        sql = (
            "SELECT m.status, count(*) FROM memories m JOIN documents d ON d.number = m.document"
            f" WHERE {_CHOSEN} GROUP BY m.status"
        )
        return dict(self._db.rows(sql, _filters(scopes, (), ())))

    def facts(self) -> list[tuple[str, str]]:
        """The id and the fact of every memory."""
        return [(row[0], row[1]) for row in self._db.rows("SELECT id, fact FROM memories")]

    def duplicates(self) -> list[str]:
        """Ids that more than one file holds, sorted."""
        return [row[0] for row in self._db.rows("SELECT id FROM memories GROUP BY id HAVING count(*) > 1 ORDER BY id")]

    def copies(self, id: str, scopes: Sequence[str] | None = None) -> list[bytes]:
        """The paths of all files that hold this id."""
        sql = f"SELECT m.path FROM memories m WHERE m.id = :id AND {_VISIBLE.format('m')} ORDER BY m.path"
        return [row[0] for row in self._db.rows(sql, {"id": id, "scopes": _json(scopes)})]

    def forks(self) -> dict[str, list[str]]:
        """Facts of which more than one revision is in force (both were made apart and met), with these ids."""
        sql = (
            "SELECT fact, json_group_array(DISTINCT id) FROM memories WHERE status = 'in_force'"
            " GROUP BY fact HAVING count(DISTINCT id) > 1 ORDER BY fact"
        )
        return {fact: sorted(json.loads(ids)) for fact, ids in self._db.rows(sql, {})}

    def _found(self, where: str, order: str, scopes: Sequence[str] | None, **parameters: Any) -> list[MemoryRow]:
        sql = f"{_SELECT} WHERE {where} AND {_CHOSEN} ORDER BY {order}"
        return [_memory(row) for row in self._db.rows(sql, parameters | {"scopes": _json(scopes)})]


def instant(text: str) -> int | None:
    """Microseconds since 1970 in UTC of an ISO 8601 date or time; without a zone it is UTC. None: not a time."""
    try:
        moment = datetime.fromisoformat(text.strip().upper())
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _filters(scopes: Sequence[str] | None, statuses: Sequence[str], types: Sequence[str]) -> dict[str, Any]:
    return {"scopes": _json(scopes), "statuses": _json(statuses or None), "types": _json(types or None)}


def _json(values: Sequence[str] | None) -> str | None:
    return None if values is None else json.dumps(list(values))


def _values(number: int, fields: MemoryFields, address: str, path: bytes) -> tuple[Any, ...]:
    return (
        number,
        fields.id,
        fields.fact,
        fields.seq,
        fields.type,
        fields.title,
        fields.scope,
        fields.status,
        fields.created,
        instant(fields.created),
        fields.updated,
        json.dumps(fields.tags),
        fields.key,
        fields.supersedes,
        fields.superseded_by,
        fields.archive_reason,
        json.dumps(fields.citations),
        address,
        path,
    )


def _memory(row: Any) -> MemoryRow:
    (id, fact, seq, type, title, scope, status, created, updated, tags, key, supersedes, superseded_by) = row[:13]
    reason, citations, document, address, path = row[13:]
    fields = MemoryFields(
        id=id,
        fact=fact,
        seq=seq,
        type=type,
        title=title,
        scope=scope,
        status=status,
        created=created,
        updated=updated,
        tags=unpacked(tags),
        key=key,
        supersedes=supersedes,
        superseded_by=superseded_by,
        archive_reason=reason,
        citations=unpacked(citations),
    )
    return MemoryRow(fields=fields, document_id=document, address=address, path=path)
