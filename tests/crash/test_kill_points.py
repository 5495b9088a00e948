"""case 14: kill -9 at every announced step of every kind of work, then a start and a full check."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.crash.homes import TASKS, at_point, copied, examine, prepared
from tests.crash.scale import LONG

QUICK = 3


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(tmp_path_factory.mktemp("kill") / "template")


@pytest.mark.parametrize("name", TASKS)
def test_killed_at_any_step(name, template, tmp_path, count):
    task = TASKS[name]
    tried = 0
    steps = points(name, template, tmp_path)
    wanted = range(1, steps + 1) if LONG else sorted({steps * part // (QUICK + 1) for part in range(1, QUICK + 1)})
    for nth in wanted:
        folder = begun(template, tmp_path / str(nth), name)
        lived, _steps = at_point(folder, task, nth)
        tried += not lived
        examine(folder, name, task)
        shutil.rmtree(folder)
    assert tried >= min(QUICK, steps)
    count(f"kill -9: steps of {name}", tried)


def points(name: str, template: Path, tmp_path: Path) -> int:
    """How many steps the work announces when nothing happens."""
    folder = begun(template, tmp_path / "whole", name)
    lived, steps = at_point(folder, TASKS[name], 0)
    assert lived and steps > 5
    shutil.rmtree(folder)
    return steps


def begun(template: Path, target: Path, name: str) -> Path:
    folder = copied(template, target)
    TASKS[name].ready(folder)
    return folder
