"""What in force says the same as a new memory, what does it revise, and what is only near?

Words decide, not nearness alone: the same words are a variant, another value or the contrary in the same place revises,
and everything else is at most flagged. Vectors only help to find and to order. Nothing is written here.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice

from memoryd.catalog.memories import MemoryRow
from memoryd.digest import document_id
from memoryd.errors import IndexProblem, MemorydError, ModelError, NotFound, StoreError
from memoryd.extract.passages import extract, identify
from memoryd.extract.ruling import Revision, is_statement, revises
from memoryd.extract.wording import overlap, same_words, words
from memoryd.operations.home import Home
from memoryd.operations.known import body_of
from memoryd.operations.nearness import Cuts, cosine, cuts, likeness, read_cuts
from memoryd.records import VAULT_SOURCE, Filter, IndexedPassage, MemoryFields, shown_path
from memoryd.sources import entry

QUERY_CHARACTERS = 2000
BY_WORDS, BY_MEANING, NEWEST = 24, 12, 24
"""Memories that are looked at: found by words, by meaning, and where there is no index the newest ones."""
BEHIND_MOST = 200
PASSAGES_MOST = 12
"""Passages that a caller waits for; the background check looks at all of a longer memory."""
PROSE_LEAST = 12
"""Words from which a text that is no single statement can be told by likeness alone."""


@dataclass(frozen=True, slots=True)
class Near:
    """A memory in force beside the new one. `variant`: the same words; `revision`: what the new one says otherwise."""

    row: MemoryRow
    body: str
    cosine: float | None
    likeness: float
    variant: bool = False
    revision: Revision | None = None
    reason: str = ""


@dataclass(slots=True)
class Compared:
    """What was found, each best first. `checked` is False where the model had no say, or not about all of it."""

    checked: bool
    variants: list[Near] = field(default_factory=list)
    revised: list[Near] = field(default_factory=list)
    similar: list[Near] = field(default_factory=list)


def compare(home: Home, new: MemoryFields, *, wait: float | None = None, whole: bool = False) -> Compared:
    """Compare a memory with those in force in its scope, itself left out.

    The model is waited for at most `wait` seconds in all (None: `search.model_wait_ms`); `whole` looks at every passage
    of it.
    """
    beside, checked = neighbours(home, new, wait=wait, whole=whole)
    found = Compared(checked)
    measured = read_cuts(home)
    for near in beside:
        _sort_in(new, near, cuts(home, measured, vectors=near.cosine is not None), found)
    _order(found)
    return found


def neighbours(
    home: Home, new: MemoryFields, *, wait: float | None = None, whole: bool = False
) -> tuple[list[Near], bool]:
    """What `compare` looks at, in no order, and whether the model had its say about all of the new memory."""
    if not home.memories.listed((new.scope,), ("in_force",), (), 1, 0):
        return [], True  # nothing to compare with: the model need not even start
    wanted = _Wanted(home, new, None if whole else PASSAGES_MOST)
    wanted.ask()  # the model works while words are compared
    told = {row.document_id: one for row in _by_words(home, new) if (one := _told(home, new, row)) is not None}
    mine, checked = wanted.vectors(_patience(home) if wait is None else wait)
    for row in _by_meaning(home, new, mine[:1]):
        if row.document_id not in told and (one := _told(home, new, row)) is not None:
            told[row.document_id] = one
    theirs = _vectors_of(home, [one.row for one in told.values()]) if mine else {}
    return [_near(one, cosine(mine, theirs.get(document, ()))) for document, one in told.items()], checked


def _patience(home: Home) -> float:
    """Seconds that an add waits for the model: half of what a search does where it has to be started first, so that
    the first answer after a start comes soon."""
    seconds = home.config.search.model_wait_ms / 1000
    return seconds if home.host.loaded else seconds / 2


def _told(home: Home, new: MemoryFields, row: MemoryRow) -> Near | None:
    """What words alone tell of a memory; None for the new one itself, and for what cannot be read (`check` says so)."""
    if row.fields.id == new.id or row.fields.status != "in_force" or row.fields.scope != new.scope:
        return None
    try:
        body = body_of(home, row)
    except (NotFound, StoreError):
        return None
    same = row.fields.type == new.type and row.fields.key == new.key and same_words(new.body, body)
    shared = overlap(words(new.body), words(body))
    return Near(row, body, None, shared, variant=same, revision=None if same else revises(body, new.body))


def _near(told: Near, meaning: float | None) -> Near:
    return replace(told, cosine=meaning, likeness=likeness(told.likeness, meaning))


def _sort_in(new: MemoryFields, near: Near, limits: Cuts, found: Compared) -> None:
    if near.variant:
        found.variants.append(near)
    elif new.key is not None and near.row.fields.key == new.key:
        found.revised.append(_because(near, f"it holds the same key `{new.key}`"))
    elif near.revision is not None and near.row.fields.key is None:
        said = (
            "it says the contrary" if near.revision.kind == "contrary" else "it gives another value for the same thing"
        )
        found.revised.append(_because(near, said))
    elif is_prose(new.body, near.body) and near.likeness >= limits.revision:
        found.revised.append(_because(near, "it says nearly the same, with differences"))
    elif near.likeness >= limits.similar:
        found.similar.append(near)


def _because(near: Near, reason: str) -> Near:
    return Near(near.row, near.body, near.cosine, near.likeness, near.variant, near.revision, reason)


def is_prose(new: str, old: str) -> bool:
    """Whether two texts are too long to be told apart as statements: then likeness speaks."""
    if is_statement(new) and is_statement(old):
        return False
    return is_long(new, old)


def is_long(new: str, old: str) -> bool:
    """Whether both texts have words enough for their likeness to say something."""
    return min(len(words(new).tokens), len(words(old).tokens)) >= PROSE_LEAST


def _order(found: Compared) -> None:
    """Same key first, then the surest revision, then the most alike; of equal ones the newest."""
    found.variants.sort(key=lambda near: near.row.fields.created, reverse=True)
    found.revised.sort(key=lambda near: near.row.fields.created, reverse=True)
    found.revised.sort(key=_rank)
    found.similar.sort(key=lambda near: -near.likeness)


def _rank(near: Near) -> tuple[bool, float, float]:
    by_key = near.reason.startswith("it holds the same key")
    return not by_key, -round(near.revision.score if near.revision else 0.0, 3), -round(near.likeness, 2)


def _by_words(home: Home, new: MemoryFields) -> list[MemoryRow]:
    """Memories of the scope that share words or the key with the new one, and those that no index knows yet."""
    documents: dict[str, None] = {}
    generation = home.generation
    if generation is not None and generation.lexical is not None:
        text = f"{new.title}\n{new.body}"[:QUERY_CHARACTERS]
        try:
            hits = generation.lexical.search(text, Filter(scopes=(new.scope,), kinds=("memory",)), BY_WORDS)
        except IndexProblem:
            hits = []  # those by meaning remain
        documents |= dict.fromkeys(hit.document_id for hit in hits)
    if generation is not None:  # what the lexical index has not taken in yet
        behind = home.documents.changed_after(generation.watermark.lexical_seq, BEHIND_MOST)
        documents |= dict.fromkeys(row.document_id for row in behind if row.source == VAULT_SOURCE)
    rows = [*home.memories.of_documents(list(documents)).values()]
    if generation is None:
        rows += home.memories.listed((new.scope,), ("in_force",), (), NEWEST, 0)
    if new.key is not None:
        rows += home.memories.keyed(new.scope, new.key)
    return list({row.document_id: row for row in rows}.values())


def _by_meaning(home: Home, new: MemoryFields, vectors: Sequence[bytes]) -> list[MemoryRow]:
    """Memories of the scope that are near in meaning."""
    generation = home.generation
    if generation is None or generation.vectors is None or not vectors:
        return []
    try:
        hits = generation.vectors.search(vectors[0], Filter(scopes=(new.scope,), kinds=("memory",)), BY_MEANING)
    except IndexProblem:
        return []
    return [*home.memories.of_documents([hit.document_id for hit in hits]).values()]


class _Wanted:
    """The vectors of a memory's passages, as far as the model gives them in time."""

    def __init__(self, home: Home, new: MemoryFields, most: int | None) -> None:
        self._home = home
        self._passages = passages_of(new)
        self._fingerprint = home.host.identity.fingerprint
        try:
            self._known = home.cache.get_many(self._fingerprint, [one.text_sha256 for one in self._passages])
        except MemorydError:
            self._known = {}
        missing = {one.text_sha256: one.embed_text for one in islice(self._passages, most)}
        self._missing = {digest: text for digest, text in missing.items() if digest not in self._known}

    def ask(self) -> None:
        """Let the model begin with the first one."""
        for text in islice(self._missing.values(), 1):
            with suppress(ModelError):  # it is asked for again
                self._home.host.begin_query(text)

    def vectors(self, wait: float) -> tuple[list[bytes], bool]:
        """What is there within so many seconds, and whether that is all. It is kept for the index."""
        fresh: dict[str, bytes] = {}
        until = time.monotonic() + wait
        for digest, text in self._missing.items():
            try:
                fresh[digest] = self._home.host.embed_query(text, max(0.0, until - time.monotonic()))
            except ModelError:
                break
        if fresh:
            with suppress(MemorydError):  # then it is embedded once more
                self._home.cache.put_many(self._fingerprint, fresh)
        found = [self._known.get(one.text_sha256) or fresh.get(one.text_sha256) for one in self._passages]
        there = [vector for vector in found if vector is not None]
        return there, len(there) == len(self._passages)


def passages_of(new: MemoryFields) -> Sequence[IndexedPassage]:
    """As ingest will cut the file of this memory."""
    data, path = entry.render(new), entry.file_path(new)
    found = extract(shown_path(path), data, body_start=entry.parse(data).body_start, title=new.title)
    return identify(document_id(VAULT_SOURCE, path), found.said_title, found.passages)


def _vectors_of(home: Home, rows: Iterable[MemoryRow]) -> dict[str, list[bytes]]:
    """The vectors of memories that are embedded already, by document."""
    passages = home.passages.of_documents([row.document_id for row in rows])
    try:
        known = home.cache.get_many(
            home.host.identity.fingerprint, [one.text_sha256 for found in passages.values() for one in found]
        )
    except MemorydError:
        return {}
    return {
        document: [known[one.text_sha256] for one in found if one.text_sha256 in known]
        for document, found in passages.items()
    }
