"""Is an interrupted vault commit, wherever it was cut off, afterwards whole or gone?"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from memoryd.digest import sha256_hex
from memoryd.errors import GitFailed, VaultError
from memoryd.files import Files
from memoryd.sources.git import Git
from memoryd.sources.vault import Vault, VaultWrite
from tests.sources.conftest import new, open_vault, person, whole_state

A, B = b"global/fact/a.md", b"global/fact/b.md"
OLD, REWRITTEN, NEW = b"old words\n", b"old words, superseded\n", b"words\n"


def supersede(vault: Vault) -> str:
    """What a supersede does: a new file and a changed one in one commit."""
    return vault.commit([new("b"), VaultWrite(A, REWRITTEN, sha256_hex(OLD))], "supersede")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A vault with a memory and with a person's unfinished work in it."""
    root = tmp_path / "model"
    open_vault(root).commit([new("a", OLD.decode())], "add")
    (root / "staged.md").write_text("staged\n")
    person(root, "add", "staged.md")
    (root / "untracked.md").write_text("untracked\n")
    return root


def in_child(root: Path, fault: Callable[[str], None]) -> tuple[int, int]:
    """Start a supersede in a process of its own; returns its pid and the end of a pipe that says `acknowledged`."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            os.close(reading)
            files = Files(fault)
            supersede(Vault(root, Git(root, timeout=20, files=files), files))
            os.write(writing, b"acknowledged")
        os._exit(0)
    os.close(writing)
    return pid, reading


def acknowledged(reading: int) -> bool:
    with open(reading, "rb") as pipe:
        return pipe.read(12) == b"acknowledged"


def check_settled(
    root: Path,
    before: dict[str, bytes],
    pid: int,
    started: float,
    *,
    stored: bool,
    patience: float = 0.1,
    again: bool = True,
    gits: Sequence[int] = (),
) -> str:
    """Recover as a start does; the vault is then as before, or holds both files in one commit. Returns which.

    `again`: what was undone can be done anew. `gits`: what ran below the daemon, one of which its intent names.
    """
    vault = open_vault(root, lock_wait=patience)
    for one in (*gits, pid):
        vault.remove_stale_lock(one, started)
    ends = {vault.settle(B, sha256_hex(NEW)), vault.settle(A, sha256_hex(REWRITTEN))}
    assert len(ends) == 1
    end = ends.pop()
    if end == "undone":
        assert not stored
        assert whole_state(root) == before
        if not again:
            return end
        supersede(vault)
    assert (vault.read(A), vault.read(B)) == (REWRITTEN, NEW)
    assert person(root, "status", "--porcelain") == b"A  staged.md\n?? untracked.md\n"
    assert person(root, "rev-list", "--count", "HEAD") == b"2\n"
    assert person(root, "fsck", "--strict", "--no-dangling") == b""
    assert sorted(path.name for path in (root / "global" / "fact").iterdir()) == ["a.md", "b.md"]
    assert list((root / ".git" / "memoryd-undo").iterdir()) == []
    return end


def test_case_14_killed_at_every_step_of_a_commit(tmp_path, model):
    """case 14: SIGKILL at each fault point, then the road of a start."""
    shutil.copytree(model, tmp_path / "probe")
    steps: list[str] = []
    files = Files(steps.append)
    supersede(Vault(tmp_path / "probe", Git(tmp_path / "probe", timeout=20, files=files), files))
    root = tmp_path / "vault"
    shutil.copytree(model, root)
    before = whole_state(root)
    ends = []
    for number in range(len(steps)):
        left = [number]

        def die(point: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == -1:
                os.kill(os.getpid(), signal.SIGKILL)

        started = time.time()
        pid, reading = in_child(root, die)
        os.waitpid(pid, 0)
        again = number % 6 == 0
        ends.append(check_settled(root, before, pid, started, stored=acknowledged(reading), again=again))
        shutil.rmtree(root)
        shutil.copytree(model, root)
    assert ends == sorted(ends, reverse=True), "once committed, never undone"
    assert set(ends) == {"undone", "forward"}


@pytest.mark.parametrize("whom", ["daemon and git", "daemon only"])
def test_killed_at_random_moments_of_git(tmp_path, model, whom):
    """The daemon dies while git works: git dies with it, or goes on as an orphan and is waited for."""
    root = tmp_path / "vault"
    shutil.copytree(model, root)
    before = whole_state(root)
    span = duration(tmp_path, model)
    moments = random.Random(7)
    for turn in range(10):
        started = time.time()
        pid, reading = in_child(root, lambda point: None)
        time.sleep(span * (turn + moments.random()) / 10)
        children = psutil.Process(pid).children(recursive=True)
        os.kill(pid, signal.SIGKILL)
        if whom == "daemon and git":
            kill(children)
        os.waitpid(pid, 0)
        psutil.wait_procs(children, timeout=20)
        stored = acknowledged(reading)
        gits = [child.pid for child in children]
        patience = 0.1 if whom == "daemon and git" else 10.0
        check_settled(root, before, pid, started, stored=stored, patience=patience, gits=gits)
        shutil.rmtree(root)
        shutil.copytree(model, root)


def kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def duration(tmp_path: Path, model: Path) -> float:
    """Seconds of one supersede here and now."""
    shutil.copytree(model, tmp_path / "timed")
    vault = open_vault(tmp_path / "timed")
    begun = time.monotonic()
    supersede(vault)
    return time.monotonic() - begun


def test_git_alone_is_killed_under_a_living_daemon(tmp_path, model):
    """SIGKILL of git's process only: the caller hears of it, its locks go, all is as before; or it had committed."""
    root = tmp_path / "vault"
    shutil.copytree(model, root)
    before = whole_state(root)
    moments = random.Random(11)
    failures = turn = 0
    while turn < 10 or (not failures and turn < 200):
        vault = open_vault(root)
        delay = moments.random() * 0.03 if 1 < turn < 10 else 0.0  # at once, where git was always faster so far

        def shoot(pid: int, started: float, delay: float = delay, which: int = turn % 2) -> None:
            spawned.append(pid)
            if len(spawned) == which + 1:
                time.sleep(delay)
                os.kill(pid, signal.SIGKILL)  # it is our child and not yet waited for: the pid is its own

        turn += 1

        spawned: list[int] = []
        try:
            vault.commit([new("b"), VaultWrite(A, REWRITTEN, sha256_hex(OLD))], "supersede", spawned=shoot)
        except GitFailed as error:
            failures += 1
            assert error.details["exit_code"] == -signal.SIGKILL
            assert not error.details.get("settle")
            assert whole_state(root) == before
            continue
        assert (vault.read(A), vault.read(B)) == (REWRITTEN, NEW)
        assert person(root, "status", "--porcelain") == b"A  staged.md\n?? untracked.md\n"
        shutil.rmtree(root)
        shutil.copytree(model, root)
    assert failures > 0


def test_a_hand_edit_before_the_crash_survives_undoing(tmp_path, model):
    """The rewritten file held an edit that no commit has: undoing brings back the edit, not HEAD's bytes."""
    root = tmp_path / "vault"
    shutil.copytree(model, root)
    edited = b"old words, edited by hand\n"
    (root / os.fsdecode(A)).write_bytes(edited)
    after = b"old words, edited by hand, superseded\n"

    def die(point: str) -> None:
        if point == "vault.stage":
            os.kill(os.getpid(), signal.SIGKILL)

    pid = os.fork()
    if pid == 0:
        files = Files(die)
        vault = Vault(root, Git(root, timeout=20, files=files), files)
        with suppress(VaultError):
            vault.commit([new("b"), VaultWrite(A, after, sha256_hex(edited))], "supersede")
        os._exit(0)
    os.waitpid(pid, 0)
    vault = open_vault(root)
    assert vault.read(A) == after
    assert vault.settle(A, sha256_hex(after)) == "undone"
    assert vault.settle(B, sha256_hex(NEW)) == "undone"
    assert vault.read(A) == edited
    assert not vault.exists(B)
