"""Does a daemon stop in bounded time, with every begun write whole, and does nothing else end it?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.daemons import Stack, wait_for


def stop(stack: Stack, limit: float = 5.0) -> float:
    pid = stack.holder()
    assert pid is not None
    began = time.monotonic()
    os.kill(pid, signal.SIGTERM)
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), limit + 3)
    return time.monotonic() - began


def test_h07_sigterm_ends_within_5_s_with_idle_clients(stack: Stack):
    """H07: idle sessions in both eras and a bare connection do not hold the daemon."""
    sessions = [stack.session() for _ in range(3)]
    modern = stack.proxy()
    modern.call("show", modern=True)
    with stack.raw():
        assert stop(stack) < 5
    assert not Path(stack.paths.rpc_socket).exists() and not Path(stack.paths.http_socket).exists()
    assert stack.written() == ["closed"]
    assert all(proxy.process.poll() is None for proxy in sessions)


def test_h07_a_write_in_flight_is_finished_and_acknowledged(stack: Stack):
    """H07: a stop waits for calls; the write is whole and its session hears so."""
    proxy = stack.session()
    write = proxy.call_id("write", seconds=0.8, text="w")
    wait_for(lambda: stack.written() == ["write begins w"])
    assert stop(stack) < 5
    assert proxy.answer(write)["result"]["structuredContent"] == {"written": "w"}
    assert stack.written() == ["write begins w", "write w", "closed"]


def ended(pid: int | None) -> bool:
    """Whether a process is gone; one that nobody has collected yet does nothing any more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return True


def stopped_by_command(stack: Stack) -> float:
    """Seconds that `memoryd stop` takes, as a person waits for it."""
    command = [sys.executable, "-P", "-m", "memoryd", "--home", str(stack.home), "stop"]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"Stopped.\n", b"")
    return time.monotonic() - began


@pytest.mark.parametrize("tool", ["slow", "write"])
def test_memoryd_stop_returns_within_5_s_beside_a_call_that_does_not_end(stack: Stack, tool: str):
    proxy = stack.session()
    proxy.call_id(tool, seconds=30, text="w")
    wait_for(lambda: stack.written() == [f"{tool} begins w"])
    first = stack.holder()
    assert stopped_by_command(stack) < 5
    assert stack.holder() != first
    (stack.home / "release").touch()  # the read is asked again of the next daemon


def test_a_read_that_does_not_end_is_left_behind_soon_and_the_daemon_ends_well(stack: Stack):
    stack.home.mkdir()
    command = [str(stack.starter), "-P", "-m", "memoryd", "serve", "--home", str(stack.home)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: "serves" in stack.log())
    proxy = stack.session()
    proxy.call_id("slow", seconds=30, text="r")
    wait_for(lambda: stack.written() == ["slow begins r"])
    process.terminate()
    process.communicate(timeout=15)  # the call goes on for twice as long
    assert process.returncode == 0
    assert not Path(stack.paths.http_socket).exists()
    (stack.home / "release").touch()


def test_work_that_keeps_the_interpreter_to_itself_cannot_hold_up_a_stop(stack: Stack):
    """A foreign library that does not let go of the interpreter's lock: the log says what still ran."""
    proxy = stack.session()
    proxy.call_id("show", kind="hold", size=30)
    wait_for(lambda: stack.written() == ["hold begins"])
    proxy.process.send_signal(
        signal.SIGSTOP
    )  # its call changes nothing: it would be sent again, to hold the next daemon
    pid = stack.holder()
    stack.http("POST", "/api/drain")
    wait_for(lambda: ended(pid), 15)  # half of what the call takes
    proxy.process.kill()
    assert "Timeout" in stack.log() and "fixture_daemon.py" in stack.log()


def test_case_59_stop_during_stubborn_work_and_restart_right_after(stack: Stack):
    """Case 59: a job and a call that ignore the stop; the process is gone in time and the next one starts at once."""
    proxy = stack.session()
    stack.http("POST", "/api/jobs", {"kind": "count", "args": {"to": 10_000, "pause": 0.01, "stubborn": True}})
    proxy.call_id("write", seconds=30, text="w")
    wait_for(lambda: stack.written() != [])
    first = stack.holder()
    stack.http("POST", "/api/drain")
    began = time.monotonic()
    second = stack.daemon()  # waits for the lock, then serves
    assert second != first and time.monotonic() - began < 20
    wait_for(lambda: ended(first))
    assert "write w" not in stack.written()


def test_case_59_a_job_that_listens_is_cancelled_and_said_so(stack: Stack):
    stack.daemon()
    stack.http("POST", "/api/jobs", {"kind": "count", "args": {"to": 10_000, "pause": 0.01}})
    assert stop(stack) < 3.5
    assert stack.written() == ["closed"]


def test_while_draining_new_calls_are_refused_and_ready_says_so(stack: Stack):
    proxy = stack.session()
    write = proxy.call_id("write", seconds=1.5, text="w")
    wait_for(lambda: stack.written() != [])
    stack.http("POST", "/api/drain")
    assert stack.http("GET", "/readyz") == (503, {"ready": False, "reasons": ["the daemon is shutting down"]})
    status, body = stack.http("POST", "/api/tools/write", {"arguments": {"text": "late"}})
    assert status == 503 and body["error"]["code"] == "shutting-down"
    assert stack.http("POST", "/api/jobs", {"kind": "count", "args": {"to": 1}})[0] == 503
    assert "result" in proxy.answer(write)
    stack.wait_gone()
    assert "write late" not in stack.written()


def test_a_drain_asked_twice_is_one_drain(stack: Stack):
    stack.daemon()
    pid = stack.holder()
    stack.http("POST", "/api/drain")
    os.kill(pid, signal.SIGTERM)
    os.kill(pid, signal.SIGINT)
    stack.wait_gone(6)
    assert stack.written() == ["closed"]


def test_a_stop_while_the_home_is_still_being_opened(stack: Stack):
    stack.settings(open_seconds=30)
    proxy = stack.session()
    write = proxy.call_id("write", text="w")
    assert stop(stack) < 5.5
    assert proxy.answer(write)["error"]["code"] in {-31001, -31002}
    stack.settings()


def test_h06_nothing_ends_an_idle_daemon_or_a_long_call(stack: Stack):
    """H06: there is no idle shutdown: a daemon without sessions stays, a call longer than any pause is not cut."""
    stack.daemon()
    pid = stack.holder()
    proxy = stack.session()
    call = proxy.call_id("slow", seconds=3)
    time.sleep(2.5)
    assert proxy.answer(call)["result"]["structuredContent"] == {"slept": True}
    proxy.end()
    wait_for(lambda: stack.http("GET", "/healthz")[1]["sessions"] == 0)
    assert stack.holder() == pid


def test_case_35_a_begun_write_lands_once_when_its_client_dies(stack: Stack):
    """A client that gives up after the write began: the write is whole, once, with all its steps."""
    proxy = stack.session()
    proxy.call_id("write", seconds=0.4, text="w", after=0.2)
    wait_for(lambda: stack.written() == ["write begins w"])
    proxy.process.kill()
    proxy.wait()
    wait_for(lambda: stack.http("GET", "/healthz")[1]["active_calls"] == 0)
    assert stack.written() == ["write begins w", "write w"]


def test_case_56_calls_that_wait_go_with_their_client(stack: Stack):
    """Case 56: a client that disconnects takes its queued searches along; only begun ones run to their end."""
    proxy = stack.session()
    for number in range(40):
        proxy.call_id("slow", seconds=60, text=str(number))
    wait_for(lambda: len(stack.written()) >= 16)
    proxy.process.kill()
    proxy.wait()
    (stack.home / "release").touch()
    wait_for(lambda: stack.http("GET", "/healthz")[1]["active_calls"] == 0)
    begun = [line for line in stack.written() if line.startswith("slow begins")]
    assert 16 <= len(begun) < 40


@pytest.mark.parametrize("kind", ["SIGTERM", "SIGKILL"])
def test_h09_the_lock_is_free_however_the_daemon_ends(stack: Stack, kind: str):
    """H09: no file has to be removed by hand."""
    pid = stack.daemon()
    os.kill(pid, getattr(signal, kind))
    stack.wait_gone(8)
    assert stack.daemon() != pid


def test_serve_in_the_foreground_logs_to_stderr_and_ends_with_0(stack: Stack):
    """For a supervisor: no fork, the same stop."""
    stack.home.mkdir()
    command = [str(stack.starter), "-P", "-m", "memoryd", "serve", "--home", str(stack.home)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: Path(stack.paths.rpc_socket).exists() and stack.holder() is not None)
    wait_for(lambda: "serves" in stack.log())
    assert stack.holder() == process.pid
    second = subprocess.run(command, capture_output=True, timeout=30, check=False)
    assert second.returncode == 0 and b"already serves" in second.stderr
    process.terminate()
    out, err = process.communicate(timeout=10)
    assert process.returncode == 0 and out == b"" and b"serves" in err and b"stopping" in err
