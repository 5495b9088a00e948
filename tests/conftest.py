"""Shared by all tests: nothing touches the real home, and nothing outlives its test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

for _name in [name for name in os.environ if name.startswith(("GIT_", "MEMORYD_"))]:
    del os.environ[_name]


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """HOME points into a temporary folder, so that a forgotten default cannot reach a person's files."""
    home = tmp_path_factory.mktemp("user")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / ".cache"))
    return home
