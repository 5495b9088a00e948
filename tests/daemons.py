"""Real proxies and daemons for tests, and proof that none of them is left behind."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from memoryd.runtime import RuntimePaths, connect

FIXTURE = Path(__file__).parent / "server" / "fixture_daemon.py"
START = "import sys; {extra}from memproxy.relay import main; sys.exit(main())"
PATIENCE = 30.0
MODERN = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Proxy:
    """One memproxy process with our ends of its pipes; plays the host."""

    def __init__(self, command: list[str], **options: Any) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **{"stderr": subprocess.PIPE, **options}
        )
        self._buffer = b""
        self.said = ""
        """All of stderr, once the proxy was ended."""
        self.seen: list[dict[str, Any]] = []
        """Messages that came while another one was waited for."""
        self._ids = iter(range(1, 1 << 30))

    # -- lines

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message: Any) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def line(self, timeout: float = PATIENCE) -> bytes | None:
        """The next line of stdout; None at its end."""
        assert self.process.stdout is not None
        until = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise TimeoutError(f"no line within {timeout} s")
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def message(self, timeout: float = PATIENCE) -> dict[str, Any]:
        line = self.line(timeout)
        assert line is not None, "the proxy has closed stdout"
        message = json.loads(line)
        assert isinstance(message, dict) and message.get("jsonrpc") == "2.0", message
        return message

    def answer(self, request_id: Any, timeout: float = PATIENCE) -> dict[str, Any]:
        """The answer to one id; what else comes meanwhile is kept in `seen`."""
        until = time.monotonic() + timeout
        for kept in self.seen:
            if kept.get("id") == request_id and "method" not in kept:
                self.seen.remove(kept)
                return kept
        while True:
            message = self.message(max(0.0, until - time.monotonic()))
            if message.get("id") == request_id and "method" not in message:
                return message
            self.seen.append(message)

    def quiet(self, seconds: float) -> list[dict[str, Any]]:
        """Whatever comes within `seconds`."""
        found = []
        until = time.monotonic() + seconds
        while True:
            try:
                found.append(self.message(max(0.0, until - time.monotonic())))
            except TimeoutError:
                return found

    # -- protocol

    def ask(self, method: str, params: Mapping[str, Any] | None = None, *, id: Any = None) -> Any:
        """Send a request; its id."""
        request_id = next(self._ids) if id is None else id
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)
        return request_id

    def request(
        self, method: str, params: Mapping[str, Any] | None = None, timeout: float = PATIENCE
    ) -> dict[str, Any]:
        return self.answer(self.ask(method, params), timeout)

    def hello(self, version: str = "2025-06-18", capabilities: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The legacy handshake; the result of `initialize`."""
        info = {"name": "test", "version": "1"}
        params = {"protocolVersion": version, "capabilities": dict(capabilities or {}), "clientInfo": info}
        answer = self.request("initialize", params)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer["result"]

    def call_id(self, tool: str, modern: bool = False, **arguments: Any) -> Any:
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        if modern:
            params["_meta"] = ENVELOPE
        return self.ask("tools/call", params)

    def call(self, tool: str, modern: bool = False, timeout: float = PATIENCE, **arguments: Any) -> dict[str, Any]:
        """A tool's structured content; fails on errors."""
        answer = self.answer(self.call_id(tool, modern, **arguments), timeout)
        assert "result" in answer, answer
        assert not answer["result"].get("isError"), answer
        return answer["result"]["structuredContent"]

    def cancel(self, request_id: Any) -> None:
        params = {"requestId": request_id, "reason": "test"}
        self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    # -- the end

    def close(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    def wait(self, timeout: float = PATIENCE) -> int:
        return self.process.wait(timeout)

    def errors(self) -> str:
        """All of stderr, once the process has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def end(self) -> None:
        self.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("a proxy outlived the end of its stdin") from None
        finally:
            if self.process.stderr and not self.process.stderr.closed:
                self.said = self.process.stderr.read().decode()
            for stream in (self.process.stdout, self.process.stderr):
                if stream is not None:
                    stream.close()


class Stack:
    """One home with whatever runs for it."""

    def __init__(self, home: Path, scratch: Path, *, fixture: bool = True) -> None:
        self.home = home
        self.paths = RuntimePaths(str(home))
        self.proxies: list[Proxy] = []
        self.started: list[subprocess.Popen[bytes]] = []
        self.starter = scratch / "starter"
        command = f'exec {sys.executable} -P {FIXTURE} "$@"' if fixture else f'exec {sys.executable} "$@"'
        self.starter.write_text(f"#!/bin/sh\necho start >> {scratch}/starts\n{command}\n")
        self.starter.chmod(0o755)
        self.starts_file = scratch / "starts"

    def settings(self, **chosen: Any) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "fixture.json").write_text(json.dumps(chosen))

    # -- starting

    def proxy(self, *, version: str | None = None, wire: int | None = None, **options: Any) -> Proxy:
        """A new session; its daemon, if it starts one, is ours."""
        extra = f"sys.executable = {str(self.starter)!r}; from memoryd import runtime; "
        extra += f"runtime.VERSION = {version!r}; " if version else ""
        extra += f"runtime.WIRE = {wire}; " if wire else ""
        command = [sys.executable, "-P", "-c", START.format(extra=extra), "--home", str(self.home)]
        proxy = Proxy(command, **options)
        self.proxies.append(proxy)
        return proxy

    def session(self, **options: Any) -> Proxy:
        """A proxy after the handshake."""
        proxy = self.proxy(**options)
        proxy.hello()
        return proxy

    def daemon(self) -> int:
        """Start the daemon by itself; its pid."""
        command = [str(self.starter), "-P", "-m", "memoryd", "serve", "--detach", "--home", str(self.home)]
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        pid = self.holder()
        assert pid is not None
        return pid

    @property
    def starts(self) -> int:
        """How often a start command was run."""
        return len(self.starts_file.read_text().split()) if self.starts_file.exists() else 0

    # -- looking

    def holder(self) -> int | None:
        """The pid that holds the daemon's lock, from the kernel."""
        try:
            inode = os.stat(self.paths.daemon_lock).st_ino
        except OSError:
            return None
        for line in Path("/proc/locks").read_text().splitlines():
            parts = line.split()
            if parts[1] == "FLOCK" and int(parts[5].rsplit(":", 1)[1]) == inode:
                return int(parts[4])
        return None

    def written(self) -> list[str]:
        path = self.home / "written.txt"
        return path.read_text().splitlines() if path.exists() else []

    def log(self) -> str:
        path = Path(self.paths.log_file)
        return path.read_text() if path.exists() else ""

    def http(self, method: str, path: str, body: Any = None, timeout: float = 30) -> tuple[int, Any]:
        """Status and JSON (or text) of one request on the home's socket."""
        connection = http.client.HTTPConnection("memoryd", timeout=timeout)
        connection.sock = connect(self.paths.http_socket, timeout)
        try:
            payload = json.dumps(body).encode() if body is not None else None
            connection.request(method, path, payload)
            response = connection.getresponse()
            data = response.read()
        finally:
            connection.close()
        kind = response.headers.get("content-type", "")
        return response.status, json.loads(data) if "json" in kind else data.decode()

    def raw(self) -> socket.socket:
        """A bare connection to the daemon's socket."""
        return connect(self.paths.rpc_socket, 10)

    # -- ending

    def kill(self) -> None:
        """SIGKILL the daemon that holds the lock, and wait until it is gone."""
        pid = self.holder()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        self.wait_gone()

    def wait_gone(self, timeout: float = PATIENCE) -> None:
        wait_for(lambda: self.holder() is None, timeout, "the daemon is still there")

    def end(self) -> None:
        """End everything by its own pid; fails where something had to be forced or was left over."""
        problems = []
        for proxy in self.proxies:
            try:
                if proxy.process.poll() is None:
                    with contextlib.suppress(ProcessLookupError):
                        proxy.process.send_signal(signal.SIGCONT)
                proxy.end()
            except AssertionError as error:
                problems.append(str(error))
        (self.home / "release").touch() if self.home.is_dir() else None
        if (pid := self.holder()) is not None:
            os.kill(pid, signal.SIGCONT)
            os.kill(pid, signal.SIGTERM)
            try:
                self.wait_gone(20)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                problems.append("the daemon did not end within 20 s of SIGTERM")
        for process in self.started:
            process.wait(10)
        problems += self._left_over()
        assert not problems, problems

    def _left_over(self) -> list[str]:
        found: list[str] = []

        def others() -> list[psutil.Process]:
            mine = []
            for process in psutil.process_iter(["cmdline"]):
                if str(self.home) in (process.info["cmdline"] or []) and process.pid != os.getpid():
                    mine.append(process)
            return mine

        try:
            wait_for(lambda: not others(), 20, "")
        except TimeoutError:
            for process in others():
                found.append(f"left over: {process.pid} {process.info['cmdline']}")
                process.kill()
        return found


def wait_for(condition: Any, timeout: float = PATIENCE, what: str = "it did not happen") -> None:
    until = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(what)
        time.sleep(0.01)


@contextlib.contextmanager
def stack_in(folder: Path, **options: Any) -> Iterator[Stack]:
    """A stack whose home lies in `folder`."""
    stack = Stack(folder / "home", folder, **options)
    try:
        yield stack
    finally:
        stack.end()
