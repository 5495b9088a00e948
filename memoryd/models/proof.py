"""Does a model tell sentences that mean the same from sentences that have nothing to do with each other?

Files can be whole and still hold numbers of another training, or none. So a few pairs without a word in common are
embedded: each sentence has to find its own paraphrase among all of them.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

PAIRS: tuple[tuple[str, str], ...] = (
    ("How do I bring lost files back?", "Restoring deleted data from a backup"),
    ("The server does not respond", "Our machine is down and cannot be reached"),
    ("Make this query faster", "Speeding up a slow database lookup"),
    ("Who may log in here?", "Which users have permission to access the system"),
    ("Ship the new version", "Deploying a release to production"),
    ("The test sometimes breaks", "A flaky check that fails at random"),
    ("We ran out of memory", "The process was killed because RAM was exhausted"),
    ("Give the cake twenty minutes in the oven", "Bake it at 180 degrees for a third of an hour"),
    ("The cat sleeps on the sofa", "A kitten is napping on a couch"),
    ("Trains were late because of snow", "Winter weather delayed rail traffic"),
    ("She teaches children to read", "A primary school instructor helping pupils with literacy"),
    ("Prices rose again last month", "Inflation went up in the past weeks"),
)
"""Few words, and hardly one of them in both halves: weights that only know letters find nothing here."""
LEAST_FOUND = 0.5
"""Of the sentences, so many have to find their paraphrase first (by chance: 1 of 12)."""
LEAST_GAP = 0.1
"""So much nearer, on average, a paraphrase has to be than everything else."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Mean cosine of paraphrases and of unrelated sentences, and the share that found its own."""

    paraphrase: float
    unrelated: float
    found: float

    @property
    def holds(self) -> bool:
        """Whether the model separates them."""
        return self.found >= LEAST_FOUND and self.paraphrase - self.unrelated >= LEAST_GAP


def prove(embed: Callable[[Sequence[str]], Sequence[bytes]]) -> Proof:
    """Embed the pairs and compare all with all."""
    vectors = [array("f", one) for one in embed([text for pair in PAIRS for text in pair])]
    asked, answers = vectors[::2], vectors[1::2]
    table = [[_cosine(one, other) for other in answers] for one in asked]
    own = [row[place] for place, row in enumerate(table)]
    others = [value for place, row in enumerate(table) for at, value in enumerate(row) if at != place]
    first = sum(1 for mine, row in zip(own, table, strict=True) if mine == max(row))
    return Proof(math.fsum(own) / len(own), math.fsum(others) / len(others), first / len(own))


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))
