"""Counts what was tried, and prints it at the end of the run."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.scale import LONG

MARK = "tried"


@pytest.fixture
def count(record_property: Callable[[str, object], None]) -> Callable[[str, int], None]:
    """count(what, number): shown after the run, summed over all tests."""
    return lambda what, number: record_property(f"{MARK}:{what}", number)


@pytest.fixture
def ram(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: what is examined was written to no real disk anyway."""
    memory = Path("/dev/shm")
    if not (memory.is_dir() and shutil.disk_usage(memory).free > 1 << 30):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="memoryd-crash-", dir=memory))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long run may take as long as it takes."""
    here = Path(__file__).parent
    for item in items:
        if LONG and item.path.is_relative_to(here):
            item.add_marker(pytest.mark.timeout(0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    sums: dict[str, int] = {}
    for report in terminalreporter.stats.get("passed", []):
        for name, number in report.user_properties:
            if report.when == "call" and str(name).startswith(f"{MARK}:"):
                what = str(name).removeprefix(f"{MARK}:")
                sums[what] = sums.get(what, 0) + int(number)
    if sums:
        terminalreporter.section("crash tests: what was tried")
        for what, number in sorted(sums.items()):
            terminalreporter.write_line(f"{number:8,}  {what}")
