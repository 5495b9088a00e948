"""No word of a memory steers the terminal of the person who reads it."""

from __future__ import annotations

import subprocess

import pytest

from memoryd.visible import make_visible, visible
from tests.cli.conftest import COMMAND, SECONDS
from tests.cli.test_review import pressed

HERE = ("--type", "fact", "--scope", "global")
HOSTILE = "Ports are open.\n\x1b[2J\x1b[HNothing to see \x1b[8mhidden\x1b]0;title\x07 \x9b1A \u202etxet\u202c\rover it"


def assert_tame(seen: str) -> None:
    for steering in ("\x1b[2J", "\x1b[H", "\x1b[8m", "\x1b]0", "\x9b", "\u202e", "\rover"):
        assert steering not in seen, (steering, seen)


def test_search_get_and_the_plan_that_a_person_confirms_show_escapes_as_letters(shell):
    id = shell.json("remember", "-", *HERE, stdin=HOSTILE.encode())["id"]
    for words in (
        ("get", id),
        ("search", "ports are open", "--mode", "keyword"),
        ("recall", "open the ports"),
        ("supersede", id, "Other \x1b[2Jwords"),
    ):
        seen = pressed(shell, *words, keys=[]).out
        assert_tame(seen)
        assert r"\x1b[2J" in seen, words


def test_a_review_shows_them_as_letters(shell):
    id = shell.json("remember", "-", *HERE, stdin=HOSTILE.encode())["id"]
    shell.json("feedback", id, "wrong")
    seen = pressed(shell, "review", keys=[("[q] quit", "a")]).out
    assert_tame(seen)
    assert r"| \x1b[2J" in seen and "archived" in seen


def test_a_program_reads_every_byte_as_it_is(shell):
    id = shell.json("remember", "-", *HERE, stdin=HOSTILE.encode())["id"]
    command = [COMMAND, "--home", str(shell.home), "get", id]
    done = subprocess.run(command, capture_output=True, check=True, timeout=SECONDS)
    assert HOSTILE.encode() in done.stdout
    assert shell.json("get", id)["content"].endswith(HOSTILE)


def test_an_error_shows_what_it_was_given_as_letters(shell):
    done = shell.run("get", "none/\x1b[2J.md")
    assert done.code == 1 and "\x1b" not in done.err and done.err


@pytest.mark.parametrize("plain", ["tab\tline\nend\r\n", "e\u0301 \u4e2d\u6587 \U0001f600", "\u0627\u0644", "a\u00a0b"])
def test_ordinary_words_stay_as_they_are(plain):
    assert visible(plain) == plain


def test_everything_in_an_answer_is_made_visible():
    assert make_visible({"a": ["\x1b", {"b": "\x07"}], "n": 1}) == {"a": [r"\x1b", {"b": r"\x07"}], "n": 1}
