"""Who talks to the proxy, is that process still there, and what does a failure to reach the daemon tell it?"""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NOT_SENT = -31002
FAREWELL_SECONDS = 1.5
"""How long a start is still waited for once the host has closed stdin."""


class NotSent(Exception):
    """The request never reached a daemon: why, and what to do."""

    def __init__(self, reason: str, *, code: str = "daemon-unavailable", next_step: str = "", **data: Any) -> None:
        super().__init__(reason)
        self.reason = reason
        self.data = {"code": code, "outcome": "not sent", **data}
        if next_step:
            self.data["next_step"] = next_step


class HostGone(Exception):
    """Nobody is left to answer."""


class Host:
    """Watches for the end of the process that talks to us, while something else is waited for."""

    def __init__(self) -> None:
        self.parent = os.getppid()
        self._closed_at: float | None = None

    def orphaned(self) -> bool:
        """Whether the parent died (one that was init from the start tells nothing)."""
        return self.parent > 1 and os.getppid() != self.parent

    def wait(self, fd: int | None, until: float) -> bool:
        """Wait until `fd` is readable (True) or `until` on the monotonic clock (False). Raises HostGone."""
        while True:
            now = time.monotonic()
            if self.orphaned() or (self._closed_at is not None and now > self._closed_at + FAREWELL_SECONDS):
                raise HostGone
            if now >= until:
                return False
            poller = select.poll()
            if fd is not None:
                poller.register(fd, select.POLLIN)
            if self._closed_at is None:
                poller.register(0, 0)  # hang-up only: what the host has written stays unread until later
            ready = poller.poll(min(until - now, 0.5) * 1000 + 1)
            if any(found == fd for found, _ in ready):
                return True
            if ready:
                self._closed_at = now

    def sleep(self, seconds: float) -> None:
        """Wait without an eye on anything but the host."""
        self.wait(None, time.monotonic() + seconds)
