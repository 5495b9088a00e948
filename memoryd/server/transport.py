"""How do lines on a socket become the SDK's messages, and what becomes of a line that it cannot take?

The SDK drops what it cannot parse without a word, and dies of a result that is not valid Unicode. Both are answered
here, so that every request that came in gets one answer.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from anyio.abc import AnyByteSendStream
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from pydantic import ValidationError

from memoryd.runtime import MAX_LINE_BYTES
from memoryd.server.sdk import SessionMessage, types

INVALID_REQUEST = types.INVALID_REQUEST
OPEN_LIMIT = 64
"""Requests of one connection that may be under way; beyond, its socket is not read until one is answered."""
FAREWELL_SECONDS = 2.0
LISTEN = "subscriptions/listen"
ENDED = (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError)
_log = logging.getLogger(__name__)

Incoming = SessionMessage | Exception
Outgoing = SessionMessage | bytes
Serve = Callable[[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]], Awaitable[None]]


class Lines:
    """One connection: its lines in, its lines out, and the ids that are open."""

    def __init__(self, source: BufferedByteReceiveStream, target: AnyByteSendStream) -> None:
        self._source = source
        self._target = target
        self._open: set[str | int] = set()
        self._room = anyio.Event()

    async def run(self, serve: Serve) -> None:
        """Feed `serve(read, write)` until the peer leaves and `serve` has ended; then let the last lines out."""
        to_serve, from_peer = anyio.create_memory_object_stream[Incoming](0)
        to_peer, from_serve = anyio.create_memory_object_stream[Outgoing](8)
        written = anyio.Event()
        async with anyio.create_task_group() as group:
            reading = anyio.CancelScope()
            group.start_soon(self._read, to_serve, to_peer.clone(), reading)
            group.start_soon(self._write, from_serve, written)
            await serve(from_peer, to_peer)
            reading.cancel()
            with anyio.move_on_after(FAREWELL_SECONDS):
                await written.wait()
            group.cancel_scope.cancel()

    async def _read(
        self,
        to_serve: MemoryObjectSendStream[Incoming],
        to_peer: MemoryObjectSendStream[Outgoing],
        scope: anyio.CancelScope,
    ) -> None:
        with scope:
            async with to_serve, to_peer:
                while True:
                    try:
                        line = await self._source.receive_until(b"\n", MAX_LINE_BYTES)
                    except ENDED:
                        return
                    except anyio.DelimiterNotFound:
                        _log.error("a line over %d bytes: the connection is closed", MAX_LINE_BYTES)
                        return
                    await self._take(line, to_serve, to_peer)

    async def _take(
        self, line: bytes, to_serve: MemoryObjectSendStream[Incoming], to_peer: MemoryObjectSendStream[Outgoing]
    ) -> None:
        try:
            message, refusals = parse(line)
        except (ValueError, RecursionError) as error:
            _log.warning("a line that is not JSON was dropped: %s", error)
            return
        for refusal in refusals:
            await to_peer.send(refusal)
        if message is None:
            return
        if isinstance(message, types.JSONRPCRequest) and message.method != LISTEN:
            while len(self._open) >= OPEN_LIMIT:
                self._room = anyio.Event()
                await self._room.wait()
            self._open.add(message.id)
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._close((message.params or {}).get("requestId"))
        try:
            await to_serve.send(SessionMessage(message))
        except ENDED:
            return

    async def _write(self, from_serve: MemoryObjectReceiveStream[Outgoing], written: anyio.Event) -> None:
        try:
            async with from_serve:
                async for message in from_serve:
                    line = message if isinstance(message, bytes) else encode(message.message)
                    await self._target.send(line)
                    if isinstance(message, SessionMessage):
                        self._close(getattr(message.message, "id", None))
        except ENDED:
            pass  # the peer is gone; the reader notices it too
        finally:
            written.set()

    def _close(self, request_id: Any) -> None:
        if isinstance(request_id, (str, int)) and request_id in self._open:
            self._open.discard(request_id)
            self._room.set()


def parse(line: bytes) -> tuple[types.JSONRPCMessage | None, list[bytes]]:
    """The message in a line, and ready answers to requests in it that are not valid JSON-RPC.

    Raises ValueError, RecursionError where the line is not JSON in UTF-8. Unpaired surrogates pass: they are refused
    by parameter where a tool is called.
    """
    value = json.loads(line.decode("utf-8"), parse_constant=_refuse_constant)
    if isinstance(value, list):
        return None, [answer for part in value if (answer := refusal(part, "batches are not supported"))]
    if isinstance(value, dict) and "method" in value and not isinstance(value.get("id", ""), (str, int)):
        answer = refusal(value, "an id is a string or an integer")  # the SDK would take it for a notification
        return None, [answer] if answer else []
    try:
        return types.jsonrpc_message_adapter.validate_python(value, by_name=False), []
    except ValidationError as error:
        reason = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:3])
        answer = refusal(value, f"not a JSON-RPC message ({reason[:300]})")
        return None, [answer] if answer else []


def refusal(value: Any, reason: str) -> bytes | None:
    """An error line for something that asks for an answer; never with a null id."""
    if not isinstance(value, dict) or "method" not in value:
        return None
    request_id = value.get("id")
    if not isinstance(request_id, (str, int, float)) or isinstance(request_id, bool):
        return None
    return error_line(request_id, INVALID_REQUEST, f"Invalid request: {reason}.")


def error_line(request_id: Any, code: int, message: str) -> bytes:
    """An error answer as one line of ASCII."""
    error = {"code": code, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}).encode() + b"\n"


def encode(message: types.JSONRPCMessage) -> bytes:
    """One line; an answer that cannot be written (not Unicode, over the limit) becomes an error for its id."""
    request_id = getattr(message, "id", None)
    try:
        line = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except ValueError:
        _log.exception("the answer to %r cannot be written as JSON", request_id)
        return error_line(request_id, types.INTERNAL_ERROR, "The answer holds characters that JSON cannot carry.")
    if len(line) > MAX_LINE_BYTES:
        reason = f"The answer of {len(line)} bytes is over the line limit of {MAX_LINE_BYTES}; ask for less at a time."
        return error_line(request_id, types.INTERNAL_ERROR, reason)
    return line


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
