"""Does the teller count honestly, and does a session notice when its proxy fails it?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.journeys.stage import Session, Stage, Stopped, Story, clean_up, throw_away


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def proxy(stage: Stage, script: str) -> None:
    """Let the stage's `memproxy` be this Python script."""
    path = stage.folder / "proxy.py"
    path.write_text(f"#!{sys.executable}\nimport json, sys\n{script}", "utf-8")
    path.chmod(0o700)
    stage.memproxy = str(path)


ANSWERING = """
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}), flush=True)
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": ANSWER}), flush=True)
"""


def test_one_claim_that_fails_makes_the_exit_code_1(capsys: pytest.CaptureFixture[str]):
    story = Story()
    story.claim("water is wet", True)
    assert story.end() == 0
    story.claim("the moon is cheese", False)
    assert story.end() == 1
    assert "FAILED: the moon is cheese" in capsys.readouterr().out


def test_a_stage_is_a_git_project_with_an_empty_home(stage: Stage):
    assert stage.run("git", "rev-parse", "--show-toplevel").strip() == str(stage.project)
    assert not stage.home.exists()
    assert list((stage.folder / "user").iterdir()) == []


def test_a_command_that_fails_stops_the_run(stage: Stage):
    with pytest.raises(Stopped, match="ended with 3"):
        stage.run("sh", "-c", "exit 3")
    assert stage.run("sh", "-c", "exit 3", allowed=(3,)) == ""


def test_a_session_skips_notices_and_ends_with_its_input(stage: Stage):
    proxy(stage, ANSWERING.replace("ANSWER", "{'structuredContent': {'method': asked['method']}}"))
    session = Session(stage, "A", "2025-11-25")
    assert session.tool("anything") == {"method": "tools/call"}
    assert session.close() == 0


def test_a_tool_error_stops_the_run(stage: Stage):
    proxy(stage, ANSWERING.replace("ANSWER", "{'isError': True, 'content': 'broken'}"))
    session = Session(stage, "A", "2025-11-25")
    with pytest.raises(Stopped, match="broken"):
        session.tool("anything")
    session.close()


def test_a_proxy_that_dies_stops_the_run(stage: Stage):
    proxy(stage, "sys.stdin.readline(); raise SystemExit(4)")
    with pytest.raises(Stopped, match="ended with 4"):
        Session(stage, "A", "2025-11-25")


def test_a_process_that_stays_is_found_ended_and_counted(stage: Stage, capsys: pytest.CaptureFixture[str]):
    stage.memoryd = "/bin/true"
    environment = {**stage.environment, "PATH": os.environ["PATH"]}
    left = subprocess.Popen(["cat", "-"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert left.stdin and left.stdout
    try:
        left.stdin.write(b"there\n")
        left.stdin.flush()
        assert left.stdout.readline() == b"there\n"  # a process just made has no command line for a moment
        assert left.pid in stage.processes()
        story = Story()
        clean_up(story, stage)
        assert story.failed == ["no process of this run is left"]
        assert left.wait(timeout=10) != 0
    finally:
        left.kill()
        left.communicate()
    assert f"{left.pid}: cat -" in capsys.readouterr().out


def test_the_folder_goes_also_after_a_failure():
    seen: list[Path] = []
    with pytest.raises(RuntimeError), throw_away(Story()) as folder:
        (folder / "something").write_text("x", "utf-8")
        seen.append(folder)
        raise RuntimeError
    assert not seen[0].exists()
