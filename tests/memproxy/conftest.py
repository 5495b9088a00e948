"""Homes with a fixture daemon; ended and checked afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons import Stack, stack_in


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """A home of this test alone; no daemon runs yet."""
    with stack_in(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A home whose daemon runs, shared by a module's tests: none of them may end it."""
    with stack_in(tmp_path_factory.mktemp("served")) as made:
        made.daemon()
        yield made
