"""The installed command, run as a person or script runs it; its daemon is ended by `memoryd stop`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from memoryd.operations.owner import holder_of

COMMAND = str(Path(sys.executable).with_name("memoryd"))
SECONDS = 90


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


class Shell:
    """Commands on one home, run in one directory."""

    def __init__(self, home: Path, directory: Path) -> None:
        self.home = home
        self.directory = directory

    def run(self, *words: object, stdin: bytes = b"", environment: dict[str, str] | None = None) -> Done:
        command = [COMMAND, "--home", str(self.home), *map(str, words)]
        done = subprocess.run(
            command,
            cwd=self.directory,
            env={**os.environ, **(environment or {})},
            input=stdin,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def said(self, *words: object, **options: Any) -> str:
        """What a command that succeeds says to people; nothing but that."""
        done = self.run(*words, **options)
        assert (done.code, done.err) == (0, ""), done
        return done.out

    def json(self, *words: object, code: int = 0, **options: Any) -> dict[str, Any]:
        """The one JSON object that the command prints; nothing else comes out of it."""
        done = self.run(*words, "--json", **options)
        assert (done.code, done.err) == (code, ""), done
        answer = json.loads(done.out)
        assert isinstance(answer, dict)
        return answer

    def error(self, *words: object, **options: Any) -> dict[str, Any]:
        """The error of a command that fails."""
        answer = self.json(*words, code=1, **options)
        assert set(answer) == {"error"}
        assert {"code", "message", "next_step"} <= set(answer["error"])
        return answer["error"]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A fresh home, and a directory outside any project; no daemon is left behind."""
    folder = tmp_path / "here"
    folder.mkdir()
    made = Shell(tmp_path / "home", folder)
    yield made
    if made.home.is_dir() and holder_of(made.home) is not None:
        assert made.run("stop").code == 0
        assert holder_of(made.home) is None
