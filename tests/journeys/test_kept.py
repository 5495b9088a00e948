"""Do sessions keep files and see what changed, and never get at what belongs to another project?"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.daemons import Proxy, Stack, stack_in, wait_for

LOG = "step 1 ok\nstep 2 failed: the flux capacitor overheated\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with stack_in(tmp_path_factory.mktemp("kept"), fixture=False) as made:
        made.daemon()
        yield made


@pytest.fixture
def project(tmp_path: Path) -> Callable[[str], Path]:
    def make(name: str) -> Path:
        folder = tmp_path / name
        (folder / "build").mkdir(parents=True)
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        (folder / "build" / "test.log").write_text(LOG + name)
        return folder

    return make


def refused(proxy: Proxy, tool: str, **arguments) -> dict:
    """The error of a call; what text and structured content say of it is equal."""
    result = proxy.answer(proxy.call_id(tool, **arguments))["result"]
    assert result["isError"]
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    return result["structuredContent"]


def test_a_file_is_kept_once_and_found_by_the_next_session(served: Stack, project):
    tree = project("kept-once")
    first = served.session(cwd=tree / "build")
    told = first.call("artifact_add", path="test.log", tags=["ci"], text=None)
    assert (told["outcome"], told["findable"]) == ("added", True)
    assert told["source"] == f"artifact/{told['scope']}/build/test.log"
    again = first.call("artifact_add", path="test.log", tags=["ci"])
    assert again == {**told, "outcome": "exists"}
    later = served.session(cwd=tree)
    query = {"query": "flux capacitor", "mode": "keyword"}
    wait_for(lambda: later.call("memory_search", **query)["memories"])
    assert later.call("memory_search", **query)["memories"][0]["source"] == told["source"]
    assert later.call("memory_get", source=told["source"])["content"] == LOG + "kept-once"


def test_two_sessions_at_once_keep_one_artifact(served: Stack, project):
    tree = project("at-once")
    sessions = [served.session(cwd=tree) for _ in range(2)]
    calls = [one.call_id("artifact_add", text=LOG, name="run.log") for one in sessions]
    answers = [one.answer(id)["result"]["structuredContent"] for one, id in zip(sessions, calls, strict=True)]
    assert sorted(answer["outcome"] for answer in answers) == ["added", "exists"]
    assert len(sessions[0].call("memory_get", source=answers[0]["source"], metadata=True)["history"]) == 1


def test_another_project_gets_at_an_artifact_by_no_name(served: Stack, project):
    mine, yours = project("mine"), project("yours")
    owner, other = served.session(cwd=mine), served.session(cwd=yours)
    told = owner.call("artifact_add", path="build/test.log")
    for name in ("id", "source", "address"):
        missing = refused(other, "memory_get", **{name: "sha256:" + "0" * 64 if name == "address" else "0" * 64})
        hidden = refused(other, "memory_get", **{name: told[name]})
        assert hidden["code"] == missing["code"] == "not-found"
        assert hidden["next_step"] == missing["next_step"]
    taken = other.call("artifact_add", text="other words", name="build/test.log")
    assert taken["outcome"] == "added"
    assert owner.call("memory_get", source=told["source"])["content"] == LOG + "mine"
    assert refused(other, "artifact_add", path=str(mine / "build" / "test.log"))["code"] == "outside-project"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "invalid-input"),
        ({"text": "a", "path": "b"}, "invalid-input"),
        ({"text": " "}, "blank-content"),
        ({"text": "a\u0000b"}, "bad-characters"),
        ({"text": "a", "name": "../up"}, "invalid-input"),
        ({"text": "a", "tag": ["x"]}, "unknown-parameter"),
        ({"text": "a", "tags": "x"}, "invalid-input"),
        ({"text": "a"}, "scope-required"),
        ({"text": "a", "scope": "p-nobody-00000000"}, "scope-unknown"),
        ({"path": "/etc/hostname", "scope": "global"}, "outside-project"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(served: Stack, arguments: dict, code: str):
    assert refused(served.session(cwd=served.starter.parent), "artifact_add", **arguments)["code"] == code


def test_what_changed_is_told_to_its_own_project_only(served: Stack, project):
    mine, yours = project("changed"), project("other")
    owner, other = served.session(cwd=mine), served.session(cwd=yours)
    taken = []
    for words in ("first", "second"):
        (mine / "notes.txt").write_text(words)
        arguments = {"path": str(mine), "label": "tree", "directory": str(mine), "full": True}
        _, job = served.http("POST", "/api/jobs", {"kind": "snapshot", "args": arguments})
        wait_for(lambda id=job["id"]: served.http("GET", f"/api/jobs/{id}")[1]["result"])
        taken.append(served.http("GET", f"/api/jobs/{job['id']}")[1]["result"])
    for since in ("tree", "tree@1", str(taken[0]["seq"]), taken[0]["root"]):
        told = owner.call("snapshot_diff", since=since, until=None, path_prefix=None)
        assert [one["path"] for one in told["changes"][0]["modified"]] == ["notes.txt"], since
        assert refused(other, "snapshot_diff", since=since)["code"] == "not-found"
    sources = [f"snapshot:{one['seq']}/notes.txt" for one in taken]
    assert [owner.call("memory_get", source=source)["content"] for source in sources] == ["first", "second"]
    assert {refused(other, "memory_get", source=source)["code"] for source in sources} == {"not-found"}
    assert "tree" not in json.dumps(other.call("snapshot_diff", since="1 hour ago"))
    assert refused(owner, "snapshot_diff", since="tree@1", prefix="tree/")["code"] == "unknown-parameter"
    assert refused(owner, "snapshot_diff")["code"] == "invalid-input"
