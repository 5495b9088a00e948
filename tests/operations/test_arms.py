"""Is a task won exactly where its answer stands in what an arm returns, and within the budget?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memoryd.errors import InvalidInput
from memoryd.operations.arms import TOKENS, best_first, compare_arms, cut, grepped, holds, read_tasks


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "docs"
    place.mkdir()
    (place / "uploads.md").write_text(
        "# Uploads\n\nThe client retries thrice.\n\nThe server bans the fourth attempt.\n"
    )
    (place / "release.md").write_text("# Release\n\nEvery Tuesday a new version is cut by the build team.\n")
    (place / "noise.md").write_text("".join(f"# Part {n}\n\nThe version of part {n} is {n}.\n\n" for n in range(400)))
    return place


def tasks(tmp_path, *given):
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n".join(json.dumps({"question": q, "expected": e}) for q, e in given))
    return read_tasks(path)


def test_an_arm_wins_where_every_expected_string_stands_in_its_text(folder, tmp_path):
    given = tasks(
        tmp_path,
        ("how often does the client retry an upload", ["retries THRICE", "bans the  fourth"]),
        ("on which day is a version cut", ["Every Tuesday"]),
        ("what is nowhere", ["a string that no file holds"]),
    )
    found = compare_arms(folder, given, cache_path=tmp_path / "cache.db")
    assert found["tasks"] == 3
    assert found["arms"]["none"] == {"won": 0, "share": 0.0, "tokens": 0, "p50_ms": found["arms"]["none"]["p50_ms"]}
    assert found["arms"]["memoryd"]["won"] == 2
    assert found["none_won"] == ["what is nowhere"]
    assert all(one["tokens"] <= TOKENS for one in found["arms"].values())


def test_grep_takes_words_as_they_are_and_the_sorted_one_shows_lines_with_most_of_them_first(folder):
    question = "Which version is cut by the build team?"
    lines = grepped(folder, question)
    assert lines[0] == "noise.md:3:The version of part 0 is 0."
    first, *rest = best_first(lines, question)
    assert first == "release.md:3:Every Tuesday a new version is cut by the build team."
    assert sorted([first, *rest]) == sorted(lines)
    assert grepped(folder, "what is it") == [], "only stop words"
    assert grepped(folder, "-e --help .* [a-z]") == [], "no word is an option or a pattern"


def test_the_budget_is_kept_in_bytes_and_no_character_is_torn():
    assert len(cut("ü" * 10_000).encode()) == 4 * TOKENS
    assert not holds(cut("x " * 4 * TOKENS + "the answer"), ["the answer"])
    assert holds("The\nAnswer  is 42", ["the answer", "IS 42"])


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"question": "x"}',
        '{"question": " ", "expected": ["a"]}',
        '{"question": "x", "expected": "abc"}',
        "",
    ],
)
def test_a_malformed_task_is_named_with_its_line(tmp_path, line):
    path = tmp_path / "tasks.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(InvalidInput) as told:
        read_tasks(path)
    assert "tasks.jsonl:1" in str(told.value) or "holds no task" in str(told.value)


def test_every_answer_of_the_shipped_tasks_stands_in_the_documents_that_they_are_about():
    root = Path(__file__).parents[2]
    pages = "\n".join(page.read_text("utf-8") for page in sorted((root / "docs").rglob("*.md")))
    shipped = read_tasks(root / "tests" / "benchmarks" / "tasks.jsonl")
    assert [task.question for task in shipped if not holds(pages, task.expected)] == []
