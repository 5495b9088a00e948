"""Is the vault set up, shown and shared from a shell, through the daemon?"""

from __future__ import annotations

import json
import subprocess

import pytest

from memoryd.operations.owner import holder_of
from tests.cli.conftest import Shell


def git(*words, cwd):
    command = ["git", "-c", "user.name=p", "-c", "user.email=p@localhost", *map(str, words)]
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


def remember(shell, text):
    return shell.json("remember", text, "--type", "fact", "--scope", "global")


def bare(tmp_path):
    git("init", "-q", "--bare", "-b", "main", "bare.git", cwd=tmp_path)
    return tmp_path / "bare.git"


@pytest.fixture
def other(tmp_path):
    folder = tmp_path / "there"
    folder.mkdir()
    made = Shell(tmp_path / "other", folder)
    yield made
    if made.home.is_dir() and holder_of(made.home) is not None:
        assert made.run("stop").code == 0


def test_two_machines_share_a_vault(shell, other, tmp_path):
    remote = bare(tmp_path)
    a = remember(shell, "Herons nest in the pond.")
    b = remember(other, "Pelicans fish at dawn.")
    said = shell.said("vault", "init", "--remote", remote)
    assert "1 commit sent" in said and str(remote) in said
    joined = other.json("vault", "init", "--remote", "../bare.git")  # from the directory of the command
    assert (joined["synced"]["received"], joined["remote"]["ahead"], joined["remote"]["behind"]) == (1, 0, 0)
    assert "2 commits taken in" in shell.said("vault", "sync")
    for one in (shell, other):
        found = one.json("search", "herons pelicans", "--mode", "keyword")["memories"]
        assert {hit["id"] for hit in found} == {a["id"], b["id"]}
    assert "Up to date" in other.said("vault", "sync")
    assert {job["kind"] for job in shell.json("job", "list")["jobs"]} == {"vault-connect", "vault-sync"}


def test_a_conflict_is_an_error_with_both_sides_and_the_next_step(shell, other, tmp_path):
    remote = bare(tmp_path)
    a = remember(shell, "Herons nest in the pond.")
    for one in (shell, other):
        one.json("vault", "init", "--remote", remote)
    for one, words in ((shell, "Herons nest in the reeds."), (other, "Herons nest in the trees.")):
        token = one.json("supersede", a["id"], words)["confirm"]
        one.json("supersede", a["id"], words, "--confirm", token)
    shell.said("vault", "sync")
    error = other.error("vault", "sync")
    assert error["code"] == "vault-conflict"
    assert [one["path"] for one in error["details"]["files"]] == [a["path"]]
    done = other.run("vault", "sync")
    assert (done.code, done.out) == (1, "")
    assert a["path"] in done.err and "git merge origin/main" in done.err
    shown = other.json("vault", "status")
    assert (shown["remote"]["ahead"], shown["remote"]["behind"], shown["under_way"]) == (1, 1, None)
    remember(other, "Bitterns boom.")


def test_status_names_what_needs_a_person(shell):
    remember(shell, "Herons nest in the pond.")
    root = shell.home / "vault"
    (root / "global" / "fact" / "dropped.md").write_text("Egrets wade.\n")
    shell.said("stop")
    said = shell.said("vault", "status")
    assert "global/fact/dropped.md:1" in said and "to make it a memory" in said and "status: in_force" in said
    assert "memoryd vault init --remote URL" in said
    git("checkout", "-q", "--detach", cwd=root)
    done = shell.run("vault", "status")
    assert done.code == 1 and "HEAD is detached" in done.out
    assert shell.error("remember", "x y z", "--type", "fact", "--scope", "global")["code"] == "vault-busy"
    git("checkout", "-q", "main", cwd=root)
    assert shell.error("vault", "sync")["code"] == "remote-failed"


def test_init_makes_a_vault_in_the_home_or_elsewhere(shell, tmp_path):
    assert str(shell.home / "vault") in shell.said("vault", "init")
    place = tmp_path / "notes" / "vault"
    shown = shell.json("vault", "init", place)
    assert (shown["path"], shown["branch"], shown["commit"]) == (str(place), "main", None)
    a = remember(shell, "Herons nest in the pond.")
    assert (place / a["path"]).exists()
    assert json.loads((shell.home / "config.json").read_text())["vault"] == {"path": str(place)}
    assert shell.json("vault", "init", place)["commit"] == a["commit"], "again changes nothing"


def test_init_takes_an_existing_clone_over(shell, other, tmp_path):
    remote = bare(tmp_path)
    a = remember(shell, "Herons nest in the pond.")
    shell.said("vault", "init", "--remote", remote)
    git("clone", "-q", remote, "clone", cwd=tmp_path)
    shown = other.json("vault", "init", tmp_path / "clone")
    assert (shown["commit"], shown["remote"]["url"]) == (a["commit"], str(remote))
    other.indexed()
    assert [one["id"] for one in other.json("search", "herons", "--mode", "keyword")["memories"]] == [a["id"]]
    b = remember(other, "Pelicans fish at dawn.")
    other.said("vault", "sync")
    assert shell.json("vault", "sync")["received"] == 1
    shell.indexed()
    assert b["id"] in str(shell.json("search", "pelicans", "--mode", "keyword"))


def test_init_leaves_no_memory_behind(shell, tmp_path):
    a = remember(shell, "Herons nest in the pond.")
    full = tmp_path / "full"
    full.mkdir()
    (full / "x.txt").write_text("mine")
    assert shell.error("vault", "init", full)["code"] == "vault-not-a-repository"
    git("init", "-q", "repo", cwd=tmp_path)
    for place in (tmp_path / "new", tmp_path / "repo"):
        error = shell.error("vault", "init", place)
        assert error["code"] == "invalid-input" and f"mv {shell.home / 'vault'} {place}" in error["next_step"]
    assert not (shell.home / "config.json").exists()
    shell.said("stop")
    (shell.home / "vault").rename(tmp_path / "new")
    assert shell.json("vault", "init", tmp_path / "new")["commit"] == a["commit"]
    shell.indexed()
    assert [one["id"] for one in shell.json("search", "herons", "--mode", "keyword")["memories"]] == [a["id"]]


def test_a_password_in_an_address_is_refused_and_kept_nowhere(shell):
    error = shell.error("vault", "init", "--remote", "https://me:hunter2secret@127.0.0.1:9/v.git")
    assert error["code"] == "invalid-input" and "hunter2secret" not in json.dumps(error)
    shell.said("vault", "init")
    shell.said("stop")
    for path in shell.home.rglob("*"):
        assert not path.is_file() or b"hunter2secret" not in path.read_bytes(), path
