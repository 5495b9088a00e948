"""Relevance: a number from 0 to 1, and what is left out under the floor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memoryd.index.lexical import Asked
from memoryd.records import LegHit
from memoryd.search.fusion import Fused
from memoryd.search.relevance import EMBEDDED, UNCALIBRATED, judged

WORDS = Asked([], weight=10.0, unknown=0.0)
QUERY = "four telling words of some query"


def hit(name: str, **scores: float) -> Fused:
    return Fused(name, "p", 1.0, 0.0, dict.fromkeys(scores, 1), scores)


def relevance(one: Fused, asked: Asked | None = WORDS, calibration=EMBEDDED, query: str = QUERY) -> tuple[float, bool]:
    near = [one.scores["dense"]] if "dense" in one.scores else []
    judged_hit, under = next(judged([one], query, many(*near), asked, calibration))
    return judged_hit.relevance, under


def many(*cosines: float) -> list[LegHit]:
    """What the dense leg found: these and a crowd far behind, none where there are none."""
    crowd = [0.05] * 100 if cosines else []
    return [LegHit(f"d{at}", "p", cosine) for at, cosine in enumerate([*cosines, *crowd])]


def test_more_meaning_and_more_words_are_more_relevant():
    low, half, high = (relevance(hit("a", dense=cosine, lexical=5.0))[0] for cosine in (0.1, 0.4, 0.7))
    assert 0 <= low < half < high <= 1
    assert relevance(hit("a", dense=0.4, lexical=9.0))[0] > half > relevance(hit("a", dense=0.4))[0]
    assert relevance(hit("a", dense=0.4, lexical=5.0), replace(WORDS, unknown=0.9))[0] < half


def test_what_stands_far_behind_the_best_hit_is_no_answer_because_that_one_is():
    best, behind = hit("a", dense=0.7, lexical=8.0), hit("b", dense=0.2, lexical=1.0)
    asked = replace(WORDS, hits=[LegHit("a", "p", 8.0)])
    found = [one.relevance for one, _ in judged([best, behind], QUERY, many(0.7, 0.2), asked, EMBEDDED)]
    assert found[0] > 0.8 and found[1] < 0.15
    alone = [one.relevance for one, _ in judged([best, behind], QUERY, many(0.7, 0.2), None, EMBEDDED)]
    assert alone[0] > 0.8 and alone[1] < 0.1
    words = [
        one.relevance for one, _ in judged([hit("a", lexical=8.0), hit("b", lexical=1.0)], QUERY, [], asked, EMBEDDED)
    ]
    assert words[1] < words[0] / 2


def test_a_document_that_stands_apart_by_its_words_is_more_likely_an_answer():
    one = hit("a", dense=0.4, lexical=5.0)

    def asked(tenth: float) -> Asked:
        scores = [5.0] + [tenth] * 20
        return replace(WORDS, hits=[LegHit(f"w{at}", "p", score) for at, score in enumerate(scores)])

    values = [relevance(one, asked(tenth))[0] for tenth in (0.5, 2.5, 4.9)]
    assert values[0] > values[1] > values[2]
    passages = [LegHit("a", f"p{at}", 5.0) for at in range(12)] + asked(0.5).hits[1:]
    assert relevance(one, replace(WORDS, hits=passages))[0] == values[0], "its own passages are no rivals"
    assert relevance(one, replace(WORDS, hits=asked(0.5).hits[:9]))[0] > values[0], "fewer than ten: nothing else"


def test_a_relevance_is_never_above_one_whatever_a_user_weighs():
    odd = replace(EMBEDDED, beside=(-50.0, -100.0, -100.0), constant=50.0)
    best, behind = hit("a", dense=0.7, lexical=8.0), hit("b", dense=0.2, lexical=1.0)
    asked = replace(WORDS, hits=[LegHit("a", "p", 8.0)])
    assert all(0 <= one.relevance <= 1 for one, _ in judged([best, behind], QUERY, many(0.7, 0.2), asked, odd))


def test_a_document_that_stands_apart_by_its_cosine_is_more_likely_an_answer():
    one = hit("a", dense=0.4, lexical=5.0)
    values = []
    for twentieth in (0.05, 0.2, 0.38):
        near = [LegHit("a", "p", 0.4), *(LegHit(f"d{at}", "p", twentieth) for at in range(30))]
        values.append(next(judged([one], QUERY, near, WORDS, EMBEDDED))[0].relevance)
    assert values[0] > values[1] > values[2]


def test_the_floor_is_lower_where_little_is_stored():
    one = hit("a", dense=0.36, lexical=3.0)

    def left_out(count: int, *, every: bool = True, cosine: float = 0.36) -> bool:
        near = [LegHit(f"d{at}", "p", cosine - at / 1000) for at in range(count)]
        return next(judged([one], QUERY, near, WORDS, EMBEDDED, all_found=every))[1]

    assert left_out(100) and left_out(90)
    assert not left_out(20)
    assert left_out(20, every=False), "more may be there, only twenty were asked for"
    assert left_out(5, cosine=0.3) and left_out(20, cosine=0.3), "not lower than a fifth"


def test_what_shares_a_word_by_chance_is_under_the_floor():
    assert relevance(hit("a", dense=0.12, lexical=3.0))[1]
    assert not relevance(hit("a", dense=0.55, lexical=6.0))[1]


def test_each_way_of_searching_has_its_own_weights():
    assert relevance(hit("a", dense=0.1), None)[1]
    assert not relevance(hit("a", dense=0.6), None)[1]
    unlikely, under = relevance(hit("a", lexical=0.1), replace(WORDS, unknown=0.9))
    assert unlikely < 0.2
    assert not under  # words alone tell too little to leave anything out


def test_a_name_or_a_few_words_are_shown_whatever_the_model_says():
    assert relevance(hit("a", dense=0.05, lexical=6.0))[1]
    assert not relevance(hit("a", dense=0.05, lexical=6.0), query="telling words")[1]
    assert relevance(hit("a", dense=0.05, lexical=1.0), query="how is the capital")[1], "a question, though a short one"
    named, under = relevance(hit("a", dense=0.05, exact=1.0))
    assert named >= 0.5 and not under


def test_a_model_of_one_script_has_no_say_in_another():
    assert not relevance(hit("a", dense=0.05, lexical=3.0), query="第四章の内容について")[1]
    assert relevance(
        hit("a", dense=0.05, lexical=3.0), query="第四章の内容について", calibration=replace(EMBEDDED, ascii_only=False)
    )[1]


@pytest.mark.parametrize("asked", [WORDS, None, Asked([], corrected=True)])
def test_a_model_of_which_nothing_is_known_leaves_nothing_out(asked):
    assert not relevance(hit("a", dense=0.01, lexical=0.1), asked, UNCALIBRATED)[1]


def test_words_that_weigh_nothing_break_nothing():
    assert 0 <= relevance(hit("a", dense=0.3, lexical=1.0), Asked([]))[0] <= 1
    assert list(judged([], QUERY, [], WORDS, EMBEDDED)) == []
