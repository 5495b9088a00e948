"""How do people, monitors and the command line look at a daemon over HTTP?

Health answers come from memory or from a value kept fresh in threads of their own: none of them ever waits for work.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

import anyio
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from memoryd.errors import MemorydError
from memoryd.runtime import VERSION, WIRE
from memoryd.server.lanes import Lanes
from memoryd.server.toolbox import Toolbox

T = TypeVar("T")
PATIENCE_SECONDS = 0.05
"""How long a health answer waits for a fresh value before it takes the last one."""
UNKNOWN = "state not known yet"
_log = logging.getLogger(__name__)
Handler = Callable[[Request], Awaitable[Response]]


class Kept(Generic[T]):
    """A value that is computed in a thread on demand; a slow one is answered with the last that was ready."""

    def __init__(
        self, lanes: Lanes, compute: Callable[[], T], first: T, failed: Callable[[str], T] | None = None
    ) -> None:
        """`failed` makes the value after a look that failed out of what went wrong; without it the last one stays."""
        self._failed = failed
        self._lanes = lanes
        self._compute = compute
        self._value = first
        self._busy: anyio.Event | None = None

    async def get(self, group: anyio.abc.TaskGroup) -> T:
        """The value now, or the last one if computing takes longer than PATIENCE_SECONDS."""
        if self._busy is None:
            self._busy = anyio.Event()
            group.start_soon(self._refresh, self._busy)
        with anyio.move_on_after(PATIENCE_SECONDS):
            await self._busy.wait()
        return self._value

    async def _refresh(self, done: anyio.Event) -> None:
        try:
            self._value = await self._lanes.watch(self._compute)
        except MemorydError as error:
            _log.warning("a look at the state failed: %s", error.message)
            self._fail(error.message)
        except Exception:  # noqa: BLE001 - a health answer must not end the daemon
            _log.exception("a look at the state failed")
            self._fail("the state could not be read; the daemon's log says why")
        finally:
            self._busy = None
            done.set()

    def _fail(self, message: str) -> None:
        if self._failed is not None:
            self._value = self._failed(message)


class Pulse:
    """What the daemon knows about itself, for the operations routes."""

    def __init__(self, toolbox: Toolbox, lanes: Lanes, instance: str, sessions: Callable[[], int]) -> None:
        self.lanes = lanes
        self.instance = instance
        self.sessions = sessions
        self.opening = True
        self.group: anyio.abc.TaskGroup | None = None
        self.started = time.monotonic()
        self._reasons = Kept[list[str]](lanes, toolbox.ready, [UNKNOWN], lambda message: [message])
        self._numbers = Kept[dict[str, float]](lanes, toolbox.numbers, {})
        self._status = Kept[dict[str, Any]](lanes, toolbox.status, {})

    def daemon(self) -> dict[str, Any]:
        """Facts that cost nothing."""
        return {
            "pid": os.getpid(),
            "version": VERSION,
            "wire": WIRE,
            "instance": self.instance,
            "uptime_seconds": round(time.monotonic() - self.started, 3),
            "sessions": self.sessions(),
            "active_calls": self.lanes.active,
            "draining": self.lanes.draining,
        }

    async def reasons(self) -> list[str]:
        """Why answers would be incomplete now; empty means ready."""
        if self.lanes.draining:
            return ["the daemon is shutting down"]
        if self.opening or self.group is None:
            return ["the home is being opened"]
        return await self._reasons.get(self.group)

    async def numbers(self) -> dict[str, float]:
        """Gauges."""
        own = {"sessions": float(self.sessions()), "active_calls": float(self.lanes.active)}
        own["uptime_seconds"] = time.monotonic() - self.started
        return own if self.opening or self.group is None else {**await self._numbers.get(self.group), **own}

    async def status(self) -> dict[str, Any]:
        """What /status shows of the home."""
        return {} if self.opening or self.group is None else await self._status.get(self.group)


def operations_app(pulse: Pulse) -> Starlette:
    """The read-only routes, for the optional loopback port: only to names of this machine."""
    return Starlette(routes=[Route(path, _local(handler)) for path, handler in operations(pulse)])


def operations(pulse: Pulse) -> list[tuple[str, Handler]]:
    """Paths and handlers of the read-only routes."""
    process = ProcessCollector(registry=None)

    async def healthz(_request: Request) -> Response:
        return JSONResponse({"status": "ok", **pulse.daemon()})

    async def readyz(_request: Request) -> Response:
        reasons = await pulse.reasons()
        return JSONResponse({"ready": not reasons, "reasons": reasons}, status_code=503 if reasons else 200)

    async def status(_request: Request) -> Response:
        reasons = await pulse.reasons()
        shown = {"daemon": pulse.daemon(), "ready": not reasons, "reasons": reasons}
        return JSONResponse({**await pulse.status(), **shown})

    async def metrics(_request: Request) -> Response:
        registry = CollectorRegistry()
        registry.register(_Collected([*_families(pulse.lanes, await pulse.numbers()), *process.collect()]))
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4; charset=utf-8")

    return [("/healthz", healthz), ("/readyz", readyz), ("/status", status), ("/metrics", metrics)]


class _Collected(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _families(lanes: Lanes, numbers: dict[str, float]) -> Iterator[Metric]:
    for name, value in sorted(numbers.items()):
        yield GaugeMetricFamily(f"memoryd_{name}", name.replace("_", " "), value=value)
    calls = CounterMetricFamily("memoryd_calls", "Ended tool calls.", labels=["tool", "outcome"])
    for (tool, outcome), count in sorted(lanes.calls.items()):
        calls.add_metric([tool, outcome], count)
    seconds = CounterMetricFamily("memoryd_call_seconds", "Time spent in tool calls.", labels=["tool"])
    for tool, spent in sorted(lanes.seconds.items()):
        seconds.add_metric([tool], spent)
    yield calls
    yield seconds


def _local(handler: Handler) -> Handler:
    """Refuse a page on another site that had its own name point to this machine."""

    async def checked(request: Request) -> Response:
        if request.url.hostname not in {"127.0.0.1", "localhost", "::1"}:
            return JSONResponse({"error": {"code": "foreign-host", "message": "Ask by a local name."}}, status_code=421)
        return await handler(request)

    return checked
