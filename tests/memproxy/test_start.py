"""Does exactly one daemon start, with nothing of its starter in it, and is every failure told at once?"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from memoryd.runtime import RuntimePaths
from tests.daemons import Stack, stack_in, wait_for


def initialize(proxy) -> int:
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    return proxy.ask("initialize", params)


def test_case_49_twenty_proxies_at_once_get_one_daemon(stack: Stack):
    """Case 49, and H02 with eight within 50 ms: one daemon, every one served."""
    proxies = [stack.proxy() for _ in range(20)]
    ids = [initialize(proxy) for proxy in proxies]
    for proxy, id in zip(proxies, ids, strict=True):
        assert proxy.answer(id, 60)["result"]["serverInfo"]["name"] == "memoryd"
    pids = {proxy.call("show")["pid"] for proxy in proxies}
    assert pids == {stack.holder()}
    assert stack.starts == 1


def test_h02_a_slow_home_is_opened_once_and_all_wait(stack: Stack):
    """H02: the handshake does not wait for a slow home; calls do, and nobody starts a second daemon."""
    stack.settings(open_seconds=4)
    proxies = [stack.proxy() for _ in range(8)]
    ids = [initialize(proxy) for proxy in proxies]
    for proxy, id in zip(proxies, ids, strict=True):
        assert "result" in proxy.answer(id)
    assert stack.http("GET", "/readyz") == (503, {"ready": False, "reasons": ["the home is being opened"]})
    calls = [proxy.call_id("show") for proxy in proxies]
    assert {
        proxy.answer(id)["result"]["structuredContent"]["pid"] for proxy, id in zip(proxies, calls, strict=True)
    } == {stack.holder()}
    assert stack.starts == 1


def test_h02_when_the_winner_dies_half_way_another_takes_over(stack: Stack):
    """H02: kill -9 of the proxy that starts, and of the daemon that it started, needs no clean-up by hand."""
    stack.settings(start_seconds=1.5)
    proxies = [stack.proxy() for _ in range(4)]
    ids = [initialize(proxy) for proxy in proxies]
    wait_for(lambda: stack.starts == 1)
    starter = next(p for p in proxies if psutil.Process(p.process.pid).children())
    starting = psutil.Process(starter.process.pid).children()[0]
    os.kill(starter.process.pid, signal.SIGKILL)
    os.kill(starting.pid, signal.SIGKILL)
    for proxy, id in zip(proxies, ids, strict=True):
        if proxy is not starter:
            assert "result" in proxy.answer(id)
    assert stack.starts == 2


def test_a_daemon_that_dies_at_its_start_is_tried_once_more_then_told(stack: Stack):
    stack.settings(start_dies=True)
    proxy = stack.proxy()
    error = proxy.answer(initialize(proxy))["error"]
    assert error["code"] == -31002 and error["message"].startswith("Not sent: the daemon died while it started")
    assert error["data"]["outcome"] == "not sent" and error["data"]["log"] == stack.paths.log_file
    assert stack.starts == 2
    stack.settings()
    proxy.hello()  # the same proxy lives on, and its next request tries again
    assert stack.starts == 3


def test_a_reason_not_to_start_is_told_at_once_with_the_log(stack: Stack):
    stack.settings(open_error="The store is of another planet.")
    proxy = stack.proxy()
    before = time.monotonic()
    error = proxy.answer(initialize(proxy))["error"]
    assert "The store is of another planet." in error["message"]
    assert error["data"]["code"] == "home-error" and error["data"]["log"] == stack.paths.log_file
    assert time.monotonic() - before < 12
    assert stack.starts == 1
    assert "The store is of another planet." in stack.log()


def test_a_bug_at_the_start_is_told_and_logged(stack: Stack):
    stack.settings(open_bug="nobody expected this")
    proxy = stack.proxy()
    error = proxy.answer(initialize(proxy))["error"]
    assert error["code"] == -31002 and "ValueError" in error["message"]
    assert "Traceback" in stack.log() and "nobody expected this" in stack.log()


def test_a_home_that_fails_late_ends_the_daemon_and_the_next_call_says_why(stack: Stack):
    stack.settings(open_error="Found out late.", open_seconds=3)
    proxy = stack.session()
    error = proxy.answer(proxy.call_id("write"))["error"]
    assert error["code"] in {-31001, -31002}
    stack.wait_gone()


def test_eof_before_the_first_line_starts_no_daemon(stack: Stack):
    proxy = stack.proxy()
    proxy.close()
    assert proxy.wait(10) == 0
    assert stack.starts == 0 and not stack.home.exists()


def test_noise_and_notifications_start_no_daemon(stack: Stack):
    proxy = stack.proxy()
    proxy.write(b"\n  \n\xff\xfe\n[]\n42\n")
    proxy.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert proxy.quiet(0.3) == []
    assert stack.starts == 0


def test_case_50_stale_socket_and_foreign_pid_are_no_obstacle(stack: Stack):
    """Case 50, H09: the lock is the kernel's; a pid in a file is never signalled, a dead socket is replaced."""
    stack.home.mkdir()
    other = subprocess.Popen(["sleep", "60"])
    try:
        Path(stack.paths.daemon_lock).write_text(f"{other.pid}\n")
        Path(stack.paths.start_lock).write_text(f"{other.pid} otherhost\n")
        os.mkdir(stack.paths.run, 0o700)
        for path in (stack.paths.rpc_socket, stack.paths.http_socket):
            dead = socket.socket(socket.AF_UNIX)
            dead.bind(path)
            dead.close()
        stack.session()
        assert other.poll() is None
        assert Path(stack.paths.daemon_lock).read_text() == f"{stack.holder()}\n"
    finally:
        other.kill()
        other.wait()


def test_h09_a_killed_holder_blocks_nobody(stack: Stack):
    """H09: kill -9 while the daemon holds the lock; an empty lock file is no lock either."""
    stack.daemon()
    stack.kill()
    Path(stack.paths.daemon_lock).write_text("")
    assert stack.session().call("show")["pid"] == stack.holder()


def test_h03_a_socket_left_by_a_killed_daemon_is_replaced_once(stack: Stack):
    """H03: two starters find the dead socket together."""
    stack.daemon()
    stack.kill()
    assert Path(stack.paths.rpc_socket).is_socket()
    first, second = stack.proxy(), stack.proxy()
    ids = initialize(first), initialize(second)
    assert "result" in first.answer(ids[0]) and "result" in second.answer(ids[1])
    assert stack.starts == 2


@pytest.mark.parametrize("kind", ["file", "directory", "dangling link"])
@pytest.mark.parametrize("name", ["rpc.sock", "http.sock"])
def test_h03_what_is_no_socket_is_named_and_kept(stack: Stack, kind: str, name: str):
    """H03: a regular file, a directory or a dangling link in the socket's place is never deleted."""
    run = Path(stack.paths.run)
    run.mkdir(parents=True)
    place = run / name
    if kind == "file":
        place.write_text("mine")
    elif kind == "directory":
        place.mkdir()
    else:
        place.symlink_to(run / "nowhere")
    proxy = stack.proxy()
    error = proxy.answer(initialize(proxy))["error"]
    assert error["code"] == -31002 and str(place) in error["message"] and "not a socket" in error["message"]
    assert place.is_symlink() or place.exists()


def test_h03_a_stopped_daemon_is_waited_for_and_left_alone(stack: Stack):
    """H03: alive but stopped: its socket stays, it is not killed, the answer says so within seconds."""
    pid = stack.daemon()
    os.kill(pid, signal.SIGSTOP)
    try:
        proxy = stack.proxy()
        before = time.monotonic()
        error = proxy.answer(initialize(proxy))["error"]
        assert 4 < time.monotonic() - before < 25
        assert error["code"] == -31002 and "did not answer within 5 s" in error["message"]
        assert f"process {pid}" in error["message"] and "stopped" in error["message"]
        assert f"kill -CONT {pid}" in error["data"]["next_step"], "the way out that works"
        assert "memoryd stop" not in error["data"]["next_step"]
        assert Path(stack.paths.rpc_socket).is_socket()
    finally:
        os.kill(pid, signal.SIGCONT)
    proxy.hello()
    assert stack.holder() == pid and stack.starts == 1


def test_h04_a_second_session_leaves_the_first_alone(served: Stack):
    """H04: nobody signals a process that answers."""
    first = served.session()
    pid = first.call("show")["pid"]
    second = served.session()
    assert second.call("show")["pid"] == pid
    assert first.call("show")["pid"] == pid


@pytest.mark.parametrize("length", [106, 107, 108, 109, 300])
def test_case_51_h05_long_socket_paths(tmp_path: Path, length: int):
    """Case 51, H05: paths at and over the limit work, counted in bytes, not in characters."""
    with tempfile.TemporaryDirectory(prefix="m", dir="/tmp") as short, stack_in(tmp_path) as stack:
        home = Path(short)
        missing = length - len(os.fsencode(f"{home}/run/rpc.sock"))
        while missing > 1:
            part = min(missing - 1, 150)
            home /= "é" * (part // 2) + "x" * (part % 2)
            missing -= part + 1
        home = home.with_name(home.name + "x") if missing else home
        stack.home, stack.paths = home, RuntimePaths(str(home))
        assert len(os.fsencode(stack.paths.rpc_socket)) == length
        proxy = stack.session()
        assert proxy.call("show")["pid"] == stack.holder()
        assert stack.http("GET", "/healthz")[0] == 200


def test_two_deep_homes_never_share_a_daemon(tmp_path: Path):
    """H05: homes that differ only beyond the limit have daemons of their own."""
    deep = tmp_path / ("d" * 150)
    deep.mkdir()
    for name in ("a", "b"):
        (deep / name).mkdir()
    with stack_in(deep / "a") as one, stack_in(deep / "b") as two:
        assert one.session().call("show")["pid"] != two.session().call("show")["pid"]


def test_a_home_that_is_a_file_is_named(stack: Stack):
    stack.home.write_text("not a folder")
    proxy = stack.proxy()
    error = proxy.answer(initialize(proxy))["error"]
    assert error["code"] == -31002 and str(stack.home) in error["message"]
    assert error["data"]["code"] == "home-error" and "MEMORYD_HOME" in error["data"]["next_step"]
    assert stack.home.read_text() == "not a folder"


def test_a_home_of_somebody_else_is_refused(stack: Stack):
    if os.geteuid() == 0:
        stack.home.mkdir()
        os.chown(stack.home, 12345, 12345)
        home = stack.home
    else:
        home = Path("/usr")
    proxy = stack.proxy()
    proxy.end()
    command = [sys.executable, "-c", "from memproxy.relay import main; main()", "--home", str(home)]
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}) + "\n"
    done = subprocess.run(command, input=line.encode(), capture_output=True, check=False, timeout=30)
    error = json.loads(done.stdout)["error"]
    assert error["code"] == -31002 and "belongs to uid" in error["message"] and str(home) in error["message"]


def test_the_daemon_starts_clean_inside_a_git_hook_and_a_hostile_folder(stack: Stack, tmp_path: Path):
    """Nothing of GIT_*, PYTHON*, LD_* reaches the daemon; json.py, config.py and mcp.py of a project are not imported."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name in ("json.py", "config.py", "mcp.py", "memoryd.py", "sitecustomize.py"):
        (folder / name).write_text("raise SystemExit('a file of the project was imported')\n")
    hostile = {
        "GIT_DIR": "/nowhere/.git",
        "GIT_INDEX_FILE": "/nowhere/index",
        "PYTHONPATH": str(folder),
        "PYTHONSTARTUP": str(folder / "json.py"),
        "LD_LIBRARY_PATH": str(folder),
        "KEPT": "yes",
    }
    command = [sys.executable, "-I", "-c"]
    code = "import os, sys; os.environ.update({!r}); sys.executable = {!r}; from memproxy.relay import main; sys.exit(main())"
    from tests.daemons import Proxy

    proxy = Proxy([*command, code.format(hostile, str(stack.starter)), "--home", str(stack.home)], cwd=folder)
    stack.proxies.append(proxy)
    proxy.hello()
    seen = proxy.call("show", kind="environment")
    names = set(seen["environment"])
    assert not {name for name in names if name.startswith(("GIT_", "PYTHON", "LD_"))}
    assert seen["environment"]["KEPT"] == "yes"
    assert str(folder) not in seen["path"] and seen["cwd"] == "/"
    assert proxy.call("show")["directory"] == str(folder)


def test_the_daemon_stands_on_its_own(stack: Stack):
    """Own session, no terminal, no inherited descriptors, sockets and folders for this user only."""
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, True)
    try:
        proxy = stack.proxy(close_fds=False)
        proxy.hello()
    finally:
        os.close(write_end)
    pid = stack.holder()
    assert pid is not None
    daemon = psutil.Process(pid)
    assert os.getsid(pid) != os.getsid(proxy.process.pid) and os.getpgid(pid) != os.getpgid(proxy.process.pid)
    assert daemon.ppid() != proxy.process.pid
    targets = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in (0, 1, 2)}
    assert targets == {"/dev/null", stack.paths.log_file}
    pipe = os.readlink(f"/proc/self/fd/{read_end}")
    assert pipe not in {os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()}
    os.close(read_end)
    assert oct(os.stat(stack.paths.run).st_mode & 0o777) == "0o700"
    for path in (stack.paths.rpc_socket, stack.paths.http_socket):
        assert oct(os.stat(path).st_mode & 0o777) == "0o600"
    assert not psutil.Process(proxy.process.pid).children()  # nothing is left to be collected


def test_killing_the_hosts_process_group_leaves_the_daemon(stack: Stack):
    """Some hosts end a server by killing its process group."""
    proxy = stack.proxy(start_new_session=True)
    proxy.hello()
    pid = stack.holder()
    os.killpg(proxy.process.pid, signal.SIGKILL)
    proxy.wait()
    assert stack.session().call("show")["pid"] == pid


def test_something_else_on_the_socket_is_told_apart(stack: Stack):
    os.makedirs(stack.paths.run, 0o700)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(stack.paths.rpc_socket)
        other.listen()
        proxy = stack.proxy()
        id = initialize(proxy)
        connection, _ = other.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"220 smtp ready\n")
            error = proxy.answer(id)["error"]
    assert error["code"] == -31002 and "not memoryd" in error["message"]


def test_serve_twice_is_success_without_a_second_daemon(stack: Stack):
    pid = stack.daemon()
    assert stack.daemon() == pid
    assert stack.starts == 2 and stack.holder() == pid
