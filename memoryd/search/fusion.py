"""How do the lists of several legs become one list of documents?

Scores count, not ranks alone: the lexical score as a share of the best one, plus the cosine above the last one found,
weighed by how sure the dense leg is and how much the hits look like code. Then what stands around a turn of a
conversation and the days that the query names. See docs/retrieval.md.
"""

from __future__ import annotations

import heapq
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


@dataclass(slots=True)
class Fused:
    """One document of the fused list.

    `passage_id` names the passage to show, '' where no leg found one. `score` only orders; `relevance`, which
    `search.relevance` fills in, is 0 to 1.
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
class _Leg:
    """What one leg says of each document: its best score as found and as it counts, its passage to show ('' for
    none) with its traits."""

    found: dict[str, float]
    counts: dict[str, float]
    passages: dict[str, str]
    traits: dict[str, Traits]


def each_fused(
    legs: Mapping[str, Sequence[LegHit]], *, question: Question | None = None, recipe: Recipe = RECIPE
) -> Iterator[Fused]:
    """The documents of all legs, best first, one after the other: most searches need a few.

    Each leg's hits come best first and may name a document several times. One leg alone keeps its order of documents,
    lifts aside. Equal scores go by document id.
    """
    asked = question or Question()
    held = {name: _collapse(name, hits, recipe) for name, hits in sorted(legs.items()) if hits}
    ranks = {name: _ranks(leg.counts) for name, leg in held.items()}
    if recipe.by_rank:
        scores, lifts = by_rank(ranks), {}
    else:
        known = (pair for leg in held.values() for pair in leg.traits.items())
        traits = {document: its for document, its in known if its is not NO_TRAITS}
        given = _weighed(held, legs, asked, recipe)
        lifts = _lifts(given, traits, asked, recipe)
        scores = _summed([*given.values(), *lifts.values()])
        if drawn := _drawn(scores, traits, recipe):
            lifts["thread"] = drawn
            scores = _summed([scores, drawn])
        if DENSE in ranks and recipe.nearest and not any(its.thread for its in traits.values()):
            lifts["nearest"] = _raised(next(iter(ranks[DENSE])), scores, recipe.nearest)
            scores.update({document: scores[document] + lift for document, lift in lifts["nearest"].items()})
    for score, document in sorted([(-score, document) for document, score in scores.items()]):
        yield _fused(document, -score, held, ranks, lifts)


def _raised(document: str, scores: Mapping[str, float], place: int) -> dict[str, float]:
    """What a document lacks to stand at this place (from 1)."""
    above = heapq.nlargest(place, scores.values())
    if len(above) < place or scores[document] >= above[-1]:
        return {}
    return {document: math.nextafter(above[-1], math.inf) - scores[document]}


def _ranks(counts: dict[str, float]) -> dict[str, int]:
    """From 1; equal scores as they were found."""
    ordered = sorted(counts, key=counts.__getitem__, reverse=True)
    return dict(zip(ordered, range(1, len(ordered) + 1), strict=True))


def _summed(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    scores: dict[str, float] = {}
    for part in parts:
        for document, score in part.items():
            scores[document] = scores[document] + score if document in scores else score
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
    found: dict[str, float] = {}
    passages: dict[str, str] = {}
    traits: dict[str, Traits] = {}
    for document, passage, score, its in hits:
        if document not in found:
            found[document], passages[document], traits[document] = score, passage, its
        elif passage and not passages[document]:
            # A whole document says nothing about where to look: show its best passage, however low that stands.
            passages[document], traits[document] = passage, its
    return _Leg(found, found, passages, traits)


def _lexical(hits: Sequence[LegHit], recipe: Recipe) -> _Leg:
    """A document counts its best score, as a whole or by a passage, in shares of the usual best."""
    leg = _best(hits)
    top = _usual_top(leg.found.values(), recipe)
    leg.counts = {document: score / top if top else 0.0 for document, score in leg.found.items()}
    return leg


def _usual_top(scores: Iterable[float], recipe: Recipe) -> float:
    """The best score, unless it stands out: a document that holds the whole query would make all others alike."""
    best = sorted(scores, reverse=True)[:OUTSTANDING]
    return min(best[0], recipe.outstanding * best[-1]) if recipe.outstanding else best[0]


def _nearest(hits: Sequence[LegHit], recipe: Recipe) -> _Leg:
    """A document counts its best cosine above the lowest one found, less the more passages it has."""
    leg = _best(hits)
    counted: dict[str, float] = {}
    for document, _, cosine, traits in hits:
        score = cosine - recipe.length * _LOGARITHMS[traits.parts]
        if document not in counted or score > counted[document]:
            counted[document] = score
    lowest = min(counted.values())
    leg.counts = {document: score - lowest for document, score in counted.items()}
    return leg


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
        best = max(held[name].counts.values()) if name in held else 0.0
        weights[name] = weight / best if best > 0 else 0.0
    if EXACT in held and LEXICAL in held:
        # a name outweighs any words, also those of a document that stands out
        weights[EXACT] *= max(1.0, *held[LEXICAL].counts.values())
    return {
        name: {document: weights[name] * score for document, score in leg.counts.items()} for name, leg in held.items()
    }


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
    found = [(name, leg) for name, leg in held.items() if document in leg.found]
    named = [(ranks[name][document], leg.passages[document]) for name, leg in found if leg.passages[document]]
    return Fused(
        document_id=document,
        passage_id=min(named)[1] if named else "",
        score=score,
        relevance=0.0,
        ranks={name: ranks[name][document] for name, _ in found},
        scores={name: leg.found[document] for name, leg in found},
        lifts={name: given[document] for name, given in lifts.items() if document in given},
    )
