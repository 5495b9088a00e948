"""How are legs, their scores and what stands around a hit weighed against each other?

One closed form for every query; what tells the legs apart is measured on the query and its hits alone. All numbers were
chosen on development parts of labelled sets; docs/retrieval.md has what each is worth, ADR 0029 what else was tried.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Recipe:
    """Every weight and switch of a ranking. A weight of 0 switches its part off."""

    lexical: bool = True
    dense: bool = True
    sparse: bool = True
    exact: bool = True
    """Legs that may run."""
    candidates: int = 0
    """Hits asked of each leg; 0 takes `search.candidates` of the configuration."""
    dense_candidates: int = 0
    """Of the dense leg beside words that are no turns; 0 takes `search.dense_candidates`."""

    by_rank: bool = False
    """Reciprocal ranks instead of scores: the baseline, which loses to its best leg where legs are unequal."""
    dense_weight: float = 0.4
    """What a cosine of 1 above the last one found is worth, where 1 is the best lexical score."""
    code_weight: float = 4.0
    """e to this: how much more it is worth where all hits look like code, which shares few words with prose."""
    sure_weight: float = 1.5
    """e to this: how much more where the best cosine is as high as it gets."""
    dense_most: float = 20.0
    sparse_weight: float = 0.5
    """What the best score of the model's own word weights is worth."""
    exact_weight: float = 1.0
    """What being called as the query says is worth."""

    outstanding: float = 1.2
    """The best lexical score counts at most so many times the third one."""
    length: float = 0.03
    """Cosine taken off a document per natural logarithm of its passages: the best of many is high by chance."""

    words_before: float = 0.4
    words_after: float = 0.1
    words_two_before: float = 0.3
    words_two_after: float = 0.1
    """Shares of what the lexical leg gave the turns around a turn of a conversation."""
    meaning_before: float = 0.3
    meaning_after: float = 0.2
    """Shares of what the dense leg gave the turns around it."""
    thread: float = 0.5
    """Share of the mean of its conversation's best two turns."""
    speaker: float = 0.15
    """For a turn of the one speaker whom the query names."""
    nearest: int = 5
    """Place that the document nearest in meaning has at the least, turns aside: where no word is shared with an answer,
    those of the question stand in other documents by chance."""
    date: float = 0.4
    """For what was made or said in the days that the query names, or at most `date_later` days after."""
    date_later: int = 7

    alike: bool = True
    """Whether words of `synonyms.txt` count beside those of the query."""
    typos: bool = True
    """Whether a query of which no word stands anywhere finds similar words."""
    rerank: bool = True
    """Whether a model that can is asked to order the best hits anew."""
    floor: bool = True
    """Whether hits under the floor of relevance are left out."""

    @property
    def neighbours(self) -> tuple[dict[int, float], dict[int, float]]:
        """The shares of words and of meaning by the place of the other turn, those of nothing left out."""
        words = {
            -2: self.words_two_before,
            -1: self.words_before,
            1: self.words_after,
            2: self.words_two_after,
        }
        meaning = {-1: self.meaning_before, 1: self.meaning_after}
        return {at: one for at, one in words.items() if one}, {at: one for at, one in meaning.items() if one}


RECIPE = Recipe()
"""What the product uses."""

ABLATIONS: dict[str, Recipe] = {
    "without lexical": replace(RECIPE, lexical=False),
    "without dense": replace(RECIPE, dense=False),
    "without sparse": replace(RECIPE, sparse=False),
    "without exact names": replace(RECIPE, exact=False),
    "ranks instead of scores": replace(RECIPE, by_rank=True),
    "without weighing by code": replace(RECIPE, code_weight=0.0),
    "without weighing by certainty": replace(RECIPE, sure_weight=0.0),
    "without a limit on what stands out": replace(RECIPE, outstanding=0.0),
    "without length": replace(RECIPE, length=0.0),
    "without neighbours' words": replace(
        RECIPE, words_before=0.0, words_after=0.0, words_two_before=0.0, words_two_after=0.0
    ),
    "without neighbours' meaning": replace(RECIPE, meaning_before=0.0, meaning_after=0.0),
    "without thread": replace(RECIPE, thread=0.0),
    "without speaker": replace(RECIPE, speaker=0.0),
    "without a place for the nearest": replace(RECIPE, nearest=0),
    "without dates": replace(RECIPE, date=0.0),
    "without synonyms": replace(RECIPE, alike=False),
    "without typos": replace(RECIPE, typos=False),
    "without rerank": replace(RECIPE, rerank=False),
    "without floor": replace(RECIPE, floor=False),
    "50 candidates": replace(RECIPE, candidates=50),
    "100 candidates": replace(RECIPE, candidates=100),
    "50 dense candidates": replace(RECIPE, dense_candidates=50),
    "200 dense candidates": replace(RECIPE, dense_candidates=200),
}
"""The recipe with one part changed, by the part's name."""
