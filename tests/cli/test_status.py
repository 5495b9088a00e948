"""Does `memoryd status` say in sections what a person asks, on 80 columns, with what needs a hand?"""

from __future__ import annotations

import re
import time

TITLES = ["Daemon", "Memories", "Index", "Model", "Corpora", "Problems"]


def line(text: str, name: str) -> str:
    """What stands behind a name."""
    found = re.search(rf"^  {name} +(.*)$", text, re.MULTILINE)
    assert found, text
    return found[1]


def test_a_fresh_home_has_all_sections_and_no_problems(shell):
    pid = shell.json("start")["pid"]
    text = shell.said("status")
    assert [one for one in text.splitlines() if not one.startswith(" ")] == TITLES
    assert line(text, "process").startswith(f"{pid}, up ")
    assert (line(text, "in force"), line(text, "waiting"), line(text, "commit")) == ("0", "nothing", "none yet")
    assert line(text, "writes") == "only with --scope"
    assert "memoryd corpus add" in text.partition("Corpora")[2]
    assert text.rstrip().endswith("Problems\n  none")
    assert all(len(one) <= 80 or str(shell.home) in one for one in text.splitlines()), text
    assert shell.json("status")["daemon"]["pid"] == pid


def test_folders_counts_and_problems_are_told_with_their_places(shell):
    docs = shell.directory / "docs"
    docs.mkdir()
    (docs / "one.md").write_text("# One\n\nA text.\n")
    shell.json("corpus", "add", "docs", "docs")
    shell.json("corpus", "scan")
    added = shell.json("remember", "The pump is serviced in May.", "--type", "fact", "--scope", "global")
    file = shell.home / "vault" / added["path"]
    file.write_text(file.read_text().replace("type: fact", "type: [oops"))
    (shell.home / "config.json").write_text("{}")
    until = time.monotonic() + 60
    while f"vault/{added['path']}" not in (text := shell.said("status")):
        assert time.monotonic() < until, text
        time.sleep(0.2)
    assert line(text, "docs") == "1 document, global"
    assert line(text, "documents") == "2 (1 document, 1 memory)"
    problems = text.partition("Problems\n")[2]
    assert "Line 6: " in problems and "`memoryd stop`" in line(problems, "settings")
    assert all(len(one) <= 80 or "/" in one for one in text.splitlines()), text
