"""Can a person delete every view, whether a daemon runs or not, and get the same answers back?"""

from __future__ import annotations

import shutil
import time

import pytest

from tests.cli.conftest import Shell

VIEWS = ["store/index.db", "catalog.db", "indexes", "embeddings.db"]


def shown(answer: dict) -> list[tuple]:
    return [(one["id"], one["address"], one["bytes"], one["content"]) for one in answer["memories"]]


def settled(shell: Shell, question: str) -> dict:
    """The answer once nothing is pending."""
    for _ in range(100):
        answer = shell.json("search", question, "--mode", "keyword")
        if not answer["index"]["pending"] and not answer["index"]["degraded"]:
            return answer
        time.sleep(0.2)
    raise AssertionError(answer["index"])


@pytest.mark.parametrize("running", [True, False])
def test_every_view_can_be_deleted_and_rebuilt(shell: Shell, running: bool):
    for text in ("The gauge reads bar, not psi.", "The pump is serviced in May."):
        shell.json("remember", text, "--type", "fact", "--scope", "global")
    before = shown(settled(shell, "pump gauge"))
    assert len(before) == 2
    if not running:
        shell.json("stop")
    for view in VIEWS:
        for path in [shell.home / view, *shell.home.glob(f"{view}-*")]:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    report = shell.json("rebuild")
    assert (report["documents"], report["stopped"]) == (2, False)
    assert all((shell.home / view).exists() for view in ("store/index.db", "catalog.db", "indexes/CURRENT"))
    assert shown(settled(shell, "pump gauge")) == before
    assert shell.json("check", "--read-data")["clean"]


def test_a_daemon_whose_views_were_removed_makes_room_for_one_that_has_them(shell: Shell):
    shell.json("remember", "The valve opens to the left.", "--type", "fact", "--scope", "global")
    settled(shell, "valve")
    first = shell.json("start")["pid"]
    (shell.home / "catalog.db").unlink()
    for _ in range(100):
        if shell.json("start")["pid"] != first:
            break
        time.sleep(0.2)
    assert len(settled(shell, "valve")["memories"]) == 1
    assert (shell.home / "catalog.db").exists()


def test_a_folder_of_somebody_elses_files_is_not_taken_for_a_home(shell: Shell, tmp_path):
    foreign = tmp_path / "letters"
    foreign.mkdir(mode=0o755)
    (foreign / "dear.txt").write_text("hello")
    error = Shell(foreign, shell.directory).error("status")
    assert "not a memoryd home" in error["message"]
    assert (foreign / "dear.txt").read_text() == "hello"
    assert foreign.stat().st_mode & 0o777 == 0o755
