"""How does a daemon leave the process that started it, and how does that process learn whether the start worked?

Standard library only and single-threaded: this runs before anything heavy is imported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Report:
    """The one message of a starting daemon to whoever waits for it: ready, or the reason why not."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd

    @property
    def waited_for(self) -> bool:
        """Whether somebody still waits for the message."""
        return self._fd is not None

    def ready(self, **facts: Any) -> None:
        """The daemon serves (or another one already does)."""
        self._say({"ready": True, **facts})

    def failed(self, error: dict[str, Any]) -> None:
        """The start failed with an error as `MemorydError.to_dict` shows it."""
        self._say({"error": error})

    def _say(self, message: dict[str, Any]) -> None:
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        try:
            os.write(fd, json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            pass  # whoever started us has gone; the daemon stays
        finally:
            os.close(fd)


def run_detached(body: Callable[[Report], int], log_file: Path) -> int:
    """Run `body` in a process of its own session; returns in the caller once it reported (0 ready, 1 failed).

    Forks twice, so that no host has the daemon as a child or in its process group. Inherited descriptors are closed,
    the standard ones lead to /dev/null and the log.
    """
    os.closerange(3, 1 << 16)
    read_end, write_end = os.pipe()
    first = os.fork()
    if first:
        os.close(write_end)
        os.waitpid(first, 0)
        return _relay_report(read_end)
    os.close(read_end)
    os.setsid()
    if os.fork():
        os._exit(0)
    _leave(log_file)
    code = 1
    try:
        code = body(Report(write_end))
    finally:
        os._exit(code)  # no thread or exit hook may keep an ended daemon alive


def _relay_report(read_end: int) -> int:
    said = b""
    while piece := os.read(read_end, 65536):
        said += piece
    os.close(read_end)
    os.write(1, said)
    return 0 if b'"ready"' in said else 1


def _leave(log_file: Path) -> None:
    """Stand on our own: root directory, own descriptors, files for this user only."""
    os.chdir("/")
    os.umask(0o077)
    null = os.open(os.devnull, os.O_RDWR)
    try:
        log_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        log = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        log = null  # the reason reaches the starter when the home is taken
    for target, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, target)
    os.closerange(max(null, log), max(null, log) + 1)
