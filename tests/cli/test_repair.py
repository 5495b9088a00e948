"""Does repair show its plan from a shell, and does it change anything only for a person at a terminal?"""

from __future__ import annotations

from memoryd.client import DaemonClient
from memoryd.runtime import RuntimePaths
from tests.cli.test_upkeep import typed


def damaged(shell):
    shell.json("remember", "The queue holds forty jobs.", "--type", "fact", "--scope", "global")
    shell.json("check")
    shell.json("stop")
    (pack,) = (path for path in (shell.home / "store" / "packs").rglob("*.pack"))
    raw = bytearray(pack.read_bytes())
    raw[130] ^= 0xFF
    pack.write_bytes(raw)
    return pack


def test_a_plan_with_and_without_a_daemon_and_a_person_who_applies_it(shell):
    pack = damaged(shell)
    before = pack.read_bytes()
    plan = shell.json("repair", code=1)
    assert plan["steps"] and not plan["applied"]
    shell.json("status")
    assert shell.json("repair", code=1)["steps"], "the daemon's plan"
    assert "memoryd repair --apply" in shell.run("repair").out
    refused = shell.json("repair", "--apply", code=1)
    assert refused["error"]["code"] == "person-needed"
    assert pack.read_bytes() == before
    said_no = typed(shell, "repair", "--apply", keys=[("to go on", "no")])
    assert said_no.code == 1 and pack.read_bytes() == before
    done = typed(shell, "repair", "--apply", keys=[("to go on", "repair")])
    assert done.code == 0, done
    assert (shell.home / "store" / "quarantine" / pack.name).read_bytes() == before
    assert shell.run("repair").out == "Nothing to do.\n"
    assert shell.json("check", "--read-data")["clean"]


def test_a_quick_check_and_a_full_one_exclude_each_other(shell):
    assert shell.json("check", "--quick")["quick"]
    assert shell.json("check", "--quick", "--read-data", code=1)["error"]["code"] == "invalid-input"


def test_no_job_applies_a_repair(shell):
    """What a job's arguments say changes nothing: it is the plan."""
    pack = damaged(shell)
    before = pack.read_bytes()
    shell.json("status")
    client = DaemonClient(RuntimePaths(str(shell.home)))
    job = client.request("POST", "/api/jobs", {"kind": "repair", "args": {"apply": True}})
    ended = {"state": "running"}
    while ended["state"] == "running":
        ended = client.request("GET", f"/api/jobs/{job['id']}")
    assert ended["result"]["steps"] and not ended["result"]["applied"]
    assert pack.read_bytes() == before
