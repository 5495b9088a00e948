"""How does the command line talk to the daemon of a home?

HTTP over the home's `http.sock`, standard library only.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from typing import Any

from memoryd.errors import ContentTooLarge, DaemonUnavailable, MemorydError
from memoryd.runtime import MAX_LINE_BYTES, RuntimePaths, connect

UNKNOWN = (
    "Whether it was done is unknown: look with `memoryd search` or `memoryd status`; the same content added again "
    "gives the same id."
)


class ToldError(MemorydError):
    """An error that the daemon answered with; it keeps the daemon's own code."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        super().__init__(str(told.get("message", "The daemon refused.")), next_step=told.get("next_step"))
        self.told = dict(told)

    def to_dict(self) -> dict[str, Any]:
        """Exactly what the daemon said."""
        return self.told


class NoDaemon(DaemonUnavailable):
    """Nobody listens: nothing was sent."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("memoryd", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock: socket.socket = connect(self._path, self.timeout or 60)


class DaemonClient:
    """Requests to one home's daemon; never starts one."""

    def __init__(self, paths: RuntimePaths) -> None:
        self.paths = paths

    def alive(self) -> bool:
        """Whether a daemon answers; False where nobody listens. Raises DaemonUnavailable for one that does not."""
        try:
            self.request("GET", "/healthz", timeout=5)
        except NoDaemon:
            return False
        return True

    def tool(self, name: str, arguments: Mapping[str, Any], directory: str | None) -> dict[str, Any]:
        """Call a tool as an agent would. Raises ToldError with the daemon's own error, DaemonUnavailable."""
        body = {"arguments": dict(arguments), "directory": directory}
        return self.request("POST", f"/api/tools/{name}", body, timeout=120)

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, timeout: float = 30
    ) -> dict[str, Any]:
        """One request; the answer's JSON object. Raises DaemonUnavailable, ToldError."""
        connection = _UnixConnection(self.paths.http_socket, timeout)
        payload = None if body is None else _payload(body)
        try:
            self._connect(connection)
            connection.request(method, path, payload, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise DaemonUnavailable(
                f"The daemon of {self.paths.home} did not answer: {str(error) or type(error).__name__}.",
                next_step=UNKNOWN,
                log=self.paths.log_file,
            ) from error
        finally:
            connection.close()
        return _object(text, response.status)

    def _connect(self, connection: _UnixConnection) -> None:
        try:
            connection.connect()
        except (FileNotFoundError, NotADirectoryError, ConnectionError) as error:
            raise NoDaemon(f"No daemon answers for the home {self.paths.home}.") from error


def _payload(body: Mapping[str, Any]) -> bytes:
    """The request as UTF-8 (unpaired surrogates as they are: the daemon refuses them by name)."""
    payload = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
    if len(payload) > MAX_LINE_BYTES:
        raise ContentTooLarge(f"The request has {len(payload)} bytes; the limit is {MAX_LINE_BYTES}.")
    return payload


def _object(text: bytes, status: int) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError as error:
        message = f"The daemon ended, or failed, before it could answer ({status})."
        raise DaemonUnavailable(message, next_step=UNKNOWN) from error
    if not isinstance(data, dict):
        raise DaemonUnavailable(f"The daemon answered {status} with something else than an object.")
    if status >= 400 and isinstance(data.get("error"), dict):
        raise ToldError(data["error"])
    return data
