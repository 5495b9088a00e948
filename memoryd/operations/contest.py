"""What would each leg alone, plain rank fusion, and the recipe without one of its parts have answered?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memoryd.operations import answers
from memoryd.operations.home import Home
from memoryd.operations.reordering import in_force
from memoryd.records import Filter, LegHit
from memoryd.search.fusion import DENSE, LEXICAL, SPARSE, by_rank
from memoryd.search.pipeline import Ranked, weighed
from memoryd.search.recipe import ABLATIONS, RECIPE, Recipe

HYBRID = "hybrid"
RRF = "rrf"
ALWAYS = (LEXICAL, DENSE)


@dataclass(slots=True)
class Contest:
    """Documents best first, by the name of the arm or of the ablation; `degraded` as an answer tells it."""

    arms: dict[str, list[str]]
    degraded: list[dict[str, str]]
    ablations: dict[str, list[str]] = field(default_factory=dict)


def contest(home: Home, query: str, wanted: Filter, depth: int, *, ablate: bool = False) -> Contest:
    """Every arm's first `depth` documents for one query, and (`ablate`) those of the recipe's ablations.

    A leg that found nothing for this query counts as an arm only where it always runs.
    """
    outcome, _ = answers.ranked(home, query, "hybrid", wanted, depth)
    found = {name: documents(hits)[:depth] for name, hits in outcome.legs.items()}
    arms = {name: found.get(name, []) for name in (*ALWAYS, *([SPARSE] if home.host.identity.sparse else []))}
    arms[RRF] = plainly_fused(found)[:depth]
    arms[HYBRID] = [hit.document_id for hit in outcome.hits]
    ablations = {}
    for name, recipe in ABLATIONS.items() if ablate else ():
        ablations[name] = _instead(home, query, wanted, depth, outcome, recipe)
    return Contest(arms, outcome.degraded, ablations)


def _instead(home: Home, query: str, wanted: Filter, depth: int, outcome: Ranked, recipe: Recipe) -> list[str]:
    """What a changed recipe would have answered; the legs run again only where it changes what they find."""
    again = (recipe.candidates, recipe.dense_candidates, recipe.alike) != (0, 0, RECIPE.alike)
    again = again or (recipe.typos != RECIPE.typos and outcome.corrected) or (in_force(home) and recipe != RECIPE)
    if again:
        hits = answers.ranked(home, query, "hybrid", wanted, depth, recipe=recipe)[0].hits
    else:
        legs = {name: hits for name, hits in outcome.legs.items() if getattr(recipe, name)}
        hits = weighed(
            query, answers.legs_of(home), legs, outcome.asked, outcome.depths, recipe, memories=outcome.memories
        )[0]
    return [hit.document_id for hit in hits[:depth]]


def documents(hits: Sequence[LegHit]) -> list[str]:
    """A leg's documents, each where it stands first."""
    return list(dict.fromkeys(hit.document_id for hit in hits))


def plainly_fused(lists: Mapping[str, Sequence[str]]) -> list[str]:
    """The documents of all legs by reciprocal ranks alone; equal ones by id."""
    ranks = {name: {document: rank for rank, document in enumerate(found, 1)} for name, found in lists.items()}
    scores = by_rank(ranks)
    return sorted(scores, key=lambda document: (-scores[document], document))
