"""What git's history still says of what was erased is told with commands that take it out."""

from __future__ import annotations

import shlex
from types import SimpleNamespace

import pytest

from memoryd.errors import NotFound
from memoryd.operations import gateway
from memoryd.operations.erasure import plan
from memoryd.operations.forget import run
from memoryd.operations.home import Caller, Home
from memoryd.operations.ingest import Seen, store_documents
from memoryd.operations.purge import git_history
from tests.operations.conftest import git, opened, settle

HERE = Caller()
SECRET = "hunter2-correct-horse-battery"


def add(home: Home, text: str, **other: object) -> dict:
    return gateway.add(home, HERE, content=text, type="fact", scope="global", **other)


def messages_after(home: Home, command: str) -> str:
    """All commit messages of the vault as the callback of the printed command leaves them."""
    words = shlex.split(command)
    body = words[words.index("--commit-callback") + 1]
    left = []
    for one in git("rev-list", "--all", cwd=home.vault.path).split():
        message = git("log", "-1", "--format=%B", one, cwd=home.vault.path).encode()
        commit = SimpleNamespace(original_id=one.encode(), message=message)
        exec(body, {"commit": commit})  # as git-filter-repo does
        left.append(commit.message.decode())
    return "\n".join(left)


def test_the_printed_command_names_the_very_file(root):
    """Whatever its name holds: a shell and git both take it as it is."""
    with opened(root) as home:
        told = add(home, f"It is {SECRET}.")
        settle(home)
        plain, odd = home.vault.path / told["path"], "it's *.md"
        (home.vault.path / odd).write_text("an odd name\n")
        git("add", "-A", cwd=home.vault.path)
        git("commit", "-qm", "x", cwd=home.vault.path)
        assert plain.exists()
        found = git_history(home, [odd.encode(), b"*.md"])
        assert found["commits"] == {odd: 1, "*.md": 0}
        words = shlex.split(found["purge"][0])
        assert words[:3] == ["git", "-C", str(home.vault.path)] and words[-2:] == ["--path", odd]


@pytest.mark.parametrize("by_words", [True, False])
def test_the_purge_takes_a_title_out_of_the_message_of_a_commit_that_other_files_keep(root, by_words):
    """A supersede touches the old file as well, so the commit stays and with it the title of what was erased."""
    with opened(root) as home:
        old = add(home, "The queue of the printer is called red.")
        settle(home)
        words = {"id": old["id"], "content": f"The queue is called {SECRET}."}
        seen = gateway.supersede(home, HERE, **words)
        new = gateway.supersede(home, HERE, **words, confirm=seen["confirm"])
        settle(home)
        assert SECRET in git("log", "--format=%s", cwd=home.vault.path)
        done = run(home, plan(home, [], SECRET) if by_words else plan(home, [new["id"]]))
        left = messages_after(home, done["git"]["purge"][0])
        assert SECRET not in left
        assert "Add fact: The queue of the printer is called red." in left, "other messages stay"


def test_words_that_only_a_message_says_are_told_with_the_way_to_purge_them(root):
    with opened(root) as home:
        add(home, "The queue of the printer is called red.")
        add(home, "The queue of the printer is called red!", force=f"it is {SECRET}")
        settle(home)
        with pytest.raises(NotFound) as caught:
            plan(home, [], SECRET)
        assert caught.value.details["git"]["messages"] == 1
        assert "--path" not in caught.value.details["git"]["purge"][0]
        assert SECRET not in messages_after(home, caught.value.details["git"]["purge"][0])
        with pytest.raises(NotFound, match="Nothing that is stored holds these words.$"):
            plan(home, [], "words that nobody ever said")


def test_what_git_left_of_its_last_message_goes_too(root):
    with opened(root) as home:
        add(home, "The queue of the printer is called red.")
        add(home, "The queue of the printer is called red!", force=f"it is {SECRET}")
        settle(home)
        last = home.vault.path / ".git" / "COMMIT_EDITMSG"
        assert SECRET in last.read_text()
        store_documents(home, [Seen("docs", b"a.md", "global", "document", f"It is {SECRET}.".encode())])
        settle(home)
        done = run(home, plan(home, [], SECRET))
        assert done["commit"] is None and done["logs"]["vault/.git/COMMIT_EDITMSG"] == 1
        assert SECRET not in last.read_text()
        assert done["git"]["messages"] == 1 and done["git"]["purge"]
