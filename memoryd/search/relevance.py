"""How likely is it that a hit answers the query, from 0 to 1, and from which value on is it shown at all?

Logistic regression on judged hits of labelled sets against the best hits of questions to sets of another subject. It
holds for one embedding model only: cosines of two models do not compare. That says mostly whether there is an answer:
then one document stands out by its words from the next ones. Which hit is it, its distance to the best one tells: the
value of every other hit is cut down by that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from memoryd.index.analysis import query_terms
from memoryd.index.lexical import Asked
from memoryd.records import LegHit
from memoryd.search.fusion import DENSE, EXACT, LEXICAL, Fused, Scale

FEW_WORDS = 2
"""Words, little ones included, up to which a query names rather than asks: its cosines are lower, and no set has such
queries to judge by."""
MANY, FEW = 100, 20
"""Passages that may be found from which on the floor counts in full. The best of many is near by chance, the best of
fewer by merit: the floor sinks with their number, down to FEW."""
TENTH, TWENTIETH = 10, 20
"""Documents from which the best one stands apart, by words and by meaning."""
STRONG = 50.0
"""Evidence beyond which a relevance is 0 or 1 to any digit that is shown; a user's weights may give any number."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Weights of one model, each with what it is of; `model` is its fingerprint, '' for none.

    `share` is a hit's lexical score in shares of what the query's words weigh (at most 1), `unknown` the share of
    words that stand nowhere, `cosine` the hit's and `nearest` the best one; `apart_words` is of the best share less the
    tenth document's, `apart_cosines` of the best cosine less the twentieth document's. Where only one of the two legs
    ran, the weights of `cosines` (constant, cosine, nearest) or `words` (constant, share, unknown) count, and hits that
    only words found have no floor.
    """

    model: str = ""
    constant: float = -11.457
    cosine: float = 3.702
    share: float = 1.299
    unknown: float = -0.124
    nearest: float = 16.339
    apart_words: float = 6.299
    apart_cosines: float = 1.565
    floor: float = 0.0
    cosines: tuple[float, float, float] = (-8.256, 3.263, 15.792)
    cosines_floor: float = 0.0
    words: tuple[float, float, float] = (-0.703, 2.341, -2.382)
    beside: tuple[float, float, float] = (-0.883, 7.291, 2.514)
    beside_cosines: tuple[float, float] = (-1.195, 9.454)
    beside_words: tuple[float, float] = (-1.443, 3.675)
    """Odds of a hit by its cosine and its share, each less the best one (constant, cosine, share); by one of them."""
    ascii_only: bool = False
    """The model knows no other scripts: of such queries only words tell."""
    scale: Scale = field(default_factory=Scale)


UNCALIBRATED = Calibration()
"""For a model of which nothing is known: relevance is a guess, and nothing is left out."""
EMBEDDED = replace(UNCALIBRATED, floor=0.05, cosines_floor=0.035, ascii_only=True)
"""Of all-MiniLM-L6-v2 (int8)."""


def judged(
    hits: Iterable[Fused],
    query: str,
    near: Sequence[LegHit],
    asked: Asked | None,
    calibration: Calibration,
    *,
    all_found: bool = False,
    rare: Sequence[LegHit] = (),
) -> Iterator[tuple[Fused, bool]]:
    """Each hit with its relevance, and whether that is under the floor, in the same order.

    `near` is what the dense leg found, best first, and with `all_found` all that there is; `asked` is what the lexical
    leg was asked, None where it did not run. `rare` are all passages of a kind of which there are few beside many
    others: for them the floor is as if there were no others.
    """
    parts = dict.fromkeys((hit.document_id for hit in rare), _part(len(rare)))
    judge = _Judge(query, near, asked, calibration, _part(len(near)) if all_found else 1.0, parts)
    return map(judge.verdict, hits)


class _Judge:
    """One query's view of its hits."""

    def __init__(
        self,
        query: str,
        near: Sequence[LegHit],
        asked: Asked | None,
        calibration: Calibration,
        part: float,
        parts: Mapping[str, float],
    ) -> None:
        foreign = calibration.ascii_only and sum(map(str.isascii, query)) * 2 < len(query)
        self.calibration = calibration
        self.nearest, self.least = (near[0].score, near[-1].score) if near else (0.0, 0.0)
        self.dense = bool(near) and not foreign
        self.part, self.parts = part, parts
        # scripts without blanks have many words in one piece
        self.few = max(len(query.split()), len(set(query_terms(query).words))) <= FEW_WORDS
        self.asked = asked if asked is not None and not asked.corrected else None
        self.most = self._share(asked.hits[0].score) if asked is not None and asked.hits else 0.0
        self.best = _logistic(self._odds_beside(0.0, 0.0))
        words = self.most - self._share(_score_at(asked.hits, TENTH, 0.0)) if asked is not None else 0.0
        meaning = self.nearest - _score_at(near, TWENTIETH, self.least)
        self.apart = calibration.apart_words * words + calibration.apart_cosines * meaning

    def verdict(self, hit: Fused) -> tuple[Fused, bool]:
        share = self._share(hit.scores.get(LEXICAL, 0.0))
        answered = _logistic(self._evidence(hit, share))
        relevance = answered * self._beside(hit, share)
        hit.relevance = round(max(relevance, 0.5) if EXACT in hit.scores else relevance, 4)
        return hit, answered < self._floor(hit)

    def _share(self, score: float) -> float:
        if self.asked is None or not self.asked.weight:
            return 0.0
        return min(1.0, score / self.asked.weight)

    def _beside(self, hit: Fused, share: float) -> float:
        """How likely the hit is the right one, in shares of how likely one would be that is the best in every way."""
        behind = min(0.0, hit.scores.get(DENSE, self.least) - self.nearest)
        fewer = min(0.0, share - self.most)
        return min(1.0, _logistic(self._odds_beside(behind, fewer)) / self.best)

    def _odds_beside(self, behind: float, fewer: float) -> float:
        one = self.calibration
        if not self.dense:
            constant, of_share = one.beside_words
            return constant + of_share * fewer
        if self.asked is None:
            constant, of_cosine = one.beside_cosines
            return constant + of_cosine * behind
        constant, of_cosine, of_share = one.beside
        return constant + of_cosine * behind + of_share * fewer

    def _evidence(self, hit: Fused, share: float) -> float:
        one = self.calibration
        if not self.dense:
            constant, of_share, of_unknown = one.words
            return constant + of_share * share + of_unknown * (self.asked.unknown if self.asked is not None else 1.0)
        cosine = hit.scores.get(DENSE, self.least)
        if self.asked is None:
            constant, of_cosine, of_nearest = one.cosines
            return constant + of_cosine * cosine + of_nearest * self.nearest
        known = one.share * share + one.unknown * self.asked.unknown + self.apart
        return one.constant + one.cosine * cosine + one.nearest * self.nearest + known

    def _floor(self, hit: Fused) -> float:
        if not self.dense or self.few or EXACT in hit.scores:
            return 0.0
        if self.asked is None:
            return self.calibration.cosines_floor
        return min(self.part, self.parts.get(hit.document_id, 1.0)) * self.calibration.floor


def _part(count: int) -> float:
    """The share of the floor that holds where so many passages may be found."""
    return min(1.0, max(FEW, count) / MANY)


def _score_at(hits: Sequence[LegHit], place: int, otherwise: float) -> float:
    """The score of the document at this place (from 1) of a leg's hits; there may be fewer documents."""
    seen: set[str] = set()
    for hit in hits:
        seen.add(hit.document_id)
        if len(seen) == place:
            return hit.score
    return otherwise


def _logistic(odds: float) -> float:
    return 1 / (1 + math.exp(-max(-STRONG, min(STRONG, odds))))
