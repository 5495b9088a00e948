"""How does a foreign program run so that it can neither hang nor flood the caller?

The program gets its own session (no terminal to prompt on), a closed stdin, and a time limit that ends its whole
process group. Of its messages the first and last part are kept.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

KEPT_MESSAGE = 4096
"""Bytes kept of either end of standard error."""
TERM_GRACE = 0.5
"""Seconds between SIGTERM, on which git removes its lock files, and SIGKILL."""
_IDLE = 0.05


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended: exit code (negative: signal), whole stdout, shortened stderr, whether time ran out."""

    code: int
    out: bytes
    err: str
    timed_out: bool = False
    flooded: bool = False


class _Message:
    """Standard error with the middle left out."""

    def __init__(self) -> None:
        self.head = bytearray()
        self.tail = bytearray()
        self.dropped = 0

    def add(self, data: bytes) -> None:
        room = KEPT_MESSAGE - len(self.head)
        self.head += data[:room]
        self.tail += data[room:] if room < len(data) else b""
        if len(self.tail) > KEPT_MESSAGE:
            self.dropped += len(self.tail) - KEPT_MESSAGE
            del self.tail[:-KEPT_MESSAGE]

    def text(self) -> str:
        cut = f"\n[{self.dropped} bytes left out]\n".encode() if self.dropped else b""
        return bytes(self.head + cut + self.tail).decode("utf-8", "replace").strip()


def run_bounded(
    command: Sequence[str | bytes],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    out_limit: int,
    feed: bytes | None = None,
    held: int | None = None,
    spawned: Callable[[int], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Finished:
    """Run `command` and wait at most `timeout` seconds; once `stop` says so, no longer.

    `feed` (at most a pipe's buffer, else it is written while output is not read) goes to stdin, which is
    /dev/null otherwise; `held` is a descriptor that the program and its children inherit; `spawned` learns the pid.
    A background child that keeps the pipes open after the program ended does not delay the answer. Raises OSError
    where the program cannot be started.
    """
    deadline = time.monotonic() + timeout
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL if feed is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        pass_fds=() if held is None else (held,),
    )
    out, message, finished = bytearray(), _Message(), False
    try:
        if spawned is not None:
            spawned(process.pid)
        if feed is not None:
            _feed(process, feed)
        finished = _collect(process, out, message, deadline, out_limit, stop)
    finally:
        if not finished:
            _end_group(process)
        _close_pipes(process)
    flooded = len(out) > out_limit
    return Finished(process.wait(), bytes(out), message.text(), not finished and not flooded, flooded)


def _feed(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # the program ended without reading; its exit code tells why
        process.stdin.write(data)
        process.stdin.close()


def _collect(
    process: subprocess.Popen[bytes],
    out: bytearray,
    message: _Message,
    deadline: float,
    out_limit: int,
    stop: Callable[[], bool],
) -> bool:
    """Read both pipes until the program has ended; False when time ran out, it wrote too much or is to stop."""
    assert process.stdout is not None and process.stderr is not None
    with selectors.DefaultSelector() as ready:
        for pipe in (process.stdout, process.stderr):
            os.set_blocking(pipe.fileno(), False)
            ready.register(pipe, selectors.EVENT_READ)
        while ready.get_map():
            left = deadline - time.monotonic()
            if left <= 0 or len(out) > out_limit or stop():
                return False
            events = ready.select(min(left, _IDLE))
            for key, _ in events:
                data = os.read(key.fd, 1 << 16)
                if not data:
                    ready.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    out += data
                else:
                    message.add(data)
            if not events and process.poll() is not None:
                return True
    return _wait_until(process, deadline)


def _wait_until(process: subprocess.Popen[bytes], deadline: float) -> bool:
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End the program and everything it started. The leader is reaped last, so that its number stays ours."""
    _signal_group(process.pid, signal.SIGTERM)
    until = time.monotonic() + TERM_GRACE
    while time.monotonic() < until and _running(process.pid):
        time.sleep(0.01)
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()


def _signal_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):  # nobody is left
        os.killpg(pid, number)


def _running(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None and not pipe.closed:
            with suppress(BrokenPipeError):  # unread feed of a program that ended
                pipe.close()
