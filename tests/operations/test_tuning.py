"""Behaviour of memoryd.operations.tuning, and of searches by what it reads."""

from __future__ import annotations

import json

import pytest

from memoryd.models.identity import EMBEDDED
from memoryd.operations import gateway, reading
from memoryd.operations.home import Caller
from memoryd.operations.nearness import NOTICE, Cuts, keep_cuts, read_cuts
from memoryd.operations.scan import scan_corpora
from memoryd.operations.tuning import Tuning, calibrations
from tests.operations.conftest import configure, opened, settle

HERE = Caller()


def titles(home, query, **given):
    return [one["title"] for one in reading.search(home, HERE, query=query, **given)["memories"]]


@pytest.fixture
def cache(root):
    configure(root, search={"model_wait_ms": 60_000})
    with opened(root) as home:
        for text in ("Cache connection issue: raise the pool size.", "The printer is on the second floor."):
            gateway.add(home, HERE, content=text, type="lesson", scope="global")
        settle(home)
        yield home


def test_words_that_mean_the_same_are_found(cache):
    """ "Redis error" finds "cache connection issue": by meaning, and by words as soon as the user says so."""
    assert titles(cache, "Redis error", mode="keyword") == []
    assert titles(cache, "Redis error", mode="semantic")[0].startswith("Cache connection issue")
    (cache.root / "synonyms.txt").write_text("redis cache\nerror, issue, failure\n")
    assert titles(cache, "Redis error", mode="keyword")[0].startswith("Cache connection issue")
    (cache.root / "synonyms.txt").unlink()
    assert titles(cache, "Redis error", mode="keyword") == []


def test_a_slip_of_the_keyboard_is_forgiven_only_where_no_word_is_found(cache):
    answer = reading.search(cache, HERE, query="conection", mode="keyword")
    assert answer["memories"][0]["title"].startswith("Cache connection issue")
    assert "spelled alike" in answer["summary"]
    assert titles(cache, "conection printer", mode="keyword") == ["The printer is on the second floor."]
    assert titles(cache, "zzzzzz", mode="keyword") == []


def test_a_question_of_another_subject_finds_nothing(cache):
    query = "Which enzyme degrades collagen in the arterial wall of adult mice?"
    answer = reading.search(cache, HERE, query=query, explain=True)
    assert answer["explain"]["under_floor"] == 2
    assert answer["memories"] == []
    assert answer["summary"].startswith("Nothing relevant is stored")
    told = reading.search(cache, HERE, query="Which floor is the printer on?")
    assert told["memories"][0]["title"] == "The printer is on the second floor."
    assert 0.5 < told["memories"][0]["relevance"] <= 1


def test_a_calibration_of_the_user_counts_at_once(cache):
    said = {"models": {}, "relevance": {EMBEDDED.fingerprint: {"floor": 9.9, "words": [3, 0, 0]}}}
    (cache.root / "thresholds.json").write_text(json.dumps(said))
    assert titles(cache, "Which of the floors has the big printer?") == []
    assert reading.search(cache, HERE, query="printer", mode="keyword")["memories"][0]["relevance"] > 0.9
    (cache.root / "thresholds.json").write_text("{")
    assert titles(cache, "Which of the floors has the big printer?")[0] == "The printer is on the second floor."
    read_cuts(cache)
    assert "does not count" in cache.notices["thresholds.json"], "what is said of the cuts stands beside"
    (cache.root / "thresholds.json").write_text('{"relevance": {"another": {"floor": true, "flor": 1}}}')
    assert titles(cache, "Which of the floors has the big printer?")[0] == "The printer is on the second floor."
    assert (read_cuts(cache), "thresholds.json" in cache.notices, NOTICE in cache.notices) == ({}, True, False)


@pytest.mark.parametrize(
    "said",
    [
        '{"relevance": {"MODEL": {"flor": 1.1}}}',
        '{"relevance": {"MODEL": {"floor": NaN}}}',
        '{"relevance": {"MODEL": {"words": [Infinity, 0, 0]}}}',
        '{"relevance": {"MODEL": {"floor": 1%s}}}' % ("0" * 400),
        "[" * 100_000,
    ],
    ids=["name", "nan", "infinite", "huge", "deep"],
)
def test_a_calibration_that_says_nothing_counts_as_absent(tmp_path, said):
    """Searches go on with the shipped one, and a notice tells."""
    (tmp_path / "thresholds.json").write_text(said.replace("MODEL", EMBEDDED.fingerprint))
    notices: dict[str, str] = {}
    shipped = Tuning().calibration(tmp_path / "none", notices, EMBEDDED.fingerprint)
    assert Tuning().calibration(tmp_path, notices, EMBEDDED.fingerprint) == shipped
    assert "does not count" in notices["thresholds.json"]


def test_weights_of_before_there_were_more_mean_what_they_meant(tmp_path):
    """A section that gives a constant was fitted without what it does not name."""
    said = {"constant": -9.0, "nearest": 14.0}
    (tmp_path / "thresholds.json").write_text(json.dumps({"relevance": {EMBEDDED.fingerprint: said}}))
    found = Tuning().calibration(tmp_path, {}, EMBEDDED.fingerprint)
    assert (found.constant, found.nearest, found.apart_words, found.apart_cosines) == (-9.0, 14.0, 0.0, 0.0)
    (tmp_path / "thresholds.json").write_text(json.dumps({"relevance": {EMBEDDED.fingerprint: {"floor": 0.2}}}))
    assert Tuning().calibration(tmp_path, {}, EMBEDDED.fingerprint).apart_words > 0


def test_weights_of_any_size_give_a_relevance(cache):
    weights = {"constant": -1e308, "cosine": -1e308}
    (cache.root / "thresholds.json").write_text(json.dumps({"relevance": {EMBEDDED.fingerprint: weights}}))
    assert titles(cache, "Which of the floors has the big printer?") == []


def test_a_query_of_misspelt_words_alone_is_told_where_they_may_be_found(cache):
    query = "conection isue polll"
    answer = reading.search(cache, HERE, query=query)
    assert answer["memories"] == []
    assert "`mode: keyword` shows what is spelled alike" in answer["summary"]
    assert titles(cache, query, mode="keyword")[0].startswith("Cache connection issue")


def test_words_that_nothing_is_spelled_like_are_sent_to_other_words(cache):
    query = "zqxvw wvvkq qqqjx pplkz"
    answer = reading.search(cache, HERE, query=query)
    assert answer["memories"] == [] and "candidates is likely" in answer["summary"]
    assert "spelled alike" not in answer["summary"] and "Try other words" in answer["summary"]
    assert titles(cache, query, mode="keyword") == []


def test_measuring_likeness_keeps_the_calibration_of_relevance(cache):
    path = cache.root / "thresholds.json"
    path.write_text(json.dumps({"relevance": {EMBEDDED.fingerprint: {"floor": 0.3}}}))
    keep_cuts(cache, {"words": Cuts(0.1, 0.2)})
    assert calibrations(path.read_text())[EMBEDDED.fingerprint].floor == 0.3
    assert read_cuts(cache)["words"] == Cuts(0.1, 0.2)


def test_only_the_model_it_was_made_with_has_a_calibration(tmp_path):
    notices: dict[str, str] = {}
    assert Tuning().calibration(tmp_path, notices, EMBEDDED.fingerprint).floor > 0
    assert Tuning().calibration(tmp_path, notices, "another").floor == 0
    assert calibrations('{"relevance": {"another": {"floor": 0.2}}}')["another"].floor == 0.2
    assert notices == {}


def test_a_file_or_symbol_that_is_named_comes_first(root, tmp_path):
    """Case 42: only what looks like a name is one; words of a phrase stay words."""
    docs = tmp_path / "docs" / "app"
    docs.mkdir(parents=True)
    (docs / "retry.py").write_text("def back_off(seconds):\n    return seconds * 2\n")
    text = "Call back_off of app/retry.py, or retry.py by hand: retry.py is app/retry.py.\n"
    (docs / "about.md").write_text(f"# About\n\n{text * 3}")
    (docs / "plan.md").write_text("# Plan\n\nThe delivery backlog tasks of the back office are off the list.\n")
    configure(root, corpora=[{"label": "d", "path": str(docs.parent), "include": ["**/*"], "code": True}])
    with opened(root) as home:
        scan_corpora(home)
        settle(home)
        for query in ("retry.py", "app/retry.py", "d/app/retry.py", "what does back_off do", "back_off()"):
            first = reading.search(home, HERE, query=query, mode="keyword", explain=True)["memories"][0]
            assert first["source"] == "d/app/retry.py", query
            assert first["explain"]["ranks"]["exact"] == 1
        for query in ("delivery backlog tasks", "back office"):
            found = reading.search(home, HERE, query=query, mode="keyword", explain=True)
            assert found["memories"][0]["source"] == "d/app/plan.md"
            assert "exact" not in found["explain"]["candidates"]


def test_turns_of_a_talk_find_their_answer_beside_them(root, tmp_path):
    """A corpus of turns, one file each: the answer to a question often shares no word with it."""
    talk = tmp_path / "talk"
    talk.mkdir()
    lines = [
        "Ana: Hello Bo!",
        "Bo: Hi.",
        "Ana: Which database do we take for the billing service?",
        "Bo: Postgres, as ever.",
    ]
    for number, line in enumerate(lines):
        (talk / f"turn-{number}.txt").write_text(line + "\n")
    for number in range(3):
        (talk / f"note-{'abc'[number]}.txt").write_text(f"Billing ends at {number}.\n")
    configure(root, corpora=[{"label": "d", "path": str(talk), "include": ["**/*"]}])
    with opened(root) as home:
        scan_corpora(home)
        settle(home)
        found = reading.search(home, HERE, query="database for the billing service", explain=True)["memories"]
        sources = [one["source"] for one in found]
        assert sources[0] == "d/turn-2.txt"
        assert found[sources.index("d/turn-3.txt")]["explain"]["lifts"]["neighbours"] > 0


def test_case_33_a_fact_far_inside_a_note_is_found_by_its_meaning(root, tmp_path):
    """Case 33."""
    note = tmp_path / "docs" / "long.md"
    note.parent.mkdir()
    filler = "The committee met again and adjourned without any result worth noting here.\n\n"
    note.write_text("# Minutes\n\n" + filler * 400 + "Our backups are kept for ninety days in Frankfurt.\n")
    configure(root, corpora=[{"label": "d", "path": str(note.parent)}], search={"model_wait_ms": 60_000})
    with opened(root) as home:
        scan_corpora(home)
        settle(home)
        first = reading.search(home, HERE, query="how long do we retain snapshots of the data", mode="semantic")
        assert "ninety days" in first["memories"][0]["content"]
        assert first["memories"][0]["bytes"][1] > 30_000
