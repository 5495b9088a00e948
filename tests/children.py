"""Children of the model that outlive a home: a test's home gets one that is loaded already, and gives it back."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from memoryd.models.frames import Frame
from memoryd.models.host import ModelHost
from memoryd.models.process import ModelProcess

_idle: dict[str, list[tuple[subprocess.Popen[bytes], float | None]]] = {}
"""By what they were started with: loaded children that nobody uses, and how long they took to load."""


def keep_child(host: ModelHost) -> None:
    """Of a host that has started nothing yet: let its child outlive it."""
    assert not host._process.started()
    host._process.__class__ = KeptProcess


class KeptProcess(ModelProcess):
    """The real child; only its start and its end are put off from home to home.

    One that was killed, died or was cut off in the middle of an answer is not kept.
    """

    _asking = False

    def start(self) -> None:
        self._asking = False
        kept = _idle.get(self._key(), [])
        with self._lock:
            while kept and not self._killed and not self.ready:
                child, seconds = kept.pop()
                if child.poll() is None:
                    self._child, self.load_seconds, self.ready = child, seconds, True
        if not self.ready:
            super().start()

    def _ask(self, frame: Frame, seconds: float) -> Frame:
        self._asking = True  # and stays so where it raises
        answer = super()._ask(frame, seconds)
        self._asking = False
        return answer

    def kill(self) -> None:
        with self._lock:
            idle, self._killed = self.ready and not self._asking, True
        if not idle:
            super().kill()

    def end(self) -> None:
        with self._lock:
            child = self._child
            if self.ready and not self._asking and child is not None and child.poll() is None:
                _idle.setdefault(self._key(), []).append((child, self.load_seconds))
                self._child, self.ready = None, False
        super().end()

    def _key(self) -> str:
        return repr((self._command, dict(self._spec.load), self._threads))

    def _spawn(self) -> None:
        """The kernel ends a child with the thread that started it: that must not be a home's."""
        _starter().submit(super()._spawn).result()


@cache
def _starter() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "model-starter")


def _forget() -> None:
    """A forked process owns neither the children nor the thread."""
    _idle.clear()
    _starter.cache_clear()


os.register_at_fork(after_in_child=_forget)
