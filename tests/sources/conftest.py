"""A real vault with real git, and a second git as a person would use it beside memoryd."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from memoryd.files import Files
from memoryd.sources.git import Git
from memoryd.sources.vault import Vault, VaultCommit, VaultWrite


def person(root: Path, *arguments: object, feed: bytes | None = None, check: bool = True) -> bytes:
    """Run git by hand in the vault."""
    command = ["git", "-c", "user.name=Person", "-c", "user.email=person@localhost", *map(str, arguments)]
    return subprocess.run(command, cwd=root, check=check, capture_output=True, input=feed).stdout


def open_vault(path: Path, *, timeout: float = 20.0, files: Files | None = None, **more: object) -> Vault:
    """A vault at `path`, made where it is missing."""
    files = files or Files()
    vault = Vault(path, Git(path, timeout=timeout, files=files, **more), files)
    vault.ensure()
    return vault


def new(name: str, text: str = "words\n") -> VaultWrite:
    """A write of a file that is not there yet."""
    return VaultWrite(f"global/fact/{name}.md".encode(), text.encode(), None)


def hook(root: Path, name: str, script: str) -> None:
    """Install a hook of the repository."""
    path = root / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)


def script(folder: Path, name: str, text: str) -> Path:
    """An executable shell script."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def whole_state(root: Path) -> dict[str, bytes]:
    """Everything of a repository that a failed commit must leave alone: tree, index entries, HEAD, no locks."""
    state = {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else b"folder"
        for path in sorted(root.rglob("*"))
        if ".git" not in path.relative_to(root).parts
    }
    state["index"] = person(root, "ls-files", "-s", "-z")
    state["status"] = person(root, "status", "--porcelain=v2", "-z")
    state["staged"] = person(root, "diff", "--cached")
    state["head"] = person(root, "rev-parse", "--verify", "-q", "HEAD", check=False)
    state["locks"] = b"".join(sorted(os.fsencode(lock) for lock in root.rglob("*.lock")))
    return state


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return open_vault(tmp_path / "vault")


@pytest.fixture(autouse=True)
def no_process_is_left(tmp_path: Path) -> Iterator[None]:
    """After each test no process works in its folder."""
    yield
    left = [one.info for one in psutil.process_iter(["cwd", "cmdline"]) if _inside(one.info["cwd"], tmp_path)]
    assert left == []


def _inside(cwd: str | None, folder: Path) -> bool:
    return cwd is not None and cwd.startswith(f"{folder}/")


def write_alias(vault: Vault, key: str, scope: str) -> VaultCommit | None:
    """Let a project key stand for a scope id, by a commit of its own; None: it does already."""
    write = vault.alias_write(key, scope)
    return None if write is None else vault.commit([write], f"scope alias: {scope}")
