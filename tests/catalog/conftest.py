"""What the tests of the catalog share: an open catalog, and short ways to make records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.catalog.db import Database, open_catalog
from memoryd.catalog.state import State


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = open_catalog(tmp_path / "catalog.db")
    yield database
    database.close()


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    opened = State(tmp_path / "state.db")
    yield opened
    opened.close()
