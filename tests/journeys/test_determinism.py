"""Do the same calls on the same vault give the same answers, ids, files and commits, and is a copy a copy?"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.digest import sha256_hex
from tests.journeys.life import STEPS, World

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder in memory where there is one: what is asked here has nothing to do with a disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="memoryd-same-", dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def every_file(folder: Path) -> dict[str, str]:
    """Each file by its bytes, each link by its target."""
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else sha256_hex(path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def differences(mine: Any, theirs: Any, at: str = "") -> list[str]:
    """Where two answers differ, each place with both values."""
    if isinstance(mine, dict) and isinstance(theirs, dict) and mine.keys() == theirs.keys():
        return [one for key in mine for one in differences(mine[key], theirs[key], f"{at}.{key}")]
    if isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        return [
            one for n, pair in enumerate(zip(mine, theirs, strict=True)) for one in differences(*pair, f"{at}[{n}]")
        ]
    return [] if mine == theirs else [f"{at}: {mine!r} / {theirs!r}"]


def lived(folder: Path, seed: int) -> subprocess.Popen[str]:
    """A process of its own: sets and dicts come in another order there."""
    command = [sys.executable, "-m", "tests.journeys.life", str(folder)]
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    return subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, text=True)


def test_twenty_five_operations_on_two_copies_of_a_vault_give_the_same(place):
    original = place / "original"
    World(original).build()
    before = every_file(original)
    copies = [place / name for name in ("one", "another")]
    for copy in copies:
        shutil.copytree(original, copy, symlinks=True)
    running = [lived(copy, seed) for seed, copy in enumerate(copies, 1)]
    said = [process.communicate(timeout=300)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    one, other = map(json.loads, said)
    assert len(STEPS) == 25 and len(one) == 26
    for mine, theirs in zip(one, other, strict=True):
        assert differences(mine, theirs, mine["step"]) == []
    assert len({step["seen"]["tree"] for step in one}) > 12, "most steps commit something"
    assert every_file(original) == before
