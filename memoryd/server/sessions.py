"""Who is connected, what did both sides say hello with, and how does the SDK serve each connection?

One SDK server object serves every connection in both protocol eras; homes and models live outside it.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from memoryd.errors import NotFound, ShuttingDown
from memoryd.runtime import VERSION, WIRE
from memoryd.server.confirm import Confirmation, Seal, as_result
from memoryd.server.lanes import Lanes
from memoryd.server.sdk import (
    CacheHint,
    InMemorySubscriptionBus,
    ListenHandler,
    MCPError,
    NotificationOptions,
    Server,
    ServerRequestContext,
    types,
)
from memoryd.server.sockets import is_own_user
from memoryd.server.toolbox import Asker, Tool, Toolbox, call
from memoryd.server.transport import ENDED, Lines

NOT_SENT = -31002
HELLO_SECONDS = 5.0
HELLO_LIMIT = 64 * 1024
FAREWELL_SECONDS = 0.05
TOOLS_FRESH_MS = 300_000
_log = logging.getLogger(__name__)
_current: ContextVar[Asker] = ContextVar("asker")
Context = ServerRequestContext[Asker]
ToolResult = types.CallToolResult | types.InputRequiredResult


class Sessions:
    """All proxy connections of one daemon."""

    def __init__(self, toolbox: Toolbox, lanes: Lanes, instance: str, drain: Callable[[], None]) -> None:
        self.count = 0
        self.listens = ListenHandler(InMemorySubscriptionBus())
        self._toolbox = toolbox
        self._lanes = lanes
        self._instance = instance
        self._drain = drain
        self._confirmation: Confirmation | None = None
        self._tools = types.ListToolsResult(tools=[_described(tool) for tool in toolbox.tools])
        self._server = self._made()
        self._options = self._server.create_initialization_options(NotificationOptions(tools_changed=True))

    def opened(self) -> None:
        """The toolbox is open: state for clients can be sealed from now on."""
        self._confirmation = Confirmation(self._lanes, Seal(self._toolbox.seal_key()))

    async def farewell(self) -> None:
        """Give the writers their turn with what was answered last."""
        await anyio.sleep(FAREWELL_SECONDS)

    async def serve(self, stream: SocketStream) -> None:
        """Serve one connection until it ends; nothing it does may end another one."""
        self.count += 1
        try:
            async with stream:
                await self._greet(stream)
        except ENDED:
            pass
        except Exception:  # noqa: BLE001 - the border of a connection: an exception here would end them all
            _log.exception("a connection failed")
        finally:
            self.count -= 1

    async def _greet(self, stream: SocketStream) -> None:
        if not is_own_user(stream.extra(SocketAttribute.raw_socket)):
            _log.warning("refused a connection of another user")
            return
        lines = BufferedByteReceiveStream(stream)
        said = await _said(lines)
        if said is None:
            return
        await stream.send(json.dumps(self._hello()).encode() + b"\n")
        if said.get("memoryd") == "drain":
            _log.info("asked to make room for memoryd %s", said.get("version"))
            self._drain()
        elif said.get("memoryd") == "hello" and said.get("wire") == WIRE:
            directory = said.get("directory")
            asker = Asker(directory if isinstance(directory, str) else None, f"pid {said.get('pid')}")
            await self._talk(lines, stream, asker)

    def _hello(self) -> dict[str, Any]:
        read_only = [tool.name for tool in self._toolbox.tools if tool.read_only]
        mine = {"wire": WIRE, "version": VERSION, "instance": self._instance, "pid": os.getpid()}
        return {**mine, "read_only": read_only}

    async def _talk(self, lines: BufferedByteReceiveStream, stream: SocketStream, asker: Asker) -> None:
        _current.set(asker)

        async def serve(read: Any, write: Any) -> None:
            await self._server.run(read, write, self._options)

        await Lines(lines, stream).run(serve)

    def _made(self) -> Server[Asker]:
        @asynccontextmanager
        async def lifespan(_server: Server[Asker]) -> AsyncIterator[Asker]:
            yield _current.get()

        return Server(
            "memoryd",
            version=VERSION,
            instructions=self._toolbox.instructions,
            lifespan=lifespan,
            cache_hints={"tools/list": CacheHint(ttl_ms=TOOLS_FRESH_MS, scope="public")},
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=self.listens,
        )

    async def _list_tools(self, _context: Context, _params: Any) -> types.ListToolsResult:
        return self._tools

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> ToolResult:
        try:
            tool = self._toolbox.named(params.name)
        except NotFound as error:
            raise MCPError(types.INVALID_PARAMS, error.message, error.to_dict()) from error
        asker = context.lifespan_context
        arguments = params.arguments or {}
        try:
            if tool.confirms and self._confirmation is not None:
                return await self._confirmation.call(context, tool, asker, params)
            return as_result(await call(self._lanes, tool, asker, arguments))
        except ShuttingDown as error:
            raise MCPError(NOT_SENT, f"Not sent: {error.message}", error.to_dict()) from error


def _described(tool: Tool) -> types.Tool:
    hints = types.ToolAnnotations(
        title=tool.title,
        read_only_hint=tool.read_only,
        destructive_hint=tool.destructive,
        idempotent_hint=tool.idempotent,
        open_world_hint=False,
    )
    return types.Tool(
        name=tool.name, title=tool.title, description=tool.description, input_schema=tool.schema, annotations=hints
    )


async def _said(lines: BufferedByteReceiveStream) -> dict[str, Any] | None:
    """The peer's hello, or None where it says something else, too much, or nothing in time."""
    with anyio.move_on_after(HELLO_SECONDS):
        try:
            said = json.loads(await lines.receive_until(b"\n", HELLO_LIMIT))
        except (ValueError, RecursionError, anyio.DelimiterNotFound):
            return None
        return said if isinstance(said, dict) and "memoryd" in said else None
    return None
