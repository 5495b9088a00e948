"""How does one query become a ranked list: which legs run, how long is the model waited for, what is missing?

Filters go inside each leg's query; a leg that cannot run is named with its reason, never passed over in silence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from memoryd.errors import IndexProblem, MemorydError, ModelError, ModelUnavailable
from memoryd.extract.dates import meant
from memoryd.index.analysis import exact_names, query_terms
from memoryd.index.engine import VectorEngine
from memoryd.index.lexical import Asked, LexicalIndex
from memoryd.records import Encoded, Filter, LegHit
from memoryd.search.fusion import DENSE, EXACT, LEXICAL, SPARSE, TELLING, Fused, Question, each_fused
from memoryd.search.recipe import RECIPE, Recipe
from memoryd.search.relevance import EMBEDDED, MANY, Calibration, judged
from memoryd.search.synonyms import Synonyms

Mode = Literal["hybrid", "keyword", "semantic"]
NO_WORDS = Synonyms(())
MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Legs:
    """What a search runs on; a leg that cannot open is None and its problem stands in `problems`.

    `begin` lets the model begin with the query and gives a call that waits for what it makes of it; sparse weights only
    where the model has them. `today` counts days from 1970-01-01, 0 where none is known.
    """

    lexical: LexicalIndex | None
    vectors: VectorEngine | None
    begin: Callable[[str], Callable[[], Encoded]]
    problems: dict[str, IndexProblem] = field(default_factory=dict)
    alike: Synonyms = NO_WORDS
    today: int = 0
    calibration: Calibration = EMBEDDED


@dataclass(frozen=True, slots=True)
class Ranked:
    """The outcome: the best fused hits, how many documents any leg found, the legs that ran, why others did not, and
    milliseconds a step. `dropped` would stand among the hits but are not relevant, best first; `corrected` tells that
    no word of the query stands anywhere and similar ones were found, `asked` what the lexical leg made of the query;
    `depths` how many hits each leg was asked for, `memories` all of them where there are few."""

    hits: list[Fused]
    total: int
    legs: dict[str, list[LegHit]]
    degraded: list[dict[str, str]]
    timings: dict[str, float]
    dropped: list[Fused] = field(default_factory=list)
    corrected: bool = False
    asked: Asked | None = None
    depths: dict[str, int] = field(default_factory=dict)
    memories: list[LegHit] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Depth:
    """How many hits each leg is asked for; `dense` of the dense one beside words that are no turns of a conversation:
    what only meaning finds that deep is seldom right, but a turn counts also by those around it."""

    every: int
    dense: int


def rank(
    query: str,
    legs: Legs,
    *,
    mode: Mode,
    filter: Filter,
    depth: Depth,
    limit: int,
    recipe: Recipe = RECIPE,
) -> Ranked:
    """Run the legs that `mode` asks for, to their `depth`, and fuse them into the best `limit` documents.

    Never raises for a leg, only reports it.
    """
    run = _Run(query, legs, filter, depth, recipe)
    if mode in ("hybrid", "semantic") and recipe.dense:
        run.begin()
    if mode in ("hybrid", "keyword"):
        if recipe.lexical:
            run.leg(LEXICAL, run.lexical)
        if recipe.exact and (names := exact_names(query)):
            run.leg(EXACT, lambda depth: run.exact(names, depth))
    if mode in ("hybrid", "semantic"):
        if recipe.dense:
            run.leg(DENSE, run.dense)
        if recipe.sparse and run.encoded is not None and run.encoded.sparse:
            run.leg(SPARSE, run.sparse)
    if mode == "hybrid" and not filter.kinds:
        run.look_for_memories()
    began = time.perf_counter()
    found = {name: hits for name, hits in run.found.items() if hits or name in (LEXICAL, DENSE)}
    kept, dropped = weighed(query, legs, found, run.asked, run.depths, recipe, limit, run.memories)
    run.timings["fusion"] = _milliseconds(began)
    corrected = run.asked is not None and run.asked.corrected
    total = len({hit.document_id for hits in found.values() for hit in hits})
    return Ranked(
        kept, total, found, run.degraded, run.timings, dropped, corrected, run.asked, run.depths, run.memories
    )


def weighed(
    query: str,
    legs: Legs,
    found: Mapping[str, list[LegHit]],
    asked: Asked | None,
    depths: Mapping[str, int],
    recipe: Recipe = RECIPE,
    limit: int | None = None,
    memories: Sequence[LegHit] = (),
) -> tuple[list[Fused], list[Fused]]:
    """What the legs found (by leg) as one list, the best `limit`; and what would stand there if it were relevant.

    `depths` tells how many hits each leg was asked for; `memories` are all of them, where there are few.
    """
    question = Question(query, meant(query, legs.today), legs.calibration.scale)
    fused = each_fused(found, question=question, recipe=recipe)
    kept: list[Fused] = []
    dropped: list[Fused] = []
    near = found.get(DENSE, [])
    every = len(near) < depths.get(DENSE, 0)
    for hit, under in judged(fused, query, near, asked, legs.calibration, all_found=every, rare=memories):
        (dropped if under and recipe.floor else kept).append(hit)
        if limit is not None and len(kept) >= limit:
            break
    return kept, dropped


class _Run:
    """One query on its way through the legs."""

    def __init__(self, query: str, legs: Legs, filter: Filter, depth: Depth, recipe: Recipe) -> None:
        self.query = query
        self.legs = legs
        self.filter = filter
        self.depth = depth
        self.recipe = recipe
        self.found: dict[str, list[LegHit]] = {}
        self.degraded: list[dict[str, str]] = []
        self.timings: dict[str, float] = {}
        self.depths: dict[str, int] = {}
        self.memories: list[LegHit] = []
        self.asked: Asked | None = None
        self.encoded: Encoded | None = None
        self._encode: Callable[[], Encoded] | None = None
        self._unready: ModelError | None = None

    def begin(self) -> None:
        """Let the model work while words are looked up; where it cannot, `dense` says so."""
        if self.legs.vectors is not None:
            try:
                self._encode = self.legs.begin(self.query)
            except ModelError as error:
                self._unready = error

    def leg(self, name: str, search: Callable[[int], list[LegHit]]) -> None:
        """Run one leg to its depth, take its time, and note why it did not run."""
        began = time.perf_counter()
        depth = min(self.depth.dense, self.depth.every) if self._shallow(name) else self.depth.every
        try:
            self.found[name] = search(depth)
            self.depths[name] = depth
        except (IndexProblem, ModelError) as error:
            if name in (LEXICAL, DENSE):  # the others share an index with one of these, which reports it
                self.degraded.append(reason(name, error))
        self.timings[name] = _milliseconds(began) - self.timings.get("embed", 0.0) * (name == DENSE)

    def _shallow(self, name: str) -> bool:
        words = self.found.get(LEXICAL)
        return name == DENSE and words is not None and not any(hit.traits.thread for hit in words[:TELLING])

    def lexical(self, depth: int) -> list[LegHit]:
        alike: Mapping[str, float] = {}
        if self.recipe.alike and self.legs.alike.groups:
            alike = self.legs.alike.beside(query_terms(self.query).words)
        index = self._lexical()
        self.asked = index.ask(self.query, self.filter, depth, alike=alike, typos=self.recipe.typos)
        return self.asked.hits

    def look_for_memories(self) -> None:
        """Where there are few beside many pages, one that is near is near by merit."""
        vectors = self.legs.vectors
        with suppress(IndexProblem):  # the dense leg tells it
            if self.encoded is not None and vectors is not None and vectors.few(MEMORY, MANY):
                self.memories = vectors.search(self.encoded.dense, replace(self.filter, kinds=(MEMORY,)), MANY)

    def exact(self, names: tuple[str, ...], depth: int) -> list[LegHit]:
        return self._lexical().named(names, self.filter, depth)

    def dense(self, depth: int) -> list[LegHit]:
        vectors = self._vectors()
        if self._encode is None:
            raise self._unready or ModelUnavailable("The embedding model was not asked.")
        began = time.perf_counter()
        try:
            self.encoded = self._encode()
        finally:
            self.timings["embed"] = _milliseconds(began)
        return vectors.search(self.encoded.dense, self.filter, depth)

    def sparse(self, depth: int) -> list[LegHit]:
        return self._vectors().search_sparse(self.encoded.sparse, self.filter, depth) if self.encoded else []

    def _lexical(self) -> LexicalIndex:
        if self.legs.lexical is None:
            raise self.legs.problems.get("lexical") or IndexProblem("The lexical index is not open.")
        return self.legs.lexical

    def _vectors(self) -> VectorEngine:
        if self.legs.vectors is None:
            raise self.legs.problems.get("vectors") or IndexProblem("The vector index is not open.")
        return self.legs.vectors


def reason(leg: str, error: MemorydError) -> dict[str, str]:
    """How an answer names a leg that did not run (or ran on wrong counts)."""
    return {"leg": leg, "code": error.code, "message": error.message, "next_step": error.next_step}


def _milliseconds(began: float) -> float:
    return (time.perf_counter() - began) * 1000
