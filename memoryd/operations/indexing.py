"""How do the indexes follow the catalog, and what happens when their counts are wrong?

The backlog is derived (documents whose newest record is beyond a leg's watermark), so no job can be lost. The lexical
leg runs ahead; vectors follow as fast as the model embeds. Every step is idempotent.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence

from memoryd.catalog.documents import DocumentRow
from memoryd.catalog.passages import PassageRow
from memoryd.errors import IndexMismatch, IndexProblem, StoreError
from memoryd.extract.passages import embedded_again
from memoryd.extract.text import slice_text
from memoryd.index.generations import Generation
from memoryd.index.lexical import LexicalEntry
from memoryd.index.vector import VectorEntry
from memoryd.operations.fresh import try_drain
from memoryd.operations.home import Home
from memoryd.operations.reconcile import VAULT_COMMIT
from memoryd.records import ancestors

LEXICAL_BATCH = 500
VECTOR_ROWS = 1024
VECTOR_SLICE = 16
"""Documents between two looks at the clock and at newer work."""
VECTOR_SECONDS = 2.0
LEGS = ("lexical", "vectors")
_log = logging.getLogger(__name__)


def catch_up(home: Home, stop: Callable[[], bool] = lambda: False) -> bool:
    """One step of background work on the serving generation; True when there was something to do."""
    home.count_recalls()
    if try_drain(home, wait=True):
        return True
    with home.index_lane:
        if home.generation is None:
            return False
        if home.heal:
            heal(home, home.heal.pop())
            return True
        if step(home, home.generation, stop):
            return True
        if home.generation.lexical is not None:
            home.generation.lexical.rest()  # the writer's memory is not needed until the next write
        return False


def step(home: Home, generation: Generation, stop: Callable[[], bool]) -> bool:
    """Index one batch into `generation`, lexical first; the caller holds the index lane (or owns the generation)."""
    return _step_lexical(home, generation) or _step_vectors(home, generation, stop)


def pending(home: Home, generation: Generation | None = None) -> int:
    """Documents that at least one working leg has not taken in yet, plus memories not yet in packs."""
    generation = generation or home.generation
    if generation is None:
        return home.documents.live_count() + len(home.fresh)
    mark = generation.watermark
    reached = [mark.lexical_seq] if generation.lexical is not None else []
    reached += [mark.vector_seq] if generation.vectors is not None else []
    if not reached:
        return home.documents.live_count() + len(home.fresh)
    return home.documents.count_changed_after(min(reached)) + len(home.fresh)


def _step_lexical(home: Home, generation: Generation) -> bool:
    if generation.lexical is None:
        return False
    rows = home.documents.changed_after(generation.watermark.lexical_seq, LEXICAL_BATCH)
    if not rows:
        return False
    index_lexical(home, generation, rows)
    generation.commit_lexical(rows[-1].seq, home.catalog.meta(VAULT_COMMIT) or "")
    return True


def _step_vectors(home: Home, generation: Generation, stop: Callable[[], bool]) -> bool:
    """Embed in small slices, commit after about two seconds, sooner when something newer waits for the lexical leg."""
    if generation.vectors is None:
        return False
    rows = home.documents.changed_after(generation.watermark.vector_seq, VECTOR_ROWS)
    reached = 0
    until = time.monotonic() + VECTOR_SECONDS
    for start in range(0, len(rows), VECTOR_SLICE):
        part = rows[start : start + VECTOR_SLICE]
        if not index_vectors(home, generation, part, stop):
            break
        reached = part[-1].seq
        if time.monotonic() > until or home.fresh or home.documents.last_seq() > generation.watermark.lexical_seq:
            break
    if not reached:
        return False
    generation.commit_vectors(reached)
    return True


def index_lexical(home: Home, generation: Generation, rows: Sequence[DocumentRow]) -> None:
    """Replace the lexical entries of these documents (not yet committed)."""
    assert generation.lexical is not None
    entries: list[LexicalEntry] = []
    for row, passages in _with_passages(home, rows):
        entries += _lexical_entries(row, texts_of(home, row, passages))
    generation.lexical.replace([row.document_id for row in rows], entries)


def index_vectors(
    home: Home, generation: Generation, rows: Sequence[DocumentRow], stop: Callable[[], bool] = lambda: False
) -> bool:
    """Replace the vectors of these documents (not yet flushed); False when stopped before all were embedded."""
    assert generation.vectors is not None
    wanted: list[tuple[DocumentRow, PassageRow, str]] = []
    for row, passages in _with_passages(home, rows):
        for passage, text in texts_of(home, row, passages):
            wanted.append((row, passage, embedded_again(row.title, passage.heading, text, passage.text_sha256)))
    vectors = embed(home, {passage.text_sha256: text for _, passage, text in wanted}, stop)
    if vectors is None:
        return False
    entries = [
        _vector_entry(row, passage, vectors[passage.text_sha256])
        for row, passage, _ in wanted
        if passage.text_sha256 in vectors
    ]
    generation.vectors.replace([row.document_id for row in rows], entries)
    return True


def embed(home: Home, texts: dict[str, str], stop: Callable[[], bool]) -> dict[str, bytes] | None:
    """Vectors by text hash, from the cache or the model; poisoned texts are left out; None when stopped."""
    fingerprint = home.host.identity.fingerprint
    vectors = home.cache.get_many(fingerprint, list(texts))
    missing = [digest for digest in texts if digest not in vectors]
    if missing:
        made = home.host.embed_passages([texts[digest] for digest in missing], stop)
        if stop():
            return None
        fresh = {digest: vector for digest, vector in zip(missing, made, strict=True) if vector is not None}
        home.cache.put_many(fingerprint, fresh)
        vectors.update(fresh)
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
    except StoreError as error:
        home.notices[row.address] = error.message
        _log.error("%s cannot be indexed: %s", row.address, error.message)
        return []
    return [(passage, slice_text(data, passage.start, passage.end, row.encoding)) for passage in passages]


def _lexical_entries(row: DocumentRow, texts: list[tuple[PassageRow, str]]) -> list[LexicalEntry]:
    if not texts:
        return []
    above = ancestors(row.source, row.path)

    def entry(passage_id: str, text: str) -> LexicalEntry:
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
        )

    entries = [entry(passage.id, text) for passage, text in texts]
    if len(entries) > 1:
        entries.append(entry("", "\n\n".join(text for _, text in texts)))
    return entries


def _vector_entry(row: DocumentRow, passage: PassageRow, vector: bytes) -> VectorEntry:
    return VectorEntry(
        passage_id=passage.id,
        document_id=row.document_id,
        scope=row.scope,
        kind=row.kind,
        type=row.type,
        status=row.status,
        ancestors=ancestors(row.source, row.path),
        vector=vector,
    )


def verify(home: Home, generation: Generation) -> list[IndexProblem]:
    """What is wrong with the legs right now; wrong counts are scheduled for repair."""
    problems = list(generation.problems.values())
    for leg, mismatch in generation.mismatches().items():
        problems.append(mismatch)
        home.heal.add(leg)
    problems += _against_catalog(home, generation)
    if home.heal:
        home.work.set()
    return problems


def _against_catalog(home: Home, generation: Generation) -> list[IndexMismatch]:
    """With no backlog the vectors must be as many as the catalog's live passages."""
    mark = generation.watermark
    if home.heal or generation.vectors is None or home.documents.last_seq() != mark.vector_seq:
        return []
    expected = embeddable(home)
    if mark.vector_count == expected or home.settled == _counts(home, generation):
        return []
    home.heal.add("vectors")
    return [IndexMismatch(f"The vector index holds {mark.vector_count} of {expected} passages.", leg="vectors")]


def embeddable(home: Home) -> int:
    """Passages that have a vector once nothing is pending: all but those the model cannot take."""
    poisoned = home.host.poisoned()
    return home.passages.count() - (home.passages.count_texts(poisoned) if poisoned else 0)


def _counts(home: Home, generation: Generation) -> tuple[int, int, int]:
    """What a repair of the vectors came to; while it stays so, repairing again would change nothing."""
    return home.documents.last_seq(), home.passages.count(), generation.watermark.vector_count


def heal(home: Home, leg: str) -> int:
    """Bring one leg's entries back in line with the catalog; returns how many documents were written again."""
    generation = home.generation
    if generation is None:
        return 0
    index = generation.lexical if leg == "lexical" else generation.vectors
    if index is None:
        return 0
    wrong = wrong_documents(home, generation, leg)
    rows = list(home.documents.get_many(wrong).values())
    unknown = [document for document in wrong if document not in {row.document_id for row in rows}]
    if unknown:
        index.replace(unknown, [])
    for start in range(0, len(rows), VECTOR_SLICE):
        part = rows[start : start + VECTOR_SLICE]
        if leg == "lexical":
            index_lexical(home, generation, part)
        else:
            index_vectors(home, generation, part)
    mark = generation.watermark
    if leg == "lexical":
        generation.commit_lexical(mark.lexical_seq, mark.vault_commit)
    else:
        generation.commit_vectors(mark.vector_seq)
        home.settled = _counts(home, generation)
    _log.warning("healed %s: %d documents written again", leg, len(wrong))
    return len(wrong)


def wrong_documents(home: Home, generation: Generation, leg: str) -> list[str]:
    """Documents whose entries in a leg are not those that the catalog names, the backlog aside; reads every id."""
    index = generation.lexical if leg == "lexical" else generation.vectors
    present: dict[str, set[str]] = {}
    for document, passage in index.ids() if index is not None else ():
        present.setdefault(document, set()).add(passage)
    mark = generation.watermark
    reached = mark.lexical_seq if leg == "lexical" else mark.vector_seq
    expected: dict[str, set[str]] = {}
    for document, passage in home.passages.pairs(up_to_seq=reached):
        expected.setdefault(document, set()).add(passage)
    if leg == "lexical":
        for passages in expected.values():
            if len(passages) > 1:
                passages.add("")
    differing = [d for d in present.keys() | expected.keys() if present.get(d, set()) != expected.get(d, set())]
    if leg == "vectors":
        differing = _without_poisoned(home, differing, present, expected)
    # what is still in the backlog is not wrong, it is pending
    rows = home.documents.get_many(differing)
    return sorted(d for d in differing if index is not None and (d not in rows or rows[d].seq <= reached))


def _without_poisoned(
    home: Home, documents: list[str], present: dict[str, set[str]], expected: dict[str, set[str]]
) -> list[str]:
    """Those that still differ when passages that the model cannot take are not expected."""
    poisoned = home.host.poisoned()
    if not poisoned:
        return documents
    lost: dict[str, set[str]] = {}
    for document, passages in home.passages.of_documents(documents).items():
        lost[document] = {passage.id for passage in passages if passage.text_sha256 in poisoned}
    return [d for d in documents if present.get(d, set()) != expected.get(d, set()) - lost.get(d, set())]
