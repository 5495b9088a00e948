"""Which remote does a branch follow, and what of its address is shown?"""

from __future__ import annotations

import pytest

from memoryd.errors import InvalidInput
from memoryd.sources import remote
from memoryd.sources.standing import standing
from tests.sources.conftest import new, open_vault, person


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:secret@host/x.git", "https://host/x.git"),
        ("https://token@host/x.git", "https://host/x.git"),
        ("git@host:x.git", "git@host:x.git"),
        ("/srv/a@b.git", "/srv/a@b.git"),
        ("fatal: unable to access 'https://u:p@h/x/': no", "fatal: unable to access 'https://h/x/': no"),
    ],
)
def test_secrets_in_addresses_are_not_shown(url, shown):
    assert remote.shown_url(url) == shown


def test_addresses_are_checked(tmp_path, monkeypatch):
    (tmp_path / "bare.git").mkdir()
    monkeypatch.chdir(tmp_path)
    assert remote.checked_address("bare.git") == str(tmp_path / "bare.git")
    for url in ("git@host:x.git", "ssh://me@host/x.git", "https://me@host/x.git", "file:///srv/x.git"):
        assert remote.checked_address(url) == url
    for url in ("", "  ", "-oProxyCommand=x", "a\nb", "https://me:secret@host/x.git", "SSH://a:b@host/x"):
        with pytest.raises(InvalidInput):
            remote.checked_address(url)


def test_a_branch_follows_its_configuration_then_the_only_remote_then_origin(tmp_path):
    vault = open_vault(tmp_path / "vault")
    vault.commit([new("a")], "add")
    git = vault.git
    assert remote.upstream(git, "main") is None
    person(vault.path, "remote", "add", "work", "/srv/work.git")
    assert remote.upstream(git, "main") == remote.Upstream("work", "/srv/work.git", "main")
    person(vault.path, "remote", "add", "home", "/srv/home.git")
    assert remote.upstream(git, "main") is None, "two, and neither is meant"
    person(vault.path, "remote", "add", "origin", "/srv/origin.git")
    assert remote.upstream(git, "main").shown == "origin/main"
    person(vault.path, "config", "branch.main.remote", "home")
    person(vault.path, "config", "branch.main.merge", "refs/heads/trunk")
    assert remote.upstream(git, "main") == remote.Upstream("home", "/srv/home.git", "trunk")
    person(vault.path, "config", "branch.main.remote", "gone")
    assert remote.upstream(git, "main").shown == "origin/trunk"
    shown = standing(git)
    assert (shown["remote"]["ahead"], shown["remote"]["behind"]) == (None, None), "never fetched"


def test_hooks_are_those_that_git_would_run(tmp_path):
    vault = open_vault(tmp_path / "vault")
    folder = tmp_path / "hooks"
    folder.mkdir()
    for name, mode in (("pre-commit", 0o755), ("pre-push", 0o644), ("post-merge.sample", 0o755)):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(mode)
    assert standing(vault.git)["hooks"] == []
    person(vault.path, "config", "core.hooksPath", folder)
    assert standing(vault.git)["hooks"] == ["pre-commit"]
