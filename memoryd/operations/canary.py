"""Does a sample of what a generation holds agree with what it was made of?

The vector engine has no checksums: a file that was written over still answers. So a few stored vectors are compared
with the embedding cache, and a few texts must be found by their own vector and by their own words.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from memoryd.catalog.passages import PassageRow
from memoryd.errors import IndexProblem, VectorServerProblem
from memoryd.index.analysis import query_terms
from memoryd.index.generations import Generation
from memoryd.operations.home import Home, index_identity
from memoryd.operations.legs import texts_of
from memoryd.records import Filter

SAMPLE = 64
QUERIES = 3
SAME = 0.999
"""Cosine from which on two vectors count as one."""
WORDS = 32


def look(home: Home, generation: Generation, chance: Callable[[], float] = random.random) -> str:
    """What a sample shows to be wrong, '' for nothing; costs some milliseconds.

    Passages that changed after the marks, and those whose vector no cache knows, are passed over.
    """
    if generation.identity.passages != index_identity(home).passages:
        return ""  # its passages are others than the catalog's
    mark = generation.watermark
    shares = [chance() for _ in range(SAMPLE)]
    try:
        drawn = home.passages.drawn(shares, min(mark.lexical_seq, mark.vector_seq))
        return _vectors(home, generation, drawn) or _words(home, generation, drawn[:QUERIES])
    except VectorServerProblem:
        return ""  # nothing could be looked at
    except IndexProblem as problem:
        return problem.message


def _vectors(home: Home, generation: Generation, drawn: Sequence[PassageRow]) -> str:
    index = generation.vectors
    if index is None or not drawn:
        return ""
    known = home.cache.get_many(generation.identity.model, [one.text_sha256 for one in drawn])
    expected = {one.id: known[one.text_sha256] for one in drawn if one.text_sha256 in known}
    wrong = set(index.differing(expected)) & _still(home, generation, expected)
    if wrong:
        return f"{len(wrong)} of {len(expected)} vectors looked at are not those of their texts."
    rows = home.documents.get_many([one.document_id for one in drawn[:QUERIES]])
    for one in drawn[:QUERIES]:
        row = rows.get(one.document_id)
        if row is None or one.id not in expected:
            continue
        hits = index.search(expected[one.id], Filter((row.scope,), (row.status,)), 1)
        if not (hits and hits[0].score > SAME) and _still(home, generation, [one.id]):
            return f"The passage {one.id} is not found by its own vector."
    return ""


def _words(home: Home, generation: Generation, drawn: Sequence[PassageRow]) -> str:
    index = generation.lexical
    if index is None:
        return ""
    rows = home.documents.get_many([one.document_id for one in drawn])
    for one in drawn:
        row = rows.get(one.document_id)
        for _passage, text in texts_of(home, row, [one]) if row is not None else ():
            query = " ".join(text.split()[:WORDS])
            within = Filter((rows[one.document_id].scope,), (rows[one.document_id].status,))
            if not query_terms(query).words or (index.holds(one.document_id) and index.search(query, within, 1)):
                continue
            if _still(home, generation, [one.id]):
                return f"The passage {one.id} is not found by its own words."
    return ""


def _still(home: Home, generation: Generation, passages: Sequence[str] | dict[str, bytes]) -> set[str]:
    """Those of the passages that no write has touched since."""
    mark = generation.watermark
    reached = min(mark.lexical_seq, mark.vector_seq)
    found = home.passages.get_many(list(passages))
    rows = home.documents.get_many([one.document_id for one in found.values()])
    return {one.id for one in found.values() if one.document_id in rows and rows[one.document_id].seq <= reached}
