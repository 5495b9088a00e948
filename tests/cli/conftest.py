"""The command, run as a person or script runs it; its daemon is a process and is ended by `memoryd stop`.

The command itself works in this process, where nothing depends on its own one: starting Python costs more than most
commands do. `process=True` runs the installed one; so do tests with a terminal, pipes or signals.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memoryd.cli import main
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

    def run(
        self, *words: object, stdin: bytes = b"", environment: dict[str, str] | None = None, process: bool = False
    ) -> Done:
        """One command. With variables of its own it is a process, as what Python makes of them at its start counts."""
        arguments = ["--home", str(self.home), *map(str, words)]
        if process or environment or "serve" in words:
            return self._installed(arguments, stdin, environment or {})
        with contextlib.chdir(self.directory):
            done = CliRunner(catch_exceptions=False).invoke(main, arguments, input=stdin, prog_name="memoryd")
        return Done(done.exit_code, done.stdout_bytes.decode(), done.stderr_bytes.decode())

    def _installed(self, arguments: list[str], stdin: bytes, environment: dict[str, str]) -> Done:
        done = subprocess.run(
            [COMMAND, *arguments],
            cwd=self.directory,
            env={**os.environ, **environment},
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

    def indexed(self) -> None:
        """Wait until the daemon has nothing left to index."""
        until = time.monotonic() + SECONDS
        while self.json("status")["index"]["pending"]:
            assert time.monotonic() < until
            time.sleep(0.1)

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
