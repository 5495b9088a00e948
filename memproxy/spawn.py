"""How is a daemon started so that nothing of the host leaks into it, and why did it fail if it failed?"""

from __future__ import annotations

import os
import sys
import time

from memoryd import runtime
from memproxy.host import Host, NotSent
from memproxy.lines import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

START_SECONDS = 25.0
"""How long one request waits for a daemon to come up before it is answered with an error."""
CLEANED = ("GIT_", "PYTHON", "LD_", "DYLD_")
"""Variables by which a host's surroundings (a git hook, another interpreter) would leak into a long-lived daemon."""


def start_daemon(paths: runtime.RuntimePaths, host: Host, deadline: float) -> None:
    """Start a daemon and wait for its report; one that dies without a word is started once more."""
    for _ in range(2):
        said = _run_start_command(paths, host, deadline)
        report = _last_report(said)
        if report is not None:
            break
    if report is None:
        words = said.decode("utf-8", "replace").strip()[-600:]
        raise NotSent(
            f"the daemon died while it started{': ' + words if words else ''}",
            log=paths.log_file,
            next_step=f"Read {paths.log_file}.",
        )
    if "error" in report:
        error = report["error"]
        raise NotSent(
            f"the daemon could not start: {str(error.get('message')).rstrip('.')}",
            code=error.get("code", "daemon-unavailable"),
            next_step=error.get("next_step", ""),
            log=paths.log_file,
        )


def _run_start_command(paths: runtime.RuntimePaths, host: Host, deadline: float) -> bytes:
    """Everything the start command said until it closed its output."""
    command = [sys.executable, "-P", "-X", "utf8", "-m", "memoryd", "serve", "--detach", "--home", paths.home]
    read_end, write_end = os.pipe()
    try:
        pid = os.posix_spawn(
            command[0],
            command,
            clean_environment(dict(os.environ)),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, write_end, 1),
                (os.POSIX_SPAWN_DUP2, write_end, 2),
            ],
            setpgroup=0,  # a host that kills its process group must not hit a daemon in the making
            setsigmask=[],
            setsigdef=[1, 2, 15],
        )
    except OSError as error:
        os.close(read_end)
        raise NotSent(f"{command[0]} cannot be run: {error.strerror}", log=paths.log_file) from error
    finally:
        os.close(write_end)
    try:
        return _read_all(read_end, paths, host, deadline)
    finally:
        os.close(read_end)
        _reap(pid)


def _read_all(fd: int, paths: runtime.RuntimePaths, host: Host, deadline: float) -> bytes:
    said = b""
    while True:
        if not host.wait(fd, deadline):
            raise NotSent(
                f"the daemon was not ready within {START_SECONDS:.0f} s; it may still be starting",
                log=paths.log_file,
                next_step="Call again in a moment.",
            )
        data = os.read(fd, 65536)
        if not data:
            return said
        said += data


def clean_environment(environment: dict[str, str]) -> dict[str, str]:
    """What a daemon may inherit from the host that happens to start it."""
    return {name: value for name, value in environment.items() if not name.startswith(CLEANED)}


def _last_report(said: bytes) -> dict[str, Any] | None:
    for line in reversed(said.splitlines()):
        try:
            report = parse(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(report, dict) and ("ready" in report or "error" in report):
            return report
    return None


def _reap(pid: int) -> None:
    """Collect the start command; one that still runs is collected when the proxy ends."""
    for _ in range(50):
        done, _status = os.waitpid(pid, os.WNOHANG)
        if done:
            return
        time.sleep(0.01)
