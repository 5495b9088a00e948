"""How do bytes move between a host's stdin and stdout and the daemon's socket, without ever blocking on one side?

One poll loop, no threads; what the lines mean is the session's business.
"""

from __future__ import annotations

import os
import select
import sys
import time

from memoryd import runtime
from memproxy.host import Host, HostGone
from memproxy.launch import Launcher
from memproxy.lines import LineBuffer
from memproxy.link import Link
from memproxy.out import Out
from memproxy.session import Session, log

FULL = 1 << 20
"""Bytes waiting for one side above which the other side is no longer read."""
FAREWELL_SECONDS = 1.0
TICK = 1000
"""Milliseconds between two looks at whether the parent process still lives."""


class Relay:
    """The two sides of one session."""

    def __init__(self, launcher: Launcher, host: Host, out: int) -> None:
        self.host = host
        self.out = Out(out)
        self.session = Session(launcher, host, self.tell_host)
        self.to_host = bytearray()
        self.from_host = LineBuffer(runtime.MAX_LINE_BYTES)
        self.closed_at: float | None = None

    def run(self) -> None:
        """Relay until the host is gone. Raises HostGone where that is noticed in the middle of something."""
        while not self._done():
            self._turn(TICK if self.closed_at is None else 50)
            if self.session.link is not None and self.session.link.broken:
                self.session.lost()

    def _done(self) -> bool:
        if self.host.orphaned():
            return True
        if self.closed_at is None:
            return False
        waiting = self.to_host or any(not call.listens for call in self.session.calls.values())
        return not waiting or time.monotonic() > self.closed_at + FAREWELL_SECONDS

    def _turn(self, milliseconds: int) -> None:
        """Wait once, then move what can move."""
        link = self.session.link
        poller = select.poll()
        if self.closed_at is None and (link is None or len(link.queue) <= FULL):
            poller.register(0, select.POLLIN)
        if self.to_host:
            poller.register(self.out.fd, select.POLLOUT)
        if link is not None:
            readable = select.POLLIN if len(self.to_host) <= FULL else 0
            poller.register(link.daemon.sock, readable | (select.POLLOUT if link.queue else 0))
        for fd, _event in poller.poll(milliseconds):
            if fd == self.out.fd:
                self._flush_host()
            elif fd == 0:
                self._read_host()
            elif link is not None and link is self.session.link:
                self._read_daemon(link)

    def _read_host(self) -> None:
        try:
            data = os.read(0, 65536)
        except OSError:
            data = b""
        if not data:
            self.closed_at = time.monotonic()
            self.session.ending = True
        for line in self.from_host.feed(data):
            self.session.host_line(line)

    def _read_daemon(self, link: Link) -> None:
        link.flush()
        for line in link.receive():
            self.session.daemon_line(line)

    def tell_host(self, line: bytes) -> None:
        """Queue one line (newline included) for stdout, and write what goes without waiting."""
        self.to_host += line
        self._flush_host()

    def _flush_host(self) -> None:
        while self.to_host:
            try:
                count = self.out.write(self.to_host)
            except OSError:
                raise HostGone from None
            if not count:
                return
            del self.to_host[:count]


USAGE = b"usage: memproxy [--home DIR]\n\nThe stdio MCP server of memoryd: finds or starts the daemon and forwards.\n"


def _home_option(arguments: list[str]) -> str | None:
    """The value of --home. Raises SystemExit with a line of help for anything else."""
    chosen = None
    rest = iter(arguments)
    for argument in rest:
        if argument in {"-h", "--help"}:
            os.write(1, USAGE)
            raise SystemExit(0)
        if argument == "--version":
            os.write(1, f"memproxy {runtime.VERSION}\n".encode())
            raise SystemExit(0)
        if argument.startswith("--home="):
            chosen = argument[len("--home=") :]
        elif argument == "--home":
            chosen = next(rest, "")
        else:
            log(f"unknown argument {argument}")
            raise SystemExit(2)
        if not chosen:
            log("--home needs a directory")
            raise SystemExit(2)
    return chosen


def _own_stdout() -> int:
    """A private descriptor for the protocol; whatever else writes to descriptor 1 from now on lands on stderr."""
    out = os.dup(1)
    try:
        os.dup2(2, 1)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return out


def _start_directory() -> str | None:
    """Where the host started us, as UTF-8 with escapes whatever the locale; None where it no longer exists."""
    try:
        return os.getcwdb().decode("utf-8", "surrogateescape")
    except OSError:
        return None


def main() -> int:
    """The console command: 0 once the host is gone, 2 for wrong arguments."""
    paths = runtime.RuntimePaths(runtime.home_directory(_home_option(sys.argv[1:]), os.environ))
    host = Host()
    try:
        Relay(Launcher(paths, _start_directory(), host), host, _own_stdout()).run()
    except HostGone:
        pass
    except KeyboardInterrupt:
        return 130
    return 0
