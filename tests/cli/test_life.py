"""Do start, stop and serve tell the truth about the daemon?"""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from memoryd.operations.owner import holder_of, own_home
from tests.cli.conftest import COMMAND


def wait_for(condition, seconds=30.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


def test_start_stop_and_their_repetition(shell):
    assert shell.json("stop") == {"stopped": False, "running": False}
    assert not shell.home.exists(), "stopping makes no home"
    first = shell.json("start")
    assert first["status"] == "ok"
    assert str(first["pid"]) == holder_of(shell.home)
    assert shell.json("start")["pid"] == first["pid"]
    assert f"pid {first['pid']}" in shell.said("start")
    assert shell.json("stop") == {"stopped": True, "running": False, "pid": first["pid"]}
    assert holder_of(shell.home) is None, "the process is gone when `stop` returns"
    assert shell.said("stop") == "No daemon was running.\n"


def test_serve_runs_in_the_foreground_and_ends_on_a_signal(shell):
    process = subprocess.Popen(
        [COMMAND, "serve", "--home", str(shell.home)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        wait_for((shell.home / "run" / "http.sock").exists)
        assert shell.json("start")["pid"] == process.pid
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=10)
        assert (process.returncode, out) == (0, b"")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_serve_detached_returns_once_it_is_ready_and_twice_is_fine(shell):
    for _ in range(2):
        assert shell.run("serve", "--detach").code == 0
        assert shell.json("status")["home"] == str(shell.home)


def test_a_daemon_that_does_not_answer_is_not_called_absent(shell):
    pid = shell.json("start")["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        error = shell.error("stop")
        assert error["code"] == "daemon-unavailable"
        assert "did not answer" in error["message"]
        bad = [one for one in shell.json("doctor", code=1)["checks"] if not one["ok"]]
        assert [one["name"] for one in bad] == ["daemon"]
        assert str(pid) in bad[0]["message"]
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_home_that_another_command_owns_is_named(shell):
    lock = own_home(shell.home)
    try:
        for words in (("stop",), ("rebuild",), ("check",)):
            error = shell.error(*words)
            assert error["code"] == "home-busy"
            assert str(shell.home) in error["message"]
    finally:
        lock.release()


@pytest.mark.parametrize("broken", ["{", '{"serach": {}}'])
def test_a_start_that_fails_says_why(shell, broken):
    shell.home.mkdir()
    (shell.home / "config.json").write_text(broken)
    error = shell.error("status")
    assert "config.json" in error["message"]
    done = shell.run("status")
    assert (done.code, done.out) == (1, "")
    assert "config.json" in done.err
    assert "Next:" in done.err


def test_a_write_that_a_stop_cut_off_says_that_its_outcome_is_unknown(shell):
    shell.json("remember", "First words.", "--type", "fact", "--scope", "global")
    hook = shell.home / "vault" / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    begun = shell.directory / "begun"
    hook.write_text(f"#!/bin/sh\ntouch {begun}\nexec sleep 60\n")
    hook.chmod(0o755)
    command = [COMMAND, "--home", str(shell.home), "remember", "Second words.", "--type", "fact", "--scope", "global"]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(begun.exists)
    shell.json("stop")  # fails where it has to wait for the write
    out, err = writer.communicate(timeout=30)
    assert (writer.returncode, out) == (1, b"")
    assert b"(daemon-unavailable)" in err and b"Next: Whether it was done is unknown" in err
