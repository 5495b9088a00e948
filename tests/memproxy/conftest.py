"""A home with a fixture daemon; ended and checked after each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons import Stack, stack_in


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with stack_in(tmp_path) as made:
        yield made
