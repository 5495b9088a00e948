"""A model host with the real child, ended with its test."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memoryd.models.host import ModelHost

KILLED_BY_TEXT = """
import os, sys, time, memoryd.models.embedded as embedded
plain = embedded.EmbeddedModel._hidden
def hidden(self, text):
    if "DEADLY" in text:
        os.kill(os.getpid(), 9)
    if "REFUSED" in text:
        raise ValueError("this text is refused")
    if "ONCE" in text and not os.path.exists(sys.argv[2]):
        open(sys.argv[2], "w").close()
        os.kill(os.getpid(), 9)
    if "SLOW" in text:
        time.sleep(0.5)
    if "FOREVER" in text:
        time.sleep(3600)
    return plain(self, text)
embedded.EmbeddedModel._hidden = hidden
embedded.EmbeddedModel.batch_tokens = int(sys.argv[1])
import memoryd.models.child as child
child.main()
"""
"""The real child, which some texts hurt."""


def fragile(batch_tokens: int = 0, once: Path = Path("/nowhere")) -> list[str]:
    """`once` is a file that tells whether a text with ONCE has killed already."""
    return [sys.executable, "-P", "-c", KILLED_BY_TEXT, str(batch_tokens), str(once)]


def until(true: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait for a condition that must come."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


def gone(pid: int) -> bool:
    """Whether no process of this pid runs (a zombie is none)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., ModelHost]]:
    """Makes hosts and closes them all."""
    made: list[ModelHost] = []

    def build(**changes) -> ModelHost:
        made.append(ModelHost(**({"threads": 1, "idle_seconds": 600, "log": tmp_path / "model.log"} | changes)))
        return made[-1]

    yield build
    for host in made:
        host.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelHost]:
    """One loaded host for all tests of a module that only ask it."""
    host = ModelHost(threads=1, idle_seconds=600, log=tmp_path_factory.mktemp("log") / "model.log")
    host.embed_query("ready", 60)
    yield host
    host.close()


def run_python(code: str, *, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter, started like the child is."""
    return subprocess.run(
        [sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True, cwd=cwd, env=env, timeout=60
    )
