"""How do the lists of several legs become one list of documents?

Scores count, not ranks alone: the lexical score as a share of the best one, plus the cosine above the last one found,
weighed by how sure the dense leg is and how much the hits look like code. Then what stands around a turn of a
conversation and the days that the query names. See docs/retrieval.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from memoryd.extract.dates import Span
from memoryd.records import NO_TRAITS, LegHit, Traits
from memoryd.search.around import of_speaker, shared, with_thread
from memoryd.search.recipe import RECIPE, Recipe

LEXICAL, DENSE, SPARSE, EXACT = "lexical", "dense", "sparse", "exact"
K = 60
"""Of plain reciprocal rank fusion (Cormack, Clarke and Buettcher, 2009): ranks count from 1, so the first hit of a leg
scores 1 / 61."""
OUTSTANDING = 3
TELLING = 10
"""First hits of a leg that say whether code is searched."""
_LOGARITHMS = [0.0, *map(math.log, range(1, 256))]
"""By number of passages, as `Traits.parts` counts them."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Cosines between a query and its best passage as a model gives them: from `unsure` on one counts more, until
    `sure`."""

    unsure: float = 0.40
    sure: float = 0.60


@dataclass(frozen=True, slots=True)
class Question:
    """What of a query matters beyond the hits: its text, and the days it names."""

    text: str = ""
    days: Span | None = None
    scale: Scale = field(default_factory=Scale)


@dataclass(frozen=True, slots=True)
class Fused:
    """One document of the fused list.

    `passage_id` names the passage to show, '' where no leg found one. `score` only orders; `relevance` is 0 to 1.
    `ranks` (from 1) and `scores` hold what each leg said, by its name; a leg that did not find the document is left
    out. `lifts` holds what was added beyond the legs, by its name.
    """

    document_id: str
    passage_id: str
    score: float
    relevance: float
    ranks: dict[str, int]
    scores: dict[str, float]
    lifts: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class _Held:
    """A document in one leg: its best score as found and as it counts, its passage to show ('' for none)."""

    found: float
    counts: float
    passage_id: str
    traits: Traits


_Leg = dict[str, _Held]


def each_fused(
    legs: Mapping[str, Sequence[LegHit]], *, question: Question | None = None, recipe: Recipe = RECIPE
) -> Iterator[Fused]:
    """The documents of all legs, best first, one after the other: most searches need a few.

    Each leg's hits come best first and may name a document several times. One leg alone keeps its order of documents,
    lifts aside. Equal scores go by document id.
    """
    asked = question or Question()
    held = {name: _collapse(name, hits, recipe) for name, hits in sorted(legs.items()) if hits}
    ranks = {name: _ranks(leg) for name, leg in held.items()}
    if recipe.by_rank:
        scores, lifts = by_rank(ranks), {}
    else:
        known = ((document, one.traits) for leg in held.values() for document, one in leg.items())
        traits = {document: its for document, its in known if its is not NO_TRAITS}
        given = _weighed(held, legs, asked, recipe)
        lifts = _lifts(given, traits, asked, recipe)
        scores = _summed([*given.values(), *lifts.values()])
        if drawn := _drawn(scores, traits, recipe):
            lifts["thread"] = drawn
            scores = _summed([scores, drawn])
    ordered = sorted(scores, key=lambda document: (-scores[document], document))
    for document in ordered:
        yield _fused(document, scores[document], held, ranks, lifts)


def _ranks(leg: _Leg) -> dict[str, int]:
    """From 1; equal scores as they were found."""
    return {document: rank for rank, document in enumerate(sorted(leg, key=lambda one: -leg[one].counts), 1)}


def _summed(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    scores: dict[str, float] = {}
    for part in parts:
        for document, score in part.items():
            scores[document] = scores.get(document, 0.0) + score
    return scores


def by_rank(ranks: Mapping[str, Mapping[str, int]]) -> dict[str, float]:
    """Reciprocal ranks, summed over the legs: by leg, each document's rank (from 1)."""
    scores: dict[str, float] = {}
    for leg in ranks.values():
        for document, rank in leg.items():
            scores[document] = scores.get(document, 0.0) + 1 / (K + rank)
    return scores


def _collapse(name: str, hits: Sequence[LegHit], recipe: Recipe) -> _Leg:
    if name == LEXICAL:
        return _lexical(hits, recipe)
    return _nearest(hits, recipe) if name == DENSE else _best(hits)


def _best(hits: Sequence[LegHit]) -> _Leg:
    held: _Leg = {}
    for document_id, passage_id, score, traits in hits:
        one = held.get(document_id)
        if one is None:
            held[document_id] = _Held(score, score, passage_id, traits)
        elif passage_id and not one.passage_id:
            # A whole document says nothing about where to look: show its best passage, however low that stands.
            one.passage_id, one.traits = passage_id, traits
    return held


def _lexical(hits: Sequence[LegHit], recipe: Recipe) -> _Leg:
    """A document counts its best score, as a whole or by a passage, in shares of the usual best."""
    held = _best(hits)
    top = _usual_top([one.found for one in held.values()], recipe)
    for one in held.values():
        one.counts = one.found / top if top else 0.0
    return held


def _usual_top(scores: Iterable[float], recipe: Recipe) -> float:
    """The best score, unless it stands out: a document that holds the whole query would make all others alike."""
    best = sorted(scores, reverse=True)[:OUTSTANDING]
    return min(best[0], recipe.outstanding * best[-1]) if recipe.outstanding else best[0]


def _nearest(hits: Sequence[LegHit], recipe: Recipe) -> _Leg:
    """A document counts its best cosine above the lowest one found, less the more passages it has."""
    held = _best(hits)
    counted: dict[str, float] = {}
    for document_id, _, cosine, traits in hits:
        score = cosine - recipe.length * _LOGARITHMS[traits.parts]
        if score > counted.get(document_id, -math.inf):
            counted[document_id] = score
    lowest = min(counted.values())
    for document, score in counted.items():
        held[document].counts = score - lowest
    return held


def dense_weight(legs: Mapping[str, Sequence[LegHit]], scale: Scale, recipe: Recipe = RECIPE) -> float:
    """What a cosine is worth against the lexical score: more where the hits are code, and where the best is near."""
    telling = [hit for name in (LEXICAL, DENSE) for hit in legs.get(name, ())[:TELLING]]
    code = sum(hit.traits.code for hit in telling) / 100 / len(telling) if telling else 0.0
    near = legs[DENSE][0].score if legs.get(DENSE) else 0.0
    sure = min(1.0, max(0.0, (near - scale.unsure) / (scale.sure - scale.unsure)))
    grown = math.exp(recipe.code_weight * code + recipe.sure_weight * sure)
    return min(recipe.dense_most, recipe.dense_weight * grown)


def _weighed(
    held: Mapping[str, _Leg], legs: Mapping[str, Sequence[LegHit]], asked: Question, recipe: Recipe
) -> dict[str, dict[str, float]]:
    """What each leg gives its documents."""
    weights = {LEXICAL: 1.0, DENSE: dense_weight(legs, asked.scale, recipe)}
    for name, weight in ((SPARSE, recipe.sparse_weight), (EXACT, recipe.exact_weight)):
        best = max((one.counts for one in held.get(name, {}).values()), default=0.0)
        weights[name] = weight / best if best > 0 else 0.0
    # a name outweighs any words, also those of a document that stands out
    weights[EXACT] *= max((1.0, *(one.counts for one in held.get(LEXICAL, {}).values())))
    return {name: {document: weights[name] * one.counts for document, one in leg.items()} for name, leg in held.items()}


def _lifts(
    given: Mapping[str, Mapping[str, float]], traits: Mapping[str, Traits], asked: Question, recipe: Recipe
) -> dict[str, dict[str, float]]:
    """What else speaks for a document, by its name: the turns around it, its speaker, its day."""
    words, meaning = recipe.neighbours
    lifts = {
        "neighbours": shared({LEXICAL: words, DENSE: meaning}, given, traits),
        "speaker": dict.fromkeys(of_speaker(asked.text, traits) if recipe.speaker else (), recipe.speaker),
    }
    if asked.days is not None and recipe.date:
        days = asked.days
        within = [one for one, its in traits.items() if its.day and days.holds(its.day, recipe.date_later)]
        lifts["date"] = dict.fromkeys(within, recipe.date)
    return {name: lift for name, lift in lifts.items() if lift}


def _drawn(scores: dict[str, float], traits: Mapping[str, Traits], recipe: Recipe) -> dict[str, float]:
    """What a document gains or loses by being drawn towards its conversation."""
    threads = {document: its.thread for document, its in traits.items() if its.thread}
    if not threads or not recipe.thread:
        return {}
    drawn = with_thread(scores, threads, recipe.thread)
    return {document: drawn[document] - scores[document] for document in threads}


def _fused(
    document: str,
    score: float,
    held: Mapping[str, _Leg],
    ranks: Mapping[str, Mapping[str, int]],
    lifts: Mapping[str, Mapping[str, float]],
) -> Fused:
    found = {name: leg[document] for name, leg in held.items() if document in leg}
    named = [(ranks[name][document], one.passage_id) for name, one in found.items() if one.passage_id]
    return Fused(
        document_id=document,
        passage_id=min(named)[1] if named else "",
        score=score,
        relevance=0.0,
        ranks={name: ranks[name][document] for name in found},
        scores={name: one.found for name, one in found.items()},
        lifts={name: given[document] for name, given in lifts.items() if document in given},
    )
