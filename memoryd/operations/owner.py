"""Which process owns a home?

One kernel lock on `daemon.lock`, held for the owner's life; it is free the moment the owner dies, however it dies.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from memoryd.errors import HomeBusy, HomeError

LOCK_NAME = "daemon.lock"


def own_home(root: Path, *, wait_seconds: float = 0.0) -> FileLock:
    """Take the home's lock and write this pid into it for people. Raises HomeBusy, HomeError.

    The caller keeps the returned lock and calls `release()` when everything is closed.
    """
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = root.stat()
    except OSError as error:
        raise HomeError(f"The home {root} cannot be made: {error.strerror}.", path=str(root)) from error
    if info.st_uid != os.getuid():
        raise HomeError(f"The home {root} belongs to another user.", path=str(root))
    lock = FileLock(root / LOCK_NAME, timeout=wait_seconds, mode=0o600)
    try:
        lock.acquire()
    except Timeout as error:
        raise HomeBusy(f"Another process owns the home {root}.", path=str(root)) from error
    except OSError as error:
        raise HomeError(f"{root / LOCK_NAME} cannot be locked: {error.strerror}.", path=str(root)) from error
    with suppress(OSError):  # it is for people: a full disk keeps nobody out
        (root / LOCK_NAME).write_text(f"{os.getpid()}\n")
    return lock


def holder_of(root: Path) -> str | None:
    """What the owner of a home wrote into its lock (its pid, for people), '' if nothing; None where nobody owns it.

    Changes nothing. Raises OSError where the lock cannot be looked at.
    """
    try:
        probe = os.open(root / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(probe, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(probe, 32).decode("ascii", "replace").strip()
    finally:
        os.close(probe)
    return None
