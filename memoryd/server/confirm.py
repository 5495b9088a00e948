"""How is a person asked before a lifecycle change, where the host can ask one?

The preview's token is the plan. A host with elicitation shows the plan to a person and a yes redeems the token here;
everywhere else, and whenever asking fails, the preview goes to the agent, which redeems the token by a second call.
"""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from memoryd.server.lanes import Lanes
from memoryd.server.sdk import (
    MODERN_PROTOCOL_VERSIONS,
    MCPError,
    ServerMessageMetadata,
    ServerRequestContext,
    is_version_at_least,
    types,
)
from memoryd.server.toolbox import Asker, Outcome, Tool, call

STATE_SECONDS = 600
ASK_SECONDS = 45.0
"""How long a person is waited for before the preview goes to the agent; hosts end a call after 60 s or more."""
FIRST_WITH_ELICITATION = "2025-06-18"
QUESTION = "confirm"
SHOWN_LINES = 30
Context = ServerRequestContext[Asker]


class Seal:
    """State that travels through a client and back: bound to the exact call, for a while, under a key of its own."""

    def __init__(self, key: bytes, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._clock = clock

    def close(self, token: str, tool: str, arguments: dict[str, Any]) -> str:
        """The sealed token."""
        claims = json.dumps([token, int(self._clock()) + STATE_SECONDS]).encode()
        return f"{base64.urlsafe_b64encode(claims).decode()}.{self._mac(claims, tool, arguments)}"

    def open(self, state: str, tool: str, arguments: dict[str, Any]) -> str:
        """The token again. Raises MCPError (-32602) for another call, another key, or too late."""
        sealed, _, mac = state.rpartition(".")
        try:
            claims = base64.urlsafe_b64decode(sealed.encode())
        except ValueError:
            claims = b""
        if not hmac.compare_digest(mac.encode(), self._mac(claims, tool, arguments).encode()):
            raise MCPError(types.INVALID_PARAMS, "This requestState is not of this call.")
        token, expires = json.loads(claims)
        if expires < self._clock():
            raise MCPError(types.INVALID_PARAMS, "This requestState is too old: call again without it.")
        return str(token)

    def _mac(self, claims: bytes, tool: str, arguments: dict[str, Any]) -> str:
        bound = json.dumps([tool, arguments], sort_keys=True).encode()
        return hmac.new(self._key, len(claims).to_bytes(8, "big") + claims + bound, sha256).hexdigest()


class Confirmation:
    """Calls tools that preview first."""

    def __init__(self, lanes: Lanes, seal: Seal) -> None:
        self._lanes = lanes
        self._seal = seal

    async def call(
        self, context: Context, tool: Tool, asker: Asker, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Run the tool; a preview is put to a person where the host can do that."""
        arguments = dict(params.arguments or {})
        if params.request_state is not None:
            token = self._seal.open(params.request_state, tool.name, arguments)
            answer = (params.input_responses or {}).get(QUESTION)
            return await self._redeem(tool, asker, arguments, token, answer)
        outcome = await call(self._lanes, tool, asker, arguments)
        preview = outcome.data.get("confirm")
        if outcome.error or not isinstance(preview, str) or not can_ask(context):
            return as_result(outcome)
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            question = types.ElicitRequest(params=_question(outcome.data))
            state = self._seal.close(preview, tool.name, arguments)
            return types.InputRequiredResult(request_state=state, input_requests={QUESTION: question})
        try:
            answer = await _ask(context, outcome.data)
        except MCPError:
            return as_result(outcome)  # nobody answered: the token is the fallback
        if answer.action == "cancel":
            return as_result(outcome)  # put aside, not refused
        if not _is_yes(answer):
            return as_result(_declined(outcome.data))
        return as_result(await call(self._lanes, tool, asker, {**arguments, "confirm": preview}))

    async def _redeem(
        self, tool: Tool, asker: Asker, arguments: dict[str, Any], token: str, answer: Any
    ) -> types.CallToolResult:
        if not isinstance(answer, types.ElicitResult) or answer.action == "cancel":
            return as_result(await call(self._lanes, tool, asker, arguments))
        if not _is_yes(answer):
            return as_result(_declined(arguments))
        return as_result(await call(self._lanes, tool, asker, {**arguments, "confirm": token}))


def can_ask(context: Context) -> bool:
    """Whether the client declared that it can show a form to a person."""
    capabilities = context.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities is not None else None
    if elicitation is None or (elicitation.form is None and elicitation.url is not None):
        return False
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return True
    return context.session.can_send_request and is_version_at_least(context.protocol_version, FIRST_WITH_ELICITATION)


async def _ask(context: Context, plan: dict[str, Any]) -> types.ElicitResult:
    return await context.session.send_request(
        types.ElicitRequest(params=_question(plan)),
        types.ElicitResult,
        request_read_timeout_seconds=ASK_SECONDS,
        metadata=ServerMessageMetadata(related_request_id=context.request_id),
    )


def _question(plan: dict[str, Any]) -> types.ElicitRequestFormParams:
    lines = [str(line) for line in plan.get("diff", [])]
    if len(lines) > SHOWN_LINES:
        lines = [*lines[:SHOWN_LINES], f"({len(lines) - SHOWN_LINES} more lines)"]
    title = f"{str(plan.get('action', 'change')).capitalize()} the memory “{plan.get('title', plan.get('id'))}”?"
    answer = {"type": "boolean", "title": "Do it", "description": "The memory stays readable in the history."}
    schema = {"type": "object", "properties": {"confirm": answer}, "required": ["confirm"]}
    return types.ElicitRequestFormParams(message="\n".join([title, *lines]), requested_schema=schema)


def _is_yes(answer: types.ElicitResult) -> bool:
    return answer.action == "accept" and (answer.content or {}).get("confirm") is True


def _declined(plan: dict[str, Any]) -> Outcome:
    said = "The person declined: nothing was changed. Do not ask again unless they bring it up."
    return Outcome.of({"outcome": "declined", "id": plan.get("id"), "next": said})


def as_result(outcome: Outcome) -> types.CallToolResult:
    """The outcome for hosts: the same data as structured content and as text."""
    text = types.TextContent(type="text", text=outcome.text)
    return types.CallToolResult(content=[text], structured_content=outcome.data, is_error=outcome.error)
