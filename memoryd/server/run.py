"""How does the owner of a home start to serve, serve, and stop within five seconds?"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import secrets
import signal
import socket
import sys
import threading
from functools import partial
from typing import Any

import anyio
import anyio.abc
from starlette.applications import Starlette

from memoryd.errors import HomeError, MemorydError
from memoryd.runtime import VERSION, RuntimePaths
from memoryd.server.api import Api, socket_app
from memoryd.server.detach import Report
from memoryd.server.lanes import Duty, JobDesk, Lanes
from memoryd.server.sdk import H11Protocol, HttpConfig, HttpServer
from memoryd.server.sessions import Sessions
from memoryd.server.sockets import BACKLOG, home_sockets, is_own_user, loopback_socket
from memoryd.server.toolbox import Toolbox
from memoryd.server.web import Pulse, operations_app

OPEN_FIRST_SECONDS = 2.0
"""How long a start waits for the home before it serves what needs none (handshakes, tool lists, health)."""
CALLS_SECONDS = 2.0
BACKGROUND_SECONDS = 1.0
LEFT_SECONDS = 0.3
"""How much longer a stopped daemon lives for reads that have not come back; they are left behind."""
LAST_SECONDS = 4.2
"""After this long a stopping daemon ends whatever still runs; every write is safe against that by its own order. With
the shell's own start and the kernel's clearing up, `memoryd stop` returns within five seconds."""
SWITCH_SECONDS = 0.001
"""Python's thread switch interval: with the default of 5 ms a few busy threads delay a health answer too long."""
_log = logging.getLogger(__name__)


def main(paths: RuntimePaths, toolbox: Toolbox, report: Report) -> int:
    """Serve until a signal or a drain; the exit code. The caller holds the home's lock. Raises MemorydError."""
    sys.setswitchinterval(SWITCH_SECONDS)
    with home_sockets(paths) as (rpc, http):
        return anyio.run(Run(paths, toolbox, report, rpc, http).run)


class Run:
    """One life of a daemon."""

    def __init__(
        self, paths: RuntimePaths, toolbox: Toolbox, report: Report, rpc: socket.socket, http: socket.socket
    ) -> None:
        self.paths = paths
        self.toolbox = toolbox
        self.report = report
        self.rpc = rpc
        self.http = http
        self.failure: MemorydError | None = None
        self.servers: list[HttpServer] = []
        self.desk: JobDesk | None = None
        self.duties: tuple[Duty, ...] = ()
        self.stopping = threading.Event()

    async def run(self) -> int:
        """Startup, main loop, shutdown."""
        self.stop = anyio.Event()
        self.rested = anyio.Event()
        self.accepting = anyio.CancelScope()
        self.lanes = Lanes()
        instance = secrets.token_hex(4)
        self.sessions = Sessions(self.toolbox, self.lanes, instance, self.stop.set)
        self.pulse = Pulse(self.toolbox, self.lanes, instance, lambda: self.sessions.count)
        self.api = Api(self.toolbox, self.lanes, self.stop.set)
        async with anyio.create_task_group() as group:
            await self.startup(group)
            await self.stop.wait()
            await self.shutdown()
            self._leave_reads()
            group.cancel_scope.cancel()
        if self.failure is not None:
            raise self.failure
        return 0

    # -- startup

    async def startup(self, group: anyio.abc.TaskGroup) -> None:
        """Open the home, for a moment alone so that a failure is told at once, then serve."""
        group.start_soon(self._signals)
        self.pulse.group = group
        opened = anyio.Event()
        group.start_soon(self._open, group, opened)
        with anyio.move_on_after(OPEN_FIRST_SECONDS):
            await opened.wait()
        if self.stop.is_set():
            return
        self._serve_http(group, socket_app(self.pulse, self.api), self.http, OwnUserProtocol)
        self.rpc.listen(BACKLOG)
        self.rpc.setblocking(False)
        group.start_soon(self._accept, group, await anyio.abc.SocketListener.from_socket(self.rpc))
        _log.info("memoryd %s serves %s as process %d", VERSION, self.paths.home, os.getpid())
        self.report.ready(pid=os.getpid(), version=VERSION)

    async def _signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for _signal in signals:
                self.stop.set()

    async def _open(self, group: anyio.abc.TaskGroup, opened: anyio.Event) -> None:
        """Open the home and start what works on it; a failure ends the daemon with that reason."""
        try:
            await self.lanes.aside(self.toolbox.open)
            if self.toolbox.listen is not None:
                app = operations_app(self.pulse)
                self._serve_http(group, app, loopback_socket(self.toolbox.listen), H11Protocol)
            self.sessions.opened()
            self._start_background(group)
            self.lanes.opened.set()
            self.pulse.opening = False
        except MemorydError as error:
            _log.error("the home cannot be opened: %s (%s)", error.message, error.code)
            self.failure = error
            self.stop.set()
        except Exception as error:  # noqa: BLE001 - whatever it is, the one who waits for this start is told
            _log.exception("the home cannot be opened")
            self.failure = HomeError(f"The home cannot be opened: {type(error).__name__}; the log has the rest.")
            self.stop.set()
        finally:
            opened.set()

    def _start_background(self, group: anyio.abc.TaskGroup) -> None:
        jobs = self.toolbox.jobs()
        if jobs is not None:
            self.desk = self.api.desk = self.toolbox.desk = JobDesk(*jobs)
        self.duties = self.toolbox.duties()
        group.start_soon(self._background)

    async def _background(self) -> None:
        async with anyio.create_task_group() as group:
            for duty in self.duties:
                group.start_soon(self.lanes.aside, partial(duty.keep, self.stopping))
            if self.desk is not None:
                group.start_soon(self.lanes.aside, partial(self.desk.keep, self.stopping))
        self.rested.set()

    def _serve_http(self, group: anyio.abc.TaskGroup, app: Starlette, sock: socket.socket, protocol: type[Any]) -> None:
        config = HttpConfig(
            app,
            http=protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            backlog=BACKLOG,
            timeout_graceful_shutdown=1,
        )
        server = QuietServer(config)
        self.servers.append(server)
        group.start_soon(partial(server.serve, sockets=[sock]))

    # -- main loop

    async def _accept(self, group: anyio.abc.TaskGroup, listener: anyio.abc.SocketListener) -> None:
        with self.accepting:
            async with listener:
                while True:
                    try:
                        stream = await listener.accept()
                    except anyio.BrokenResourceError as error:  # no descriptors left: wait for some to be closed
                        _log.error("a connection could not be accepted: %s", error.__cause__)
                        await anyio.sleep(0.2)
                        continue
                    group.start_soon(self.sessions.serve, stream)

    # -- shutdown

    async def shutdown(self) -> None:
        """Refuse, stop accepting, let calls and background work end, close; LAST_SECONDS bounds all of it."""
        _log.info("stopping")
        # a watchdog of C: a thread that keeps the interpreter to itself does not hold it up; it logs what still ran
        faulthandler.dump_traceback_later(LAST_SECONDS, exit=True)
        self.lanes.draining = True
        self.accepting.cancel()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.paths.rpc_socket)  # noqa: PTH108 - beside the sockets' own string paths
        self.sessions.listens.close()
        with anyio.move_on_after(CALLS_SECONDS):
            await self.lanes.idle()
        self._stop_background()
        with anyio.move_on_after(BACKGROUND_SECONDS):
            await self.rested.wait()
        await self.sessions.farewell()
        for server in self.servers:
            server.should_exit = True
        if self.lanes.opened.is_set() and not self.lanes.active:
            await self.lanes.aside(self.toolbox.close)

    def _leave_reads(self) -> None:
        """End soon even if reads never come back: only a begun write is worth the rest of the time."""
        if self.lanes.writing or self.failure is not None:
            return
        leave = threading.Timer(LEFT_SECONDS, self._leave)
        leave.daemon = True
        leave.start()

    def _leave(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self.paths.http_socket)  # noqa: PTH108 - as above
        os._exit(0)

    def _stop_background(self) -> None:
        self.stopping.set()
        if not self.lanes.opened.is_set():
            self.rested.set()
        for duty in self.duties:
            duty.wake.set()
        if self.desk is not None:
            self.desk.wake()


class QuietServer(HttpServer):
    """An HTTP server whose signals are the daemon's own business."""

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        """Leave the signals alone."""
        return contextlib.nullcontext()


class OwnUserProtocol(H11Protocol):
    """HTTP on a Unix socket for processes of this user."""

    def connection_made(self, transport: Any) -> None:
        """Hang up on everybody else."""
        super().connection_made(transport)
        if not is_own_user(transport.get_extra_info("socket")):
            transport.abort()
