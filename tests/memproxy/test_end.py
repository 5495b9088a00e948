"""Does the proxy go when its host goes, and only then?"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.daemons import START, Stack, wait_for

HOST = """
import json, os, subprocess, sys, time
process = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print(process.pid, flush=True)
params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
def send(message):
    process.stdin.write(json.dumps(message).encode() + b"\\n"); process.stdin.flush()
send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
process.stdout.readline()
send({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "slow", "arguments": {"seconds": 60}}})
print("ready", flush=True)
time.sleep(60)
"""


def gone_within(pid: int, seconds: float) -> bool:
    try:
        wait_for(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, seconds)
    except TimeoutError:
        return False
    except psutil.NoSuchProcess:
        return True
    return True


@pytest.mark.parametrize("pending", [False, True])
def test_case_52_h01_end_of_stdin_ends_the_proxy(stack: Stack, pending: bool):
    """Case 52, H01 (a), (c): at once, exit 0, also while a call is pending for a minute; the daemon stays."""
    proxy = stack.session()
    if pending:
        proxy.call_id("slow", seconds=60)
        wait_for(lambda: stack.written() != [])
    proxy.close()
    assert proxy.wait() == 0
    assert stack.http("GET", "/healthz")[1]["status"] == "ok"
    wait_for(lambda: stack.http("GET", "/healthz")[1]["sessions"] == 0 or pending)


def test_answers_on_their_way_still_arrive_after_the_end_of_stdin(served: Stack):
    """`printf ... | memproxy` gets its answers."""
    proxy = served.session()
    call = proxy.call_id("slow", seconds=0.3)
    proxy.close()
    assert proxy.answer(call)["result"]["structuredContent"] == {"slept": True}
    assert proxy.wait() == 0


@pytest.mark.parametrize("wrapper", [False, True])
def test_case_52_h01_a_killed_host_ends_the_proxy(stack: Stack, wrapper: bool):
    """Case 52, H01 (b), (d): kill -9 of the parent, through a wrapper shell too, with a call pending."""
    extra = f"sys.executable = {str(stack.starter)!r}; "
    command = [sys.executable, "-c", START.format(extra=extra), "--home", str(stack.home)]
    if wrapper:
        command = ["sh", "-c", f"{shlex.join(command)}; exit $?"]
    host = subprocess.Popen([sys.executable, "-c", HOST, *command], stdout=subprocess.PIPE)
    assert host.stdout is not None
    child = int(host.stdout.readline())
    assert host.stdout.readline() == b"ready\n"
    proxy = psutil.Process(child).children()[0].pid if wrapper else child
    wait_for(lambda: stack.written() != [])
    host.kill()
    host.wait()
    assert gone_within(proxy, 2)
    host.stdout.close()


def test_a_dead_parent_is_noticed_although_somebody_holds_the_pipe(served: Stack):
    """H01: no end of file comes, because another process still holds the other end."""
    read_end, write_end = os.pipe()
    os.set_inheritable(read_end, True)
    command = [sys.executable, "-c", START.format(extra=""), "--home", str(served.home)]
    code = "import os, subprocess, sys, time; p = subprocess.Popen(sys.argv[2:], stdin=int(sys.argv[1])); print(p.pid, flush=True); time.sleep(60)"
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(read_end), *command], stdout=subprocess.PIPE, pass_fds=[read_end]
    )
    assert parent.stdout is not None
    proxy = int(parent.stdout.readline())
    wait_for(lambda: b"memproxy" in Path(f"/proc/{proxy}/cmdline").read_bytes())
    time.sleep(0.3)
    assert psutil.pid_exists(proxy)
    parent.kill()
    parent.wait()
    assert gone_within(proxy, 2.5)
    for fd in (read_end, write_end):
        os.close(fd)
    parent.stdout.close()


def test_waiting_costs_no_processor_time(served: Stack):
    """H01: about 0 CPU while idle."""
    proxy = served.session()
    process = psutil.Process(proxy.process.pid)
    before = sum(process.cpu_times()[:2])
    time.sleep(2)
    assert sum(process.cpu_times()[:2]) - before < 0.1


def test_a_host_that_closes_its_reading_end_ends_the_proxy(served: Stack):
    proxy = served.session()
    assert proxy.process.stdout is not None
    proxy.call_id("slow", seconds=0.2)
    proxy.process.stdout.close()
    assert proxy.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_the_proxy_and_not_the_daemon(served: Stack, number: signal.Signals):
    proxy = served.session()
    pid = served.holder()
    proxy.process.send_signal(number)
    assert proxy.wait() in {-number, 130}
    assert served.holder() == pid
    assert proxy.errors() == ""


def test_a_start_is_given_up_when_the_host_has_gone(stack: Stack):
    """Soon after the end of stdin, although the daemon takes longer to start."""
    stack.settings(start_seconds=8)
    proxy = stack.proxy()
    proxy.ask("tools/list")
    wait_for(lambda: stack.starts == 1)
    proxy.close()
    assert proxy.wait(6) == 0
    assert stack.holder() is None, "the daemon is still on its way"
    wait_for(lambda: stack.holder() is not None)  # the daemon was on its way and stays for the next session
    assert stack.session().call("show")["pid"] == stack.holder()


def test_sessions_leave_nothing_in_the_daemon(stack: Stack):
    """H01: the daemon drops a dead session's state."""
    stack.daemon()
    descriptors = len(list(Path(f"/proc/{stack.holder()}/fd").iterdir()))
    for _ in range(5):
        proxy = stack.session()
        proxy.call_id("slow", seconds=0.2)
        proxy.process.kill()
    wait_for(lambda: stack.http("GET", "/healthz")[1]["sessions"] == 0)
    wait_for(lambda: len(list(Path(f"/proc/{stack.holder()}/fd").iterdir())) <= descriptors + 2)
    assert json.loads(json.dumps(stack.http("GET", "/healthz")[1]))["active_calls"] == 0
