"""A real home with every real part, opened as the daemon opens it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memoryd.files import Files
from memoryd.operations import indexing
from memoryd.operations.home import Caller, Home, open_home
from memoryd.operations.indexing import catch_up
from memoryd.operations.owner import own_home
from memoryd.operations.recover import recover
from tests.children import keep_child
from tests.templates import lay


@contextmanager
def opened(root: Path, *, files: Files | None = None, clock: Callable[[], float] = time.time) -> Iterator[Home]:
    """Open, recover and close a home, as one daemon's life."""
    if files is None and clock is time.time and _begins_as_any(root):
        lay(_first_life, root)
    with _life(root, files=files, clock=clock) as home:
        yield home


@contextmanager
def _life(root: Path, *, files: Files | None = None, clock: Callable[[], float] = time.time) -> Iterator[Home]:
    lock = own_home(root, wait_seconds=10)
    try:
        home = open_home(root, environment={}, files=files, clock=clock)
        keep_child(home.host)
        try:
            recover(home)
            yield home
        finally:
            home.close()
    finally:
        lock.release()


def _first_life(root: Path) -> None:
    with _life(root):
        pass
    for reserve in (root / "store").glob("reserve*"):
        reserve.unlink()  # room on the disk: every start takes it anew


def _begins_as_any(root: Path) -> bool:
    """Whether nothing lies there but settings that change nothing about an empty home."""
    if not root.exists():
        return True
    config = root / "config.json"
    if {entry.name for entry in root.iterdir()} != {config.name}:
        return False
    return not {"store", "vault", "model", "vector"} & json.loads(config.read_text()).keys()


def settle(home: Home) -> None:
    """Do all background work that waits."""
    while catch_up(home):
        pass


def index_words(home: Home) -> None:
    """Only the keyword side of the background work: no model is needed."""
    while home.documents.count_changed_after(home.generation.watermark.lexical_seq):
        indexing.step(home, home.generation, lambda: True)


def git(*arguments: object, cwd: Path) -> str:
    """Real git, as a person would call it."""
    command = ["git", "-c", "user.name=p", "-c", "user.email=p@localhost", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


def commits(home: Home) -> int:
    """How many commits the vault has."""
    return int(git("rev-list", "--count", "HEAD", cwd=home.vault.path)) if home.vault.head() else 0


def configure(root: Path, **settings: object) -> None:
    """Write config.json before the home is opened."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "config.json").write_text(json.dumps(settings))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def home(root: Path) -> Iterator[Home]:
    with opened(root) as home:
        yield home


@pytest.fixture
def project(tmp_path: Path) -> Callable[[str], Caller]:
    """A caller inside a fresh git work tree of the given name."""

    def make(name: str) -> Caller:
        folder = tmp_path / "projects" / name
        folder.mkdir(parents=True)
        git("init", "-q", cwd=folder)
        return Caller(directory=str(folder))

    return make


@pytest.fixture
def nobody() -> Caller:
    """A caller outside any project."""
    return Caller(directory=None)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own that a test may fill."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=220m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        # Reason: a file system that may be filled needs a mount; tests/crash/test_nth_error.py injects ENOSPC without one.
        pytest.skip(reason="only a root that may mount has a disk of its own; injected ENOSPC covers the same calls")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill_up(place: Path, name: str) -> None:
    """Take all space that is left, to the last byte."""
    with (place / name).open("wb", buffering=0) as stream:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    stream.write(b"x" * size)
            except OSError:
                pass
