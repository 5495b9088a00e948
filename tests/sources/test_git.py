"""Does git answer in bounded time, without prompts, and whatever the environment holds?"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from memoryd.errors import GitFailed, GitMissing, GitTimeout, GitTooOld, VaultNotARepository
from memoryd.files import Files
from memoryd.sources.git import Git, require_git
from tests.sources.conftest import hook, new, open_vault, person, script


def made(root: Path, **more: object) -> Git:
    return Git(root, files=Files(), **({"timeout": 20.0} | more))


def fake_git(folder: Path, version: str) -> dict[str, str]:
    script(folder / "bin", "git", f"echo 'git version {version}'\n")
    return {**os.environ, "PATH": f"{folder / 'bin'}"}


@pytest.mark.parametrize("version", ["2.35.9", "2.17.1", "1.9.0.rc1"])
def test_an_old_git_is_refused(tmp_path, version):
    with pytest.raises(GitTooOld) as caught:
        made(tmp_path, environment=fake_git(tmp_path, version)).check_version()
    assert version in caught.value.message
    with pytest.raises(GitTooOld):
        require_git(str(tmp_path / "bin"))


@pytest.mark.parametrize("version", ["2.36.0", "2.39.5 (Apple Git-154)", "2.45.1.windows.1", "3.0"])
def test_a_newer_git_is_accepted(tmp_path, version):
    environment = fake_git(tmp_path, version)
    made(tmp_path, environment=environment).check_version()
    assert require_git(environment["PATH"]) == version.split()[0]


def test_the_version_is_asked_once(tmp_path):
    calls = tmp_path / "calls"
    script(tmp_path / "bin", "git", f"echo x >> {calls}; echo git version 2.40.0\n")
    git = made(tmp_path, environment={"PATH": str(tmp_path / "bin")})
    for _ in range(3):
        git.check_version()
    assert calls.read_text() == "x\n"


def test_a_missing_git_is_told(tmp_path):
    with pytest.raises(GitMissing):
        made(tmp_path, environment={"PATH": str(tmp_path)}).check_version()
    with pytest.raises(GitMissing):
        require_git(str(tmp_path))
    for text in ("exit 1\n", "echo hello\n"):
        script(tmp_path / "bin", "git", text)
        with pytest.raises(GitMissing):
            made(tmp_path, environment={"PATH": str(tmp_path / "bin")}).check_version()
    broken = tmp_path / "bin" / "git"
    broken.write_bytes(b"\x7fELF")
    with pytest.raises(GitMissing):
        made(tmp_path, environment={"PATH": str(tmp_path / "bin")}).check_version()


def test_another_program_name_can_be_given(tmp_path):
    script(tmp_path / "bin", "git-ours", "echo git version 2.1.0\n")
    with pytest.raises(GitTooOld):
        made(tmp_path, program="git-ours", environment={"PATH": str(tmp_path / "bin")}).check_version()


def test_nothing_of_git_in_the_environment_counts(tmp_path, monkeypatch):
    """As inside a hook of another repository, with every trick that a variable can play."""
    other = tmp_path / "other"
    other.mkdir()
    person(other, "init", "-q")
    before = sorted(path.name for path in other.rglob("*"))
    tricks = {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": str(other / "index"),
        "GIT_OBJECT_DIRECTORY": str(other / "objects"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "commit.gpgSign",
        "GIT_CONFIG_VALUE_0": "true",
        "GIT_AUTHOR_NAME": "Stranger",
        "GIT_AUTHOR_DATE": "1999-01-01",
        "GIT_EDITOR": "sleep 60",
        "GIT_TRACE": "1",
        "GIT_NAMESPACE": "x",
        "GIT_LITERAL_PATHSPECS": "0",
        "LC_ALL": "xx_YY",
    }
    for name, value in tricks.items():
        monkeypatch.setenv(name, value)
    vault = open_vault(tmp_path / "vault")
    commit = vault.commit([new("a")], "add")
    for name in tricks:
        monkeypatch.delenv(name)
    assert person(tmp_path / "vault", "log", "--format=%H %an").decode() == f"{commit} memoryd\n"
    assert sorted(path.name for path in other.rglob("*")) == before


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
def test_a_commit_carries_the_time_of_the_given_clock(tmp_path, monkeypatch, zone):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        for number, now in enumerate((1_700_000_000.9, 86_400.0)):
            vault = open_vault(tmp_path / f"vault{number}", clock=lambda now=now: now)
            commit = vault.commit([new("a")], "add")
            told = person(vault.path, "log", "-1", "--format=%at %ct %ai", commit).decode().strip()
            local = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(now))
            assert told == f"{int(now)} {int(now)} {local}"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_repository_above_is_never_taken(tmp_path):
    """The vault inside someone's home that is itself a repository: a broken `.git` must not lead there."""
    person(tmp_path, "init", "-q")
    root = tmp_path / "inside" / "vault"
    root.mkdir(parents=True)
    with pytest.raises(VaultNotARepository):
        made(root).places()
    (root / ".git").mkdir()
    with pytest.raises(VaultNotARepository):
        made(root).places()
    with pytest.raises(VaultNotARepository):
        made(tmp_path / "missing").places()


def test_h34_a_hook_that_waits_for_input_gets_none(vault):
    """H34: standard input is closed and there is no terminal."""
    hook(
        vault.path,
        "pre-commit",
        "if read line; then exit 1; fi\nif true < /dev/tty; then exit 2; fi 2>/dev/null\nexit 0\n",
    )
    vault.commit([new("a")], "add")


def test_h34_editor_and_helpers_never_run(tmp_path):
    """H34: an editor and askpass programs that would block are replaced."""
    blocker = script(tmp_path / "bin", "block", "sleep 60\n")
    root = tmp_path / "vault"
    environment = {**os.environ, "EDITOR": str(blocker), "VISUAL": str(blocker), "SSH_ASKPASS": str(blocker)}
    vault = open_vault(root, environment=environment)
    for key in ("core.editor", "sequence.editor", "core.askPass", "core.pager", "pager.log"):
        person(root, "config", key, blocker)
    commit = vault.commit([new("a")], "add")
    assert vault.git.log_commit(b"global/fact/a.md") == commit


def test_a_timeout_ends_the_whole_group(tmp_path):
    """What a hook started ends with it, also when it ignores SIGTERM (`no_process_is_left` looks for it)."""
    vault = open_vault(tmp_path / "vault", timeout=1.0)
    hook(vault.path, "pre-commit", "trap '' TERM\n(trap '' TERM; sleep 61) &\nsleep 62\n")
    with pytest.raises(GitTimeout):
        vault.commit([new("a")], "add")


def test_a_background_child_of_a_hook_does_not_delay_the_answer(vault):
    hook(vault.path, "post-commit", "sleep 60 &\necho $! > .git/slept\n")
    vault.commit([new("a")], "add")
    child = psutil.Process(int((vault.path / ".git" / "slept").read_text()))
    assert child.name() == "sleep", "it still runs"
    child.kill()
    psutil.wait_procs([child], 30)


def test_h36_a_hook_that_prints_a_megabyte(vault):
    """H36: the commit succeeds; when it fails, the message is cut in the middle."""
    loud = "head -c 1000000 /dev/zero | tr '\\0' 'x'\necho; echo 'the end of the message'\n"
    hook(vault.path, "pre-commit", "echo 'the start of the message'\n" + loud)
    vault.commit([new("a")], "add")
    hook(vault.path, "pre-commit", "echo 'the start of the message'\n" + loud + "exit 1\n")
    with pytest.raises(GitFailed) as caught:
        vault.commit([new("b")], "add")
    assert "the start of the message" in caught.value.message
    assert "the end of the message" in caught.value.message
    assert len(caught.value.message) < 10_000


def test_too_much_output_is_refused_not_swallowed(vault):
    vault.commit([new("a", "x" * 100_000)], "add")
    oid = vault.git.run(["rev-parse", "HEAD:global/fact/a.md"]).out.decode().strip()
    with pytest.raises(GitFailed):
        vault.git.run(["cat-file", "blob", oid], out_limit=1000)


def test_h35_the_fallback_identity_is_used_only_without_a_configured_one(tmp_path):
    """H35: no name and no e-mail anywhere."""
    vault = open_vault(tmp_path / "vault")
    root = vault.path

    def last() -> str:
        return person(root, "log", "-1", "--format=%an <%ae> %cn <%ce>").decode().strip()

    vault.commit([new("a")], "add")
    assert last() == "memoryd <memoryd@localhost> memoryd <memoryd@localhost>"
    person(root, "config", "user.useConfigOnly", "true")
    vault.commit([new("b")], "add")
    assert last() == "memoryd <memoryd@localhost> memoryd <memoryd@localhost>"
    person(root, "config", "user.name", "Own Name")
    vault.commit([new("c")], "add")
    assert last() == "Own Name <memoryd@localhost> Own Name <memoryd@localhost>"
    person(root, "config", "author.email", "author@host")
    person(root, "config", "committer.email", "committer@host")
    vault.commit([new("d")], "add")
    assert last() == "Own Name <author@host> Own Name <committer@host>"


def test_h35_another_owner_is_a_clear_error_before_anything_is_written(tmp_path):
    """H35: git distrusts a repository of another user; the error says how to allow it."""
    root = tmp_path / "vault"
    open_vault(root).commit([new("a")], "add")
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    script(tmp_path / "bin", "git", f'GIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec {real} "$@"\n')
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    with pytest.raises(GitFailed) as caught:
        open_vault(root, environment=environment)
    assert "safe.directory" in caught.value.next_step
    assert sorted(path.name for path in (root / "global/fact").iterdir()) == ["a.md"]


def test_head_is_read_without_a_process(tmp_path):
    calls = tmp_path / "calls"
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    script(tmp_path / "bin", "git", f'echo "$@" >> {calls}\nexec {real} "$@"\n')
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    vault = open_vault(tmp_path / "vault", environment=environment)
    assert vault.head() is None
    commit = vault.commit([new("a")], "add")
    calls.write_text("")
    assert vault.head() == commit
    person(vault.path, "pack-refs", "--all")
    assert vault.head() == commit
    person(vault.path, "checkout", "-q", "--detach")
    assert vault.head() == commit
    person(vault.path, "checkout", "-q", "-b", "a/b/c")
    assert vault.head() == commit
    assert calls.read_text() == ""


def test_a_reader_gets_blobs_and_history(vault):
    first = vault.commit([new("a", "one\n"), new("b", "x\n")], "add")
    assert vault.git.blob(first, b"global/fact/a.md") == b"one\n"
    assert vault.git.blob(first, b"global/fact") is None
    assert vault.git.blob(first, b"missing.md") is None
    assert vault.git.tree_entries(first, [b"global/fact/b.md", b"no"])[b"no"] is None
    assert vault.git.log_commit(b"no") is None
    person(vault.path, "gc", "-q")
    assert vault.git.blob(first, b"global/fact/a.md") == b"one\n"
