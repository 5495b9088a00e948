"""What does each line mean, and what becomes of the open requests when the daemon is lost?

Every request of the host gets exactly one answer, and what may have been written is never sent twice.
"""

from __future__ import annotations

import os
import time

from memoryd import runtime
from memproxy.host import NOT_SENT, Host, NotSent
from memproxy.launch import Launcher
from memproxy.lines import Overlong, error_line, is_id, parse, rescue_id, serialise
from memproxy.link import Call, Link

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

UNKNOWN_OUTCOME = -31001
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
CONNECTION_CLOSED = -32000
INTERNAL_ERROR = -32603
REPLAY_SECONDS = 5.0
SETTLE_SECONDS = 2.0
SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"


class Session:
    """The conversation of one host with whichever daemon serves it; `tell_host` queues one line for stdout."""

    def __init__(self, launcher: Launcher, host: Host, tell_host: Callable[[bytes], None]) -> None:
        self.launcher = launcher
        self.host = host
        self.tell_host = tell_host
        self.link: Link | None = None
        self.calls: dict[str | int | float, Call] = {}
        self.asked: dict[str, str | int] = {}  # the daemon's open requests: id shown to the host -> its own id
        self.resumed: set[str] = set()  # listens sent again, whose second acknowledgement the host must not see
        self.handshake: bytes | None = None  # the host's `initialize`, once it was answered
        self.initialized: bytes | None = None
        self.linked_before = False
        self.ending = False  # the host has closed stdin: nothing is started any more

    # -- the host's side

    def host_line(self, line: bytes | Overlong) -> None:
        """Take one line (without its newline) of the host."""
        if isinstance(line, Overlong):
            reason = f"the line is {line.size} bytes long, over the limit of {runtime.MAX_LINE_BYTES}"
            self._refuse(rescue_id(line.head, line.tail), INVALID_REQUEST, reason)
            return
        if not line.strip():
            return
        try:
            message = parse(line)
        except (ValueError, RecursionError) as error:
            self._refuse(rescue_id(line, line), PARSE_ERROR, f"the line is not JSON in UTF-8: {error}")
            return
        if isinstance(message, list):
            self._refuse_batch(message)
        elif isinstance(message, dict):
            self._host_message(line + b"\n", message)
        else:
            log("ignored a line of the host that is no JSON-RPC message")

    def _host_message(self, line: bytes, message: dict[str, Any]) -> None:
        method, request_id = message.get("method"), message.get("id")
        if not isinstance(method, str):
            if "method" in message and is_id(request_id):
                self._refuse(request_id, INVALID_REQUEST, "`method` must be a string")
            else:
                self._host_answer(message)
        elif "id" not in message:
            self._host_notification(line, message)
        elif not is_id(request_id):
            log(f"ignored a request ({method}) whose id can not be answered")
        elif request_id in self.calls:
            self._refuse(request_id, INVALID_REQUEST, f"a request with the id {request_id!r} is still open")
        else:
            self._host_request(request_id, Call(line, message))

    def _host_request(self, request_id: str | int | float | None, call: Call) -> None:
        assert request_id is not None
        if call.method == "initialize" and self.link is not None and self.link.era == "modern":
            self._leave_modern()
        self.calls[request_id] = call
        if self.link is None:
            self._restore()
        else:
            self._send(call)

    def _host_notification(self, line: bytes, message: dict[str, Any]) -> None:
        if message["method"] == "notifications/initialized":
            self.initialized = line
        elif message["method"] == "notifications/cancelled":
            params = message.get("params")
            cancelled = params.get("requestId") if isinstance(params, dict) else None
            call = self.calls.get(cancelled) if is_id(cancelled) else None  # type: ignore[arg-type]
            if call is None or call.method == "initialize":
                return  # answered already, or never asked
            del self.calls[cancelled]  # type: ignore[arg-type]
        if self.link is not None:
            self.link.send(line)

    def _host_answer(self, message: dict[str, Any]) -> None:
        """The host's answer to a request of the daemon; late ones for a lost daemon are dropped."""
        shown = message.get("id")
        if self.link is None or not isinstance(shown, str) or shown not in self.asked:
            return
        message["id"] = self.asked.pop(shown)
        self.link.send(serialise(message))

    def _refuse_batch(self, batch: list[Any]) -> None:
        for message in batch:
            if isinstance(message, dict) and "method" in message:
                self._refuse(message.get("id"), INVALID_REQUEST, "JSON-RPC batches are not supported")

    def _refuse(self, request_id: Any, code: int, reason: str) -> None:
        log(reason)
        if is_id(request_id):
            data = {"code": "invalid-message", "outcome": "not sent"}
            self.tell_host(error_line(request_id, code, f"Not sent: {reason}.", data))

    # -- the daemon's side

    def _send(self, call: Call) -> None:
        link = self.link
        assert link is not None
        if not link.era:
            link.era = "modern" if call.modern else "legacy"
        if call.tool:
            call.safe = call.tool in link.daemon.read_only
        call.refused = False
        call.tries += 1
        call.end = link.queued + len(call.line)
        link.send(call.line)

    def daemon_line(self, line: bytes | Overlong) -> None:
        """Take one line (without its newline) of the daemon."""
        link = self.link
        assert link is not None
        if isinstance(line, Overlong):
            self._overlong_answer(line)
            return
        try:
            message = parse(line)
        except (ValueError, RecursionError) as error:
            log(f"ignored a line of the daemon: {error}")
            return
        if not isinstance(message, dict):
            return
        if "method" not in message:
            self._daemon_answer(link, line, message)
        elif "id" in message:
            shown = f"{link.daemon.instance}:{message['id']!r}"
            self.asked[shown] = message["id"]
            self.tell_host(serialise({**message, "id": shown}))
        elif not self._second_acknowledgement(message):
            self.tell_host(line + b"\n")

    def _daemon_answer(self, link: Link, line: bytes, message: dict[str, Any]) -> None:
        request_id = message.get("id")
        call = self.calls.get(request_id) if is_id(request_id) else None  # type: ignore[arg-type]
        if call is None:
            return  # cancelled by the host, or a replay of ours
        error = message.get("error")
        if isinstance(error, dict):
            if error.get("code") == NOT_SENT:
                call.refused = True  # the daemon is draining: this goes to its successor
                return
            if error.get("code") == CONNECTION_CLOSED and error.get("message") == "Connection closed":
                link.broken = True  # the call was cut off: what that means is decided with the others
                return
        elif call.method == "initialize":
            self.handshake = call.line
        self.tell_host(line + b"\n")
        del self.calls[request_id]  # type: ignore[arg-type]

    def _overlong_answer(self, line: Overlong) -> None:
        found = _answered_id(line)
        reason = f"the answer of {line.size} bytes is over the line limit of {runtime.MAX_LINE_BYTES}"
        log(reason)
        if found is not None and self.calls.pop(found, None) is not None:
            data = {"code": "answer-too-large", "outcome": "done", "next_step": "Ask for less at a time."}
            self.tell_host(error_line(found, INTERNAL_ERROR, reason, data))

    def _second_acknowledgement(self, message: dict[str, Any]) -> bool:
        if not self.resumed or message["method"] != "notifications/subscriptions/acknowledged":
            return False
        subscription = _subscription_of(message)
        if subscription not in self.resumed:
            return False
        self.resumed.discard(subscription)
        self.tell_host(_tools_changed(message["params"]["_meta"][SUBSCRIPTION_KEY]))
        return True

    # -- loss and return

    def lost(self) -> None:
        """The connection is gone: answer what may have run, send the rest again."""
        link = self.link
        assert link is not None
        self._drop_link()
        for shown in self.asked:
            params = {"requestId": shown, "reason": "the daemon that asked is gone"}
            self.tell_host(serialise({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
        self.asked.clear()
        self._settle(link)
        if self.calls and not self.ending:
            self._restore()

    def _settle(self, link: Link) -> None:
        """Answer the calls that a dropped connection may have run; what is left may be sent again."""
        for request_id, call in list(self.calls.items()):
            sent = call.end <= link.left and not call.refused
            if sent and (not call.safe or call.tries > 1):
                del self.calls[request_id]
                self._answer_lost(request_id, call)

    def _drop_link(self) -> None:
        link = self.link
        if link is not None:
            link.daemon.close()
            self.link = None

    def _answer_lost(self, request_id: str | int | float, call: Call) -> None:
        what = call.tool or call.method
        if call.safe:
            message = f"The daemon ended twice while it served {what}, which changes nothing."
            data = {"code": "daemon-lost", "outcome": "nothing changed", "next_step": "See the daemon's log."}
        else:
            message = f"The daemon ended during {what}; the outcome is unknown, and it was not sent again."
            step = "Check with memory_search or memory_get first; the same content added again gives the same id."
            data = {"code": "outcome-unknown", "outcome": "unknown", "next_step": step}
        data["log"] = self.launcher.paths.log_file
        self.tell_host(error_line(request_id, UNKNOWN_OUTCOME, f"{message} {data['next_step']}", data))

    def _restore(self) -> None:
        """Attach to a daemon, bring back the session, send every open call; errors go to those calls."""
        try:
            self._attach()
        except NotSent as error:
            self._drop_link()
            log(error.reason)
            calls, self.calls = self.calls, {}
            for request_id in calls:
                step = error.data.get("next_step", "")
                text = f"Not sent: {error.reason}. {step}".strip()
                self.tell_host(error_line(request_id, NOT_SENT, text, error.data))

    def _attach(self) -> None:
        self.link = link = Link(self.launcher.daemon())
        if self.handshake is not None:
            self._replay(link, self.handshake)
        again, self.linked_before = self.linked_before, True
        for request_id, call in self.calls.items():
            if call.listens and call.tries:
                self.resumed.add(repr(request_id))
            self._send(call)
        if again and self.handshake is not None:
            self.tell_host(_tools_changed(None))

    def _replay(self, link: Link, handshake: bytes) -> None:
        """Repeat the host's handshake under an id of ours; its answer stays here."""
        message = parse(handshake)
        message["id"] = own = "memproxy-replay"
        link.era = "legacy"
        link.send(serialise(message))
        until = time.monotonic() + REPLAY_SECONDS
        while not link.broken and self.host.wait(link.daemon.sock.fileno(), until):
            for line in link.receive():
                answer = parse(line) if isinstance(line, bytes) else {}
                if answer.get("id") != own:
                    continue
                if "error" in answer:
                    raise NotSent(f"the new daemon refused the handshake: {answer['error'].get('message')}")
                if self.initialized is not None:
                    link.send(self.initialized)
                return
        raise NotSent("the daemon ended while the session was being restored", log=self.launcher.paths.log_file)

    def _leave_modern(self) -> None:
        """A handshake after a modern probe needs a connection of its own; let what is in flight arrive first."""
        until = time.monotonic() + SETTLE_SECONDS
        while any(not call.listens for call in self.calls.values()) and time.monotonic() < until:
            if self.link is None or self.link.broken:
                break
            if self.host.wait(self.link.daemon.sock.fileno(), until):
                for line in self.link.receive():
                    self.daemon_line(line)
        if self.link is not None:
            link = self.link
            self._drop_link()
            self._settle(link)
        self.linked_before = False


def _answered_id(line: Overlong) -> str | int | float | None:
    """The id of an answer over the limit: `rescue_id` tells requests only, so the answer's body is cut away."""
    found = rescue_id(line.head.split(b'"result"')[0], b"")
    return found if found is not None else rescue_id(b"", line.tail)


def _subscription_of(message: dict[str, Any]) -> str:
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return repr(meta.get(SUBSCRIPTION_KEY)) if isinstance(meta, dict) else ""


def _tools_changed(subscription: Any) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    if subscription is not None:
        message["params"] = {"_meta": {SUBSCRIPTION_KEY: subscription}}
    return serialise(message)


def log(text: str) -> None:
    """One line for people, on stderr: stdout belongs to the protocol."""
    try:  # noqa: SIM105 - contextlib would cost start-up time
        os.write(2, f"memproxy: {text}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        pass
