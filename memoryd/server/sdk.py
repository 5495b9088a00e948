"""Which parts of the MCP SDK are used, and how are they loaded without the rest?

The one place that touches `mcp`. The `__init__` files of `mcp` and `mcp.server` load the client, the OAuth code and a
cryptography library, which a daemon on a local socket never needs: 12 MB of memory and a fifth of the start. Empty
stand-ins for the two packages leave their submodules importable; where a later SDK does not work that way, the
packages are loaded in full.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys

PACKAGES = ("mcp", "mcp.server")
PARTS = ("mcp.server.lowlevel", "mcp.server.subscriptions", "mcp.server.caching", "mcp.server.context")


def _load_parts_only() -> None:
    if any(name in sys.modules for name in PACKAGES):
        return
    try:
        for name in PACKAGES:
            spec = importlib.util.find_spec(name)
            if spec is None:
                raise ImportError(name)
            sys.modules[name] = importlib.util.module_from_spec(spec)
        for name in PARTS:
            importlib.import_module(name)
    except (ImportError, AttributeError):
        for name in [name for name in sys.modules if name.partition(".")[0] == "mcp"]:
            del sys.modules[name]


_load_parts_only()

import mcp_types as types  # noqa: E402
from mcp.server.caching import CacheHint  # noqa: E402
from mcp.server.context import ServerRequestContext  # noqa: E402
from mcp.server.lowlevel import NotificationOptions, Server  # noqa: E402
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler  # noqa: E402
from mcp.shared.exceptions import MCPError  # noqa: E402
from mcp.shared.message import ServerMessageMetadata, SessionMessage  # noqa: E402
from mcp_types.version import MODERN_PROTOCOL_VERSIONS, is_version_at_least  # noqa: E402

__all__ = [
    "MODERN_PROTOCOL_VERSIONS",
    "CacheHint",
    "InMemorySubscriptionBus",
    "ListenHandler",
    "MCPError",
    "NotificationOptions",
    "Server",
    "ServerMessageMetadata",
    "ServerRequestContext",
    "SessionMessage",
    "is_version_at_least",
    "types",
]
