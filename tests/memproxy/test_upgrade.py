"""What happens between proxies and daemons of different versions?"""

from __future__ import annotations

import time

from tests.daemons import Stack


def test_a_newer_proxy_drains_an_older_daemon_and_old_sessions_go_on(stack: Stack):
    stack.settings(version="0.1.0")
    old = stack.session(version="0.1.0")
    first = old.call("show")["pid"]
    slow = old.call_id("slow", seconds=0.5)
    stack.settings(version="0.2.0")
    new = stack.session(version="0.2.0")
    second = new.call("show")["pid"]
    assert second != first
    assert old.answer(slow)["result"]["structuredContent"] == {"slept": True}  # the drain let it finish
    assert old.call("show")["pid"] == second
    assert [m["method"] for m in old.seen] == ["notifications/tools/list_changed"]


def test_an_older_proxy_never_downgrades(stack: Stack):
    stack.settings(version="0.2.0")
    stack.daemon()
    pid = stack.holder()
    assert stack.session(version="0.1.0").call("show")["pid"] == pid
    assert stack.holder() == pid and stack.starts == 1


def test_versions_are_compared_as_numbers(stack: Stack):
    stack.settings(version="0.10.0")
    stack.daemon()
    pid = stack.holder()
    assert stack.session(version="0.9.0").call("show")["pid"] == pid
    assert stack.starts == 1


def test_case_55_another_wire_is_a_clear_error(stack: Stack):
    """Case 55: wrong version: a typed error, the connection survives, nothing is killed."""
    stack.settings(version="0.2.0", wire=2)
    stack.daemon()
    pid = stack.holder()
    proxy = stack.proxy(version="0.1.0", wire=1)
    for _ in range(2):
        error = proxy.request("tools/list")["error"]
        assert error["code"] == -31002 and error["data"]["code"] == "wire-mismatch"
        assert "wire 2" in error["message"] and "wire 1" in error["message"]
    assert stack.holder() == pid


def test_a_newer_wire_replaces_an_older_daemon(stack: Stack):
    stack.settings(version="0.1.0", wire=1)
    stack.daemon()
    pid = stack.holder()
    stack.settings(version="0.2.0", wire=2)
    assert stack.session(version="0.2.0", wire=2).call("show")["pid"] != pid


def test_the_daemon_says_no_to_a_foreign_wire_before_it_reads_on(served: Stack):
    import json

    with served.raw() as sock:
        sock.sendall(json.dumps({"memoryd": "hello", "wire": 99, "version": "9", "pid": 1}).encode() + b"\n")
        hello = json.loads(sock.recv(65536).split(b"\n")[0])
        assert hello["wire"] == 1
        assert sock.recv(1) == b""


def test_a_hello_that_never_comes_is_not_waited_for_long(served: Stack):
    with served.raw() as sock:
        before = time.monotonic()
        assert sock.recv(1) == b""
        assert time.monotonic() - before < 9
