"""Does a commit survive whatever settings, states and shapes of a repository a person may have?"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memoryd.digest import sha256_hex
from memoryd.errors import VaultBusy
from tests.sources.conftest import hook, new, open_vault, person, script, whole_state
from tests.sources.test_vault import A, B, names_of, over


def globally(tmp_path: Path, text: str) -> dict[str, str]:
    """An environment with a person's own ~/.gitconfig."""
    home = tmp_path / "person"
    home.mkdir()
    (home / ".gitconfig").write_text(text)
    return {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home / "none")}


def test_settings_of_a_person_change_neither_bytes_nor_outcome(tmp_path):
    """autocrlf, fsmonitor, template, a global ignore of *.md, hooks elsewhere, verbose, editor, safecrlf, status."""
    blocker = script(tmp_path / "bin", "block", "sleep 60\n")
    (tmp_path / "ignored").write_text("*.md\nglobal/\n")
    (tmp_path / "template").write_text("# TEMPLATE\nfill me in\n")
    (tmp_path / "hooks").mkdir()
    environment = globally(
        tmp_path,
        f"""[core]
\tautocrlf = true
\tsafecrlf = true
\teol = crlf
\tfsmonitor = {blocker}
\texcludesFile = {tmp_path / "ignored"}
\thooksPath = {tmp_path / "hooks"}
\teditor = {blocker}
\tuntrackedCache = true
\tsplitIndex = true
\tquotePath = true
[commit]
\ttemplate = {tmp_path / "template"}
\tverbose = 2
\tstatus = true
[user]
\tuseConfigOnly = true
[credential]
\thelper = {blocker}
[log]
\tshowSignature = true
[format]
\tpretty = oneline
[color]
\tui = always
[status]
\tshowUntrackedFiles = no
[push]
\tfollowTags = true
""",
    )
    vault = open_vault(tmp_path / "vault", timeout=15.0, environment=environment)
    first = vault.commit([new("a", "one\r\ntwo\n")], "add")
    second = vault.commit([new("b"), over(vault, A, "three\r\n")], "change")
    assert names_of(vault.path, second) == {"global/fact/a.md", "global/fact/b.md"}
    assert vault.git.blob(first, A) == b"one\r\ntwo\n" and vault.git.blob(second, A) == vault.read(A) == b"three\r\n"
    assert vault.head() == second == vault.git.log_commit(A)
    assert vault.committed(A) == (second, sha256_hex(b"three\r\n"))
    assert person(vault.path, "log", "-1", "--format=%s|%an").decode().strip() == "change|memoryd"
    before = whole_state(vault.path)
    script(tmp_path / "hooks", "pre-commit", "exit 1\n")
    with pytest.raises(Exception, match="git commit"):
        vault.commit([new("c")], "no")
    assert whole_state(vault.path) == before


@pytest.mark.parametrize("attributes", ["*.md text eol=crlf\n", "*.md text=auto\n", "* -text\n", "*.md ident\n"])
def test_attributes_of_the_vault_itself_are_a_persons_will(tmp_path, attributes):
    """git may store other bytes than lie there; the commit knows them, nothing is left staged or lost."""
    vault = open_vault(tmp_path / "vault")
    (vault.path / ".gitattributes").write_text(attributes)
    commit = vault.commit([new("a", "one\r\ntwo\r\n$Id$\r\n")], "add")
    assert vault.git.blob(commit, A) == commit.files[A]
    second = vault.commit([new("b"), over(vault, A, "three\r\nfour\r\n")], "change")
    assert vault.git.blob(second, A) == second.files[A]
    assert vault.read(A) == b"three\r\nfour\r\n"
    assert person(vault.path, "status", "--porcelain") == b"?? .gitattributes\n"


@pytest.mark.parametrize("cone", ["--cone", "--no-cone"])
def test_a_sparse_checkout_takes_memories(tmp_path, cone):
    vault = open_vault(tmp_path / "vault")
    (vault.path / "notes").mkdir()
    (vault.path / "notes" / "x.md").write_text("x\n")
    person(vault.path, "add", "-A")
    person(vault.path, "commit", "-q", "-m", "by hand")
    vault.commit([new("a")], "add")
    person(vault.path, "sparse-checkout", "set", cone, "notes")
    assert not vault.exists(A)
    commit = vault.commit([new("b")], "add")
    assert names_of(vault.path, commit) == {"global/fact/b.md"}
    assert vault.git.blob(commit, A) == b"words\n", "what is not checked out stays committed"
    assert vault.read(B) == b"words\n"
    hook(vault.path, "pre-commit", "exit 1\n")
    before = whole_state(vault.path)
    with pytest.raises(Exception, match="git commit"):
        vault.commit([new("c")], "no")
    assert whole_state(vault.path) == before


def conflicting(vault):
    """Two branches that change one file differently; `main` is checked out."""
    vault.commit([new("a", "one\n")], "add")
    person(vault.path, "checkout", "-q", "-b", "side")
    vault.commit([over(vault, A, "side\n")], "side")
    person(vault.path, "checkout", "-q", "main")
    vault.commit([over(vault, A, "main\n")], "main")


UNDER_WAY = {
    "merge": ["merge", "side"],
    "cherry-pick": ["cherry-pick", "side"],
    "revert": ["revert", "--no-edit", "HEAD~1"],
    "rebase": ["rebase", "side"],
    "bisect": ["bisect", "start", "HEAD", "HEAD~1"],
    "am": ["am", "patch"],
}


@pytest.mark.parametrize("name", UNDER_WAY)
def test_what_a_person_has_under_way_is_refused_before_anything_is_written_and_goes_on(tmp_path, name):
    vault = open_vault(tmp_path / "vault")
    conflicting(vault)
    patch = person(vault.path, "format-patch", "-1", "--stdout", "side")
    (vault.path / ".git" / "patch").write_bytes(patch)
    words = [str(vault.path / ".git" / "patch") if word == "patch" else word for word in UNDER_WAY[name]]
    person(vault.path, *words, check=False)
    before = whole_state(vault.path)
    files = {path.name: path.read_bytes() for path in (vault.path / ".git").iterdir() if path.is_file()}
    with pytest.raises(VaultBusy) as caught:
        vault.commit([new("b")], "no")
    assert name in caught.value.message.replace("am", "am or rebase")
    assert "nothing was written" in caught.value.message
    assert whole_state(vault.path) == before
    assert {n: (vault.path / ".git" / n).read_bytes() for n in files} == files
    person(vault.path, *([name, "reset"] if name == "bisect" else [name, "--abort"]))
    person(vault.path, "checkout", "-q", "main")
    assert vault.commit([new("b")], "add") == vault.head()


def test_the_message_of_a_squash_merge_waits_on(tmp_path):
    """H33: `merge --squash` left staged work and a message: both are the person's."""
    vault = open_vault(tmp_path / "vault")
    vault.commit([new("a")], "add")
    person(vault.path, "checkout", "-q", "-b", "side")
    vault.commit([new("b")], "side")
    person(vault.path, "checkout", "-q", "main")
    person(vault.path, "merge", "-q", "--squash", "side")
    message = vault.path / ".git" / "SQUASH_MSG"
    words = message.read_bytes()
    commit = vault.commit([new("c")], "add")
    assert names_of(vault.path, commit) == {"global/fact/c.md"}
    assert person(vault.path, "diff", "--cached", "--name-only") == b"global/fact/b.md\n"
    assert message.read_bytes() == words
