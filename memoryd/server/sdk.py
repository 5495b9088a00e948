"""Which parts of the MCP SDK and of uvicorn are used, and how are they loaded without the rest?

The one place that touches both. The `__init__` files of `mcp`, `mcp.server` and `uvicorn` load a client, OAuth, a
cryptography library and a command line, which a daemon on a local socket never needs: 12 MB of memory and a fifth of
the start. Empty stand-ins for these packages leave their submodules importable; where a later release does not work
that way, the packages are loaded in full.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys

PACKAGES = ("mcp", "mcp.server", "uvicorn")
UNWANTED = "uvicorn.main"
"""A command line that an optional hook of the SDK's event streams would load."""
PARTS = (
    "uvicorn.server",
    "mcp.server.lowlevel",
    "mcp.server.subscriptions",
    "mcp.server.caching",
    "mcp.server.context",
)


def _load_parts_only() -> None:
    if any(name in sys.modules for name in PACKAGES):
        return
    try:
        for name in PACKAGES:
            spec = importlib.util.find_spec(name)
            if spec is None:
                raise ImportError(name)
            sys.modules[name] = importlib.util.module_from_spec(spec)
        sys.modules[UNWANTED] = None  # type: ignore[assignment]  # an import of it fails as if it were not installed
        for name in PARTS:
            importlib.import_module(name)
    except (ImportError, AttributeError):
        for name in [name for name in sys.modules if name.partition(".")[0] in {"mcp", "uvicorn", "sse_starlette"}]:
            del sys.modules[name]
    sys.modules.pop(UNWANTED, None)


_load_parts_only()

import mcp_types as types  # noqa: E402
from mcp.server.caching import CacheHint  # noqa: E402
from mcp.server.context import ServerRequestContext  # noqa: E402
from mcp.server.lowlevel import NotificationOptions, Server  # noqa: E402
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler  # noqa: E402
from mcp.shared.exceptions import MCPError  # noqa: E402
from mcp.shared.message import ServerMessageMetadata, SessionMessage  # noqa: E402
from mcp_types.version import MODERN_PROTOCOL_VERSIONS, is_version_at_least  # noqa: E402
from uvicorn.config import Config as HttpConfig  # noqa: E402
from uvicorn.protocols.http.h11_impl import H11Protocol  # noqa: E402
from uvicorn.server import Server as HttpServer  # noqa: E402

for _name, _part in (("Config", HttpConfig), ("Server", HttpServer)):  # what uvicorn's parts import from the package
    if not hasattr(sys.modules["uvicorn"], _name):
        setattr(sys.modules["uvicorn"], _name, _part)

__all__ = [
    "MODERN_PROTOCOL_VERSIONS",
    "CacheHint",
    "H11Protocol",
    "HttpConfig",
    "HttpServer",
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
