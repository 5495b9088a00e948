"""Fusion: what the legs agree on comes first, one leg alone keeps its order, each lift lifts."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.extract.dates import first_day, meant
from memoryd.extract.turns import name_number
from memoryd.records import LegHit, Traits
from memoryd.search.fusion import K, Question, Scale, dense_weight, each_fused
from memoryd.search.recipe import ABLATIONS, RECIPE


def fuse(legs, limit=None, **more):
    """The best `limit` documents."""
    return list(islice(each_fused(legs, **more), limit))


EVEN = replace(RECIPE, exact_weight=1.0, sparse_weight=1.0)


def hits(*names: str) -> list[LegHit]:
    """`doc` or `doc/passage`, best first."""
    return [LegHit(*name.partition("/")[::2], score=float(len(names) - n)) for n, name in enumerate(names)]


def order(fused) -> list[str]:
    return [one.document_id for one in fused]


def test_a_document_found_by_both_legs_comes_first():
    fused = fuse({"lexical": scored("l", a=5.0, b=4.9, c=4.0), "dense": scored("d", d=0.5, b=0.49, e=0.3)})
    assert order(fused)[0] == "b"
    assert fused[0].ranks == {"lexical": 2, "dense": 2}
    assert fused[0].scores == {"lexical": 4.9, "dense": 0.49}


def test_by_rank_is_the_plain_reciprocal_rank_fusion():
    legs = {"lexical": hits("a/1", "b/1", "c/1"), "dense": hits("d/1", "b/2", "e/1")}
    fused = fuse(legs, recipe=replace(RECIPE, by_rank=True))
    assert order(fused) == ["b", "a", "d", "c", "e"]
    assert fused[0].score == pytest.approx(2 / (K + 2))


def test_nothing_found_is_an_empty_list():
    assert fuse({}) == []
    assert fuse({"lexical": [], "dense": []}) == []


@pytest.mark.parametrize("legs", [{}, {"dense": []}])
def test_case_37_one_leg_keeps_its_order(legs):
    """Case 37."""
    found = hits("z/1", "a/2", "m/1", "b/7", "a/1")
    fused = fuse({"lexical": found, **legs})
    assert order(fused) == ["z", "a", "m", "b"]
    assert all(set(one.ranks) == {"lexical"} for one in fused)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=80))
def test_case_37_any_single_leg_keeps_its_order(pairs):
    found = hits(*(f"d{document}/p{passage}" for document, passage in pairs))
    assert order(fuse({"dense": found})) == list(dict.fromkeys(hit.document_id for hit in found))


LEG = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), max_size=25).map(
    lambda pairs: hits(*(f"d{document}/{passage or ''}" for document, passage in pairs))
)


@given(LEG, LEG)
def test_every_document_appears_once_best_first(lexical, dense):
    fused = fuse({"lexical": lexical, "dense": dense})
    assert sorted(order(fused)) == sorted({hit.document_id for hit in [*lexical, *dense]})
    assert [one.score for one in fused] == sorted((one.score for one in fused), reverse=True)


@given(LEG, LEG)
def test_the_order_in_which_legs_are_named_does_not_matter(lexical, dense):
    assert fuse({"lexical": lexical, "dense": dense}) == fuse({"dense": dense, "lexical": lexical})


def test_several_hits_of_one_document_take_one_rank():
    fused = fuse({"dense": hits("a/1", "a/2", "a/3", "b/1")})
    assert fused[1].ranks == {"dense": 2}
    assert fused[0].scores == {"dense": 4.0}


def test_equal_scores_are_ordered_by_id():
    same = [LegHit(name, "1", 1.0) for name in ("b", "d", "a")]
    assert order(fuse({"exact": same})) == ["a", "b", "d"]
    assert order(fuse({"exact": same[:1], "sparse": [LegHit("a", "1", 1.0)]}, recipe=EVEN)) == ["a", "b"]


def scored(leg: str, **scores: float) -> list[LegHit]:
    return [LegHit(name, f"{leg}-{name}", score) for name, score in scores.items()]


def marked(found: list[LegHit], **traits) -> list[LegHit]:
    return [hit._replace(traits=Traits(**traits)) for hit in found]


LEXICAL_LEG = scored("l", a=10.0, b=9.0, c=8.0)
DENSE_LEG = scored("d", c=0.52, b=0.42, a=0.40)


def test_meaning_counts_more_where_code_is_searched():
    """Prose that asks for code shares few words with it."""
    assert order(fuse({"lexical": LEXICAL_LEG, "dense": DENSE_LEG}))[0] != "c"
    legs = {"lexical": marked(LEXICAL_LEG, code=90), "dense": marked(DENSE_LEG, code=90)}
    assert order(fuse(legs))[0] == "c"
    assert order(fuse(legs, recipe=ABLATIONS["without weighing by code"]))[0] != "c"


def test_meaning_counts_more_where_the_best_cosine_is_high():
    low, high = (
        dense_weight({"dense": scored("d", a=0.3)}, Scale()),
        dense_weight({"dense": scored("d", a=0.7)}, Scale()),
    )
    assert high > low == RECIPE.dense_weight
    flat = ABLATIONS["without weighing by certainty"]
    assert dense_weight({"dense": scored("d", a=0.7)}, Scale(), flat) == RECIPE.dense_weight


def test_a_document_that_holds_the_whole_query_does_not_make_all_others_alike():
    lexical = scored("l", whole=90.0, near=12.0, far=6.0)
    dense = scored("d", whole=0.55, far=0.52, near=0.44, last=0.4)
    assert order(fuse({"lexical": lexical, "dense": dense}))[:2] == ["whole", "near"]
    unlimited = ABLATIONS["without a limit on what stands out"]
    assert order(fuse({"lexical": lexical, "dense": dense}, recipe=unlimited))[:2] == ["whole", "far"]


def test_the_best_of_many_passages_is_high_by_chance():
    """The same cosine says more of a short document than of the best of fifty passages."""
    long, short = LegHit("long", "1", 0.50, Traits(parts=50)), LegHit("short", "1", 0.45, Traits(parts=1))
    last = LegHit("last", "1", 0.2, Traits(parts=1))
    assert order(fuse({"dense": [long, short, last]})) == ["short", "long", "last"]
    assert order(fuse({"dense": [long, short, last]}, recipe=ABLATIONS["without length"])) == ["long", "short", "last"]


def turn(number: int, score: float, *, thread: int = 7, speaker: int = 0, day: int = 0) -> LegHit:
    traits = Traits(parts=1, day=day, thread=thread, number=number, speaker=speaker)
    return LegHit(f"{thread}-{number}", "p", score, traits)


def test_the_document_nearest_in_meaning_has_a_place_among_the_first_five():
    """A question in other words than its answer's shares its own words with other documents by chance."""
    words = scored("l", **{name: 9.0 - n / 10 for n, name in enumerate("abcdefghij")})
    meaning = scored("d", answer=0.31, j=0.3, i=0.29)
    fused = fuse({"lexical": words, "dense": meaning})
    assert order(fused).index("answer") == 4
    raised = fused[4]
    assert raised.lifts["nearest"] > 0 and fused[3].score >= raised.score >= fused[5].score
    without = order(fuse({"lexical": words, "dense": meaning}, recipe=replace(RECIPE, nearest=0)))
    assert without.index("answer") > 5
    assert [one for one in order(fused) if one != "answer"] == [one for one in without if one != "answer"]
    few = fuse({"lexical": words[:3], "dense": meaning})
    assert "nearest" not in {name for one in few for name in one.lifts}, "fewer than five stand before it anyway"


def test_a_turn_gains_from_the_turns_around_it_and_from_its_conversation():
    """The answer to a question that holds the words often holds none of them itself."""
    lexical = [turn(4, 9.0), turn(30, 3.0, thread=8)]
    dense = [turn(30, 0.31, thread=8), turn(5, 0.30), turn(4, 0.29), turn(60, 0.1, thread=9)]
    fused = fuse({"lexical": lexical, "dense": dense})
    assert order(fused)[:2] == ["7-4", "7-5"]
    assert fused[1].lifts["neighbours"] > 0 and fused[1].lifts["thread"] > 0
    alone = replace(ABLATIONS["without neighbours' words"], thread=0.0, meaning_before=0.0, meaning_after=0.0)
    assert order(fuse({"lexical": lexical, "dense": dense}, recipe=alone))[:2] == ["7-4", "8-30"]


def test_the_one_speaker_whom_the_query_names_is_preferred():
    ana, bo = name_number("Ana"), name_number("Bo Berg")
    found = {"lexical": [turn(1, 5.0, speaker=bo), turn(9, 4.9, thread=8, speaker=ana)]}
    assert order(fuse(found, question=Question("What did Ana say?")))[0] == "8-9"
    assert order(fuse(found, question=Question("What did Ana tell Bo?")))[0] == "7-1"
    assert order(fuse(found, question=Question("What did Ana say?"), recipe=ABLATIONS["without speaker"]))[0] == "7-1"


def test_days_that_the_query_names_are_a_soft_filter():
    may = meant("What was decided in May 2023?", 0)
    found = {"lexical": [turn(1, 5.0, day=19000), turn(1, 4.5, thread=8, day=first_day("8 May, 2023"))]}
    assert order(fuse(found, question=Question("?", may))) == ["8-1", "7-1"]
    assert order(fuse(found, question=Question("?", may), recipe=ABLATIONS["without dates"])) == ["7-1", "8-1"]


def test_a_name_that_the_query_spells_out_comes_first():
    found = {"lexical": scored("l", a=9.0, b=8.0), "exact": scored("e", b=1.0)}
    assert order(fuse(found)) == ["b", "a"]


def test_the_models_own_word_weights_count_where_it_has_them():
    found = {"lexical": scored("l", a=9.0, b=8.9), "sparse": scored("s", b=0.4, c=0.1)}
    assert order(fuse(found)) == ["b", "a", "c"]
    assert order(fuse(found, recipe=replace(RECIPE, sparse_weight=0.0)))[0] == "a"


def test_each_ablation_changes_the_recipe():
    assert all(recipe != RECIPE for recipe in ABLATIONS.values())
    assert len(set(ABLATIONS.values())) == len(ABLATIONS)


def test_the_passage_of_the_leg_that_ranks_the_document_higher_is_shown():
    fused = {one.document_id: one for one in fuse({"lexical": hits("x/1", "a/low"), "dense": hits("a/high", "x/2")})}
    assert fused["a"].passage_id == "high"
    assert fused["x"].passage_id == "1"


def test_a_passage_is_shown_rather_than_a_whole_document():
    assert fuse({"lexical": hits("a/", "b/1", "a/2")})[0].passage_id == "2"
    fused = fuse({"lexical": hits("a/"), "dense": hits("b/1", "a/3")})
    assert {one.document_id: one.passage_id for one in fused} == {"a": "3", "b": "1"}
    assert fuse({"lexical": hits("a/")})[0].passage_id == ""


def drawn(chance: random.Random, *, words: float, meaning: tuple[float, float], code: int) -> dict[str, list[LegHit]]:
    """Legs of one query among 60 documents, of which `d0` is relevant: by so much better in words, with such cosines."""
    lexical = [LegHit(f"d{n}", "p", chance.gauss(6 + words * (n == 0), 2), Traits(code, 1)) for n in range(60)]
    dense = [LegHit(f"d{n}", "p", chance.gauss(meaning[n > 0], 0.05), Traits(code, 1)) for n in range(60)]
    best_first = {"lexical": lexical, "dense": dense}
    return {leg: sorted(hits, key=lambda hit: -hit.score)[:40] for leg, hits in best_first.items()}


@pytest.mark.parametrize(
    "kind",
    [
        {"words": 7.0, "meaning": (0.33, 0.26), "code": 0},
        {"words": 1.0, "meaning": (0.66, 0.48), "code": 80},
        {"words": 5.0, "meaning": (0.60, 0.46), "code": 3},
    ],
    ids=["words tell", "code by prose", "both tell"],
)
def test_case_36_hybrid_is_not_below_its_best_leg(kind):
    """Case 36. Plain rank fusion is, wherever legs are unequal; docs/eval/report.md has the labelled sets."""
    chance = random.Random(36)
    queries = [drawn(chance, **kind) for _ in range(300)]

    def rank_of(fused) -> float:
        return next((1 / at for at, one in enumerate(fused, 1) if one.document_id == "d0"), 0.0)

    def mean(legs: tuple[str, ...], recipe=RECIPE) -> float:
        return sum(rank_of(fuse({leg: found[leg] for leg in legs}, recipe=recipe)) for found in queries) / len(queries)

    best = max(mean(("lexical",)), mean(("dense",)))
    assert mean(("lexical", "dense")) >= best - 0.005
    if kind["code"] != 3:
        assert mean(("lexical", "dense"), replace(RECIPE, by_rank=True)) < best - 0.005
