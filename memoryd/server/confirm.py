"""How is a person asked before a lifecycle change, where the host can ask one?

The preview's token is the plan. A host with elicitation shows the plan to a person and a yes redeems the token here;
everywhere else, and whenever asking fails, the preview goes to the agent, which redeems the token by a second call.
"""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS, is_version_at_least

from memoryd.server.lanes import Lanes
from memoryd.server.toolbox import Asker, Outcome, Tool, Toolbox, call

ASK_SECONDS = 45.0
"""How long a person is waited for before the preview goes to the agent; hosts end a call after 60 s or more."""
FIRST_WITH_ELICITATION = "2025-06-18"
QUESTION = "confirm"
SHOWN_LINES = 30
Context = ServerRequestContext[Asker]


class Confirmation:
    """Calls tools that preview first."""

    def __init__(self, toolbox: Toolbox, lanes: Lanes) -> None:
        self._toolbox = toolbox
        self._lanes = lanes

    async def call(
        self, context: Context, tool: Tool, asker: Asker, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Run the tool; a preview is put to a person where the host can do that."""
        arguments = dict(params.arguments or {})
        if params.request_state is not None and params.input_responses:
            return await self._redeem(tool, asker, arguments, params)
        outcome = await call(self._lanes, tool, asker, arguments)
        token = outcome.data.get("confirm")
        if outcome.error or not isinstance(token, str) or not can_ask(context):
            return as_result(outcome)
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            question = types.ElicitRequest(params=_question(outcome.data))
            return types.InputRequiredResult(request_state=token, input_requests={QUESTION: question})
        try:
            answer = await _ask(context, outcome.data)
        except MCPError:
            return as_result(outcome)  # nobody answered: the token is the fallback
        if answer.action == "cancel":
            return as_result(outcome)  # put aside, not refused
        if not _is_yes(answer):
            return as_result(_declined(outcome.data))
        return as_result(await call(self._lanes, tool, asker, {**arguments, "confirm": token}))

    async def _redeem(
        self, tool: Tool, asker: Asker, arguments: dict[str, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        answer = (params.input_responses or {}).get(QUESTION)
        if not isinstance(answer, types.ElicitResult) or answer.action == "cancel":
            return as_result(await call(self._lanes, tool, asker, arguments))
        if not _is_yes(answer):
            return as_result(_declined(arguments))
        return as_result(await call(self._lanes, tool, asker, {**arguments, "confirm": params.request_state}))


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
