"""What stands in each leg for a document, and how does it get there?

Every step is idempotent. Embedding can be halted: what was embedded until then is in the cache, and a document is
written only when all its passages are there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from memoryd.catalog.documents import DocumentRow
from memoryd.catalog.passages import PassageRow
from memoryd.errors import NotFound, StoreError
from memoryd.extract.dates import day_of, first_day
from memoryd.extract.passages import embedded_again
from memoryd.extract.text import slice_text
from memoryd.extract.turns import traits_of, whole
from memoryd.index.generations import Generation
from memoryd.index.lexical import LexicalEntry
from memoryd.index.vector import VectorEntry
from memoryd.operations.home import Home
from memoryd.records import ARTIFACT_SOURCE, VAULT_SOURCE, Encoded, Traits, ancestors, shown_path

VECTOR_SLICE = 16
"""Documents that are embedded together."""
SLICE_BYTES = 64_000
"""Of what size together, unless one alone is larger."""
EMBED_SLICE = 64
"""Passages after which their vectors are kept, whatever becomes of the rest."""
MAX_ENDS = 8
"""Folders of a path that may stand before the file's name in a query."""
_log = logging.getLogger(__name__)


def portions(rows: Sequence[DocumentRow]) -> Iterator[list[DocumentRow]]:
    """The rows in order, so many at a time as are small together."""
    part: list[DocumentRow] = []
    size = 0
    for row in rows:
        if part and (len(part) == VECTOR_SLICE or size + row.size > SLICE_BYTES):
            yield part
            part, size = [], 0
        part.append(row)
        size += row.size
    if part:
        yield part


def index_lexical(home: Home, generation: Generation, rows: Sequence[DocumentRow]) -> None:
    """Replace the lexical entries of these documents (not yet committed)."""
    assert generation.lexical is not None
    entries: list[LexicalEntry] = []
    for row, passages in _with_passages(home, rows):
        entries += _lexical_entries(row, texts_of(home, row, passages))
    generation.lexical.replace([row.document_id for row in rows], entries)


def index_vectors(
    home: Home, generation: Generation, rows: Sequence[DocumentRow], halt: Callable[[], bool] = lambda: False
) -> bool:
    """Replace the vectors of these documents (not yet flushed); False, and nothing replaced, when halted before all
    were embedded. `halt` stays true once it was."""
    assert generation.vectors is not None
    wanted = _embedded(home, rows)
    vectors = embed(home, {one.passage.text_sha256: one.text for one in wanted}, halt)
    if vectors is None:
        return False
    entries = [
        _vector_entry(one, vectors[one.passage.text_sha256]) for one in wanted if one.passage.text_sha256 in vectors
    ]
    generation.vectors.replace([row.document_id for row in rows], entries)
    return True


def embed_documents(home: Home, rows: Sequence[DocumentRow], halt: Callable[[], bool]) -> bool:
    """See to it that the cache holds the vectors of these documents; False when halted before that."""
    return embed(home, {one.passage.text_sha256: one.text for one in _embedded(home, rows)}, halt) is not None


class _Embedded(NamedTuple):
    row: DocumentRow
    passage: PassageRow
    text: str
    traits: Traits


def _embedded(home: Home, rows: Sequence[DocumentRow]) -> list[_Embedded]:
    """What is embedded of these documents."""
    found = []
    for row, passages in _with_passages(home, rows):
        texts = texts_of(home, row, passages)
        for (passage, text), traits in zip(texts, _traits(row, texts), strict=True):
            again = embedded_again(row.title, passage.heading, text, passage.text_sha256)
            found.append(_Embedded(row, passage, again, traits))
    return found


def _traits(row: DocumentRow, texts: Sequence[tuple[PassageRow, str]]) -> list[Traits]:
    path = shown_path(row.path)
    day = first_day(row.title) or first_day(path)
    if not day and row.source in (VAULT_SOURCE, ARTIFACT_SOURCE):
        day = day_of(row.observed)
    return traits_of(row.source, path, [text for _, text in texts], day)


def embed(home: Home, texts: dict[str, str], halt: Callable[[], bool]) -> dict[str, Encoded] | None:
    """Vectors by text hash, from the cache or the model; poisoned texts are left out.

    None when halted; what was embedded until then is in the cache, with token vectors where a reranker uses them.
    """
    fingerprint = home.host.identity.fingerprint
    vectors = home.cache.get_encoded(fingerprint, list(texts), sparse=home.host.identity.sparse)
    known = home.cache.with_tokens(fingerprint, vectors) if home.host.token_vectors else vectors.keys()
    missing = [digest for digest in texts if digest not in known]
    for start in range(0, len(missing), EMBED_SLICE):
        part = missing[start : start + EMBED_SLICE]
        made = home.host.encode_passages([texts[digest] for digest in part], halt)
        fresh = {digest: vector for digest, vector in zip(part, made, strict=True) if vector is not None}
        home.cache.put_encoded(fingerprint, fresh)
        vectors.update(fresh)
        if halt():
            return None
    return vectors


def _with_passages(home: Home, rows: Sequence[DocumentRow]) -> Iterable[tuple[DocumentRow, list[PassageRow]]]:
    passages = home.passages.of_documents([row.document_id for row in rows])
    newest = home.documents.get_many([row.document_id for row in rows])
    for row in rows:
        if row.address is not None and newest[row.document_id].seq == row.seq:
            yield row, passages.get(row.document_id, [])


def texts_of(home: Home, row: DocumentRow, passages: Sequence[PassageRow]) -> list[tuple[PassageRow, str]]:
    """Each passage with its text, cut from the verified bytes; damaged content gives none and is logged."""
    if row.address is None or not passages:
        return []
    try:
        data = home.store.read(row.address)
    except (NotFound, StoreError) as error:
        home.notices[row.address] = error.message
        _log.error("%s cannot be indexed: %s", row.address, error.message)
        return []
    return [(passage, slice_text(data, passage.start, passage.end, row.encoding)) for passage in passages]


def _lexical_entries(row: DocumentRow, texts: list[tuple[PassageRow, str]]) -> list[LexicalEntry]:
    if not texts:
        return []
    above = ancestors(row.source, row.path)
    called = _called(row)

    def entry(passage_id: str, text: str, names: tuple[str, ...], traits: Traits) -> LexicalEntry:
        return LexicalEntry(
            document_id=row.document_id,
            passage_id=passage_id,
            scope=row.scope,
            kind=row.kind,
            type=row.type,
            status=row.status,
            ancestors=above,
            title=row.title,
            text=text,
            names=names,
            traits=traits,
        )

    found = _traits(row, texts)
    lone = called if len(texts) == 1 else ()
    entries = [
        entry(passage.id, text, (*lone, *_symbol_names(passage.symbol)), traits)
        for (passage, text), traits in zip(texts, found, strict=True)
    ]
    if len(entries) > 1:
        entries.append(entry("", "\n\n".join(text for _, text in texts), called, whole(found)))
    return entries


def _called(row: DocumentRow) -> tuple[str, ...]:
    """A file's path, also below its label as hits show it, each end of it, and its name without what tells the kind."""
    if row.source == VAULT_SOURCE:
        return ()
    parts = shown_path(row.path).split("/")
    ends = ["/".join(parts[at:]) for at in range(max(0, len(parts) - MAX_ENDS), len(parts))]
    return (f"{row.source}/{shown_path(row.path)}", *ends, parts[-1].rpartition(".")[0])


def _symbol_names(symbol: str) -> tuple[str, ...]:
    return (symbol, symbol.rpartition(".")[2]) if symbol else ()


def _vector_entry(one: _Embedded, vector: Encoded) -> VectorEntry:
    row = one.row
    return VectorEntry(
        passage_id=one.passage.id,
        document_id=row.document_id,
        scope=row.scope,
        kind=row.kind,
        type=row.type,
        status=row.status,
        ancestors=ancestors(row.source, row.path),
        vector=vector.dense,
        sparse=vector.sparse,
        traits=one.traits,
    )
