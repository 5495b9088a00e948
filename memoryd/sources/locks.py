"""Is a git lock file left over from a git of ours that is dead, so that it may go?

Only then is it removed; a lock of anyone else is named in an error and stays.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from memoryd.errors import GitLocked
from memoryd.files import Files
from memoryd.sources.git import WRITER_FILE, Git
from memoryd.sources.objects import Places, branch_of

CLOCK_GRAIN = 0.05
"""Seconds by which a file's time may lie before the clock reading that came first (kernel timestamps are coarse)."""
_MERGE_LOCKS = ("index.stash.*.lock", "ORIG_HEAD.lock", "AUTO_MERGE.lock", "MERGE_*.lock")
_PAUSE = 0.05
_SPAWN_TIME = 0.5
"""Seconds after its recorded time in which a git may have begun to live."""


def lock_files(places: Places) -> list[Path]:
    """The lock files that exist and would stop, or were left by, a commit."""
    branch = branch_of(places)
    names = [places.own / "index.lock", places.own / "HEAD.lock", places.common / "packed-refs.lock"]
    names += [places.common / f"{branch}.lock"] if branch else []
    names += [lock for lock in sorted(places.own.glob("next-index-*.lock")) if _prepared_by_living(lock)]
    return [name for name in names if os.path.lexists(name)]


def _prepared_by_living(lock: Path) -> bool:
    """Whether the git that a next index is named after may still live; that of a dead one holds nobody up."""
    number = lock.name.removeprefix("next-index-").removesuffix(".lock")
    try:
        made = lock.lstat().st_mtime
    except FileNotFoundError:
        return False
    return not number.isdecimal() or _is_alive(int(number), made)


def wait_for_git(git: Git, patience: float) -> bool:
    """Wait until no lock file is left and no git of ours lives; False when `patience` seconds were not enough."""
    places = git.places()
    until = time.monotonic() + patience
    while lock_files(places) or writer_lives(places):
        if time.monotonic() >= until:
            return False
        time.sleep(_PAUSE)
    return True


def remove_stale(git: Git, files: Files, pid: int, started: float, patience: float) -> list[Path]:
    """Remove lock files that the write intent (`pid`, `started` in seconds since the epoch) explains.

    Conditions, all of them: `pid` is dead (or its number belongs to a younger process), no git of ours and no other
    git works in this repository, and the lock is not older than the intent. Waits up to `patience` seconds for locks
    to go by themselves. Returns what was removed; raises GitLocked naming the lock when a condition fails.
    """
    places = git.places()
    removed = _drop_prepared(places, files, pid, started)
    if wait_for_git(git, patience):
        return removed
    for lock in lock_files(places):
        reason = _why_not(git, places, lock, pid, started)
        if reason is not None:
            raise GitLocked(f"{lock} is held: {reason}.", lock=str(lock), vault=str(git.repo))
        files.unlink(lock, owner="vault")
        removed.append(lock)
    return removed


def _drop_prepared(places: Places, files: Files, pid: int, started: float) -> list[Path]:
    """Remove the next index that the git of an intent prepared, where that git is dead: it bears its number."""
    lock = places.own / f"next-index-{pid}.lock"
    if (
        pid <= 0
        or not os.path.lexists(lock)
        or _is_alive(pid, started)
        or lock.lstat().st_mtime < started - CLOCK_GRAIN
    ):
        return []
    files.unlink(lock, owner="vault")
    return [lock]


def drop_merge_locks(git: Git, files: Files, started: float) -> None:
    """Remove the locks, besides those of a commit, that a dead merge of ours left (`started`: since the epoch).

    git keeps a person's edits aside while it merges, and notes where HEAD stood. The caller made sure that no git of
    ours lives; where another one works here, they stay.
    """
    places = git.places()
    left = [lock for pattern in _MERGE_LOCKS for lock in places.own.glob(pattern)]
    if left and not list(_gits_inside([git.repo, places.own, places.common])):
        for lock in left:
            if lock.lstat().st_mtime >= started - CLOCK_GRAIN:
                files.unlink(lock, owner="vault")


def writer_lives(places: Places) -> bool:
    """Whether a writing git that memoryd started, or a child of it, still runs: the kernel knows, pids may lie."""
    try:
        probe = os.open(places.own / WRITER_FILE, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(probe)
    return False


def _why_not(git: Git, places: Places, lock: Path, pid: int, started: float) -> str | None:
    try:
        made = lock.lstat().st_mtime
    except FileNotFoundError:
        return None
    if made < started - CLOCK_GRAIN:
        return "it is older than the write that was interrupted"
    if pid <= 0 or _is_alive(pid, started):
        return f"process {pid}, which wrote, may still be at work"
    if writer_lives(places):
        return "a git that memoryd started is still at work"
    others = list(_gits_inside([git.repo, places.own, places.common]))
    return f"git process {others[0]} works in this repository" if others else None


def _is_alive(pid: int, started: float) -> bool:
    """Whether `pid` still is the process that was meant at `started`."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    born = _birth(pid)
    return born is None or born <= started + _SPAWN_TIME


def _birth(pid: int) -> float | None:
    """When a process started, in seconds since the epoch; None where /proc does not tell. A zombie counts as dead."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(status[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError):
        return None
    return float("inf") if status[0] == "Z" else time.time() - age


def _gits_inside(folders: list[Path]) -> Iterator[int]:
    """Numbers of the git processes whose working directory lies in one of the folders (only where /proc tells)."""
    real = [os.path.realpath(folder) for folder in folders]
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            name = (entry / "comm").read_text("utf-8", "replace").strip()
            inside = str((entry / "cwd").readlink()) if name == "git" or name.startswith("git-") else ""
        except OSError:
            continue  # ended meanwhile, or another user's
        if any(inside == folder or inside.startswith(folder + "/") for folder in real):
            yield int(entry.name)
