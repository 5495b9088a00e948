"""Is a vault commit whole, alone and durable, or leaves it no trace?"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import psutil
import pytest

from memoryd.digest import sha256_hex
from memoryd.errors import (
    DiskFull,
    GitFailed,
    GitLocked,
    GitTimeout,
    NotFound,
    VaultBusy,
    VaultError,
    VaultFileInvalid,
    VaultNotARepository,
)
from memoryd.files import Files
from memoryd.sources.vault import VaultWrite
from tests.sources.conftest import hook, new, open_vault, person, script, whole_state, write_alias

A = b"global/fact/a.md"
B = b"global/fact/b.md"


def over(vault, path: bytes, text: str) -> VaultWrite:
    return VaultWrite(path, text.encode(), sha256_hex(vault.read(path)))


def names_of(root: Path, commit: str) -> set[str]:
    return set(person(root, "show", "--format=", "--name-only", commit).decode().split())


def disturbed(root: Path) -> None:
    """The state of H33: staged, modified, untracked, staged for deletion, partly staged, half-renamed."""
    for name in ("staged", "modified", "deleted", "partly", "renamed"):
        (root / f"{name}.md").write_text("one\n")
    person(root, "add", "-A")
    person(root, "commit", "-q", "-m", "by hand")
    (root / "staged.md").write_text("two\n")
    person(root, "add", "staged.md")
    (root / "modified.md").write_text("two\n")
    (root / "untracked.md").write_text("new\n")
    (root / "added.md").write_text("new\n")
    person(root, "add", "added.md")
    (root / "intended.md").write_text("new\n")
    person(root, "add", "-N", "intended.md")
    person(root, "rm", "-q", "deleted.md")
    person(root, "mv", "renamed.md", "elsewhere.md")
    (root / "partly.md").write_text("two\n")
    person(root, "add", "partly.md")
    (root / "partly.md").write_text("three\n")


def others(root: Path) -> tuple[bytes, ...]:
    """Index and status of everything that is not ours."""
    kinds = (("ls-files", "-s", "-z"), ("status", "--porcelain", "-z", "-uall"), ("diff",), ("diff", "--cached"))
    return tuple(person(root, *kind, "--", ":!global/fact") for kind in kinds)


# making and checking


def test_a_missing_or_empty_folder_becomes_a_vault(tmp_path):
    vault = open_vault(tmp_path / "deep" / "vault")
    assert vault.head() is None
    assert vault.listing() == {}
    assert vault.committed(A) is None
    (tmp_path / "empty").mkdir()
    assert open_vault(tmp_path / "empty").head() is None
    assert person(tmp_path / "empty", "symbolic-ref", "HEAD") == b"refs/heads/main\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "empty"]


def test_h35_a_folder_that_is_no_repository_is_refused(tmp_path):
    """H35: the knowledge base is not a repository at all; nothing is written into it."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.md").write_text("mine")
    with pytest.raises(VaultNotARepository):
        open_vault(tmp_path / "notes")
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["mine.md"]
    (tmp_path / "file").write_text("")
    with pytest.raises(VaultError):
        open_vault(tmp_path / "file")
    person(tmp_path, "init", "-q", "--bare", "bare")
    with pytest.raises(VaultNotARepository):
        open_vault(tmp_path / "bare")


def test_case_25_a_known_vault_that_vanished_is_not_replaced(tmp_path):
    """case 25: an unmounted vault must not become an empty one."""
    vault = open_vault(tmp_path / "vault")
    for make in (lambda: None, vault.path.mkdir):
        subprocess.run(["rm", "-rf", str(vault.path)], check=True)
        make()
        with pytest.raises(VaultNotARepository):
            vault.ensure(known=True)
        with pytest.raises(VaultNotARepository):
            vault.listing()
    vault.ensure()


def test_a_crash_while_a_vault_is_made_leaves_no_half(tmp_path):
    """At every step of the making: afterwards the vault is whole or can be made."""
    steps: list[str] = []
    open_vault(tmp_path / "probe", files=Files(steps.append))
    assert len(steps) > 5
    for number in range(len(steps)):
        with pytest.raises(VaultError):
            open_vault(tmp_path / "vault", files=failing(number))
        if number % 3 == 0:
            open_vault(tmp_path / "vault").commit([new("a")], "add")
            subprocess.run(["rm", "-rf", str(tmp_path / "vault")], check=True)
    open_vault(tmp_path / "vault").commit([new("a")], "add")


def failing(number: int, code: int = errno.EIO) -> Files:
    """Files whose fault point number `number` fails."""
    left = [number]

    def fault(point: str) -> None:
        left[0] -= 1
        if left[0] == -1:
            raise OSError(code, os.strerror(code), point)

    return Files(fault)


# commits


def test_one_commit_of_exactly_the_files(vault):
    first = vault.commit([new("a", "one\n")], "add a")
    assert vault.head() == first
    assert vault.read(A) == b"one\n"
    assert vault.committed(A) == (first, sha256_hex(b"one\n"))
    second = vault.commit([new("b"), over(vault, A, "two\n")], "supersede a")
    assert names_of(vault.path, second) == {"global/fact/a.md", "global/fact/b.md"}
    assert second.files == {A: b"two\n", B: b"words\n"}
    assert person(vault.path, "log", "--format=%s").decode().split("\n")[:2] == ["supersede a", "add a"]
    assert person(vault.path, "status", "--porcelain") == b""
    assert person(vault.path, "fsck", "--strict") == b""


def test_a_commit_needs_two_processes_for_new_files_and_one_for_known_ones(tmp_path):
    calls = tmp_path / "calls"
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    script(tmp_path / "bin", "git", f'echo x >> {calls}\nexec {real} "$@"\n')
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    vault = open_vault(tmp_path / "vault", environment=environment)
    person(vault.path, "config", "user.name", "P")
    person(vault.path, "config", "user.email", "p@localhost")
    vault.commit([new("warm")], "first")
    calls.write_text("")
    vault.commit([new("a")], "add")
    assert calls.read_text() == "x\n" * 2
    vault.commit([over(vault, A, "two\n")], "change")
    assert calls.read_text() == "x\n" * 3


def test_a_file_that_is_not_as_expected_is_refused_untouched(vault):
    vault.commit([new("a")], "add")
    before = whole_state(vault.path)
    for write in (new("a", "other\n"), VaultWrite(B, b"x", "0" * 64), VaultWrite(A, b"x", "0" * 64)):
        with pytest.raises(VaultError):
            vault.commit([new("c"), write], "no")
    with pytest.raises(VaultError):
        vault.commit([], "nothing")
    with pytest.raises(VaultError):
        vault.commit([new("d"), new("d")], "twice")
    assert whole_state(vault.path) == before


@pytest.mark.parametrize(
    "path", [b"../a.md", b"/a.md", b"a/../../b.md", b".git/a.md", b"x/.GIT/a.md", b"", b"a\0b", b"a//b"]
)
def test_no_path_leads_out_of_the_vault(vault, path):
    with pytest.raises(VaultError):
        vault.commit([VaultWrite(path, b"x", None)], "no")
    with pytest.raises(VaultError):
        vault.read(path)


def test_h31_links_are_not_followed(vault, tmp_path):
    """H31: a linked folder or file leads nowhere, in writing, reading and listing."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    (vault.path / "linked").symlink_to(outside)
    (vault.path / "loop").symlink_to(vault.path)
    (vault.path / "file.md").symlink_to(outside / "secret.md")
    (vault.path / "dangling.md").symlink_to(outside / "nothing.md")
    for path in (b"linked/secret.md", b"file.md"):
        with pytest.raises(VaultError):
            vault.read(path)
        with pytest.raises(VaultError):
            vault.commit([VaultWrite(path, b"x", sha256_hex(b"secret"))], "no")
    with pytest.raises(VaultError):
        vault.commit([VaultWrite(b"dangling.md", b"x", None)], "no")
    assert vault.listing() == {}
    assert (outside / "secret.md").read_text() == "secret"


def test_names_of_any_bytes_can_be_committed(vault):
    paths = [b"a b/c\nd.md", b"\xff.md", b":(glob)*.md", b"-n.md", "é/ü.md".encode(), b'q"\\t.md', b"[ab]*?.md"]
    commit = vault.commit([VaultWrite(path, b"x\n", None) for path in paths], "odd")
    shown = person(vault.path, "show", "--format=", "--name-only", "-z", commit)
    assert set(shown.strip(b"\0").split(b"\0")) == set(paths)
    assert {path: vault.committed(path)[1] for path in paths} == dict.fromkeys(paths, sha256_hex(b"x\n"))
    assert set(vault.listing()) == set(paths)


def test_line_endings_are_committed_as_they_are(vault):
    """A person's `core.autocrlf` and global attributes change no byte."""
    person(vault.path, "config", "core.autocrlf", "true")
    attributes = vault.path.parent / "attributes"
    attributes.write_text("* text eol=crlf\n")
    person(vault.path, "config", "core.attributesFile", attributes)
    commit = vault.commit([new("a", "one\r\ntwo\nthree\r")], "add")
    assert vault.git.blob(commit, A) == b"one\r\ntwo\nthree\r"


def test_a_message_is_kept_whatever_it_begins_with(vault):
    person(vault.path, "config", "commit.cleanup", "strip")
    for number, message in enumerate(
        ["# not a comment", "-m option", "[x 0123456789012345678901234567890123456789] y", "a\0b"]
    ):
        commit = vault.commit([new(f"m{number}")], message)
        assert person(vault.path, "log", "-1", "--format=%H %s").decode().strip() == f"{commit} {message}".replace(
            "\0", ""
        )


def test_an_ignored_path_is_committed_all_the_same(vault):
    (vault.path / ".gitignore").write_text("*.md\n")
    commit = vault.commit([new("a")], "add")
    assert names_of(vault.path, commit) == {"global/fact/a.md"}


def test_bytes_that_head_already_holds_need_no_commit(vault):
    first = vault.commit([new("a", "same\n")], "add")
    (vault.path / os.fsdecode(A)).unlink()
    assert vault.commit([new("a", "same\n")], "again") == first
    assert vault.head() == first
    assert person(vault.path, "status", "--porcelain") == b""


def test_an_untracked_file_of_a_person_can_be_taken_over(vault):
    (vault.path / "global" / "fact").mkdir(parents=True)
    (vault.path / os.fsdecode(A)).write_text("by hand\n")
    commit = vault.commit([over(vault, A, "taken over\n")], "take")
    assert vault.git.blob(commit, A) == b"taken over\n"


@pytest.mark.parametrize("form", ["4", "split", "sha256"])
def test_other_forms_of_index_and_objects(tmp_path, form):
    root = tmp_path / "vault"
    root.mkdir()
    person(root, "init", "-q", *(["--object-format=sha256"] if form == "sha256" else []))
    if form == "4":
        person(root, "config", "index.version", "4")
    if form == "split":
        person(root, "config", "core.splitIndex", "true")
    vault = open_vault(root)
    vault.commit([new("a")], "add")
    vault.commit([over(vault, A, "two\n"), new("b")], "change")
    hook(root, "pre-commit", "exit 1\n")
    before = whole_state(root)
    with pytest.raises(GitFailed):
        vault.commit([over(vault, A, "three\n"), new("c")], "no")
    assert whole_state(root) == before
    assert len(vault.head()) == (64 if form == "sha256" else 40)


def test_a_vault_may_be_a_work_tree_a_submodule_on_a_branch(tmp_path):
    main = open_vault(tmp_path / "main")
    main.commit([new("a")], "add")
    person(main.path, "worktree", "add", "-q", tmp_path / "tree")
    (tmp_path / "app").mkdir()
    person(tmp_path / "app", "init", "-q")
    person(tmp_path / "app", "-c", "protocol.file.allow=always", "submodule", "add", "-q", main.path, "vault")
    for root in (tmp_path / "tree", tmp_path / "app" / "vault"):
        vault = open_vault(root)
        assert (root / ".git").is_file()
        commit = vault.commit([new("b"), over(vault, A, "two\n")], "change")
        assert vault.head() == commit
        assert vault.settle(B, sha256_hex(b"words\n")) == "forward"
        hook_failure(vault)
        assert person(root, "status", "--porcelain", "--", "global") == b""
    assert person(main.path, "status", "--porcelain") == b""


GIT_VERSION = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout
REFTABLES = tuple(map(int, re.findall(r"\d+", GIT_VERSION)[:2])) >= (2, 45)
"""Files hold the references everywhere; a later git has another form, too."""


@pytest.mark.parametrize("form", [[], ["--ref-format=reftable"]] if REFTABLES else [[]])
def test_a_detached_head_takes_no_commit_whatever_holds_the_references(tmp_path, form):
    root = tmp_path / "vault"
    root.mkdir()
    person(root, "init", "-q", "-b", "main", *form)
    vault = open_vault(root)
    vault.commit([new("a")], "add")
    person(root, "checkout", "-q", "--detach")
    before = whole_state(root)
    with pytest.raises(VaultError, match="detached"):
        vault.commit([new("b")], "no")
    assert whole_state(root) == before
    person(root, "checkout", "-q", "-b", "other")
    assert vault.commit([new("b")], "add") == vault.head()


def hook_failure(vault) -> None:
    before = whole_state(vault.path)
    hooks = vault.git.places().common / "hooks"
    hooks.mkdir(exist_ok=True)
    script(hooks, "pre-commit", "exit 1\n")
    with pytest.raises(GitFailed):
        vault.commit([new("never")], "no")
    assert whole_state(vault.path) == before


# H32 .. H36


def test_h32_many_sessions_and_a_person_commit_at_once(tmp_path):
    """H32: 20 adds from 4 sessions beside an outside loop of commits: 20 commits, each of its own file."""
    vault = open_vault(tmp_path / "vault", timeout=60, lock_wait=30)
    root = vault.path
    stop = threading.Event()
    outside = []

    def person_at_work() -> None:
        while not stop.is_set():
            name = f"person{len(outside)}.txt"
            (root / name).write_text(name)
            person(root, "add", name, check=False)
            person(root, "commit", "-q", "-m", name, "--", name, check=False)
            outside.append(name)

    def session(number: int) -> None:
        for turn in range(5):
            done[f"s{number}-{turn}"] = vault.commit([new(f"s{number}-{turn}")], "add")

    done: dict[str, str] = {}
    threads = [threading.Thread(target=session, args=(number,)) for number in range(4)]
    worker = threading.Thread(target=person_at_work)
    for thread in (worker, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    worker.join()
    assert len(done) == 20
    assert len(set(done.values())) == 20
    for name, commit in done.items():
        assert names_of(root, commit) == {f"global/fact/{name}.md"}
        person(root, "merge-base", "--is-ancestor", commit, "HEAD")
    assert person(root, "fsck", "--no-dangling") == b""
    assert outside


def test_h32_an_index_that_a_person_wrote_back_without_our_entry_is_staged_again(tmp_path):
    """H32: git reads the index before it locks it, so a person's commit can undo what was staged in between."""
    lost = []

    def fault(point: str) -> None:
        if point == "vault.commit" and armed and len(lost) < 2:
            person(tmp_path / "vault", "rm", "-q", "--cached", "--", "global/fact/b.md")
            lost.append(point)

    armed: list[bool] = []
    vault = open_vault(tmp_path / "vault", files=Files(fault))
    vault.commit([new("a")], "add")
    armed.append(True)
    commit = vault.commit([new("b")], "add")
    assert len(lost) == 2
    assert names_of(vault.path, commit) == {"global/fact/b.md"}
    assert person(vault.path, "status", "--porcelain") == b""


def test_h32_a_lasting_lock_is_an_error_that_names_it(tmp_path):
    """H32: the wait is bounded, the error names the lock, the file is not there."""
    vault = open_vault(tmp_path / "vault", lock_wait=0.3)
    vault.commit([new("a")], "add")
    before = whole_state(vault.path)
    lock = vault.path / ".git" / "index.lock"
    lock.touch()
    with pytest.raises(GitLocked) as caught:
        vault.commit([new("b"), over(vault, A, "two\n")], "no")
    assert caught.value.details["lock"] == str(lock)
    lock.unlink()
    assert whole_state(vault.path) == before
    reference = vault.path / ".git" / "refs" / "heads" / "main.lock"
    reference.touch()
    with pytest.raises(GitLocked) as caught:
        vault.commit([new("b")], "no")
    assert caught.value.details["lock"] == str(reference)
    reference.unlink()
    assert whole_state(vault.path) == before


def test_h32_a_short_lock_is_waited_for(tmp_path):
    """H32: a lock that goes away costs patience, not the write."""
    vault = open_vault(tmp_path / "vault", lock_wait=20)
    vault.commit([new("a")], "add")
    lock = vault.path / ".git" / "index.lock"
    lock.touch()
    timer = threading.Timer(0.4, lock.unlink)
    timer.start()
    commit = vault.commit([new("b")], "add")
    timer.join()
    assert names_of(vault.path, commit) == {"global/fact/b.md"}


def test_h33_nothing_of_a_persons_work_is_committed_or_changed(vault):
    """H33: staged, modified, untracked, deleted, renamed and partly staged files stay exactly so."""
    disturbed(vault.path)
    before = others(vault.path)
    commit = vault.commit([new("a")], "add")
    assert names_of(vault.path, commit) == {"global/fact/a.md"}
    assert others(vault.path) == before
    commit = vault.commit([new("b"), over(vault, A, "two\n")], "supersede")
    assert names_of(vault.path, commit) == {"global/fact/a.md", "global/fact/b.md"}
    assert others(vault.path) == before


@pytest.mark.parametrize("unborn", [True, False])
def test_h33_also_when_the_commit_fails(vault, unborn):
    """H33: index and tree are byte-identical, ours included, also on a branch without commits."""
    if unborn:
        (vault.path / "staged.md").write_text("one\n")
        person(vault.path, "add", "staged.md")
    else:
        vault.commit([new("a")], "add")
        disturbed(vault.path)
    hook(vault.path, "pre-commit", "echo no such luck >&2\nexit 1\n")
    before = whole_state(vault.path)
    writes = [new("b")] if unborn else [new("b"), over(vault, A, "two\n")]
    with pytest.raises(GitFailed) as caught:
        vault.commit(writes, "no")
    assert "no such luck" in caught.value.message
    assert "settle" not in caught.value.details
    assert whole_state(vault.path) == before


def test_h33_a_merge_under_way_is_not_disturbed(vault):
    """H33: git refuses a partial commit during a merge; the merge goes on afterwards."""
    vault.commit([new("a")], "add")
    person(vault.path, "checkout", "-q", "-b", "side")
    vault.commit([new("b")], "side")
    person(vault.path, "checkout", "-q", "main")
    vault.commit([new("c")], "main")
    person(vault.path, "merge", "-q", "--no-commit", "--no-ff", "side")
    before = whole_state(vault.path)
    with pytest.raises(VaultBusy) as caught:
        vault.commit([new("d")], "no")
    assert "merge" in caught.value.message
    assert whole_state(vault.path) == before
    person(vault.path, "commit", "-q", "-m", "merged")


def test_h34_a_signer_that_blocks_ends_in_time(tmp_path):
    """H34: signing forced on, and nobody there to answer; the next write works."""
    vault = open_vault(tmp_path / "vault", timeout=1.5)
    vault.commit([new("a")], "add")
    signer = script(tmp_path, "signer", "sleep 60\n")
    person(vault.path, "config", "commit.gpgSign", "true")
    person(vault.path, "config", "gpg.program", signer)
    before = whole_state(vault.path)
    started = time.monotonic()
    with pytest.raises(GitTimeout):
        vault.commit([new("b"), over(vault, A, "two\n")], "no")
    assert time.monotonic() - started < 15
    assert whole_state(vault.path) == before
    script(tmp_path, "signer", "exit 1\n")
    with pytest.raises(GitFailed):
        vault.commit([new("b")], "no")
    assert whole_state(vault.path) == before
    person(vault.path, "config", "commit.gpgSign", "false")
    vault.commit([new("b")], "add")


def test_h36_a_hook_that_refuses(vault):
    """H36: the words reach the caller, file and index go back, also of a file that was there before."""
    vault.commit([new("a")], "add")
    for name in ("pre-commit", "commit-msg", "prepare-commit-msg"):
        hook(vault.path, name, f"echo refused by {name}\nexit 1\n")
        before = whole_state(vault.path)
        with pytest.raises(GitFailed) as caught:
            vault.commit([new("b"), over(vault, A, "two\n")], "no")
        assert f"refused by {name}" in caught.value.message
        assert whole_state(vault.path) == before
        (vault.path / ".git" / "hooks" / name).unlink()


def test_h36_a_hook_that_rewrites_the_file(vault):
    """H36: the committed bytes are the truth and are reported; nothing is left staged."""
    vault.commit([new("a")], "add")
    hook(vault.path, "pre-commit", "for f in global/fact/*.md; do echo more >> $f; git add $f; done\n")
    commit = vault.commit([new("b", "one\n"), over(vault, A, "two\n")], "add")
    assert commit.files == {A: b"two\nmore\n", B: b"one\nmore\n"}
    assert vault.git.blob(commit, B) == vault.read(B) == b"one\nmore\n"
    assert person(vault.path, "status", "--porcelain") == b""


def test_h36_a_hook_that_changes_only_the_file_on_disk(vault):
    """H36: what was committed is ours; the edit stays in the work tree like any hand edit."""
    hook(vault.path, "pre-commit", "echo more >> global/fact/a.md\n")
    commit = vault.commit([new("a", "one\n")], "add")
    assert commit.files == {A: b"one\n"}
    assert vault.read(A) == b"one\nmore\n"
    assert person(vault.path, "status", "--porcelain") == b" M global/fact/a.md\n"


def test_h36_a_hook_that_sleeps_before_the_commit(tmp_path):
    """H36: time-limited; file and index go back."""
    vault = open_vault(tmp_path / "vault", timeout=1.0)
    hook(vault.path, "pre-commit", "sleep 60\n")
    before = whole_state(vault.path)
    with pytest.raises(GitTimeout):
        vault.commit([new("a")], "no")
    assert whole_state(vault.path) == before


def test_h36_a_hook_that_sleeps_after_the_commit(tmp_path):
    """H36: the reference has moved, so the memory is stored and the caller is told so."""
    vault = open_vault(tmp_path / "vault", timeout=1.0)
    hook(vault.path, "post-commit", "sleep 60\n")
    commit = vault.commit([new("a")], "add")
    assert vault.head() == commit
    assert person(vault.path, "status", "--porcelain") == b""


# failures of the disk


def test_every_failing_step_leaves_no_trace_or_a_whole_commit(tmp_path):
    """An I/O error at any fault point: before the commit all is as before, after it the memory is there."""
    model = tmp_path / "model"
    head = open_vault(model).commit([new("a")], "add")
    shutil.copytree(model, tmp_path / "probe")
    steps: list[str] = []
    probe = open_vault(tmp_path / "probe", files=Files(steps.append))
    probe.commit([new("b"), over(probe, A, "two\n")], "change")
    assert {"vault.write", "vault.rename", "vault.stage", "vault.commit", "vault.fsync_dir"} <= set(steps)
    root = tmp_path / "vault"
    shutil.copytree(model, root)
    before = whole_state(root)
    for number in range(len(steps)):
        vault = open_vault(root, files=failing(number))
        settles = False
        try:
            vault.commit([new("b"), over(vault, A, "two\n")], "change")
        except VaultError as error:
            settles = error.details.get("settle", False)
        if vault.head() == head:
            assert not settles
            assert whole_state(root) == before, steps[number]
            continue
        assert person(root, "status", "--porcelain") == b""
        assert (vault.read(A), vault.read(B)) == (b"two\n", b"words\n")
        if settles:
            assert open_vault(root).settle(B, sha256_hex(b"words\n")) == "forward"
        shutil.rmtree(root)
        shutil.copytree(model, root)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_h38_a_full_disk_is_its_own_error(tmp_path, code):
    """H38: a full disk while the file is written; nothing is left behind and the next write works."""
    open_vault(tmp_path / "vault").commit([new("a")], "add")
    before = whole_state(tmp_path / "vault")
    vault = open_vault(tmp_path / "vault", files=failing(2, code))
    with pytest.raises(DiskFull):
        vault.commit([new("b")], "no")
    assert whole_state(tmp_path / "vault") == before
    vault.commit([new("b")], "add")


def test_an_undo_that_fails_asks_to_settle(tmp_path):
    """A lock that appears between staging and undoing: the error says that settling is due, and settling works."""
    root = tmp_path / "vault"
    open_vault(root).commit([new("a")], "add")
    before = whole_state(root)
    lock = root / ".git" / "index.lock"

    def fault(point: str) -> None:
        if point == "vault.commit":
            lock.touch()
            raise OSError(errno.EIO, "broken")

    vault = open_vault(root, files=Files(fault), lock_wait=0.2)
    with pytest.raises(VaultError) as caught:
        vault.commit([new("b"), over(vault, A, "two\n")], "no")
    assert caught.value.details["settle"] is True
    with pytest.raises(GitLocked):
        vault.settle(B, sha256_hex(b"words\n"))
    lock.unlink()
    assert vault.settle(B, sha256_hex(b"words\n")) == "undone"
    assert vault.settle(A, sha256_hex(b"two\n")) == "undone"
    assert whole_state(root) == before


# reading


def test_listing_shows_every_markdown_file_and_nothing_else(vault):
    vault.commit([new("a")], "add")
    for name in ("top.md", "x/y/deep.md", "x/note.txt", ".obsidian/set.md", "x/.hidden.md.tmp", "with space\n.md"):
        (vault.path / name).parent.mkdir(parents=True, exist_ok=True)
        (vault.path / name).write_text("x")
    (vault.path / "folder.md").mkdir()
    os.mkfifo(vault.path / "pipe.md")
    listing = vault.listing()
    assert set(listing) == {A, b"top.md", b"x/y/deep.md", b"with space\n.md"}
    assert vault.passed == (b"pipe.md",)
    about = (vault.path / "top.md").stat()
    shown = listing[b"top.md"]
    assert (shown.size, shown.mtime_ns, shown.ino) == (1, about.st_mtime_ns, about.st_ino)


def test_h30_a_fifo_or_a_missing_file_does_not_hang_a_reader(vault):
    """H30: a FIFO under the name of a memory, and one that vanished between listing and reading."""
    os.mkfifo(vault.path / "pipe.md")
    with pytest.raises(VaultError):
        vault.read(b"pipe.md")
    with pytest.raises(NotFound):
        vault.read(b"gone.md")
    with pytest.raises(NotFound):
        vault.read(b"gone/gone.md")
    (vault.path / "folder.md").mkdir()
    with pytest.raises(VaultError):
        vault.read(b"folder.md")
    assert vault.exists(b"pipe.md") and not vault.exists(b"gone.md")


def test_h19_an_unreadable_folder_is_an_error_not_an_absence():
    """H19: a part of the listing would make files look deleted."""
    with tempfile.TemporaryDirectory() as outer:
        os.chmod(outer, 0o755)
        vault = open_vault(Path(outer, "vault"))
        vault.commit([new("a"), VaultWrite(b"top.md", b"x", None)], "add")
        vault.path.chmod(0o755)
        (vault.path / "global").chmod(0)
        child = os.fork()
        if child == 0:
            code = 1
            if os.getuid() == 0:
                os.setuid(65534)
            try:
                vault.listing()
            except VaultError:
                code = 0
            os._exit(code)
        _, status = os.waitpid(child, 0)
        (vault.path / "global").chmod(0o700)
        assert status == 0
        assert set(vault.listing()) == {A, b"top.md"}


# locks and interrupted writes


def dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_a_stale_lock_goes_only_with_proof(tmp_path):
    vault = open_vault(tmp_path / "vault", lock_wait=0.1)
    vault.commit([new("a")], "add")
    lock = vault.path / ".git" / "index.lock"
    started = time.time()
    assert vault.remove_stale_lock(dead_pid(), started) == []
    lock.touch()
    with pytest.raises(GitLocked) as caught:
        vault.remove_stale_lock(os.getppid(), started)
    assert caught.value.details["lock"] == str(lock)
    with pytest.raises(GitLocked):
        vault.remove_stale_lock(0, started)
    os.utime(lock, (started - 60, started - 60))
    with pytest.raises(GitLocked):
        vault.remove_stale_lock(dead_pid(), started)
    assert lock.exists()
    lock.touch()
    assert vault.remove_stale_lock(dead_pid(), started) == [lock]
    assert not lock.exists()


def test_a_recycled_process_number_does_not_keep_a_lock(tmp_path):
    """case 50: the number of the dead writer belongs to another program by now; that one is left alone."""
    vault = open_vault(tmp_path / "vault", lock_wait=0.1)
    vault.commit([new("a")], "add")
    started = time.time() - 30
    with subprocess.Popen(["sleep", "30"]) as other:
        (vault.path / ".git" / "index.lock").touch()
        assert len(vault.remove_stale_lock(other.pid, started)) == 1
        assert other.poll() is None
        other.kill()


def test_a_lock_of_a_living_git_stays(tmp_path):
    """A person's git, known by where it works; and an orphan of ours, known by the kernel lock that it inherited."""
    vault = open_vault(tmp_path / "vault", lock_wait=0.1)
    vault.commit([new("a")], "add")
    lock = vault.path / ".git" / "index.lock"
    started = time.time()
    go = tmp_path / "go"
    hook(vault.path, "pre-commit", f"touch {go}\nsleep 60\n")
    command = ["git", "-c", "user.name=P", "-c", "user.email=p@localhost", "commit", "-q", "--allow-empty", "-m", "x"]
    with subprocess.Popen(command, cwd=vault.path) as theirs:
        wait_for(go)
        lock.touch()
        with pytest.raises(GitLocked) as caught:
            vault.remove_stale_lock(dead_pid(), started)
        assert str(theirs.pid) in caught.value.message
        end_children(theirs.pid)
    lock.unlink(missing_ok=True)
    go.unlink()
    seen: list[tuple[int, float]] = []
    failures: list[BaseException] = []

    def session() -> None:
        try:
            vault.commit([new("b")], "x", spawned=lambda *git: seen.append(git))
        except GitFailed as error:
            failures.append(error)

    worker = threading.Thread(target=session)
    worker.start()
    wait_for(go)
    beside = open_vault(vault.path, lock_wait=0.1)
    with pytest.raises(GitLocked):
        beside.remove_stale_lock(dead_pid(), started)
    with pytest.raises(GitLocked):
        beside.settle(B, sha256_hex(b"words\n"))
    assert lock.exists()
    end_children(seen[-1][0])
    worker.join()
    assert not lock.exists()
    assert len(failures) == 1
    assert len(seen) == 2
    assert all(abs(when - started) < 60 for _, when in seen)


def end_children(pid: int) -> None:
    for child in psutil.Process(pid).children(recursive=True):
        child.kill()


def wait_for(path: Path) -> None:
    until = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < until, path
        time.sleep(0.01)


def test_settle_tells_what_became_of_a_write(vault):
    vault.commit([new("a", "one\n")], "add")
    assert vault.settle(A, sha256_hex(b"one\n")) == "forward"
    assert vault.settle(A, sha256_hex(b"never\n")) == "undone"
    assert vault.read(A) == b"one\n"
    assert vault.settle(B, sha256_hex(b"never\n")) == "undone"


def test_settle_removes_only_what_is_ours_by_hash(vault):
    vault.commit([new("a", "one\n")], "add")
    (vault.path / os.fsdecode(B)).write_text("ours\n")
    person(vault.path, "add", os.fsdecode(B))
    assert vault.settle(B, sha256_hex(b"ours\n")) == "undone"
    assert not vault.exists(B)
    (vault.path / os.fsdecode(B)).write_text("edited since\n")
    person(vault.path, "add", os.fsdecode(B))
    before = whole_state(vault.path)
    assert vault.settle(B, sha256_hex(b"ours\n")) == "undone"
    assert whole_state(vault.path) == before
    (vault.path / os.fsdecode(A)).write_text("ours\n")
    person(vault.path, "add", os.fsdecode(A))
    assert vault.settle(A, sha256_hex(b"ours\n")) == "undone"
    assert vault.read(A) == b"one\n"
    assert person(vault.path, "status", "--porcelain", "--", os.fsdecode(A)) == b""


# the alias table


def test_aliases_are_a_file_in_the_vault(vault):
    assert vault.read_aliases() == {}
    commit = write_alias(vault, "remote:host/new", "p-shop-0011aabb")
    assert names_of(vault.path, commit) == {"scopes.json"}
    assert write_alias(vault, "remote:host/new", "p-shop-0011aabb") is None
    write_alias(vault, "path:/srv/é", "p-other-0011aabb")
    assert vault.read_aliases() == {"remote:host/new": "p-shop-0011aabb", "path:/srv/é": "p-other-0011aabb"}
    table = json.loads(vault.read(b"scopes.json"))
    assert table["v"] == 1
    (vault.path / "scopes.json").write_text(json.dumps({**table, "later": [1]}))
    write_alias(vault, "remote:host/x", "p-x-0011aabb")
    assert json.loads(vault.read(b"scopes.json"))["later"] == [1]


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"aliases": {"a": 1}}', '{"aliases": {"a": "global/../x"}}', "[" * 100_000, "\xff"]
)
def test_an_alias_table_that_is_not_understood_is_never_rewritten(vault, text):
    data = text.encode("latin-1")
    (vault.path / "scopes.json").write_bytes(data)
    with pytest.raises(VaultFileInvalid):
        vault.read_aliases()
    with pytest.raises(VaultFileInvalid):
        write_alias(vault, "remote:x", "p-x-0011aabb")
    assert vault.read(b"scopes.json") == data


# removal by a person


def test_files_are_removed_by_a_commit_of_their_own(vault):
    vault.commit([new("a"), new("b")], "add")
    (vault.path / "draft.md").write_text("a person's")
    commit = vault.remove([A], "forget one")
    assert commit == vault.head() and names_of(vault.path, commit) == {"global/fact/a.md"}
    assert not vault.exists(A) and vault.committed(A) is None
    assert vault.read(B) == b"words\n" and (vault.path / "draft.md").exists()
    assert person(vault.path, "status", "--porcelain") == b"?? draft.md\n"
    assert b"a.md" not in (vault.path / ".git" / "index").read_bytes()


def test_a_removal_that_was_cut_off_is_brought_to_its_end(vault):
    vault.commit([new("a"), new("b")], "add")
    (vault.path / "global" / "fact" / "a.md").unlink()
    assert vault.remove([A], "forget") == vault.head()
    assert vault.committed(A) is None
    before = vault.head()
    assert vault.remove([A], "forget") is None and vault.head() == before


def test_a_file_that_was_never_committed_is_removed_without_a_commit(vault):
    vault.commit([new("b")], "add")
    (vault.path / "global" / "fact" / "a.md").write_text("loose")
    person(vault.path, "add", "-A")
    before = vault.head()
    assert vault.remove([A], "forget") is None
    assert not vault.exists(A) and vault.head() == before
    assert b"a.md" not in (vault.path / ".git" / "index").read_bytes()


def test_a_removal_that_is_refused_leaves_the_file(vault):
    vault.commit([new("a")], "add")
    script(vault.path / ".git" / "hooks", "pre-commit", "exit 1\n")
    with pytest.raises(VaultError):
        vault.remove([A], "forget")
    assert vault.read(A) == b"words\n" and person(vault.path, "status", "--porcelain") == b""


def killing(vault, state: str, arms: Path) -> None:
    """From now on the next git that moves the branch dies of SIGKILL at this state of its reference transaction."""
    arms.touch()
    words = f'[ "$1" = {state} ] && [ -e {arms} ] && grep -q refs/heads && rm {arms} && kill -9 $PPID\nexit 0\n'
    hook(vault.path, "reference-transaction", words)


@pytest.mark.parametrize("state", ["prepared", "committed"])
@pytest.mark.parametrize("kind", ["new", "changed"])
def test_a_git_killed_before_or_after_its_commit_point_leaves_nothing_behind(tmp_path, state, kind):
    """kill -9 of the git alone: `committed` is the moment after the branch moved and before the index followed."""
    vault = open_vault(tmp_path / "vault", lock_wait=0.3)
    vault.commit([new("a")], "add")
    before = whole_state(vault.path)
    write = new("b") if kind == "new" else over(vault, A, "other words\n")
    killing(vault, state, tmp_path / "arms")
    if state == "prepared":
        with pytest.raises(GitFailed):
            vault.commit([write], "x")
        assert whole_state(vault.path) == before
    commit = vault.commit([write], "x")
    assert not (tmp_path / "arms").exists()
    assert vault.head() == commit and commit.files == {write.path: write.data}
    after = whole_state(vault.path)
    assert (after["locks"], after["status"], after["staged"]) == (b"", b"", b"")
    assert vault.commit([new("c")], "y") == vault.head()


@pytest.mark.parametrize("state", ["prepared", "committed"])
@pytest.mark.parametrize("kind", ["new", "changed"])
def test_an_interrupted_write_is_settled_whatever_its_git_left(tmp_path, state, kind):
    """kill -9 of daemon and git: the next start finds index.lock, the next index, and perhaps an index that is behind."""
    vault = open_vault(tmp_path / "vault", lock_wait=0.3)
    vault.commit([new("a")], "add")
    head = vault.head()
    write = new("b") if kind == "new" else over(vault, A, "other words\n")
    killing(vault, state, tmp_path / "arms")
    pid, started = interrupted(vault, write)
    if pid == 0:
        pytest.fail("the write was not interrupted")
    assert list((vault.path / ".git").glob("next-index-*.lock"))
    fresh = open_vault(vault.path, lock_wait=0.3)
    fresh.remove_stale_lock(pid, started)
    settled = fresh.settle(write.path, write.sha256, parent=head)
    assert settled == ("undone" if state == "prepared" else "forward")
    after = whole_state(vault.path)
    assert (after["locks"], after["status"], after["staged"]) == (b"", b"", b"")


def interrupted(vault, write: VaultWrite) -> tuple[int, float]:
    """Do a write in a process that dies with its git; what an intent would know of the git."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        seen: list[tuple[int, float]] = []
        attempt = vault.git._judge  # the first words of git's end: from here on this process is no more
        vault.git._judge = lambda finished, *rest: os._exit(0) if finished.code < 0 else attempt(finished, *rest)

        def spawned(pid: int, started: float) -> None:
            seen[:] = [(pid, started)]
            os.write(writer, f"{pid} {started}\n".encode())

        vault.commit([write], "x", spawned=spawned)
        os._exit(1)
    os.close(writer)
    status = os.waitpid(child, 0)[1]
    with os.fdopen(reader) as told:
        pid, started = told.read().splitlines()[-1].split()
    return (int(pid), float(started)) if status == 0 else (0, 0.0)


def test_what_a_dead_git_prepared_holds_nobody_up(tmp_path):
    """A next index that no intent explains, of a git that is dead, is no lock: only a living one's is."""
    vault = open_vault(tmp_path / "vault")
    vault.commit([new("a")], "add")
    left = vault.path / ".git" / f"next-index-{dead_pid()}.lock"
    left.touch()
    os.utime(left, (time.time() - 600, time.time() - 600))
    vault.git.lock_wait = 60.0  # a wait would be seen
    began = time.monotonic()
    assert vault.remove_stale_lock(dead_pid(), time.time()) == []
    assert vault.settle(A, sha256_hex(b"words\n")) == "forward"
    assert time.monotonic() - began < vault.git.lock_wait / 2, "nothing is waited for"
    vault.git.lock_wait = 0.5
    with subprocess.Popen(["sleep", "30"]) as living:
        held = vault.path / ".git" / f"next-index-{living.pid}.lock"
        held.touch()
        with pytest.raises(GitLocked):
            vault.settle(A, sha256_hex(b"words\n"))
        living.kill()
