"""What do the journeys stand on: a fresh user on a throw-away stage, editor sessions, and a teller who counts claims?"""

from __future__ import annotations

import itertools
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ANSWER_SECONDS = 60
LEAVING_SECONDS = 10


class Stopped(Exception):
    """The run cannot go on; what was claimed so far stands."""


class Story:
    """Prints what happens and keeps count of what was claimed."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.steps = itertools.count(1)
        self.failed: list[str] = []
        self.held = 0

    def step(self, title: str, proves: str) -> None:
        print(f"\n{next(self.steps)}. {title}  [{time.monotonic() - self.began:.1f} s]")
        print(textwrap.fill(proves, 116, initial_indent="   ", subsequent_indent="   "), flush=True)

    def say(self, text: str) -> None:
        print(textwrap.indent(text.rstrip("\n"), "   "), flush=True)

    def show(self, command: str, output: str) -> None:
        print(f"   $ {command}")
        print(textwrap.indent(output.rstrip("\n"), "     | ", lambda _line: True), flush=True)

    def claim(self, text: str, holds: bool) -> None:
        print(f"   {'ok  ' if holds else 'FAIL'}  {text}", flush=True)
        if holds:
            self.held += 1
        else:
            self.failed.append(text)

    def end(self) -> int:
        print(f"\n{self.held} claims hold, {len(self.failed)} fail, {time.monotonic() - self.began:.1f} s.")
        for text in self.failed:
            print(f"  FAILED: {text}")
        return 1 if self.failed else 0


class Stage:
    """A fresh user: an empty home folder, one git project, the two commands of this installation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "memoryd"
        self.vault = self.home / "vault"
        self.project = folder / "gangway"
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GIT_", "MEMORYD_", "PYTHON", "XDG_"))
        }
        self.environment["HOME"] = str(folder / "user")
        self.memoryd = self._command("memoryd")
        self.memproxy = self._command("memproxy")
        (folder / "user").mkdir()
        self.project.mkdir()
        self.run("git", "init", "--quiet", cwd=self.project)
        self.run("git", "remote", "add", "origin", "https://git.example.com/ferries/gangway.git", cwd=self.project)

    @staticmethod
    def _command(name: str) -> str:
        beside = Path(sys.executable).with_name(name)
        found = str(beside) if beside.exists() else shutil.which(name)
        if found is None:
            raise Stopped(f"The command `{name}` is not installed beside {sys.executable}: run `make demo`.")
        return found

    def run(self, *command: str, cwd: Path | None = None, allowed: tuple[int, ...] = (0,)) -> str:
        """The standard output of a command that ends with an allowed exit code. Raises Stopped."""
        ended = subprocess.run(
            command, cwd=cwd or self.project, env=self.environment, capture_output=True, text=True, check=False
        )
        if ended.returncode not in allowed:
            raise Stopped(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
        return ended.stdout

    def cli(self, *arguments: str) -> str:
        return self.run(self.memoryd, "--home", str(self.home), *arguments)

    def cli_json(self, *arguments: str) -> dict[str, Any]:
        return dict(json.loads(self.cli(*arguments, "--json")))

    def git(self, *arguments: str, allowed: tuple[int, ...] = (0,)) -> str:
        return self.run("git", *arguments, cwd=self.vault, allowed=allowed)

    def processes(self) -> dict[int, str]:
        """Command lines of everything that lives on this stage: its folder stands in arguments or environment."""
        mark = os.fsencode(str(self.folder))
        found: dict[int, str] = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                command = (entry / "cmdline").read_bytes()
                if command and (mark in command or mark in (entry / "environ").read_bytes()):
                    found[int(entry.name)] = command.replace(b"\0", b" ").decode("utf-8", "replace").strip()
            except OSError:
                continue
        return found


class Session:
    """One editor session: a `memproxy` process and JSON-RPC lines on its stdin and stdout."""

    def __init__(self, stage: Stage, name: str, protocol: str) -> None:
        self.name = name
        self.numbers = itertools.count(1)
        self.process = subprocess.Popen(
            [stage.memproxy, "--home", str(stage.home)],
            cwd=stage.project,
            env=stage.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        client = {"name": f"demo-{name}", "version": "1"}
        try:
            self.server = self.request(
                "initialize", {"protocolVersion": protocol, "capabilities": {}, "clientInfo": client}
            )
            self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        except BaseException:  # let go of what was taken, then raised on
            self.close()
            raise

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(b"")

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message, ensure_ascii=False).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of one request; other messages that arrive meanwhile are skipped. Raises Stopped."""
        number = next(self.numbers)
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        until = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                line = self.lines.get(timeout=max(until - time.monotonic(), 0.01))
            except queue.Empty:
                raise Stopped(f"Session {self.name} got no answer to {method} in {ANSWER_SECONDS} s.") from None
            if not line:
                raise Stopped(f"memproxy of session {self.name} ended with {self.process.wait()}.")
            message = json.loads(line)
            if message.get("id") != number or "method" in message:
                continue
            if "error" in message:
                raise Stopped(f"Session {self.name}: {method} failed: {message['error']}")
            return dict(message["result"])

    def tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        """What a tool answers. Raises Stopped for a tool error."""
        result = self.request("tools/call", {"name": name, "arguments": arguments})
        if result.get("isError"):
            raise Stopped(f"Session {self.name}: {name} failed: {result.get('content')}")
        return dict(result["structuredContent"])

    def close(self) -> int:
        """End as an editor does: close stdin and wait; the exit code."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.close()
            return self.process.wait(timeout=10)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.process.kill()
            return self.process.wait()


def clean_up(story: Story, stage: Stage) -> None:
    """Stop the daemon and see that nothing of this run lives on; what does is ended and counts as a failure."""
    with suppress(Stopped):
        stage.cli("stop")
    until = time.monotonic() + LEAVING_SECONDS
    while (alive := stage.processes()) and time.monotonic() < until:
        time.sleep(0.1)
    story.claim("no process of this run is left", not alive)
    for number, command in alive.items():
        story.say(f"{number}: {command}")
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


@contextmanager
def throw_away(story: Story) -> Iterator[Path]:
    """A temporary folder that is gone afterwards, also after a failure."""
    folder = Path(tempfile.mkdtemp(prefix="memoryd-demo-")).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        story.claim("the temporary folder is gone", not folder.exists())
