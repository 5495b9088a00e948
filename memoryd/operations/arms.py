"""What does memory change for an agent? Measured without any model that judges.

A task is a question and strings that only its answer holds. Each arm returns text for the question, and a task is won
where every expected string stands in the first 1,500 tokens of that text: no memory at all (nothing is returned), what
`git grep` finds for the question's words (in its own order, and with the lines first that hold most of them), and what
memory_search answers.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memoryd.errors import GitMissing, InvalidInput
from memoryd.index.analysis import STOP_WORDS
from memoryd.operations import indexing, reading
from memoryd.operations.home import Caller, Home
from memoryd.operations.inputs import read_given
from memoryd.operations.scan import scan_corpora
from memoryd.operations.scoring import mean, percentile
from memoryd.operations.temporary import temporary_home
from memoryd.search.excerpt import BYTES_PER_TOKEN

TOKENS = 1500
LABEL = "folder"
GREP_SECONDS = 60.0
ARMS = ("none", "git grep", "git grep sorted", "memoryd")
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Task:
    """A question, and what must stand in an answer to it (letter case and blanks do not count)."""

    question: str
    expected: tuple[str, ...]


def read_tasks(path: Path) -> list[Task]:
    """One JSON object a line: `question`, and `expected` as a list of strings. Raises InvalidInput with the line."""
    tasks = []
    for number, line in enumerate(read_given(path, "Name a file with one task a line.").split("\n"), 1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
            question, expected = data["question"], data["expected"]
            if not (isinstance(expected, list) and question.strip() and expected and all(map(str.strip, expected))):
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidInput(f"{path}:{number} is no task with `question` and `expected`.") from error
        tasks.append(Task(question, tuple(expected)))
    if not tasks:
        raise InvalidInput(f"{path} holds no task.")
    return tasks


def compare_arms(
    folder: Path,
    tasks: Sequence[Task],
    *,
    cache_path: Path,
    settings: Mapping[str, Any] | None = None,
    progress: Progress = lambda _done, _total, _note: None,
) -> dict[str, Any]:
    """Won tasks, median seconds and tokens of each arm over the text files of `folder`; the tasks that only one won.

    memoryd searches with these settings (else the defaults).

    Raises InvalidInput, GitMissing, ModelError kinds.
    """
    corpus = {"label": LABEL, "path": str(folder.resolve()), "code": True}
    with temporary_home(cache_path, {**(settings or {}), "corpora": [corpus]}) as home:
        scan_corpora(home)
        while indexing.catch_up(home):
            progress(0, len(tasks), "indexing")
        home.host.embed_query("warm", 120.0)
        asked: dict[str, Callable[[str], str]] = {
            "none": lambda _question: "",
            "git grep": lambda question: "\n".join(grepped(folder, question)),
            "git grep sorted": lambda question: "\n".join(best_first(grepped(folder, question), question)),
            "memoryd": lambda question: _searched(home, question),
        }
        told = {arm: _Arm() for arm in ARMS}
        for number, task in enumerate(tasks, 1):
            progress(number, len(tasks), "asking")
            for arm, ask in asked.items():
                told[arm].take(task, ask)
    won = {arm: [task.question for task, held in zip(tasks, one.won, strict=True) if held] for arm, one in told.items()}
    return {
        "tasks": len(tasks),
        "arms": {arm: one.told() for arm, one in told.items()},
        "only": {arm: [q for q in won[arm] if all(q not in won[o] for o in ARMS if o != arm)] for arm in ARMS},
        "none_won": [task.question for task in tasks if not any(task.question in one for one in won.values())],
    }


class _Arm:
    def __init__(self) -> None:
        self.won: list[bool] = []
        self._milliseconds: list[float] = []
        self._tokens: list[float] = []

    def take(self, task: Task, ask: Callable[[str], str]) -> None:
        began = time.perf_counter()
        text = cut(ask(task.question))
        self._milliseconds.append((time.perf_counter() - began) * 1000)
        self._tokens.append(len(text.encode()) / BYTES_PER_TOKEN)
        self.won.append(holds(text, task.expected))

    def told(self) -> dict[str, float]:
        return {
            "won": sum(self.won),
            "share": round(mean([float(one) for one in self.won]), 4),
            "tokens": round(mean(self._tokens)),
            "p50_ms": round(percentile(self._milliseconds, 0.5), 1),
        }


def cut(text: str) -> str:
    """The first 1,500 tokens, estimated as bytes / 4."""
    return text.encode("utf-8", "replace")[: TOKENS * BYTES_PER_TOKEN].decode("utf-8", "ignore")


def holds(text: str, expected: Sequence[str]) -> bool:
    """Whether every expected string stands in the text, letter case and blanks aside."""
    plain = " ".join(text.casefold().split())
    return all(" ".join(one.casefold().split()) in plain for one in expected)


def grepped(folder: Path, question: str) -> list[str]:
    """The lines that `git grep` finds for any of the question's words, in its own order. Raises GitMissing."""
    patterns = [part for word in _wanted(question) for part in ("-e", word)]
    if not patterns:
        return []
    command = ["git", "grep", "--no-index", "--exclude-standard", "-n", "-I", "-i", "-w", "-F", *patterns, "--", "."]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=GREP_SECONDS, check=False)
    except FileNotFoundError as error:
        raise GitMissing("git is not installed.") from error
    return done.stdout.decode("utf-8", "replace").splitlines()


def best_first(lines: Sequence[str], question: str) -> list[str]:
    """Those lines that hold most different words of the question first: what a careful agent would make of them."""
    folded = [word.casefold() for word in _wanted(question)]
    return sorted(lines, key=lambda line: -sum(word in line.casefold() for word in folded))


def _wanted(question: str) -> list[str]:
    words = [word.strip(".,;:!?\"'()`") for word in question.split()]
    return list(dict.fromkeys(word for word in words if len(word) > 1 and word.casefold() not in STOP_WORDS))


def _searched(home: Home, question: str) -> str:
    answer = reading.search(home, Caller(), query=question, max_results=8)
    return "\n\n".join(f"{one['source']} {one['context']}\n{_whole(one)}" for one in answer["memories"])


def _whole(entry: dict[str, Any]) -> str:
    """A hit's text as an agent reads it, what stands around it included."""
    return "\n".join([*(part["content"] for part in entry.get("within", ())), entry["content"]])
