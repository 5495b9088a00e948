"""Can a person cite places in a project's files, and is told in words how they stand?"""

from __future__ import annotations

import subprocess

from tests.cli.test_memories import indexed


def test_citations_are_given_checked_and_shown_in_words(shell):
    subprocess.run(["git", "init", "-q", str(shell.directory)], check=True)
    file = shell.directory / "src" / "client.py"
    file.parent.mkdir()
    file.write_text("retries = 3\npause = 5\n")
    given = ["remember", "The client retries three times.", "--type", "fact"]
    error = shell.error(*given, "--cite", "src/client.py#L3")
    assert error["code"] == "bad-citation"
    assert "ends at line 2" in error["message"]
    added = shell.json(*given, "--cite", "src/client.py#L1", "--cite", "src/client.py")
    indexed(shell)
    assert "cites src/client.py#L1, which is fresh\n" in shell.said("search", "retries", "--mode", "keyword")

    file.write_text("retries = 4\npause = 5\n")
    shown = shell.said("search", "retries", "--mode", "keyword")
    assert "cites src/client.py#L1, which is changed: the line is another one now" in shown
    assert "+ retries = 4" in shown
    assert "changed" in shell.said("get", added["id"], "--metadata")
    read = shell.json("get", added["id"])
    assert [one["state"] for one in read["citations"]] == ["changed", "changed"]
    listed = shell.said("review", "--list", "--section", "citations").splitlines()
    assert [line for line in listed if "client.py#L1" in line] == [
        "      src/client.py#L1 is changed: the line is another one now"
    ]
    assert "        + retries = 4" in listed
    done = shell.run("get", added["id"])
    assert done.out.endswith("The client retries three times.\n"), "only the content goes to standard output"
    assert "cites src/client.py#L1, which is changed" in done.err

    change = ["supersede", added["id"], "The client retries four times.", "--cite", "src/client.py#L1"]
    plan = shell.json(*change)
    assert any(line.startswith("+cites src/client.py#L1 sha256:") for line in plan["diff"])
    new = shell.json(*change, "--confirm", plan["confirm"])
    assert [one["state"] for one in shell.json("get", new["id"])["citations"]] == ["fresh"]
