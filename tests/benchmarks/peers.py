"""How do other stores take in and give back the same bytes?

Each peer is the real program at its default chunk sizes, with zstd where it offers that and without encryption where
that can be off. What one start of the program costs by itself is measured first and taken off.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Cost:
    """CPU and wall seconds."""

    cpu: float = 0.0
    wall: float = 0.0

    def add(self, other: Cost, times: int = 1) -> None:
        self.cpu += other.cpu * times
        self.wall += other.wall * times


def children_cpu() -> float:
    """CPU seconds of ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def own_cpu() -> float:
    """CPU seconds of this process, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measured(work: Callable[[], object], cpu: Callable[[], float] = children_cpu) -> Cost:
    """What some work costs."""
    spent, began = cpu(), time.perf_counter()
    work()
    return Cost(cpu() - spent, time.perf_counter() - began)


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


class Peer(ABC):
    """One store in its own folder; `take` and `give` are one release or file after the other."""

    name: str
    program: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "store"
        self.environment = {**os.environ, "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
        folder.mkdir(parents=True)

    @classmethod
    def available(cls) -> bool:
        return shutil.which(cls.program) is not None

    def run(self, *command: str | Path, cwd: Path | None = None) -> str:
        done = subprocess.run(
            [self.program, *map(str, command)],
            cwd=cwd,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{self.program} {command[0]} failed: {done.stderr[-500:]}")
        return done.stdout

    @abstractmethod
    def make(self) -> None:
        """An empty store."""

    @abstractmethod
    def take(self, number: int, source: Path) -> None:
        """Take in a folder or a file."""

    @abstractmethod
    def give(self, number: int, source: Path, target: Path) -> None:
        """Give the state `number` back into a folder."""

    def start_up(self) -> Cost:
        """What one start costs without any work."""
        empty = self.folder / "empty"
        empty.mkdir(exist_ok=True)
        costs = [measured(lambda: self.idle(empty)) for _ in range(3)]
        return Cost(min(cost.cpu for cost in costs), min(cost.wall for cost in costs))

    @abstractmethod
    def idle(self, empty: Path) -> None:
        """A start with nothing to do."""


class Restic(Peer):
    """restic: 0.5 to 8 MiB Rabin, zstd, always encrypted."""

    name = program = "restic"

    def make(self) -> None:
        self.environment |= {"RESTIC_REPOSITORY": str(self.store), "RESTIC_PASSWORD": "bench"}
        self.run("init", "--repository-version", "2")

    def take(self, number: int, source: Path) -> None:
        where, what = (source, ".") if source.is_dir() else (source.parent, source.name)
        self.run("backup", "--quiet", "--tag", f"n{number}", "--host", "bench", what, cwd=where)

    def give(self, number: int, source: Path, target: Path) -> None:
        self.run("restore", "latest", "--quiet", "--tag", f"n{number}", "--target", target)

    def idle(self, empty: Path) -> None:
        self.run("snapshots", "--quiet", cwd=empty)


class Borg(Peer):
    """borg: about 2 MiB buzhash, zstd, no encryption."""

    name = program = "borg"

    def make(self) -> None:
        self.environment |= {
            "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
            "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
        }
        self.run("init", "-e", "none", self.store)

    def take(self, number: int, source: Path) -> None:
        where, what = (source, ".") if source.is_dir() else (source.parent, source.name)
        self.run("create", "-C", "zstd,3", f"{self.store}::n{number}", what, cwd=where)

    def give(self, number: int, source: Path, target: Path) -> None:
        self.run("extract", f"{self.store}::n{number}", cwd=target)

    def idle(self, empty: Path) -> None:
        self.run("list", self.store, cwd=empty)


class Casync(Peer):
    """casync: 16 to 256 KiB, zstd, no encryption."""

    name = program = "casync"

    def make(self) -> None:
        self.store.mkdir()

    def _index(self, number: int, source: Path) -> Path:
        return self.folder / f"n{number}.{'caidx' if source.is_dir() else 'caibx'}"

    def take(self, number: int, source: Path) -> None:
        options = ("--store", self.store, "--compression=zstd", "--with=unix")
        self.run(
            "make",
            *options[:2],
            options[2],
            *((options[3],) if source.is_dir() else ()),
            self._index(number, source),
            source,
        )

    def give(self, number: int, source: Path, target: Path) -> None:
        out = target / "out" if source.is_dir() else target / source.name
        self.run("extract", "--store", self.store, "--seed-output=no", self._index(number, source), out)

    def idle(self, empty: Path) -> None:
        self.run("--version")


class Git(Peer):
    """git: add and commit each state, then repack."""

    name = program = "git"

    def make(self) -> None:
        self.work = self.folder / "work"
        self.work.mkdir()
        self.environment |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "b", "GIT_AUTHOR_EMAIL": "b@localhost"}
        self.environment |= {"GIT_COMMITTER_NAME": "b", "GIT_COMMITTER_EMAIL": "b@localhost"}
        self.run("init", "--quiet", "--bare", self.store)
        self.run(*self._here(self.work), "config", "gc.auto", "0")

    def _here(self, work: Path) -> Sequence[str]:
        return (f"--git-dir={self.store}", f"--work-tree={work}")

    def take(self, number: int, source: Path) -> None:
        work = source if source.is_dir() else source.parent
        what = "." if source.is_dir() else source.name
        self.run(*self._here(work), "add", "--all", "--force", what, cwd=work)
        self.run(*self._here(work), "commit", "--quiet", "--allow-empty", "-m", f"n{number}", cwd=work)
        self.run(*self._here(work), "tag", f"n{number}", cwd=work)

    def give(self, number: int, source: Path, target: Path) -> None:
        what = "." if source.is_dir() else source.name
        self.run(*self._here(target), "checkout", "--force", f"n{number}", "--", what, cwd=target)

    def repack(self) -> None:
        """The dense form."""
        self.run(f"--git-dir={self.store}", "repack", "-adfq", "--threads=1")
        self.run(f"--git-dir={self.store}", "prune-packed", "--quiet")

    def idle(self, empty: Path) -> None:
        self.run("--version")


PEERS: tuple[type[Peer], ...] = (Restic, Borg, Casync, Git)
