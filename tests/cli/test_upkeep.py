"""Do gc and forget work from a shell, and does nobody but a person at a terminal get what cannot be undone?"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import threading

import pytest

from memoryd.client import ToldError
from tests.cli.conftest import COMMAND, SECONDS, Done

SECRET = "hunter2-correct-horse"


def typed(shell, *words: object, keys: list[tuple[str, str]]) -> Done:
    """The command at a terminal of its own; a person types each answer once its question stands there.

    `err` is what the terminal showed.
    """
    ours, theirs = pty.openpty()
    command = ["setsid", "--ctty", "--wait", COMMAND, "--home", str(shell.home), *map(str, words)]
    process = subprocess.Popen(command, cwd=shell.directory, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    seen = bytearray()
    waiting = list(keys)

    def watch() -> None:
        try:
            while data := os.read(ours, 4096):
                seen.extend(data)
                if waiting and waiting[0][0].encode() in seen:
                    os.write(ours, waiting.pop(0)[1].encode() + b"\n")
        except OSError:  # the last process that had the terminal is gone
            pass

    watcher = threading.Thread(target=watch)
    watcher.start()
    out, _ = process.communicate(timeout=SECONDS)
    watcher.join()
    os.close(ours)
    return Done(process.returncode, out.decode(), seen.decode(errors="replace"))


def remember(shell, text: str) -> dict:
    return shell.json("remember", text, "--type", "fact", "--scope", "global")


def corpus(shell, text: str) -> None:
    folder = shell.directory / "docs"
    folder.mkdir(exist_ok=True)
    (folder / "a.md").write_text(text)
    if not (shell.home / "config.json").exists():
        shell.home.mkdir(exist_ok=True)
        retention = {"history_revisions": 0, "history_days": 0, "snapshots": 1, "snapshot_days": 0}
        settings = {"corpora": [{"label": "docs", "path": str(folder)}], "retention": retention}
        (shell.home / "config.json").write_text(json.dumps(settings))
    shell.json("corpus", "scan")


def test_gc_with_and_without_a_daemon(shell):
    for number in range(3):
        corpus(shell, f"state {number} " * 400)
    planned = shell.json("gc", "--dry-run")
    assert planned["expired"]["documents"] == 2
    first = shell.json("gc")
    assert (first["condemned"]["contents"], first["dropped"]["contents"]) == (2, 0)
    assert shell.json("job", "list")["jobs"][0]["kind"] == "gc"
    shell.json("stop")
    again = shell.json("gc")
    assert again["condemned"]["contents"] == 2 and again["rewritten"] == 0
    assert "condemned: 2 contents" in shell.said("gc", "--dry-run")


def test_gc_now_asks_a_person_and_ends_the_daemon(shell):
    for number in range(3):
        corpus(shell, f"state {number} " * 400)
    assert shell.error("gc", "--now")["code"] == "person-needed"
    shell.json("status")
    assert typed(shell, "gc", "--now", keys=[("to go on", "no")]).code == 1
    done = typed(shell, "gc", "--now", "--json", keys=[("to go on", "collect")])
    assert done.code == 0, done
    answer = json.loads(done.out)
    assert answer["dropped"]["contents"] == 2
    assert shell.json("gc")["condemned"]["contents"] == 0
    assert shell.json("check", "--read-data")["clean"]


def test_a_dry_run_without_grace_asks_nobody_and_stops_nothing(shell):
    for number in range(3):
        corpus(shell, f"state {number} " * 400)
    shell.json("gc")
    daemon = shell.json("status")["daemon"]["pid"]
    counted = shell.json("gc", "--now", "--dry-run")
    assert (counted["grace_hours"], counted["due"]["contents"], counted["dry_run"]) == (0, 2, True)
    assert shell.json("status")["daemon"]["pid"] == daemon
    shell.json("stop")
    assert shell.json("gc", "--now", "--dry-run")["due"]["contents"] == 2


def test_a_snapshot_is_given_up_by_a_person(shell):
    corpus(shell, "a state " * 400)
    number = shell.json("snapshots")["snapshots"][0]["seq"]
    assert shell.error("forget", f"snapshot:{number}")["code"] == "person-needed"
    done = typed(shell, "forget", f"snapshot:{number}", keys=[("to go on", "forget 1")])
    assert done.code == 0 and f"snapshot given up: {number} docs" in done.err, done
    assert shell.json("snapshots")["snapshots"] == []


def test_only_a_person_lets_an_erased_content_in_again(shell):
    note = shell.directory / "note.txt"
    note.write_text(f"It is {SECRET}.\n")
    address = shell.json("add", "note.txt", "--scope", "global")["address"]
    assert typed(shell, "forget", address, keys=[("to go on", "forget 1")]).code == 0
    assert shell.error("add", "note.txt", "--scope", "global")["code"] == "content-forgotten"
    words = ("add", "note.txt", "--scope", "global", "--allow-forgotten")
    assert shell.error(*words)["code"] == "person-needed"
    assert typed(shell, *words, keys=[("to go on", "no")]).code == 1
    assert shell.error("add", "note.txt", "--scope", "global")["code"] == "content-forgotten"
    done = typed(shell, *words, keys=[("to go on", "allow")])
    assert done.code == 0, done
    assert shell.json("add", "note.txt", "--scope", "global")["outcome"] == "exists"
    assert shell.run("add", ".", "--allow-forgotten").code == 2
    from memoryd.client import DaemonClient
    from memoryd.runtime import RuntimePaths

    shell.json("status")
    client = DaemonClient(RuntimePaths(str(shell.home)))
    given = {"path": str(note), "scope": "global", "allow_forgotten": True}
    with pytest.raises(ToldError):
        client.tool("artifact_keep", given, str(shell.directory))


def test_no_job_collects_without_grace_and_none_forgets(shell):
    for number in range(2):
        corpus(shell, f"state {number} " * 400)
    from memoryd.client import DaemonClient
    from memoryd.runtime import RuntimePaths

    shell.json("status")
    client = DaemonClient(RuntimePaths(str(shell.home)))
    job = client.request("POST", "/api/jobs", {"kind": "gc", "args": {"now": True}})
    ended = {"state": "running"}
    while ended["state"] == "running":
        ended = client.request("GET", f"/api/jobs/{job['id']}")
    assert ended["result"]["dropped"]["contents"] == 0
    for kind in ("forget", "repair-apply"):
        try:
            client.request("POST", "/api/jobs", {"kind": kind, "args": {}})
        except Exception as error:
            assert "There is no job" in str(error)
        else:
            raise AssertionError(kind)


def test_forget_shows_asks_and_erases(shell):
    kept = remember(shell, "The queue holds forty jobs.")
    told = remember(shell, f"It is {SECRET}.")
    assert shell.error("forget", told["id"])["code"] == "person-needed"
    refused = typed(shell, "forget", told["id"], keys=[("to go on", "yes")])
    assert refused.code == 1 and "memory: vault/" in refused.err and "forget 1" in refused.err
    assert shell.json("get", told["id"])["id"] == told["id"]
    done = typed(shell, "forget", "--text", keys=[("not shown", SECRET), ("to go on", "forget 1")])
    assert done.code == 0, done
    assert "filter-repo" in done.out
    assert shell.error("get", told["id"])["code"] == "not-found"
    assert shell.json("get", kept["id"])["id"] == kept["id"]
    assert shell.json("check", "--read-data")["clean"]
