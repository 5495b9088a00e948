"""Do real sessions share one memory through real proxies, a real daemon, a real vault and the real model?"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons import ENVELOPE, Proxy, Stack, stack_in, wait_for

NAMES = [
    "memory_search",
    "memory_recall",
    "memory_add",
    "memory_supersede",
    "memory_archive",
    "memory_get",
    "memory_feedback",
    "artifact_add",
    "snapshot_diff",
    "memory_status",
]
READ_ONLY = {"memory_search", "memory_recall", "memory_get", "snapshot_diff", "memory_status"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One real home for the tests that leave its daemon alone."""
    with stack_in(tmp_path_factory.mktemp("real"), fixture=False) as made:
        made.daemon()
        yield made


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with stack_in(tmp_path, fixture=False) as made:
        yield made


def outside(stack: Stack, **options) -> Proxy:
    """A session that does not start inside a git project."""
    return stack.session(cwd=stack.starter.parent, **options)


def commits(stack: Stack) -> list[str]:
    command = ["git", "-C", str(stack.home / "vault"), "log", "--format=%s"]
    return subprocess.run(
        command, capture_output=True, text=True, check=False
    ).stdout.splitlines()  # none yet: no lines


def add(proxy: Proxy, content: str, **more) -> dict:
    return proxy.call("memory_add", content=content, type="fact", scope="global", **more)


def found(proxy: Proxy, query: str, mode: str = "keyword") -> list[dict]:
    return proxy.call("memory_search", query=query, mode=mode)["memories"]


def test_the_tools_as_hosts_see_them(served: Stack):
    """Stable order, all four hints, closed schemas, texts under 2 KB, the same in both eras."""
    legacy, modern = served.proxy(), served.proxy()
    instructions = legacy.hello()["instructions"]
    assert len(instructions.encode()) < 2048 and "memory_recall at the start" in instructions.split(".")[0]
    tools = legacy.request("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == NAMES
    assert modern.request("tools/list", {"_meta": ENVELOPE})["result"]["tools"] == tools
    assert modern.request("server/discover", {"_meta": ENVELOPE})["result"]["instructions"] == instructions
    for tool in tools:
        hints = tool["annotations"]
        assert {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"} <= set(hints)
        assert hints["readOnlyHint"] == (tool["name"] in READ_ONLY)
        assert not hints["destructiveHint"] and not hints["openWorldHint"]
        assert len(tool["description"].encode()) < 2048 and "Examples:" in tool["description"]
        assert tool["inputSchema"]["additionalProperties"] is False


def test_two_sessions_share_one_memory(served: Stack):
    first, second = outside(served), outside(served)
    told = add(first, "The build of the aurora service needs the flag --frozen-lockfile.")
    assert told["outcome"] == "added"
    hits = found(second, "--frozen-lockfile")
    wait_for(lambda: hits or hits.extend(found(second, "--frozen-lockfile")))
    assert hits[0]["id"] == told["id"]
    whole = second.call("memory_get", id=told["id"])
    assert "aurora" in whole["content"]


def test_case_35_the_same_add_at_once_and_again_after_a_timeout(served: Stack):
    """Case 35, H08: one id, one file, one commit, from two sessions at once and once more after a client gave up."""
    before = len(commits(served))
    sessions = [outside(served), outside(served)]
    ids = [
        session.call_id("memory_add", content="Same words twice.", type="note", scope="global") for session in sessions
    ]
    answers = [session.answer(id)["result"]["structuredContent"] for session, id in zip(sessions, ids, strict=True)]
    assert {answer["outcome"] for answer in answers} == {"added", "exists"}
    gone = outside(served)
    gone.call_id("memory_add", content="Same words twice.", type="note", scope="global")
    gone.process.kill()
    again = add_note(outside(served))
    assert {answer["id"] for answer in answers} == {again["id"]} and again["outcome"] == "exists"
    assert len(commits(served)) == before + 1


def add_note(proxy: Proxy) -> dict:
    return proxy.call("memory_add", content="Same words twice.", type="note", scope="global")


def test_h08_a_refused_write_does_not_block_the_next(served: Stack):
    """H08: two writes in a row, one that is refused in between."""
    proxy = outside(served)
    assert add(proxy, "First of two writes.")["outcome"] == "added"
    refused = proxy.answer(proxy.call_id("memory_add", content=" ", type="fact", scope="global"))["result"]
    assert refused["isError"] and refused["structuredContent"]["code"] == "blank-content"
    assert add(proxy, "Second of two writes.")["outcome"] == "added"


def test_supersede_by_token_and_redeemed_again(served: Stack):
    proxy = outside(served)
    old = add(proxy, "The staging database is called plum.")
    words = "The staging database is called cherry since the move."
    preview = proxy.call("memory_supersede", id=old["id"], content=words)
    assert preview["outcome"] == "preview"
    done = proxy.call("memory_supersede", id=old["id"], content=words, confirm=preview["confirm"])
    assert done["outcome"] == "superseded" and done["fact"] == old["fact"]
    again = proxy.call("memory_supersede", id=old["id"], content=words, confirm=preview["confirm"])
    assert again == done


def test_archive_when_a_person_is_asked(served: Stack):
    """The host shows the plan; a no leaves the memory in force, a yes retires it."""
    proxy = served.proxy(cwd=served.starter.parent)
    proxy.hello("2025-11-25", {"elicitation": {}})
    old = add(proxy, "The walnut service listens on port 4477.")
    for answer, outcome in ((False, "declined"), (True, "archived")):
        call = proxy.call_id("memory_archive", id=old["id"], reason="it was shut down")
        question = proxy.message()
        assert "walnut" in question["params"]["message"]
        content = {"action": "accept", "content": {"confirm": answer}}
        proxy.send({"jsonrpc": "2.0", "id": question["id"], "result": content})
        assert proxy.answer(call)["result"]["structuredContent"]["outcome"] == outcome


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("memory_search", {"query": "x", "kind": ["memory"]}, "`kinds`"),
        ("memory_search", {"query": "x", "pathPrefix": "a/"}, "`path_prefix`"),
        ("memory_add", {"content": "x", "type": "fact", "tag": ["a"]}, "`tags`"),
        ("memory_get", {"ids": "x"}, "`id`"),
    ],
)
def test_case_61_unknown_parameters_are_refused_by_name(served: Stack, tool: str, arguments: dict, named: str):
    """Case 61: a singular where a plural is meant must not widen a search silently."""
    proxy = outside(served)
    result = proxy.answer(proxy.call_id(tool, **arguments))["result"]
    assert result["isError"] and result["structuredContent"]["code"] == "unknown-parameter"
    assert named in result["structuredContent"]["message"]
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


@pytest.mark.parametrize("parameter", ["content", "title", "tags", "key"])
@pytest.mark.parametrize("text", ["\\ud83d", "\\udc00", "\\u0000"])
def test_h12_nothing_is_written_of_what_cannot_be_read_back(served: Stack, parameter: str, text: str):
    """H12: unpaired surrogates and NUL in content, title, tag and key; a paired escape is its character."""
    proxy = outside(served)
    before = commits(served)
    arguments = {"content": "fine", "type": "note", "scope": "global", parameter: ["@"] if parameter == "tags" else "@"}
    call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "memory_add", "arguments": arguments}}
    proxy.write(json.dumps(call).replace("@", f"bad {text} end").encode() + b"\n")
    result = proxy.answer(5)["result"]
    assert result["isError"] and result["structuredContent"]["code"] == "bad-characters"
    assert f"`{parameter}`" in result["structuredContent"]["message"]
    assert commits(served) == before


def test_h11_h12_text_round_trips_exactly(served: Stack):
    """H11, H12: stars, emoji, Cyrillic, Chinese and a paired escape come back as they went in."""
    proxy = outside(served)
    text = "★ 🎉 Кириллица 繁體中文 — the quince mirror"
    told = add(proxy, text)
    assert proxy.call("memory_get", id=told["id"])["content"].rstrip().endswith("\n" + text)


def test_nulls_for_optional_parameters(served: Stack):
    proxy = outside(served)
    arguments = {"query": "anything", "max_results": None, "mode": None, "kinds": None, "scope": None, "explain": None}
    assert "memories" in proxy.call("memory_search", **arguments)


def test_the_command_lines_road_gives_the_same_answers(served: Stack):
    proxy = outside(served)
    add(proxy, "The gooseberry index is rebuilt on Sundays.")
    wait_for(lambda: found(proxy, "gooseberry"))
    over_mcp = proxy.call("memory_search", query="gooseberry", mode="keyword")
    body = {"arguments": {"query": "gooseberry", "mode": "keyword"}, "directory": str(served.starter.parent)}
    status, over_http = served.http("POST", "/api/tools/memory_search", body)
    assert status == 200
    assert [(m["id"], m["relevance"]) for m in over_http["memories"]] == [
        (m["id"], m["relevance"]) for m in over_mcp["memories"]
    ]


def test_jobs_of_a_real_home(served: Stack):
    for kind in ("check", "corpus-scan", "rebuild"):
        status, job = served.http("POST", "/api/jobs", {"kind": kind})
        assert status == 202
        wait_for(lambda id=job["id"]: served.http("GET", f"/api/jobs/{id}")[1]["state"] != "running")
        ended = served.http("GET", f"/api/jobs/{job['id']}")[1]
        assert ended["state"] == "done", ended
    names = served.http("GET", "/metrics")[1]
    assert "memoryd_documents " in names and "memoryd_index_pending " in names


def test_case_57_status_while_the_model_loads_and_during_indexing(stack: Stack):
    """Case 57: asked without a pause over a cold model's first query, 120 adds and a rebuild: never seconds."""
    proxy = outside(stack)
    worst: list[float] = []
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            for path in ("/healthz", "/readyz", "/status"):
                began = time.perf_counter()
                assert stack.http("GET", path)[0] in {200, 503}
                worst.append(time.perf_counter() - began)

    watcher = threading.Thread(target=watch)
    watcher.start()
    calls = [
        proxy.call_id("memory_add", content=f"Fact number {n} about the pear tree.", type="fact", scope="global")
        for n in range(40)
    ]
    query = proxy.call_id("memory_search", query="what is known about fruit", mode="semantic")
    stack.http("POST", "/api/jobs", {"kind": "rebuild"})
    for id in [*calls, query]:
        assert "result" in proxy.answer(id, 90)
    began = time.perf_counter()
    assert proxy.call("memory_status")["version"]
    worst.append(time.perf_counter() - began)
    over.set()
    watcher.join()
    assert max(worst) < 2.0  # generous on a loaded machine; a status behind a lane would take the whole run


def test_kill_9_of_the_daemon_keeps_every_acknowledged_memory(stack: Stack):
    """H15 with a real home: the next call is served, what was acknowledged is there, a retried add is the same id."""
    proxy = outside(stack)
    ids = {add(proxy, f"Acknowledged fact {n} of the medlar.")["id"] for n in range(5)}
    unknown = proxy.call_id("memory_add", content="In flight when the daemon died.", type="fact", scope="global")
    stack.kill()
    answer = proxy.answer(unknown)
    assert "result" in answer or answer["error"]["code"] in {-31001, -31002}
    retried = add(proxy, "In flight when the daemon died.")
    assert retried["outcome"] in {"added", "exists"}
    for id in ids:
        assert "medlar" in proxy.call("memory_get", id=id)["content"]
    wait_for(lambda: stack.http("GET", "/readyz")[0] == 200)
    assert len([line for line in commits(stack) if "In flight when the daemon died" in line]) == 1


def test_h10_stdout_stays_pure_on_a_real_cold_start_with_the_model(stack: Stack):
    """H10, case 54: first start of a home, the model's load, DEBUG level: stdout holds JSON-RPC only."""
    stack.home.mkdir()
    (stack.home / "config.json").write_text('{"log_level": "DEBUG"}')
    proxy = outside(stack)
    add(proxy, "Words for the model.")
    assert "memories" in proxy.call("memory_search", query="words", mode="semantic")
    proxy.end()  # every line so far was parsed as JSON-RPC
    assert proxy.said == ""
    assert "DEBUG" in stack.log()


def test_a_broken_configuration_is_told_to_the_host(stack: Stack):
    stack.home.mkdir()
    (stack.home / "config.json").write_text('{"serch": {}}')
    proxy = stack.proxy()
    error = proxy.request("tools/list")["error"]
    assert error["code"] == -31002 and error["data"]["code"] == "config-key-unknown" and "`search`" in error["message"]
    (stack.home / "config.json").write_text("{}")
    proxy.hello()
    assert proxy.call("memory_status")["home"] == str(stack.home)


def test_the_health_port_and_the_log_level_of_the_configuration(stack: Stack):
    import http.client
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    stack.home.mkdir()
    (stack.home / "config.json").write_text(
        json.dumps({"health": {"listen": f"127.0.0.1:{port}"}, "log_level": "ERROR"})
    )
    stack.daemon()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/readyz")
    assert connection.getresponse().status in {200, 503}
    connection.close()
    assert " INFO " not in stack.log().split("serves")[-1]


def test_a_hand_edit_is_followed_without_being_asked(stack: Stack):
    """`vault.poll_seconds`: a file written into the vault by a person is found soon after."""
    stack.home.mkdir()
    (stack.home / "config.json").write_text('{"vault": {"poll_seconds": 0.2}}')
    proxy = outside(stack)
    told = add(proxy, "The rhubarb cluster has three nodes.")
    path = stack.home / "vault" / told["path"]
    edited = path.with_suffix(".swp")
    edited.write_text(path.read_text().replace("three nodes", "seven nodes"))
    edited.replace(path)  # as editors do
    wait_for(lambda: "seven" in proxy.call("memory_get", id=told["id"])["content"])
    wait_for(lambda: found(proxy, "rhubarb seven") and "seven" in found(proxy, "rhubarb seven")[0]["content"])


def test_h04_and_h06_sessions_come_and_go_and_the_daemon_stays(stack: Stack):
    """H04, H06: no session ends another's daemon, none is needed to keep it."""
    first = outside(stack)
    pid = stack.holder()
    second = outside(stack)
    first.end()
    assert second.call("memory_status")["version"]
    second.end()
    time.sleep(0.5)
    assert outside(stack).call("memory_status")["version"] and stack.holder() == pid
