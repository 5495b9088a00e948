"""Is a merge that was cut off, wherever, afterwards whole or gone, and can be made again?"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from memoryd.digest import sha256_hex
from memoryd.files import Files
from memoryd.sources.git import Git
from memoryd.sources.vault import Vault, VaultWrite
from tests.crash.test_vault_crash import kill
from tests.sources.conftest import new, open_vault, person, whole_state

MANY = 60


def vault_at(root: Path, files: Files) -> Vault:
    return Vault(root, Git(root, timeout=20, files=files), files)


@pytest.fixture
def model(tmp_path: Path) -> tuple[Path, str]:
    """A vault with a person's unfinished work, and a fetched history that adds, changes and removes files."""
    root = tmp_path / "model"
    vault = open_vault(root)
    vault.commit([new("a", "one\n"), new("gone")], "add")
    person(root, "checkout", "-q", "-b", "theirs")
    vault.commit([new(f"n{n}", f"theirs {n}\n") for n in range(MANY)], "many")
    vault.commit([VaultWrite(b"global/fact/a.md", b"two\n", sha256_hex(b"one\n"))], "change")
    vault.remove([b"global/fact/gone.md"], "remove")
    theirs = vault.head()
    person(root, "checkout", "-q", "main")
    vault.commit([new("b")], "ours")
    (root / "untracked.md").write_text("untracked\n")
    (root / "global" / "fact" / "b.md").write_text("edited by hand\n")
    return root, str(theirs)


def in_child(root: Path, theirs: str, fault: Callable[[str], None]) -> int:
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            vault_at(root, Files(fault)).merge(theirs, "theirs")
        os._exit(0)
    return pid


def check_settled(root: Path, theirs: str, before: dict[str, bytes], *, patience: float = 0.1) -> bool:
    """Recover as a start does; the merge is whole, or everything is as before and it can be made again."""
    vault = open_vault(root)
    head = vault.head()
    vault.settle_merge(patience=patience)
    stood = vault.head() != before["head"].decode().strip()
    assert vault.head() == head or stood
    if not stood:
        assert whole_state(root) == before
        vault.merge(theirs, "theirs")
    assert person(root, "status", "--porcelain") == b" M global/fact/b.md\n?? untracked.md\n"
    assert len(list((root / "global" / "fact").iterdir())) == MANY + 2
    assert vault.read(b"global/fact/a.md") == b"two\n" and vault.read(b"global/fact/b.md") == b"edited by hand\n"
    assert person(root, "fsck", "--strict", "--no-dangling") == b""
    assert not (root / ".git" / "memoryd.merge").exists() and not (root / ".git" / "MERGE_HEAD").exists()
    assert len(person(root, "rev-list", "--parents", "-1", "HEAD").split()) == 3
    return stood


def test_killed_at_every_step_of_a_merge(tmp_path, model):
    source, theirs = model
    shutil.copytree(source, tmp_path / "probe")
    steps: list[str] = []
    vault_at(tmp_path / "probe", Files(steps.append)).merge(theirs, "theirs")
    root = tmp_path / "vault"
    ends = []
    for number in sorted({*range(14), *range(14, len(steps), 40), len(steps) - 1}):
        shutil.copytree(source, root)
        before = whole_state(root)
        left = [number]

        def die(_point: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == -1:
                os.kill(os.getpid(), signal.SIGKILL)

        pid = in_child(root, theirs, die)
        os.waitpid(pid, 0)
        ends.append(check_settled(root, theirs, before, patience=10.0))  # git may go on as an orphan
        shutil.rmtree(root)
    assert ends == sorted(ends), "once merged, never undone"
    assert set(ends) == {True, False}


@pytest.mark.parametrize("whom", ["daemon and git", "daemon only"])
def test_killed_at_random_moments_of_a_merge(tmp_path, model, whom):
    """git dies with the daemon in the middle of laying files out, or goes on as an orphan and is waited for."""
    source, theirs = model
    shutil.copytree(source, tmp_path / "timed")
    begun = time.monotonic()
    vault_at(tmp_path / "timed", Files()).merge(theirs, "theirs")
    span = (time.monotonic() - begun) / 2  # the second half makes things durable
    moments = random.Random(11)
    root = tmp_path / "vault"
    for turn in range(12):
        shutil.copytree(source, root)
        before = whole_state(root)
        pid = in_child(root, theirs, lambda _point: None)
        time.sleep(span * (turn + moments.random()) / 12)
        children = psutil.Process(pid).children(recursive=True)
        os.kill(pid, signal.SIGKILL)
        if whom == "daemon and git":
            kill(children)
        os.waitpid(pid, 0)
        psutil.wait_procs(children, timeout=20) if whom == "daemon and git" else None
        check_settled(root, theirs, before, patience=10.0)  # a child of git may live a moment longer
        shutil.rmtree(root)
