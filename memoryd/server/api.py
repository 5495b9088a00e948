"""What can the command line ask of a running daemon, over the home's own socket?

Tools go through the same dispatch as a session's calls; nothing here can delete, repair or forget.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from memoryd.errors import HomeOpening, InvalidInput, MemorydError, NotFound, ShuttingDown
from memoryd.runtime import MAX_LINE_BYTES
from memoryd.server.lanes import JobDesk, Lanes
from memoryd.server.toolbox import Asker, Toolbox, call
from memoryd.server.web import Handler, Pulse, operations


class Api:
    """The routes under /api; `desk` is there once the toolbox is open."""

    def __init__(self, toolbox: Toolbox, lanes: Lanes, drain: Callable[[], None]) -> None:
        self._toolbox = toolbox
        self._lanes = lanes
        self._drain = drain
        self.desk: JobDesk | None = None

    async def tool(self, request: Request) -> Response:
        """POST /api/tools/{name} {arguments, directory}: what a session's call would answer, or a command's."""
        tool = self._toolbox.command(request.path_params["name"])
        body = await _object(request)
        arguments, directory = body.get("arguments") or {}, body.get("directory")
        if not isinstance(arguments, dict):
            raise InvalidInput("`arguments` must be an object.")
        asker = Asker(directory if isinstance(directory, str) else None, "command line")
        outcome = await call(self._lanes, tool, asker, arguments)
        if outcome.error:
            return JSONResponse({"error": outcome.data}, status_code=_status(outcome.data.get("code")))
        return Response(outcome.text, media_type="application/json")

    async def submit(self, request: Request) -> Response:
        """POST /api/jobs {kind, args}: the id of the job that does it."""
        body = await _object(request)
        kind, args = body.get("kind"), body.get("args") or {}
        if not isinstance(kind, str) or not isinstance(args, dict):
            raise InvalidInput("A job needs `kind` (a string) and may have `args` (an object).")
        desk = await self._working_desk()
        return JSONResponse({"id": await self._lanes.watch(lambda: desk.submit(kind, args))}, status_code=202)

    async def job(self, request: Request) -> Response:
        """GET /api/jobs/{id}: state, progress and, at its end, the result."""
        desk = await self._working_desk()
        return JSONResponse(await self._lanes.watch(lambda: desk.get(request.path_params["id"])))

    async def jobs(self, _request: Request) -> Response:
        """GET /api/jobs: the newest first."""
        desk = await self._working_desk()
        return JSONResponse({"jobs": await self._lanes.watch(desk.listed)})

    async def drain(self, _request: Request) -> Response:
        """POST /api/drain: begin to stop; the process is gone when its lock is free."""
        self._drain()
        return JSONResponse({"draining": True})

    async def _working_desk(self) -> JobDesk:
        if self._lanes.draining:
            raise ShuttingDown("The daemon is shutting down.")
        await self._lanes.open_enough()
        if self.desk is None:
            raise NotFound("This daemon does no jobs.")
        return self.desk


def socket_app(pulse: Pulse, api: Api) -> Starlette:
    """Everything that the home's own socket serves."""
    routes = [Route(path, _told(handler)) for path, handler in operations(pulse)]
    routes += [
        Route("/api/tools/{name}", _told(api.tool), methods=["POST"]),
        Route("/api/jobs", _told(api.submit), methods=["POST"]),
        Route("/api/jobs", _told(api.jobs)),
        Route("/api/jobs/{id}", _told(api.job)),
        Route("/api/drain", _told(api.drain), methods=["POST"]),
    ]
    return Starlette(routes=routes, exception_handlers={404: _missing, 405: _missing})


def _told(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Every error as `{"error": {code, message, next_step}}`."""

    async def answered(request: Request) -> Response:
        try:
            return await handler(request)
        except MemorydError as error:
            return JSONResponse({"error": error.to_dict()}, status_code=_status(error.code))
        except ClientDisconnect:
            return Response(status_code=400)

    return answered


def _status(code: Any) -> int:
    special = {NotFound.code: 404, ShuttingDown.code: 503, HomeOpening.code: 503, "internal-error": 500}
    return special.get(code, 400)


async def _missing(request: Request, _error: Exception) -> Response:
    error = NotFound(f"There is no {request.method} {request.url.path[:80]}.", next_step="See docs/wire.md.")
    return JSONResponse({"error": error.to_dict()}, status_code=404)


async def _object(request: Request) -> Mapping[str, Any]:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_LINE_BYTES:
            raise InvalidInput(f"The request is over the limit of {MAX_LINE_BYTES} bytes.")
    try:
        value = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"The request is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise InvalidInput("The request must be a JSON object.")
    return value
