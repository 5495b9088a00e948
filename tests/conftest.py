"""Shared by all tests: nothing touches the real home, and nothing outlives its test."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.crash.scale import LONG

MEMORY = Path("/dev/shm")
MEMORY_NEEDED = 4 << 30
TEMPORARY = "PYTEST_DEBUG_TEMPROOT"

for _name in [name for name in os.environ if name.startswith(("GIT_", "MEMORYD_"))]:
    del os.environ[_name]

if not LONG and MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > MEMORY_NEEDED:
    # Syncing files to a real disk is a third of the work; in what order they are synced is asked of a recorder, and the
    # long run of the crash tests does it on the disk.
    os.environ.setdefault(TEMPORARY, str(MEMORY))


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """HOME points into a temporary folder, so that a forgotten default cannot reach a person's files."""
    home = tmp_path_factory.mktemp("user")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / ".cache"))
    return home
