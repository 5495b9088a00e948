"""Which memories in force say nearly the same, and in which words do they differ?

Neighbours come from the vault's own vectors in the index that serves; words and meaning together then decide, at the
cut that `memoryd calibrate` measured. Looking takes a few milliseconds a memory, so it is done in slices, and what was
looked at is kept for the next time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from memoryd.catalog.memories import MemoryRow
from memoryd.errors import IndexProblem, MemorydError, NotFound, StoreError, VaultFileInvalid
from memoryd.extract.wording import Words, overlap, words
from memoryd.operations.home import Home
from memoryd.operations.nearness import cosine, cuts, likeness
from memoryd.records import GLOBAL_SCOPE, Filter
from memoryd.sources import entry

NEIGHBOURS = 8
"""Nearest passages that are looked at for each passage of a memory."""
PASSAGES = 3
"""First passages of a memory whose neighbours are looked for."""
WORDS_KEPT = 4000
SLICE = 200


@dataclass(frozen=True, slots=True)
class Progress:
    """How many of the memories in force were looked at; `problem` says why no more can be."""

    done: int
    of: int
    problem: str | None = None


def look(home: Home, rows: Sequence[MemoryRow], seconds: float) -> Progress:
    """Look for the neighbours of memories in force that were not looked at yet, for at most about so long."""
    documents = {row.document_id: row.address for row in rows}
    basis = (home.host.identity.fingerprint, cuts(home).revision)
    waiting = home.pairs.waiting(basis, documents)
    until = time.monotonic() + seconds
    by_document = {row.document_id: row for row in rows}
    looker = _Looker(home, by_document, basis[1])
    for start in range(0, len(waiting), SLICE):
        part = waiting[start : start + SLICE]
        vectors = looker.vectors_of(_indexed(home, part))
        for document in part:
            if time.monotonic() >= until:
                return Progress(home.pairs.known(), len(rows))
            if document not in vectors:
                continue  # it waits for the next look
            try:
                alike = looker.alike(by_document[document], vectors[document])
            except IndexProblem as error:
                return Progress(home.pairs.known(), len(rows), error.message)
            home.pairs.looked(document, documents[document], alike)
    known = home.pairs.known()
    problem = None if known == len(rows) else f"The vector index has not come to {len(rows) - known} of them yet."
    return Progress(known, len(rows), problem)


def _indexed(home: Home, documents: Sequence[str]) -> list[str]:
    """Those that the vector index has come to: before that, two new ones would not find each other."""
    mark = home.generation.watermark.vector_seq if home.generation is not None else 0
    return [row.document_id for row in home.documents.get_many(documents).values() if row.seq <= mark]


class _Looker:
    """One look: vectors by document and the words of the texts that were compared last."""

    def __init__(self, home: Home, rows: Mapping[str, MemoryRow], cut: float) -> None:
        self._home = home
        self._rows = rows
        self._cut = cut
        self._words: dict[str, Words] = {}

    def vectors_of(self, documents: Sequence[str]) -> dict[str, list[bytes]]:
        """The vectors of each document that is embedded whole."""
        passages = self._home.passages.of_documents(documents)
        hashes = [one.text_sha256 for found in passages.values() for one in found]
        try:
            known = self._home.cache.get_many(self._home.host.identity.fingerprint, hashes)
        except MemorydError:
            return {}
        lost = self._home.host.poisoned()
        return {
            document: [known[one.text_sha256] for one in found if one.text_sha256 in known]
            for document, found in passages.items()
            if all(one.text_sha256 in known or one.text_sha256 in lost for one in found)
        }

    def alike(self, row: MemoryRow, vectors: Sequence[bytes]) -> dict[str, float]:
        """Documents that say nearly the same, with how alike they are. Raises IndexProblem."""
        generation = self._home.generation
        if generation is None or generation.vectors is None:
            raise IndexProblem("The vector index is not open.", leg="vectors")
        scopes = tuple(dict.fromkeys((row.fields.scope, GLOBAL_SCOPE)))
        wanted = Filter(scopes=scopes, kinds=("memory",))
        near: dict[str, None] = {}
        for vector in vectors[:PASSAGES]:
            hits = generation.vectors.search(vector, wanted, NEIGHBOURS)
            near |= dict.fromkeys(hit.document_id for hit in hits if hit.score >= self._cut)
        near.pop(row.document_id, None)
        others = [one for one in near if one in self._rows]
        theirs = self.vectors_of(others) if others else {}
        found = {one: self._likeness(row, self._rows[one], vectors, theirs.get(one, ())) for one in others}
        return {one: how for one, how in found.items() if how >= self._cut}

    def _likeness(self, row: MemoryRow, other: MemoryRow, mine: Sequence[bytes], theirs: Sequence[bytes]) -> float:
        left, right = self._said(row), self._said(other)
        if left is None or right is None:
            return 0.0
        return likeness(overlap(left, right), cosine(mine, theirs))

    def _said(self, row: MemoryRow) -> Words | None:
        found = self._words.get(row.address)
        if found is None:
            body = stored_body(self._home, row)
            if body is None:
                return None
            if len(self._words) >= WORDS_KEPT:
                self._words.clear()
            found = self._words[row.address] = words(body)
        return found


def stored_body(home: Home, row: MemoryRow) -> str | None:
    """A memory's words as they are stored; None where they cannot be read (`memoryd check` says why)."""
    try:
        return entry.parse(home.store.read(row.address)).fields.body
    except (NotFound, StoreError, VaultFileInvalid):
        return None


def clusters(rows: Iterable[MemoryRow], pairs: Iterable[tuple[str, str]]) -> list[list[MemoryRow]]:
    """Memories that hang together by pairs of document ids, each group the newest first; the largest group first."""
    by_document = {row.document_id: row for row in rows}
    above: dict[str, str] = {}

    def top(one: str) -> str:
        while (up := above.get(one, one)) != one:
            one = up
        return one

    for first, second in sorted(pairs):
        if first in by_document and second in by_document:
            above.setdefault(first, first)
            above.setdefault(second, second)
            above[top(second)] = top(first)
    groups: dict[str, list[MemoryRow]] = {}
    for one in above:
        groups.setdefault(top(one), []).append(by_document[one])
    for group in groups.values():
        group.sort(key=lambda row: (row.fields.created, row.fields.id), reverse=True)
    return sorted(groups.values(), key=lambda group: (-len(group), group[0].fields.id))
