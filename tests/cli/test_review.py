"""Can a person go through memories that want a look with one keystroke each, and a script read them?"""

from __future__ import annotations

import os
import pty
import subprocess
import threading
import time

from memoryd import cli_review
from memoryd.catalog import feedback
from tests.cli.conftest import COMMAND, SECONDS, Done

HERE = ("--type", "fact", "--scope", "global")


def pressed(shell, *words: object, keys: list[tuple[str, str]], editor: str = "true") -> Done:
    """The command at a terminal of its own; each key is pressed once what it answers stands there. `out`: the screen."""
    ours, theirs = pty.openpty()
    command = ["setsid", "--ctty", "--wait", COMMAND, "--home", str(shell.home), *map(str, words)]
    environment = {**os.environ, "EDITOR": editor, "VISUAL": editor}
    process = subprocess.Popen(
        command, cwd=shell.directory, env=environment, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE
    )
    os.close(theirs)
    seen = bytearray()
    waiting = list(keys)

    def watch() -> None:
        after = 0
        try:
            while data := os.read(ours, 4096):
                seen.extend(data)
                while waiting and (at := seen.find(waiting[0][0].encode(), after)) >= 0:
                    after = at + len(waiting[0][0].encode())
                    time.sleep(0.2)  # a person's; and the terminal takes single keys by then
                    os.write(ours, waiting.pop(0)[1].encode())
        except OSError:  # the last process that had the terminal is gone
            pass

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        _, err = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
        watcher.join(5)
        os.close(ours)  # where the command still waits for a key, its terminal goes, and it with that
        watcher.join()
    assert not waiting, (waiting, seen.decode(errors="replace"), err)
    return Done(process.returncode, seen.decode(errors="replace").replace("\r\n", "\n"), err.decode())


def blamed(shell, text: str, verdict: str = "wrong", note: str | None = None) -> str:
    id = shell.json("remember", text, *HERE)["id"]
    shell.json("feedback", id, verdict, *(("--note", note) if note else ()))
    return id


def status_of(shell, id: str) -> str:
    return str(shell.json("get", id)["status"])


def test_the_words_of_the_command_line_are_those_of_the_tools():
    assert cli_review.VERDICTS == feedback.VERDICTS
    assert set(cli_review.TITLES) == set(cli_review.REVIEW_SECTIONS)


def test_feedback_and_a_list_with_commands_that_work_as_printed(shell):
    id = shell.json("remember", "The proxy listens on port 8080.", *HERE)["id"]
    said = shell.said("feedback", id[:12], "wrong", "--note", "it is 9090")
    assert said.startswith(f"noted: {id[:12]}")
    assert f"proposed: memoryd archive {id[:12]} 'wrong: it is 9090'" in said
    assert shell.json("feedback", id, "wrong")["outcome"] == "known"
    told = shell.json("review")
    assert told["total"] == 1
    assert told["sections"]["feedback"]["items"][0]["excerpt"] == "The proxy listens on port 8080."
    for words in (("review",), ("review", "--list", "--section", "feedback")):
        shown = shell.said(*words)
        assert "Said to be wrong or outdated (1)" in shown
        assert f"memoryd archive {id[:12]} 'wrong: it is 9090'" in shown
    assert "1 feedback: `memoryd review`" in shell.said("status")
    assert status_of(shell, id) == "in_force"
    preview = shell.json("archive", id[:12], "wrong: it is 9090")
    shell.json("archive", id[:12], "wrong: it is 9090", "--confirm", preview["confirm"])
    assert shell.json("review", "--section", "feedback")["total"] == 0


def test_a_memory_takes_another_ones_place_from_the_shell(shell):
    old = shell.json("remember", "The proxy listens on port 8080.", *HERE)["id"]
    new = shell.json("remember", "Since May the proxy has listened on port 9090.", *HERE)["id"]
    preview = shell.json("supersede", old, "--by", new[:12])
    assert preview["by"] == new
    assert shell.json("supersede", old, "--by", new[:12], "--confirm", preview["confirm"])["id"] == new
    assert shell.error("supersede", new)["code"] == "invalid-input"


def test_a_person_goes_through_the_items_with_one_key_each(shell):
    gone, left, off, last = (blamed(shell, f"The proxy of rack {n} listens on port 808{n}.") for n in range(4))
    question = "[q] quit "
    seen = pressed(
        shell,
        "review",
        "--section",
        "feedback",
        keys=[(question, "k"), (question, "s"), (question, "\r"), (question, "a")],
    )
    assert seen.code == 0, seen
    assert "1 of 4. Said to be wrong or outdated" in seen.out
    assert "| The proxy of rack" in seen.out
    assert "archived: " in seen.out
    statuses = [status_of(shell, id) for id in (gone, left, off, last)]
    assert sorted(statuses) == ["archived", "in_force", "in_force", "in_force"]
    assert shell.json("review", "--section", "feedback")["total"] == 1, "one is gone, one is kept, one was put off"
    seen = pressed(shell, "review", "--section", "feedback", keys=[(question, "x"), (question, "q")])
    assert "x" not in seen.out.rpartition(question)[2]
    assert shell.json("review", "--section", "feedback")["total"] == 1


def test_an_edit_becomes_the_next_revision_after_a_yes(shell):
    id = blamed(shell, "The proxy listens on port 8080.", "outdated", "9090 since May")
    question, editor = "[q] quit ", "sed -i s/8080/9090/"
    seen = pressed(
        shell,
        "review",
        "--section",
        "feedback",
        keys=[(question, "e"), ("Replace it by this? [y/n] ", "n"), (question, "e"), ("[y/n] ", "y")],
        editor=editor,
    )
    assert "+The proxy listens on port 9090." in seen.out
    assert "superseded: " in seen.out
    told = shell.json("get", id)
    assert told["status"] == "superseded"
    assert "9090" in shell.json("get", told["successor"]["id"])["content"]
    assert shell.json("review", "--section", "feedback")["total"] == 0


def test_an_edit_that_is_refused_or_changes_nothing_leaves_the_item(shell):
    blamed(shell, "The proxy listens on port 8080.")
    question = "[q] quit "
    seen = pressed(shell, "review", "--section", "feedback", keys=[(question, "e"), (question, "q")])
    assert "Unchanged." in seen.out
    seen = pressed(
        shell,
        "review",
        "--section",
        "feedback",
        keys=[(question, "e"), (question, "q")],
        editor="sed -i '$ a password: Tr0ub4dor&3xyz!'",
    )
    assert "looks like a secret" in seen.out
    assert shell.json("review", "--section", "feedback")["total"] == 1
