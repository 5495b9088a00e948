"""Are the demo's questions real paraphrases, and does the measure that says so measure?"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.journeys import paraphrase

HERE = Path(__file__).parent
MEMORIES = json.loads((HERE / "demo_memories.json").read_text("utf-8"))
QUESTIONS = json.loads((HERE / "demo_questions.json").read_text("utf-8"))
TYPES = {"fact", "decision", "lesson", "preference", "note"}

each_question = pytest.mark.parametrize("asked", QUESTIONS, ids=[item["question"][:40] for item in QUESTIONS])


def test_content_words_leave_out_stop_words_case_and_punctuation():
    assert paraphrase.content_words("Why is the read-only Replica's lag 40 s?") == ["read", "replica", "lag", "40"]


@pytest.mark.parametrize(
    "family",
    [
        ["retry", "retries", "retried"],
        ["lock", "locks", "locked", "locking"],
        ["migrate", "migrated", "migration", "migrations"],
        ["stop", "stopped", "stopping"],
        ["refund", "refunds", "refunded", "refundable"],
        ["deploy", "deploys", "deployed", "deployment"],
        ["index", "indexes", "indexing"],
    ],
    ids=lambda family: family[0],
)
def test_inflections_of_a_word_have_one_stem(family: list[str]):
    assert len({paraphrase.stem(word) for word in family}) == 1


def test_different_words_keep_different_stems():
    different = ["refund", "replica", "rollback", "passenger", "payment", "port", "print", "tide", "2", "24", "2024"]
    assert len({paraphrase.stem(word) for word in different}) == len(different)


@given(st.text(alphabet="abcdefgilnrsty", min_size=1, max_size=12))
def test_a_stem_is_a_final_form(word: str):
    """Stemming twice changes nothing, and a stem is never empty."""
    once = paraphrase.stem(word)
    assert once
    assert paraphrase.stem(once) == once


def test_neighbours_are_found_across_stop_words_and_inflections():
    assert paraphrase.shared_neighbours("Is locking of the table bad?", "It LOCKED all tables at noon") == {
        (paraphrase.stem("lock"), paraphrase.stem("table"))
    }
    assert not paraphrase.shared_neighbours("table locks", "locked tables")


def test_the_share_counts_distinct_words_of_the_question():
    assert paraphrase.shared_share("refund the refund twice", "Refunds are slow") == pytest.approx(1 / 2)
    assert paraphrase.shared_share("what is it", "what is it") == 0.0
    assert paraphrase.shared_share("slow refunds", "a slow refund") == 1.0


def test_an_entry_holds_all_that_a_search_sees():
    memory = {"title": "One", "tags": ["two", "three"], "key": "four.five", "content": "six"}
    assert paraphrase.words(paraphrase.entry_text(memory)) == ["one", "two", "three", "four", "five", "six"]


def test_the_memories_are_what_an_agent_would_keep():
    assert len(MEMORIES) == 60
    assert {memory["type"] for memory in MEMORIES} == TYPES
    assert len({memory["title"] for memory in MEMORIES}) == 60
    keys = [memory["key"] for memory in MEMORIES if "key" in memory]
    assert len(keys) >= 10
    assert len(set(keys)) == len(keys)
    for memory in MEMORIES:
        assert set(memory) <= {"type", "title", "tags", "key", "content"}
        assert 20 <= len(memory["content"].split()) <= 120, memory["title"]
        assert "\n" not in memory["content"], "one line, so that a line-wise grep sees every neighbouring pair"


def test_no_memory_and_no_question_is_about_the_documents_that_distract():
    everything = " ".join([paraphrase.entry_text(m) for m in MEMORIES] + [q["question"] for q in QUESTIONS])
    assert "redis" not in paraphrase.words(everything)


def test_each_question_asks_for_its_own_memory():
    assert len(QUESTIONS) == 20
    assert len({asked["memory"] for asked in QUESTIONS}) == 20
    assert len({asked["question"] for asked in QUESTIONS}) == 20
    assert all(0 <= asked["memory"] < len(MEMORIES) for asked in QUESTIONS)


@each_question
def test_no_neighbouring_content_words_are_shared_with_any_memory(asked: dict):
    """Stricter than the rule, which speaks of the right entry only: the demo greps the whole vault."""
    for memory in MEMORIES:
        assert not paraphrase.shared_neighbours(asked["question"], paraphrase.entry_text(memory)), memory["title"]


@each_question
def test_at_most_a_third_of_the_content_words_is_shared_with_the_right_memory(asked: dict):
    assert len(set(paraphrase.content_words(asked["question"]))) >= 5
    share = paraphrase.shared_share(asked["question"], paraphrase.entry_text(MEMORIES[asked["memory"]]))
    assert share <= paraphrase.MAX_SHARED


@pytest.fixture(scope="module")
def written_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository with one file for each memory."""
    folder = tmp_path_factory.mktemp("entries")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    for number, memory in enumerate(MEMORIES):
        (folder / f"{number}.md").write_text(paraphrase.entry_text(memory), "utf-8")
    subprocess.run(["git", "add", "--all"], cwd=folder, check=True)
    return folder


def grep(folder: Path, pattern: str) -> list[str]:
    found = subprocess.run(
        ["git", "grep", "-i", "-E", "-l", "-e", pattern], cwd=folder, capture_output=True, text=True, check=False
    )
    assert found.returncode in {0, 1}, found.stderr
    return found.stdout.split()


@each_question
def test_git_grep_finds_none_of_the_pairs(asked: dict, written_out: Path):
    for pair in paraphrase.neighbours(asked["question"]):
        assert grep(written_out, paraphrase.grep_pattern(pair)) == [], pair


def test_git_grep_would_find_a_pair_that_is_there(written_out: Path):
    """The pattern of a pair that memory 0 holds apart from inflection, case and stop words finds it."""
    assert "0.md" in grep(written_out, paraphrase.grep_pattern(("locks", "tables")))
    assert "0.md" in grep(written_out, paraphrase.grep_pattern(("MIGRATION".lower(), "create")))
    assert re.search(paraphrase.grep_pattern(("a1", "b2")).replace("[:alnum:]", "a-z0-9"), "a1 of the b2")
