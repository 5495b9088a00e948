"""How is a process started that fills one part of a new set of views, followed, and ended?"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from memoryd.errors import IndexProblem
from memoryd.models.process import clean_environment
from memoryd.operations.home import Home, index_identity

COMMAND = ("-P", "-m", "memoryd.operations.filler")
LOOK_SECONDS = 0.1
END_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Orders:
    """What is to be filled: `part` (lexical, vectors, catalog) in `target`, from the home in `root`.

    Documents up to the record `until` count; vectors are those of `model` (fields of a `ModelIdentity`). `vector` and
    `key_file` say where vectors lie, as the configuration does.
    """

    part: str
    root: str
    cache: str
    target: str
    until: int
    model: dict[str, Any]
    sparse: bool = False
    vector: dict[str, Any] = field(default_factory=dict)
    key_file: str | None = None


def orders_for(home: Home, part: str, target: Path, until: int) -> Orders:
    """Orders to fill `target` with what the home holds now."""
    return Orders(
        part=part,
        root=str(home.root),
        cache=str(home.cache.path),
        target=str(target),
        until=until,
        model=asdict(home.host.identity),
        sparse=index_identity(home).sparse,
        vector=home.config.vector.model_dump(),
        key_file=None if (file := home.loaded.key_file()) is None else str(file),
    )


class Filling:
    """One process at work; made in one thread, asked from any."""

    def __init__(self, orders: Orders, root: Path, command: list[str] | None = None) -> None:
        """Start it; what it has to complain of goes to `log/filling.log`. Raises IndexProblem."""
        self.orders = orders
        self.done = 0
        self._last: dict[str, Any] = {}
        try:
            with (root / "log" / "filling.log").open("ab") as log:
                self._process = subprocess.Popen(
                    command or [sys.executable, *COMMAND],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd="/",
                    env=clean_environment(os.environ),
                    start_new_session=True,
                )
        except OSError as error:
            raise IndexProblem(f"No process can be started to fill {orders.target}: {error.strerror}.") from error
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it died at once: its last line is missing then
            self._process.stdin.write(json.dumps(asdict(orders)).encode() + b"\n")
            self._process.stdin.flush()
        self._reader = threading.Thread(target=self._follow, name=f"filling-{orders.part}", daemon=True)
        self._reader.start()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(ValueError):
                told = json.loads(line)
                self.done = told.get("done", self.done)
                self._last = told

    @property
    def pid(self) -> int:
        """For people and tests."""
        return self._process.pid

    def running(self) -> bool:
        """Whether it is still at work."""
        return self._reader.is_alive()

    def outcome(self) -> dict[str, Any]:
        """What it says at its end. Raises IndexProblem where it failed or died; waits for it."""
        self._reader.join()
        self._process.wait()
        if isinstance(end := self._last.get("end"), dict):
            return end
        error = self._last.get("error")
        why = error["message"] if isinstance(error, dict) else f"it ended with {self._process.returncode}"
        raise IndexProblem(f"The process that fills the {self.orders.part} part did not come to its end: {why}")

    def wait(self, stop: Callable[[], bool]) -> dict[str, Any] | None:
        """As `outcome`, ending it once `stop()` is true: then None."""
        while self.running():
            if stop():
                self.close()
                return None
            self._reader.join(LOOK_SECONDS)
        return self.outcome()

    def close(self) -> None:
        """End it at once, whatever it does, and wait for that; safe to call twice."""
        self._process.kill()
        self._process.wait(END_SECONDS)
        self._reader.join(END_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
