"""What is under way: the host's open requests, and the one daemon connection that carries them."""

from __future__ import annotations

from memproxy.launch import Daemon
from memproxy.lines import Overlong

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
SAFE_METHODS = frozenset(
    (
        "initialize",
        "ping",
        "server/discover",
        "subscriptions/listen",
        "tools/list",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "completion/complete",
    )
)
"""Requests that change nothing, so that a lost daemon lets them be sent again."""


class Call:
    """A request of the host that has no answer yet."""

    __slots__ = ("end", "line", "listens", "method", "modern", "refused", "safe", "tool", "tries")

    def __init__(self, line: bytes, message: dict[str, Any]) -> None:
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        meta = params.get("_meta")
        self.line = line
        self.method = str(message["method"])
        self.tool = str(params.get("name", "")) if self.method == "tools/call" else ""
        self.modern = self.method != "initialize" and isinstance(meta, dict) and VERSION_KEY in meta
        self.listens = self.method == "subscriptions/listen"
        self.safe = self.method in SAFE_METHODS
        self.refused = False  # a draining daemon said that it did not run this
        self.tries = 0
        self.end = 0  # of the line, in bytes ever queued on the connection


class Link:
    """One daemon connection in use: what is queued, what has left, which era its first request chose."""

    __slots__ = ("broken", "daemon", "era", "left", "queue", "queued")

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.queue = bytearray()
        self.queued = 0
        self.left = 0
        self.era = ""
        self.broken = False
        daemon.sock.setblocking(False)

    def send(self, line: bytes) -> None:
        self.queue += line
        self.queued += len(line)
        self.flush()

    def flush(self) -> None:
        try:
            while self.queue:
                count = self.daemon.sock.send(self.queue)
                del self.queue[:count]
                self.left += count
        except BlockingIOError:
            pass
        except OSError:
            self.broken = True

    def receive(self) -> list[bytes | Overlong]:
        try:
            data = self.daemon.sock.recv(65536)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.broken = True
            return []
        return self.daemon.buffer.feed(data)
