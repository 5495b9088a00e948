"""What does the daemon tell over HTTP, to whom, and is a health answer quick whatever else goes on?"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from memoryd.runtime import VERSION, WIRE
from memoryd.server.sockets import is_own_user
from tests.daemons import Stack, wait_for


def test_healthz_knows_the_daemon(served: Stack):
    status, body = served.http("GET", "/healthz")
    assert status == 200
    assert (body["status"], body["pid"], body["version"], body["wire"]) == ("ok", served.holder(), VERSION, WIRE)


def test_status_holds_the_home_and_the_daemon(served: Stack):
    status, body = served.http("GET", "/status")
    assert status == 200 and body["fixture"] is True and body["ready"] is True
    assert body["daemon"]["pid"] == served.holder()


def test_metrics_are_prometheus_text(served: Stack):
    served.session().call("show", text="counted")
    status, text = served.http("GET", "/metrics")
    assert status == 200
    lines = text.splitlines()
    assert any(line.startswith('memoryd_calls_total{outcome="ok",tool="show"} ') for line in lines)
    assert any(line.startswith("memoryd_rounds ") for line in lines)
    assert any(line.startswith("process_resident_memory_bytes ") for line in lines)
    from prometheus_client.parser import text_string_to_metric_families

    names = {family.name for family in text_string_to_metric_families(text)}
    assert {"memoryd_sessions", "memoryd_active_calls", "memoryd_uptime_seconds", "memoryd_call_seconds"} <= names


def test_readyz_gives_reasons_with_503(stack: Stack):
    stack.settings(reasons=["vectors: 12 documents wait"])
    stack.daemon()
    assert stack.http("GET", "/readyz") == (503, {"ready": False, "reasons": ["vectors: 12 documents wait"]})


def test_a_tool_over_http_answers_as_over_mcp(served: Stack):
    """The command line's road: the same validation, the same errors, the start directory from the body."""
    status, body = served.http("POST", "/api/tools/show", {"arguments": {"text": "★"}, "directory": "/tmp"})
    assert (status, body["text"], body["directory"]) == (200, "★", "/tmp")
    status, body = served.http("POST", "/api/tools/show", {"arguments": {"path_prefx": "x"}})
    assert (
        status == 400 and body["error"]["code"] == "unknown-parameter" and "`path_prefix`" in body["error"]["message"]
    )
    over_mcp = served.session()
    same = over_mcp.answer(over_mcp.call_id("show", path_prefx="x"))["result"]
    assert same["isError"] and same["structuredContent"] == body["error"]
    status, body = served.http("POST", "/api/tools/show", {"arguments": {"kind": "missing"}})
    assert status == 404 and body["error"]["code"] == "not-found"
    status, body = served.http("POST", "/api/tools/show", {"arguments": {"kind": "surrogate"}})
    assert status == 200 and body["text"] == "file \\udce4.md"
    status, body = served.http("POST", "/api/tools/shw", {})
    assert status == 404 and "`show`" in body["error"]["message"]


def test_an_internal_error_shows_a_reference_and_no_internals(served: Stack):
    status, body = served.http("POST", "/api/tools/show", {"arguments": {"kind": "fail"}})
    reference = body["error"]["details"]["reference"]
    assert status == 500 and body["error"]["code"] == "internal-error"
    assert "secret" not in json.dumps(body)
    assert f"(reference {reference})" in served.log() and "secret internals" in served.log()
    proxy = served.session()
    result = proxy.answer(proxy.call_id("show", kind="fail"))["result"]
    assert result["isError"] and "secret" not in json.dumps(result)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/nothing", None, 404),
        ("GET", "/api/drain", None, 404),
        ("DELETE", "/api/tools/show", None, 404),
        ("POST", "/api/tools/show", [1], 400),
        ("POST", "/api/tools/show", {"arguments": [1]}, 400),
        ("POST", "/api/jobs", {"kind": "dance"}, 400),
        ("POST", "/api/jobs", {}, 400),
        ("GET", "/api/jobs/job-999", None, 404),
    ],
)
def test_wrong_requests_get_typed_errors(served: Stack, method: str, path: str, body, status: int):
    found, answer = served.http(method, path, body)
    assert found == status and set(answer["error"]) >= {"code", "message", "next_step"}


def test_jobs_run_one_after_the_other_with_progress_and_result(served: Stack):
    first = served.http("POST", "/api/jobs", {"kind": "count", "args": {"to": 20, "pause": 0.05}})
    again = served.http("POST", "/api/jobs", {"kind": "count", "args": {"to": 20, "pause": 0.05}})
    second = served.http("POST", "/api/jobs", {"kind": "count", "args": {"to": 1}})
    assert first[0] == 202 and again[1] == first[1] and second[1] != first[1]  # the same work is the same job

    def job(id: str) -> dict:
        return served.http("GET", f"/api/jobs/{id}")[1]

    wait_for(lambda: job(first[1]["id"])["done"] > 0)
    assert job(second[1]["id"])["done"] == 0
    wait_for(lambda: job(second[1]["id"])["state"] == "done")
    assert job(first[1]["id"])["result"] == {"counted": 20}
    for asked, steps in ((first, 20), (second, 1)):
        ended = job(asked[1]["id"])
        assert (ended["done"], ended["total"], ended["note"]) == (steps, steps, "counting"), "also of a quick job"
    assert [one["id"] for one in served.http("GET", "/api/jobs")[1]["jobs"][:2]] == [second[1]["id"], first[1]["id"]]


def test_a_failed_job_says_why(served: Stack):
    typed = served.http("POST", "/api/jobs", {"kind": "fail", "args": {"typed": True}})[1]["id"]
    plain = served.http("POST", "/api/jobs", {"kind": "fail"})[1]["id"]
    wait_for(lambda: served.http("GET", f"/api/jobs/{plain}")[1]["state"] == "failed")
    assert served.http("GET", f"/api/jobs/{typed}")[1]["result"]["code"] == "not-found"
    told = served.http("GET", f"/api/jobs/{plain}")[1]["result"]
    assert told["code"] == "internal-error" and "secret" not in json.dumps(told)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def on_port(port: int, method: str, path: str, host: str | None = None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, headers={"Host": host} if host else {})
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_loopback_port_serves_operations_only(stack: Stack):
    """`health.listen`: read-only routes, local names only, nothing of /api."""
    port = free_port()
    stack.settings(listen=f"127.0.0.1:{port}")
    stack.daemon()
    for path in ("/healthz", "/readyz", "/status", "/metrics"):
        assert on_port(port, "GET", path) == 200
        assert on_port(port, "GET", path, f"localhost:{port}") == 200
        assert on_port(port, "GET", path, "evil.example:80") == 421
        assert on_port(port, "POST", path) == 405
    for path in ("/api/drain", "/api/tools/show", "/api/jobs"):
        assert on_port(port, "POST", path) == 404 and on_port(port, "GET", path) == 404


def test_a_port_in_use_is_a_clear_reason_not_to_start(stack: Stack):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        stack.settings(listen=f"127.0.0.1:{taken.getsockname()[1]}")
        error = stack.proxy().request("tools/list")["error"]
    assert error["data"]["code"] == "config-error" and "health.listen" in error["message"]
    assert ".. " not in error["message"]


def test_the_peers_uid_decides(monkeypatch: pytest.MonkeyPatch):
    left, right = socket.socketpair()
    with left, right:
        assert is_own_user(left)
        uid = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
        assert not is_own_user(left)


def test_another_user_is_turned_away_from_both_sockets(stack: Stack):
    """By the modes; and where those were opened up, by the peer's uid (root can try both)."""
    stack.daemon()
    for path in (stack.paths.rpc_socket, stack.paths.http_socket):
        assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.stat(stack.paths.run).st_mode & 0o777 == 0o700
    if os.geteuid() != 0:
        return
    code = (
        "import os, socket, sys\n"
        "sock = socket.socket(socket.AF_UNIX)\n"
        "folder = os.open(os.path.dirname(sys.argv[1]), os.O_RDONLY)\n"
        "os.fchdir(folder)\n"
        "os.seteuid(12345)\n"
        "sock.connect(os.path.basename(sys.argv[1]))\n"
        "sock.sendall(sys.argv[2].encode())\n"
        "sys.stdout.write(repr(sock.recv(10)))\n"
    )
    hello = '{"memoryd": "hello", "wire": 1}\n'
    request = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
    os.chmod(stack.paths.run, 0o755)
    for path, said in ((stack.paths.rpc_socket, hello), (stack.paths.http_socket, request)):
        command = [sys.executable, "-c", code, path, said]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "PermissionError" in done.stderr and done.stdout == ""
        os.chmod(path, 0o666)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stdout in {"", "b''"} and "PermissionError" not in done.stderr


def slowest(stack: Stack, paths: tuple[str, ...], until) -> float:
    worst = 0.0
    while not until():
        for path in paths:
            began = time.perf_counter()
            status, _ = stack.http("GET", path)
            worst = max(worst, time.perf_counter() - began)
            assert status in {200, 503}
    return worst


def test_case_57_health_does_not_wait_for_a_slow_look(stack: Stack):
    """Case 57: a status that takes seconds to compute is answered from the last one."""
    stack.settings(ready_seconds=3)
    stack.daemon()
    status, body = stack.http("GET", "/readyz")
    assert (status, body) == (503, {"ready": False, "reasons": ["state not known yet"]}), "nothing was waited for"


@pytest.mark.parametrize(("told", "reason"), [("The catalog is closed.", "The catalog is closed."), ("", "log")])
def test_readiness_that_cannot_be_determined_is_not_ready(stack: Stack, told: str, reason: str):
    """A look that fails is a reason of its own, in the error's words; what was no error of ours shows no internals."""
    stack.settings(ready_error=told)
    stack.daemon()
    wait_for(lambda: stack.http("GET", "/readyz")[1]["reasons"] != ["state not known yet"])
    status, body = stack.http("GET", "/readyz")
    assert status == 503 and not body["ready"]
    assert reason in body["reasons"][0] and "internals" not in body["reasons"][0]
    assert stack.http("GET", "/status")[1]["reasons"] == body["reasons"]


def test_case_57_health_answers_while_every_worker_is_busy(stack: Stack):
    """Case 57: all lanes full of slow calls and a job under way; health, ready, status and metrics go on."""
    proxy = stack.session()
    calls = [proxy.call_id("slow", seconds=60, text=str(n)) for n in range(40)]
    stack.http("POST", "/api/jobs", {"kind": "count", "args": {"to": 10_000, "pause": 0.001}})
    wait_for(lambda: len([line for line in stack.written() if line.startswith("slow begins")]) >= 16)
    rounds = iter(range(5))
    worst = slowest(stack, ("/healthz", "/readyz", "/status", "/metrics"), lambda: next(rounds, None) is None)
    assert worst < 1.0  # generous for a loaded machine; an answer that waits for a lane takes a minute
    (stack.home / "release").touch()
    for id in calls:
        assert "result" in proxy.answer(id)


def test_a_half_sent_request_holds_nobody_up(served: Stack):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(served.paths.http_socket)
        sock.sendall(b"POST /api/tools/show HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
        assert served.http("GET", "/healthz")[0] == 200


def test_thirty_requests_at_once(served: Stack):
    found: list[int] = []

    def one(number: int) -> None:
        found.append(served.http("POST", "/api/tools/show", {"arguments": {"text": str(number)}})[0])

    threads = [threading.Thread(target=one, args=(n,)) for n in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [200] * 30
