"""The tools as agents and the command line call them, bound to an open home: the same lists, checks and errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memoryd.errors import MemorydError
from memoryd.operations.home import Caller, Home
from memoryd.server.commands import tree_commands, writing_commands
from memoryd.server.offered import agent_tools
from memoryd.server.reviews import review_commands
from memoryd.server.toolbox import Asker, Run, Tool
from memoryd.server.vaults import vault_commands


class Desk:
    """Whoever opens a home tells the desk by `home`; it may be another one after a restart."""

    def __init__(self, home: Home) -> None:
        self.home = home
        offered = agent_tools(self._bound)
        self.tools = {tool.name: tool for tool in offered}
        """What a session may call."""
        besides = (*tree_commands(self._bound), *vault_commands(self._bound), *review_commands(self._bound))
        self.commands = self.tools | {tool.name: tool for tool in (*besides, *writing_commands(offered))}
        """What the command line may call."""

    def agent(self, caller: Caller, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What a session's call answers; a typed error as its data, with `error` set. Anything else is raised."""
        return _answer(self.tools[name], caller, arguments)

    def person(self, caller: Caller, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The same for a call of the command line."""
        return _answer(self.commands[name], caller, arguments)

    def _bound(self, operation: Callable[..., dict[str, Any]]) -> Run:
        def run(asker: Asker, given: dict[str, Any]) -> dict[str, Any]:
            return operation(self.home, Caller(asker.directory, asker.name), **given)

        return run


def _answer(tool: Tool, caller: Caller, arguments: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return tool.run(Asker(caller.directory, caller.name), tool.checked(arguments))
    except MemorydError as error:
        return {"error": True, **error.to_dict()}
