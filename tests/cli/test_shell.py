"""Is every command regular: `--json`, exit codes, help, and progress only where a person looks?"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import threading

import click
import pytest

from memoryd.cli import main
from tests.cli.conftest import COMMAND


def commands(group: click.Group, path: tuple[str, ...] = ()):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


NAMES = (
    "serve start stop status remember search get supersede archive eval doctor config skill rebuild check"
    " corpus-add corpus-list corpus-scan job-list job-show snapshot snapshots diff restore add optimize repair gc forget"
    " calibrate vault-init vault-status vault-sync review feedback recall why"
    " model-list model-pull model-verify model-use model-warm"
).split()


def test_the_commands_are_these():
    assert sorted("-".join(path) for path, _ in commands(main)) == sorted(NAMES)


@pytest.mark.parametrize(("path", "command"), list(commands(main)), ids=lambda value: str(value)[:40])
def test_every_command_takes_json_and_explains_itself(path, command):
    options = {option for parameter in command.params for option in parameter.opts}
    assert "--json" in options or path == ("serve",), "serve has no answer: it runs"
    assert command.help
    for parameter in command.params:
        assert isinstance(parameter, click.Argument) or getattr(parameter, "help", None), f"{path}: {parameter.name}"


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["search"],
        ["search", "x", "--max-results", "21", "--json"],
        ["search", "x", "--mode", "fuzzy", "--json"],
        ["remember", "x", "--json"],
        ["remember", "x", "--type", "rumour", "--json"],
        ["search", "x", "--type", "rumour"],
        ["eval", "/does/not/exist", "--json"],
        ["status", "--unknown"],
    ],
)
def test_usage_errors_exit_with_two_and_print_nothing_on_stdout(shell, words):
    done = shell.run(*words)
    assert (done.code, done.out) == (2, "")
    assert "Usage:" in done.err
    assert not shell.home.exists()


def test_help_lists_the_types_of_memories(shell):
    for command in ("remember", "search"):
        assert "--type [fact|decision|lesson|preference|note]" in shell.said(command, "--help")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["remember", "x", "--type", "fact"], "Next: Give `--scope` (`global` or a project id): this folder is in no"),
        (["remember", " ", "--type", "fact"], "`CONTENT` is blank. (blank-content)\nNext: Give some words;"),
        (["search", "x", "--scope", "p-a-00000000"], "Next: Give `--scope` as `global` or as a project id that `memor"),
        (["search", "x", "--path-prefix", "no/"], "`--path-prefix` begins with 'no'"),
        (["get", "none"], "There is nothing at 'none' in the scopes of this folder."),
        (["supersede", "0" * 12, "x", "--confirm", "y"], "Next: Give the command again without `--confirm`"),
    ],
)
def test_hints_name_options_and_commands_of_the_shell(shell, words, said):
    done = shell.run(*words)
    assert (done.code, done.out) == (1, "")
    assert said in done.err
    told = shell.error(*words)
    assert "`scope`" not in told["next_step"] and "session" not in told["message"] + told["next_step"]


def test_json_as_a_word_is_no_option(shell):
    done = shell.run("get", "--", "--json")
    assert (done.code, done.out) == (1, "")
    assert "not-found" in done.err


def test_a_terminal_without_unicode_gets_all_of_it(shell):
    """ASCII output: JSON escapes, text shows escapes; nothing crashes."""
    poor = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    words = "Größe ★ 記憶"
    added = shell.json("remember", words, "--type", "fact", "--scope", "global", environment=poor)
    assert added["title"] == words
    assert shell.run("get", added["id"], environment=poor).code == 0


def test_the_variable_names_the_home_and_the_option_wins(shell, tmp_path):
    other = tmp_path / "other"
    environment = {**os.environ, "MEMORYD_HOME": str(other)}
    for words, expected in (([], other), (["--home", str(shell.home)], shell.home)):
        command = [COMMAND, *words, "config", "--json"]
        done = subprocess.run(command, env=environment, capture_output=True, check=True)
        assert json.loads(done.stdout)["path"] == str(expected / "config.json")


def on_terminal(*words: object) -> tuple[str, str]:
    """(stdout, what a terminal behind stderr showed) of a command."""
    ours, theirs = pty.openpty()
    shown: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):  # EIO: the other end is closed
            while data := os.read(ours, 65536):
                shown.append(data)

    reader = threading.Thread(target=read)
    reader.start()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    done = subprocess.run(
        [COMMAND, *map(str, words)], stdout=subprocess.PIPE, stderr=theirs, env=environment, check=True, timeout=90
    )
    os.close(theirs)
    reader.join()
    os.close(ours)
    return done.stdout.decode(), b"".join(shown).decode()


def test_progress_is_shown_on_a_terminal_only(shell):
    shell.json("remember", "One memory.", "--type", "fact", "--scope", "global")
    shell.said("stop")
    out, terminal = on_terminal("--home", shell.home, "rebuild")
    assert "generation" in out
    assert "\x1b[" in terminal
    assert "indexing" in terminal or "catalog" in terminal
    out, terminal = on_terminal("--home", shell.home, "rebuild", "--json")
    assert json.loads(out)["stopped"] is False
    assert terminal == "", "--json is for scripts"


def test_the_list_of_commands_says_each_of_them_whole():
    groups = [main]
    while groups:
        group = groups.pop()
        for command in group.commands.values():
            assert not command.get_short_help_str(63).endswith("..."), command.name
            groups += [command] if isinstance(command, click.Group) else []
