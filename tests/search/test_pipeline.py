"""Behaviour of memoryd.search.pipeline over a real lexical index: depth, order, what is told of a leg that cannot run."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from memoryd.errors import IndexProblem, ModelUnavailable
from memoryd.index.lexical import LexicalIndex
from memoryd.index.vector import VectorIndex
from memoryd.records import Encoded, Filter, Traits
from memoryd.search.pipeline import Depth, Legs, rank
from memoryd.search.relevance import Calibration
from tests.index.entries import DIMS, entry, unit, words

WORDS = "emu wombat quokka dingo koala bilby possum numbat".split()
HERE = Filter(scopes=("global",))


def never(_query: str):
    raise ModelUnavailable("There is no model here.")


def filled(path, traits) -> LexicalIndex:
    """Sixty documents of up to nine passages each and the whole, of few words that all share."""
    chance = random.Random(7)
    index = LexicalIndex.create(path)
    for number in range(60):
        one = words(f"n{number:02}.md", " ".join(chance.choices(WORDS, k=12)))
        parts = [
            replace(one, passage_id=f"00000000-0000-8000-8000-{number:06}{part:06}", text=chance.choice(WORDS) + " x")
            for part in range(1, chance.randrange(2, 10))
        ]
        index.replace([one.document_id], [replace(each, traits=traits(number)) for each in (one, *parts)])
    index.commit()
    return index


@pytest.mark.parametrize("share", [1, 30, 60])
def test_the_dense_leg_goes_deeper_where_words_find_turns(tmp_path, share):
    """Whether one of the first hits by words is a turn decides, not whether there are any."""
    lexical = filled(tmp_path / "lexical", lambda n: Traits(thread=5, number=n) if n % share == share - 1 else Traits())
    vectors = VectorIndex.create(tmp_path / "vectors", DIMS)
    vectors.replace([], [entry(f"n{number:02}.md", part) for number in range(60) for part in range(4)])
    legs = Legs(lexical, vectors, lambda _: lambda: Encoded(unit(1)))

    def asked(mode: str, query: str) -> int:
        found = rank(query, legs, mode=mode, filter=HERE, depth=Depth(100, 30), limit=8)
        turns = any(hit.traits.thread for hit in found.legs.get("lexical", ())[:10])
        assert found.depths["dense"] == (30 if mode == "hybrid" and not turns else 100)
        return len(found.legs["dense"])

    assert asked("semantic", "emu") == 100
    assert asked("hybrid", "nothing of this") == 30
    seen = {asked("hybrid", query) for query in WORDS}
    assert seen == {1: {100}, 30: {30, 100}, 60: {30}}[share]
    lexical.close()
    vectors.close()


def test_the_floor_sinks_where_little_is_stored_and_not_where_little_is_asked_for(tmp_path):
    lexical = filled(tmp_path / "lexical", lambda _: Traits())
    likely = Calibration(constant=0, cosine=0, share=0, unknown=0, nearest=0, apart_words=0, apart_cosines=0, floor=0.9)
    for stored, depth, left_out in ((200, 20, True), (200, 150, True), (30, 100, False), (30, 20, True)):
        vectors = VectorIndex.create(tmp_path / f"{stored}-{depth}", DIMS)
        vectors.replace([], [entry(f"n{number:02}.md", part) for number in range(stored // 5) for part in range(5)])
        legs = Legs(lexical, vectors, lambda _: lambda: Encoded(unit(1)), calibration=likely)
        found = rank("emu wombat quokka", legs, mode="hybrid", filter=HERE, depth=Depth(200, depth), limit=8)
        assert (found.hits == []) is left_out, (stored, depth)
        vectors.close()
    lexical.close()


@pytest.mark.parametrize(("memories", "shown"), [(5, True), (60, True), (120, False)])
def test_a_memory_beside_many_pages_has_a_floor_of_its_own(tmp_path, memories, shown):
    """What is near among a few was remembered; among many pages something is always near."""
    lexical, vectors = filled(tmp_path / "lexical", lambda _: Traits()), VectorIndex.create(tmp_path / "vectors", DIMS)
    vectors.replace([], [entry(f"n{number:02}.md", part) for number in range(50) for part in range(5)])
    kept = [entry(f"memory{number}.md", kind="memory") for number in range(memories)]
    vectors.replace([], kept)
    likely = Calibration(constant=0, cosine=0, share=0, unknown=0, nearest=0, apart_words=0, apart_cosines=0, floor=0.8)
    legs = Legs(lexical, vectors, lambda _: lambda: Encoded(kept[0].vector), calibration=likely)

    def found(**filters) -> set[str]:
        wanted = Filter(scopes=("global",), **filters)
        hits = rank("emu wombat quokka", legs, mode="hybrid", filter=wanted, depth=Depth(200, 100), limit=8).hits
        return {hit.document_id for hit in hits}

    assert (found() <= {one.document_id for one in kept}) and bool(found()) is shown
    assert found(kinds=("document",)) == set()
    lexical.close()
    vectors.close()


def test_the_model_works_while_words_are_looked_up(tmp_path, monkeypatch):
    lexical, vectors = filled(tmp_path / "lexical", lambda _: Traits()), VectorIndex.create(tmp_path / "vectors", DIMS)
    done: list[str] = []
    looked_up = lexical.ask
    monkeypatch.setattr(lexical, "ask", lambda *given, **more: (done.append("words"), looked_up(*given, **more))[1])

    def begin(_query: str):
        done.append("begun")
        return lambda: (done.append("waited for"), Encoded(unit(1)))[1]

    rank("emu", Legs(lexical, vectors, begin), mode="hybrid", filter=HERE, depth=Depth(100, 30), limit=8)
    assert done == ["begun", "words", "waited for"]
    done.clear()
    rank("emu", Legs(lexical, vectors, begin), mode="keyword", filter=HERE, depth=Depth(100, 30), limit=8)
    assert done == ["words"], "nobody asks the model for words alone"
    lexical.close()
    vectors.close()


@pytest.mark.parametrize("mode", ["keyword", "hybrid", "semantic"])
def test_a_leg_that_cannot_run_is_told_once(mode):
    found = rank("emu", Legs(None, None, never), mode=mode, filter=HERE, depth=Depth(100, 50), limit=8)
    legs = {"keyword": ["lexical"], "hybrid": ["lexical", "dense"], "semantic": ["dense"]}[mode]
    assert [one["leg"] for one in found.degraded] == legs
    assert {one["code"] for one in found.degraded} == {IndexProblem.code}
