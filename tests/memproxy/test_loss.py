"""What does a host see when its daemon is lost: exactly one honest answer a request, and a session that goes on?"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from pathlib import Path

from tests.daemons import ENVELOPE, Stack, wait_for

LISTEN = {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE}
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def changed(proxy) -> int:
    return len([m for m in proxy.seen if m.get("method") == "notifications/tools/list_changed"])


def test_case_53_h15_a_write_that_loses_its_daemon_is_unknown_and_never_repeated(stack: Stack):
    """Case 53, H15 (c): one clear error that names a check; the proxy reconnects; the write happened once."""
    proxy = stack.session()
    error = proxy.answer(proxy.call_id("write_then_die", text="w1"))["error"]
    assert error["code"] == -31001
    assert error["data"]["outcome"] == "unknown"
    assert (
        "write_then_die" in error["message"] and "memory_search" in error["message"] and "same id" in error["message"]
    )
    assert proxy.call("show", text="back")["text"] == "back"
    assert stack.written().count("write w1") == 1
    assert changed(proxy) == 1


def test_h15_calls_after_a_kill_are_served(stack: Stack):
    """H15 (a) at once, (b) after the daemon is back: the handshake is repeated, tools/list_changed is sent."""
    proxy = stack.session()
    stack.kill()
    assert proxy.call("show", text="at once")["text"] == "at once"
    assert changed(proxy) == 1
    stack.kill()
    stack.daemon()
    assert proxy.call("show", text="later")["text"] == "later"
    assert changed(proxy) == 2
    assert proxy.call("write", text="after")["written"] == "after"


def test_h15_a_read_in_flight_is_sent_again(stack: Stack):
    """H15 (c) for a read: silently served by the next daemon."""
    proxy = stack.session()
    slow = proxy.call_id("slow", seconds=60, text="r")
    wait_for(lambda: "slow begins r" in stack.written())
    stack.kill()
    (stack.home / "release").touch()
    assert proxy.answer(slow)["result"]["structuredContent"] == {"slept": True}
    assert stack.written().count("slow begins r") == 2


def test_a_read_that_kills_every_daemon_is_answered_after_the_second(stack: Stack):
    """No loop of restarts: a call is sent at most twice."""
    proxy = stack.session()
    error = proxy.answer(proxy.call_id("die"))["error"]
    assert error["code"] == -31001 and error["data"]["outcome"] == "nothing changed"
    assert stack.written() == ["die", "die"]
    assert proxy.call("show", text="ok")["text"] == "ok"


def test_a_read_that_kills_one_daemon_is_served_by_the_next(stack: Stack):
    proxy = stack.session()
    assert proxy.call("die", once=True) == {"survived": True}


def test_many_calls_in_flight_each_get_their_own_answer(stack: Stack):
    proxy = stack.session()
    reads = [proxy.call_id("slow", seconds=60, text=f"r{n}") for n in range(5)]
    writes = [proxy.call_id("write", seconds=60, text=f"w{n}") for n in range(5)]
    wait_for(lambda: len(stack.written()) == 10)
    listed = proxy.ask("tools/list")
    assert "result" in proxy.answer(listed)
    stack.kill()
    (stack.home / "release").touch()
    for id in reads:
        assert proxy.answer(id)["result"]["structuredContent"] == {"slept": True}
    for id in writes:
        assert proxy.answer(id)["error"]["code"] == -31001
    assert proxy.quiet(0.3) == []
    assert [line for line in stack.written() if line.startswith("write w")] == []


def test_what_never_left_the_proxy_is_sent_again_even_if_it_writes(stack: Stack):
    """A write whose line was not taken by the socket cannot have run."""
    proxy = stack.session()
    pid = stack.holder()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    first = proxy.call_id("show", text="x" * 8_000_000)  # fills the socket
    last = proxy.call_id("write", text="queued")
    time.sleep(0.5)
    os.kill(pid, signal.SIGKILL)
    assert len(proxy.answer(first)["result"]["structuredContent"]["text"]) == 8_000_000
    assert proxy.answer(last)["result"]["structuredContent"] == {"written": "queued"}
    assert stack.written().count("write queued") == 1


def test_when_no_daemon_comes_back_every_open_call_is_told(stack: Stack):
    proxy = stack.session()
    read = proxy.call_id("slow", seconds=60, text="r")
    write = proxy.call_id("write", seconds=60, text="w")
    wait_for(lambda: len(stack.written()) == 2)
    stack.settings(start_dies=True)
    stack.kill()
    assert proxy.answer(write)["error"]["code"] == -31001
    assert proxy.answer(read)["error"]["code"] == -31002
    stack.settings()
    assert proxy.call("show", text="again")["text"] == "again"


def test_open_listens_are_sent_again_under_their_id(stack: Stack):
    """Modern: the host sees one acknowledgement, then a change notice with its subscription id."""
    proxy = stack.proxy()
    listen = proxy.ask("subscriptions/listen", LISTEN)
    acknowledged = proxy.message()
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert acknowledged["params"]["_meta"][SUBSCRIPTION] == listen
    stack.kill()
    notice = proxy.message()
    assert notice["method"] == "notifications/tools/list_changed"
    assert notice["params"]["_meta"][SUBSCRIPTION] == listen
    assert proxy.quiet(0.3) == []
    assert stack.starts == 2


def test_a_stopped_daemon_ends_listens_and_is_not_started_again(stack: Stack):
    """`stop` stays a stop: an open listen gets its final answer, an idle session starts nothing."""
    proxy = stack.proxy()
    listen = proxy.ask("subscriptions/listen", LISTEN)
    proxy.message()
    stack.http("POST", "/api/drain")
    assert proxy.answer(listen)["result"]["_meta"][SUBSCRIPTION] == listen
    stack.wait_gone()
    assert proxy.quiet(0.5) == []
    assert stack.holder() is None and stack.starts == 1


def test_modern_sessions_need_no_replay(stack: Stack):
    proxy = stack.proxy()
    proxy.request("server/discover", {"_meta": ENVELOPE})
    stack.kill()
    assert proxy.call("show", modern=True, text="back")["text"] == "back"
    assert proxy.seen == []


def test_a_call_that_a_stopping_daemon_refuses_goes_to_the_next(stack: Stack):
    """-31002 from a draining daemon means that it did not run: the proxy sends it on by itself."""
    proxy = stack.session()
    slow = proxy.call_id("write", seconds=1, text="slow")
    wait_for(lambda: "write begins slow" in stack.written())
    stack.http("POST", "/api/drain")
    late = proxy.call_id("write", text="late")
    assert proxy.answer(slow)["result"]["structuredContent"] == {"written": "slow"}
    assert proxy.answer(late)["result"]["structuredContent"] == {"written": "late"}
    assert stack.written().count("write late") == 1


def test_a_write_cut_off_by_a_stop_is_unknown(stack: Stack):
    """The daemon ends within its time although a write still runs; the host is told that nobody knows."""
    proxy = stack.session()
    write = proxy.call_id("write", seconds=30, text="long")
    wait_for(lambda: "write begins long" in stack.written())
    pid = stack.holder()
    assert pid is not None
    os.kill(pid, signal.SIGTERM)
    assert proxy.answer(write, 8)["error"]["code"] == -31001
    stack.wait_gone(2)


# -- requests of the daemon to the host


def asked(proxy) -> dict:
    message = proxy.message()
    assert message["method"] == "elicitation/create", message
    return message


def test_a_person_is_asked_and_says_yes(served: Stack):
    proxy = served.proxy()
    proxy.hello("2025-06-18", {"elicitation": {}})
    call = proxy.call_id("change", id="m1")
    question = asked(proxy)
    assert isinstance(question["id"], str) and ":" in question["id"]
    proxy.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"confirm": True}}})
    assert proxy.answer(call)["result"]["structuredContent"] == {"outcome": "changed", "id": "m1"}


def test_a_late_yes_to_a_dead_daemon_confirms_nothing(stack: Stack):
    """Ids carry the daemon's instance; on loss the host is told to drop the question."""
    proxy = stack.proxy()
    proxy.hello("2025-06-18", {"elicitation": {}})
    first = proxy.call_id("change", id="m1")
    old = asked(proxy)
    stack.kill()
    assert proxy.answer(first)["error"]["code"] == -31001
    assert [m["params"]["requestId"] for m in proxy.seen if m["method"] == "notifications/cancelled"] == [old["id"]]
    proxy.seen.clear()
    second = proxy.call_id("change", id="m2")
    while (new := proxy.message()).get("method") != "elicitation/create":
        pass
    assert new["id"] != old["id"]
    proxy.send({"jsonrpc": "2.0", "id": old["id"], "result": {"action": "accept", "content": {"confirm": True}}})
    assert proxy.quiet(0.3) == [] and stack.written() == []
    proxy.send({"jsonrpc": "2.0", "id": new["id"], "result": {"action": "decline"}})
    assert proxy.answer(second)["result"]["structuredContent"]["outcome"] == "declined"
    assert stack.written() == []


def test_sealed_state_survives_a_restart(stack: Stack):
    """Modern confirmation: `input_required`, the daemon dies, the repeat is accepted by the next one."""
    envelope = {**ENVELOPE, "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
    proxy = stack.proxy()
    params = {"name": "change", "arguments": {"id": "m1"}, "_meta": envelope}
    first = proxy.request("tools/call", params)["result"]
    assert first["resultType"] == "input_required"
    assert first["inputRequests"]["confirm"]["method"] == "elicitation/create"
    stack.kill()
    yes = {"confirm": {"action": "accept", "content": {"confirm": True}}}
    repeat = {**params, "requestState": first["requestState"], "inputResponses": yes}
    assert proxy.request("tools/call", repeat)["result"]["structuredContent"] == {"outcome": "changed", "id": "m1"}
    forged = {**repeat, "arguments": {"id": "m2"}}
    assert proxy.request("tools/call", forged)["error"]["code"] == -32602
    assert stack.written() == ["changed m1"]


# -- cancellation


def test_h13_cancel_in_every_moment(served: Stack):
    """H13: (a) mid-way, (b) with the result, (c) after it, (d) unknown, (e) twice: never two answers, no harm."""
    proxy = served.session()
    midway = proxy.call_id("slow", seconds=0.3, text="a")
    wait_for(lambda: "slow begins a" in served.written())
    proxy.cancel(midway)
    proxy.cancel(midway)
    proxy.cancel(424242)
    for _ in range(30):
        racing = proxy.call_id("show", text="b")
        proxy.cancel(racing)
    done = proxy.call_id("show", text="c")
    assert "result" in proxy.answer(done)
    proxy.cancel(done)
    assert proxy.call("show", text="after")["text"] == "after"
    ids = [m["id"] for m in [*proxy.seen, *proxy.quiet(0.6)]]
    assert len(ids) == len(set(ids)) and midway not in ids


def test_h13_a_cancelled_write_still_lands_once(served: Stack):
    """H13: a begun write runs to its end; its state can be asked for afterwards."""
    proxy = served.session()
    write = proxy.call_id("write", seconds=0.3, text="w")
    wait_for(lambda: "write begins w" in served.written())
    proxy.cancel(write)
    wait_for(lambda: "write w" in served.written())
    assert [m.get("id") for m in proxy.quiet(0.3)] == []
    assert served.written().count("write w") == 1


def test_a_cancelled_call_is_not_sent_to_the_next_daemon(stack: Stack):
    proxy = stack.session()
    slow = proxy.call_id("slow", seconds=60, text="x")
    wait_for(lambda: "slow begins x" in stack.written())
    proxy.cancel(slow)
    assert "result" in proxy.request("ping")
    stack.kill()
    assert proxy.call("show", text="ok")["text"] == "ok"
    assert stack.written().count("slow begins x") == 1


# -- a daemon that misbehaves


class Impostor:
    """A socket that says hello like a daemon and then whatever a test wants."""

    def __init__(self, stack: Stack, replies: list[bytes]) -> None:
        Path(stack.paths.run).mkdir(parents=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(stack.paths.rpc_socket)
        self.listener.listen()
        self.replies = replies
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        connection, _ = self.listener.accept()
        with connection, connection.makefile("rb") as lines:
            lines.readline()
            hello = {"wire": 1, "version": "0.1.0", "instance": "i", "pid": 1, "read_only": []}
            connection.sendall(json.dumps(hello).encode() + b"\n")
            lines.readline()
            for reply in self.replies:
                connection.sendall(reply)
            lines.readline()

    def close(self) -> None:
        self.thread.join(10)
        self.listener.close()


def test_an_answer_over_the_limit_is_refused_by_id(stack: Stack):
    """Case 55: the proxy holds its side of the limit too: a typed error, and the next answer passes."""
    big = b'{"jsonrpc":"2.0","id":1,"result":{"text":"' + b"x" * (17 << 20) + b'"}}\n'
    impostor = Impostor(
        stack,
        [big, b"not json\n", b'{"jsonrpc":"2.0","id":99,"result":{}}\n', b'{"jsonrpc":"2.0","id":2,"result":{}}\n'],
    )
    try:
        proxy = stack.proxy()
        proxy.ask("tools/list")
        proxy.ask("ping")
        error = proxy.answer(1)["error"]
        assert error["code"] == -32603 and "over the line limit" in error["message"]
        assert proxy.answer(2)["result"] == {}
        assert proxy.seen == []
        proxy.end()
        assert "ignored a line of the daemon" in proxy.said
    finally:
        impostor.close()
