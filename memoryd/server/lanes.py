"""Where does blocking work run, how is it counted, and how does it end when the daemon does?

Calls run in worker threads behind limits: more of them wait, none is dropped. Duties are loops that follow writes and
the vault. Jobs are long work, one at a time, whose progress is kept in the catalog.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol, TypeVar

import anyio
import anyio.to_thread

from memoryd.errors import HomeOpening, InvalidInput, MemorydError, NotFound, ShuttingDown

T = TypeVar("T")
Stop = Callable[[], bool]
Progress = Callable[[int, int, str], None]
READERS = 16
WRITERS = 8
WATCHERS = 4
PROGRESS_SECONDS = 0.25
FAILED_PAUSE = 5.0
OPENING_SECONDS = 20.0
_log = logging.getLogger(__name__)


class Lanes:
    """Limits and counts of everything that runs outside the event loop; made inside it."""

    def __init__(self) -> None:
        self.opened = anyio.Event()
        """Set once the toolbox is open; calls wait for it."""
        self.draining = False
        self.active = 0
        self.writing = 0
        """Writes whose work has begun."""
        self.calls: Counter[tuple[str, str]] = Counter()
        """Ended calls by (name, outcome)."""
        self.seconds: dict[str, float] = {}
        """Time spent by name."""
        self._readers = anyio.CapacityLimiter(READERS)
        self._writers = anyio.CapacityLimiter(WRITERS)
        self._watchers = anyio.CapacityLimiter(WATCHERS)
        self._threads = anyio.CapacityLimiter(math.inf)
        self._changed = anyio.Event()

    @contextmanager
    def counted(self, name: str) -> Iterator[None]:
        """Count a call as active, so that a drain waits for it. Raises ShuttingDown once a drain has begun."""
        if self.draining:
            raise ShuttingDown("The daemon is shutting down; this call was not run.")
        self.active += 1
        began = time.perf_counter()
        try:
            yield
        finally:
            self.active -= 1
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began
            self._changed.set()
            self._changed = anyio.Event()

    async def open_enough(self) -> None:
        """Wait until the home is open, for as long as a host's patience allows. Raises HomeOpening."""
        if self.opened.is_set():
            return
        with anyio.move_on_after(OPENING_SECONDS):
            await self.opened.wait()
        if not self.opened.is_set():
            raise HomeOpening("The home is still being opened: its packs and vault are being read.")

    async def read(self, work: Callable[[], T]) -> T:
        """Run blocking work that changes nothing; a caller that leaves before its turn takes it along."""
        return await anyio.to_thread.run_sync(work, limiter=self._readers)

    async def write(self, work: Callable[[], T]) -> T:
        """Run a write; once begun it runs to its end even if the caller leaves (its own steps have time limits)."""
        async with self._writers:
            self.writing += 1
            try:
                with anyio.CancelScope(shield=True):
                    done = await anyio.to_thread.run_sync(work, limiter=self._threads)
            finally:
                self.writing -= 1
        return done

    async def watch(self, work: Callable[[], T]) -> T:
        """Run a short look at the state, in threads that no other work can occupy; given up when the caller is."""
        return await anyio.to_thread.run_sync(work, limiter=self._watchers, abandon_on_cancel=True)

    async def aside(self, work: Callable[[], T]) -> T:
        """Run long work of the daemon itself in a thread of its own; left behind when the waiting is cancelled."""
        return await anyio.to_thread.run_sync(work, limiter=self._threads, abandon_on_cancel=True)

    async def idle(self) -> None:
        """Wait until no counted call is active."""
        while self.active:
            await self._changed.wait()


@dataclass(frozen=True)
class Duty:
    """A loop beside the calls: `body(stop)` works once and returns the seconds to rest; `wake` ends a rest early."""

    name: str
    body: Callable[[Stop], float]
    wake: threading.Event = field(default_factory=threading.Event)

    def keep(self, stopping: threading.Event) -> None:
        """Run until `stopping`; a failure is logged and tried again after a rest."""
        while not stopping.is_set():
            try:
                rest = self.body(stopping.is_set)
            except MemorydError as error:
                _log.warning("%s: %s (%s)", self.name, error.message, error.code)
                rest = FAILED_PAUSE
            except Exception:  # noqa: BLE001 - a duty must survive whatever one round of it does
                _log.exception("%s failed", self.name)
                rest = FAILED_PAUSE
            if not stopping.is_set() and self.wake.wait(rest):
                self.wake.clear()


class JobStore(Protocol):
    """Where jobs are noted down (the catalog's `Jobs`)."""

    def create(self, kind: str, args: dict[str, Any]) -> str: ...
    def progress(self, id: str, done: int, total: int, note: str = "") -> None: ...
    def finish(self, id: str, outcome: Literal["done", "failed", "cancelled"], result: dict[str, Any]) -> None: ...
    def get(self, id: str) -> Any: ...
    def listed(self, limit: int) -> list[Any]: ...


JobBody = Callable[[dict[str, Any], Progress, Stop], dict[str, Any]]


class JobDesk:
    """Takes long work and does it one after the other in the thread that calls `keep`."""

    def __init__(self, kinds: Mapping[str, JobBody], store: JobStore) -> None:
        self._kinds = kinds
        self._store = store
        self._waiting: queue.Queue[str | None] = queue.Queue()
        self._open: dict[str, tuple[str, dict[str, Any]]] = {}
        self._lock = threading.Lock()

    def submit(self, kind: str, args: dict[str, Any]) -> str:
        """The id of a job that does this; one that is asked for again before it ended is the same job.

        Raises InvalidInput for an unknown kind.
        """
        if kind not in self._kinds:
            raise InvalidInput(f"There is no job {kind[:60]!r}; known: {', '.join(sorted(self._kinds))}.")
        with self._lock:
            for id, asked in self._open.items():
                if asked == (kind, args):
                    return id
            id = self._store.create(kind, args)
            self._open[id] = (kind, args)
        self._waiting.put(id)
        return id

    def get(self, id: str) -> dict[str, Any]:
        """One job as JSON. Raises NotFound."""
        row = self._store.get(id)
        if row is None:
            raise NotFound(f"There is no job {id[:60]!r}.", next_step="`memoryd job list` shows the known ones.")
        return shown(row)

    def listed(self, limit: int = 50) -> list[dict[str, Any]]:
        """The newest jobs first."""
        return [shown(row) for row in self._store.listed(limit)]

    @property
    def open(self) -> int:
        """Jobs that run or wait."""
        return len(self._open)

    def wake(self) -> None:
        """Let an idle `keep` look at its stop event."""
        self._waiting.put(None)

    def keep(self, stopping: threading.Event) -> None:
        """Do jobs until `stopping`; those that still wait are cancelled."""
        while not stopping.is_set():
            id = self._waiting.get()
            if id is not None and not stopping.is_set():
                self._do(id, stopping.is_set)
        for id in list(self._open):
            self._store.finish(id, "cancelled", {"reason": "the daemon stopped before this job began"})

    def _do(self, id: str, stop: Stop) -> None:
        kind, args = self._open[id]
        outcome: Literal["done", "failed", "cancelled"] = "failed"
        steps = Steps(partial(self._store.progress, id))
        try:
            result = self._kinds[kind](args, steps.note, stop)
            outcome = "cancelled" if stop() else "done"
        except MemorydError as error:
            result = error.to_dict()
        except Exception as error:  # noqa: BLE001 - a job's failure belongs into its record, the desk goes on
            _log.exception("job %s (%s) failed", id, kind)
            result = {"code": "internal-error", "message": f"{type(error).__name__}; the daemon's log has the rest."}
        steps.end(whole=outcome == "done")
        self._store.finish(id, outcome, result)
        with self._lock:
            del self._open[id]


class Steps:
    """How far a job is: told at most every PROGRESS_SECONDS, and once more at its end."""

    def __init__(self, tell: Progress) -> None:
        self._tell = tell
        self._told = 0.0
        self._last: tuple[int, int, str] | None = None

    def note(self, done: int, total: int, text: str) -> None:
        """`done` of `total` (0: unknown)."""
        self._last = (done, total, text)
        now = time.monotonic()
        if now - self._told >= PROGRESS_SECONDS:
            self._told = now
            self._tell(done, total, text)

    def end(self, *, whole: bool) -> None:
        """Tell the last step; of a job that did all of it, that it did."""
        if self._last is not None:
            done, total, text = self._last
            self._tell(max(done, total) if whole else done, total, text)


def shown(row: Any) -> dict[str, Any]:
    """A job's row as JSON."""
    names = ("id", "kind", "args", "state", "done", "total", "note", "result", "started", "updated", "finished")
    return {name: getattr(row, name) for name in names}
