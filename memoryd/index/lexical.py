"""Which passages and documents hold the words of a query, within a filter?

One Tantivy index. An entry is a passage, or (with an empty passage id) the whole document; a document with a single
entry is its own passage. Whole documents and passages of longer ones have fields of their own, so that each is
weighed against its like. Queries are built from terms: no text of a user ever reaches a query parser.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import cast

import tantivy
from tantivy import Occur, Query

from memoryd.errors import IndexDamaged, IndexProblem
from memoryd.index.analysis import QueryTerms, code_analyser, pairs_of, query_terms, word_analyser
from memoryd.index.cut import best
from memoryd.index.entry import COLUMNS, LexicalEntry, read_columns
from memoryd.index.fields import PART, WHOLE, documents, schema
from memoryd.records import Filter, LegHit, Traits

__all__ = ["Asked", "LexicalEntry", "LexicalIndex"]

TIE = 0.1
"""Share of the weaker field (word or code) that counts beside the stronger one."""
TITLE_BOOST = 0.3
PAIR_BOOST = 0.15
"""Weight of two words of the query that stand side by side in the text, too."""
PREFIX_BOOST = 0.1
SYNONYM_BOOST = 0.5
"""Weight of a word that means the same as one of the query."""
LONG_WORD = 8
"""Characters from which on two letters of a word may be wrong, below it one; of words under 4 none."""
MAX_TERMS = 64
"""Distinct terms a field that a query asks for; of more, the rarest are taken."""
MAX_PAIRS = 32
MAX_EXPANSIONS = 8
"""Longer terms, the most frequent ones, that the last token of a query may stand for."""
TIE_MARGIN = 32
"""Hits read beyond the limit, so that equal scores are cut by id and not by place in the index."""
WRITER_HEAP = 15_000_000
"""Bytes; the engine's minimum for one thread."""

_PAGE = 4096


@dataclass(frozen=True, slots=True)
class Asked:
    """What a query found, and how much it asked for.

    `weight` is about the score of an entry that holds every word of the query: the sum of the words' weights, those
    that stand nowhere included; `unknown` is their share. `corrected`: no word was found,
    similar ones were.
    """

    hits: list[LegHit]
    weight: float = 0.0
    unknown: float = 1.0
    corrected: bool = False


class LexicalIndex:
    """One directory of the engine's files. Searches may run in any thread while one thread writes."""

    def __init__(self, path: Path, index: tantivy.Index) -> None:
        """Use `create` or `open`."""
        self.path = path
        self.heap = WRITER_HEAP
        """Bytes that the writer may fill before it ends a segment."""
        self._index = index
        self._schema = index.schema
        self._lock = Lock()
        self._writer: tantivy.IndexWriter | None = None
        self._dirty = False
        index.register_tokenizer("memoryd_words", word_analyser())
        index.register_tokenizer("memoryd_codes", code_analyser())
        index.config_reader("manual")
        index.reload()

    @classmethod
    def create(cls, path: Path) -> LexicalIndex:
        """A new, empty index in `path` (made where missing). Raises IndexDamaged where the engine cannot."""
        with _damage(path):
            path.mkdir(parents=True, exist_ok=True)
            return cls(path, tantivy.Index(schema(), path=str(path), reuse=False))

    @classmethod
    def open(cls, path: Path) -> LexicalIndex:
        """The index in `path`. Raises IndexDamaged where there is none or it cannot be read."""
        with _damage(path):
            found = cls(path, tantivy.Index.open(str(path)))
            searcher = found._index.searcher()
            _entries(searcher, [address for _, address in searcher.search(Query.all_query(), 1, count=False).hits])
            return found

    def replace(self, document_ids: Sequence[str], entries: Sequence[LexicalEntry]) -> None:
        """Take all entries of these documents out and put `entries` in; seen by searches after `commit`.

        All entries of one document come in one call. Raises IndexDamaged.
        """
        siblings = Counter(entry.document_id for entry in entries)
        with self._writing() as writer:
            self._dirty = True
            for document_id in document_ids:
                writer.delete_documents_by_term("document_id", document_id)
            for document_id, own in itertools.groupby(entries, lambda entry: entry.document_id):
                for document in documents(list(own), lone=siblings[document_id] == 1):
                    writer.add_document(document)

    def commit(self) -> None:
        """Make everything buffered durable and visible. Raises IndexDamaged."""
        if not self._dirty:
            return
        with self._writing() as writer:
            writer.commit()
            self._dirty = False
            self._index.reload()
        _give_back_memory()

    def rest(self) -> None:
        """Let the writer and its threads go until the next `replace`; what was not committed is dropped.

        Waits for merges that run. Raises IndexDamaged.
        """
        if self._writer is None:
            return
        with self._writing() as writer:
            self._writer = None
            if self._dirty:
                writer.rollback()
                self._dirty = False
            writer.wait_merging_threads()
            self._index.reload()
        _give_back_memory()

    def count(self) -> int:
        """Committed entries that are not deleted."""
        with _damage(self.path):
            return int(self._index.searcher().num_docs)

    def search(self, query: str, filter: Filter, limit: int) -> list[LegHit]:
        """Up to `limit` entries that hold terms of `query` (any text), best first, equal scores by id.

        A document may appear several times, by passages and as a whole. No terms: no hits. Raises IndexDamaged.
        """
        return self.ask(query, filter, limit).hits

    def ask(
        self, query: str, filter: Filter, limit: int, *, alike: Mapping[str, float] | None = None, typos: bool = False
    ) -> Asked:
        """The same with what was asked for. `alike` names words (analysed) that count beside those of the query, each
        with its weight; with `typos`, a query of which no word stands anywhere finds similar words.

        Raises IndexDamaged.
        """
        terms = query_terms(query)
        if limit < 1 or not terms.codes or not filter.scopes or not filter.statuses:
            return Asked([])
        with _damage(self.path):
            searcher = self._index.searcher()
            allowed = self._filter(filter)
            hits = self._hits(searcher, self._asking(searcher, terms, allowed, alike or {}), allowed, limit)
            if hits or not typos:
                return Asked(hits, *_weight(searcher, terms))
            similar = self._similar(terms)
            return Asked(self._hits(searcher, similar, allowed, limit), corrected=similar is not None)

    def named(self, names: Sequence[str], filter: Filter, limit: int) -> list[LegHit]:
        """Up to `limit` entries that are called exactly so (a path or its end, a symbol), those with more of the
        names first, equal ones by id. Raises IndexDamaged."""
        if limit < 1 or not names or not filter.scopes or not filter.statuses:
            return []
        with _damage(self.path):
            one = [Query.const_score_query(self._any_of("name", [name]), 1.0) for name in names]
            return self._hits(self._index.searcher(), _any_query(one), self._filter(filter), limit)

    def _hits(self, searcher: tantivy.Searcher, asked: Query | None, allowed: Query, limit: int) -> list[LegHit]:
        if asked is None:
            return []
        wanted = Query.boolean_query([(Occur.Must, asked), (Occur.Must, Query.const_score_query(allowed, 0.0))])
        found = searcher.search(wanted, limit + TIE_MARGIN, count=False).hits
        lowest = found[limit - 1][0] if len(found) > limit else 0.0
        # what only ties with the last one may take its place; the others beyond it are not even read
        kept = [(score, address) for score, address in found if score >= lowest]
        entries = _entries(searcher, [address for _, address in kept])
        hits = zip(entries, kept, strict=True)
        return best(
            [LegHit(document, passage, score, traits) for (document, passage, traits), (score, _) in hits], limit
        )

    def holds(self, document_id: str) -> bool:
        """Whether a committed entry of this document is there. Raises IndexDamaged."""
        with _damage(self.path):
            named = Query.term_query(self._schema, "document_id", document_id, "basic")
            return bool(self._index.searcher().search(named, 1, count=False).hits)

    def ids(self) -> Iterator[tuple[str, str]]:
        """(document_id, passage_id) of every committed entry, in no order. Raises IndexDamaged."""
        with _damage(self.path):
            searcher = self._index.searcher()
            for offset in range(0, searcher.num_docs, _PAGE):
                page = searcher.search(Query.all_query(), _PAGE, count=False, offset=offset)
                found = _entries(searcher, [address for _, address in page.hits])
                yield from ((document, passage) for document, passage, _ in found)

    def close(self) -> None:
        """Let everything go; what was not committed is dropped."""
        with suppress(IndexProblem):
            self.rest()

    @contextmanager
    def _writing(self) -> Iterator[tantivy.IndexWriter]:
        with self._lock, _damage(self.path):
            if self._writer is None:
                self._writer = self._index.writer(self.heap, 1)
            try:
                yield self._writer
            except BaseException:  # let go of what was taken, then raised on
                self._writer, self._dirty = None, False  # a writer that failed once refuses all further work
                raise

    def _filter(self, filter: Filter) -> Query:
        wanted: list[tuple[str, Sequence[str]]] = [("scope", filter.scopes), ("status", filter.statuses)]
        wanted += [("kind", filter.kinds), ("type", filter.types)]
        wanted.append(("ancestors", (filter.path_prefix,) if filter.path_prefix else ()))
        return _all_of([self._any_of(name, values) for name, values in wanted if values])

    def _any_of(self, name: str, values: Sequence[str]) -> Query:
        # A value with an unpaired surrogate is no valid text: it stands nowhere and must not disturb the engine.
        clean = dict.fromkeys(value.encode("utf-8", "replace").decode() for value in values)
        terms = [Query.term_query(self._schema, name, value, "basic") for value in clean]
        return terms[0] if len(terms) == 1 else Query.boolean_query([(Occur.Should, term) for term in terms])

    def _asking(
        self, searcher: tantivy.Searcher, terms: QueryTerms, allowed: Query, alike: Mapping[str, float]
    ) -> Query | None:
        longer = self._longer(searcher, terms.prefix, allowed)
        parts = [self._fields(searcher, terms, longer, alike, *names) for names in (WHOLE, PART)]
        asked = [part for part in parts if part is not None]
        title = self._terms(searcher, "title", terms.words)
        if title:
            asked.append(Query.boost_query(_any_query(title), TITLE_BOOST))
        return _any_query(asked) if asked else None

    def _fields(
        self,
        searcher: tantivy.Searcher,
        terms: QueryTerms,
        longer: Sequence[str],
        alike: Mapping[str, float],
        word: str,
        code: str,
        pair: str,
    ) -> Query | None:
        near = self._terms(searcher, pair, pairs_of(terms.words))[:MAX_PAIRS]
        words = self._terms(searcher, word, terms.words) + [Query.boost_query(one, PAIR_BOOST) for one in near]
        for term, weight in alike.items():
            words += [Query.boost_query(one, SYNONYM_BOOST * weight) for one in self._terms(searcher, word, [term])]
        codes = self._terms(searcher, code, terms.codes)
        legs = [_any_query(leg) for leg in (words, codes) if leg]
        asked = [Query.disjunction_max_query(legs, TIE)] if legs else []
        expansions = self._terms(searcher, code, longer)
        if expansions:
            asked.append(Query.boost_query(Query.disjunction_max_query(expansions, 0.0), PREFIX_BOOST))
        return _any_query(asked) if asked else None

    def _similar(self, terms: QueryTerms) -> Query | None:
        """Words that a slip of the keyboard turns into those of the query."""
        long = [term for term in terms.codes if len(term) >= LONG_WORD // 2][:MAX_TERMS]
        found = [
            Query.fuzzy_term_query(self._schema, field, term, 2 if len(term) >= LONG_WORD else 1)
            for term in long
            for field in (WHOLE[1], PART[1])
        ]
        return _any_query(found) if found else None

    def _terms(self, searcher: tantivy.Searcher, name: str, terms: Sequence[str]) -> list[Query]:
        counted = {term: searcher.doc_freq(name, term) for term in dict.fromkeys(terms)}
        known = [term for term, frequency in counted.items() if frequency]
        if len(known) > MAX_TERMS:
            known = sorted(known, key=lambda term: (counted[term], term))[:MAX_TERMS]
        return [Query.term_query(self._schema, name, term, "freq") for term in known]

    def _longer(self, searcher: tantivy.Searcher, prefix: str, allowed: Query) -> list[str]:
        if not prefix:
            return []
        found = searcher.terms_with_prefix("code", prefix, limit=MAX_EXPANSIONS + 1)
        if len(found) > MAX_EXPANSIONS:  # too many to take all: the most frequent ones of what may be seen
            found = searcher.terms_with_prefix("code", prefix, filter_query=allowed, limit=MAX_EXPANSIONS + 1)
        return [term for term, _ in found if term != prefix][:MAX_EXPANSIONS]


def _entries(searcher: tantivy.Searcher, addresses: Sequence[tantivy.DocAddress]) -> list[tuple[str, str, Traits]]:
    """(document id, passage id or '', traits) of entries, in order."""
    at = list(addresses)
    if not at:
        return []
    return read_columns([cast("Sequence[int]", searcher.fast_field_values(name, at)) for name in COLUMNS])


def _weight(searcher: tantivy.Searcher, terms: QueryTerms) -> tuple[float, float]:
    """The sum of the weights (BM25's inverse document frequency) of a query's words, and the share of those that
    stand nowhere."""
    words, fields = (terms.words, ("word", "part_word")) if terms.words else (terms.codes, ("code", "part_code"))
    total = unknown = 0.0
    for word in itertools.islice(dict.fromkeys(words), MAX_TERMS):
        # deleted entries count in the frequency until their segment is merged, not in the number of entries
        frequency = min(searcher.num_docs, max(searcher.doc_freq(field, word) for field in fields))
        weight = math.log(1 + (searcher.num_docs - frequency + 0.5) / (frequency + 0.5))
        total += weight
        unknown += weight * (not frequency)
    return total, unknown / total if total else 1.0


def _any_query(queries: Sequence[Query]) -> Query:
    return queries[0] if len(queries) == 1 else Query.boolean_query([(Occur.Should, query) for query in queries])


def _all_of(queries: Sequence[Query]) -> Query:
    return queries[0] if len(queries) == 1 else Query.boolean_query([(Occur.Must, query) for query in queries])


def _give_back_memory() -> None:
    """Hand freed memory to the system: the C library would keep some 25 MB after a bulk of writes."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """The engine's border: what it raises on files that it cannot read or write becomes IndexDamaged."""
    try:
        yield
    except (ValueError, OSError) as error:
        if "LockBusy" in str(error):
            raise IndexProblem(f"Another process writes to {path}.", leg="lexical", path=str(path)) from error
        raise IndexDamaged(f"The lexical index in {path} failed: {error}", leg="lexical", path=str(path)) from error
    except BaseException as error:  # the engine's panics derive from nothing narrower
        if type(error).__name__ != "PanicException":
            raise
        raise IndexDamaged(f"The lexical index in {path} broke: {error}", leg="lexical", path=str(path)) from error
