"""What could be wrong with this installation and this home, check by check?

Each check looks at one thing, changes nothing, and names the next step. They run without a daemon, and beside one.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memoryd.config import config_path, load_config
from memoryd.errors import MemorydError
from memoryd.models.identity import verify_files
from memoryd.runtime import SUN_PATH_LIMIT, RuntimePaths
from memoryd.sources import corpora
from memoryd.sources.git import require_git
from memoryd.store.format import parse_format

MIN_FREE_BYTES = 200 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """Where the checks look."""

    root: Path
    environment: Mapping[str, str]


def examine(root: Path, environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """Run every check; one entry each with `name`, `ok`, `message` and, where not ok, `next_step` and `code`."""
    place = Place(root, environment)
    return [_run(name, check, place) for name, check in CHECKS.items()]


def _run(name: str, check: Callable[[Place], str], place: Place) -> dict[str, Any]:
    try:
        return {"name": name, "ok": True, "message": check(place)}
    except MemorydError as error:
        shown = error.to_dict()
        return {"name": name, "ok": False, **{k: shown[k] for k in ("code", "message", "next_step")}}
    except OSError as error:
        return {
            "name": name,
            "ok": False,
            "code": "home-error",
            "message": f"{error.filename or place.root}: {error.strerror}.",
            "next_step": "Make the path readable for this user.",
        }


def check_python(_place: Place) -> str:
    """The interpreter is one that memoryd is tested on, with a usable SQLite."""
    if sqlite3.sqlite_version_info < (3, 35):
        raise MemorydError(
            f"SQLite {sqlite3.sqlite_version} is too old.",
            next_step="Use a Python that is built with SQLite 3.35 or newer.",
        )
    return f"Python {sys.version.split()[0]}, SQLite {sqlite3.sqlite_version}"


def check_git(place: Place) -> str:
    """git is there and new enough."""
    return f"git {require_git(place.environment.get('PATH'))}"


def check_home(place: Place) -> str:
    """The home is this user's and nobody else can read it."""
    if not place.root.exists():
        return f"{place.root} does not exist yet; the first start makes it"
    info = place.root.stat()
    if info.st_uid != os.getuid():
        raise MemorydError(
            f"{place.root} belongs to another user.", next_step="Choose a home of your own: MEMORYD_HOME."
        )
    if not os.access(place.root, os.R_OK | os.W_OK | os.X_OK):
        raise MemorydError(f"{place.root} is not writable.", next_step=f"chmod 700 {place.root}")
    if stat.S_IMODE(info.st_mode) & 0o077:
        raise MemorydError(f"{place.root} is open to other users.", next_step=f"chmod 700 {place.root}")
    return str(place.root)


def check_space(place: Place) -> str:
    """There is room to write."""
    there = place.root
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    if free < MIN_FREE_BYTES:
        raise MemorydError(f"Only {free >> 20} MiB are free at {there}.", next_step="Free disk space.")
    return f"{free >> 20} MiB free"


def check_config(place: Place) -> str:
    """The configuration parses and its corpora make sense."""
    loaded = load_config(config_path(place.root, place.environment))
    corpora.validate(loaded.config.corpora)
    return f"{loaded.path}: {len(loaded.config.corpora)} corpora"


def check_format(place: Place) -> str:
    """FORMAT is whole and this version reads it."""
    if not (place.root / "FORMAT").exists():
        return "no store yet"
    return f"chunker {parse_format((place.root / 'FORMAT').read_bytes(), 'FORMAT').chunker}"


def check_vault(place: Place) -> str:
    """The vault is a git repository."""
    loaded = load_config(config_path(place.root, place.environment))
    path = Path(loaded.config.vault.path).expanduser() if loaded.config.vault.path else place.root / "vault"
    if not path.exists():
        return "no vault yet"
    if not (path / ".git").exists():
        raise MemorydError(f"{path} is not a git repository.", next_step="Restore its .git, or move the folder away.")
    return str(path)


def check_model(_place: Place) -> str:
    """The embedding model's files are there and are the expected ones."""
    return verify_files()


def check_sockets(place: Place) -> str:
    """The runtime folder is private and its sockets can be reached by path or by descriptor."""
    paths = RuntimePaths(str(place.root))
    run = Path(paths.run)
    if run.exists() and stat.S_IMODE(run.stat().st_mode) & 0o077:
        raise MemorydError(f"{run} is open to other users.", next_step=f"chmod 700 {run}")
    length = len(os.fsencode(paths.rpc_socket))
    if length > SUN_PATH_LIMIT and not Path("/proc/self/fd").exists():
        raise MemorydError(
            f"The socket path has {length} bytes; this system takes {SUN_PATH_LIMIT}.", next_step="Use a shorter home."
        )
    return f"socket path of {length} bytes"


CHECKS: dict[str, Callable[[Place], str]] = {
    "python": check_python,
    "git": check_git,
    "home": check_home,
    "space": check_space,
    "config": check_config,
    "format": check_format,
    "vault": check_vault,
    "model": check_model,
    "sockets": check_sockets,
}
