"""How does the vault's repository stand: branch, remote, edits, conflicts, hooks? Nothing is changed by looking."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from memoryd.records import shown_path
from memoryd.sources import remote
from memoryd.sources.git import Git
from memoryd.sources.halfway import under_way
from memoryd.sources.locks import lock_files
from memoryd.sources.objects import branch_of

_STATES = {"M": "modified", "T": "changed in kind", "A": "added", "D": "deleted", "R": "renamed", "C": "copied"}


def standing(git: Git) -> dict[str, Any]:
    """All of it, ready for JSON. Raises VaultError kinds."""
    places = git.places()
    branch = None if git.detached() else (branch_of(places) or "").removeprefix("refs/heads/") or None
    changes = _changes(git)
    edited = [one for one in changes if one["state"] != "conflict" and not _hidden(one["path"])]
    return {
        "path": str(git.repo),
        "branch": branch,
        "commit": git.head(),
        "under_way": under_way(places),
        "remote": None if branch is None else _remote(git, branch),
        "edited": edited,
        "hidden": sum(_hidden(one["path"]) for one in changes),
        "conflicts": [one["path"] for one in changes if one["state"] == "conflict"],
        "hooks": hooks(git),
        "locks": [str(lock) for lock in lock_files(places)],
    }


def uncommitted(git: Git) -> list[str]:
    """Files that were edited, added or removed by hand and not committed, hidden ones aside."""
    return [one["path"] for one in _changes(git) if not _hidden(one["path"])]


def hooks(git: Git) -> list[str]:
    """The hooks that git would run, by name."""
    out = git.run(["rev-parse", "--git-path", "hooks"]).out.removesuffix(b"\n")
    folder = git.repo / Path(os.fsdecode(out)).expanduser()
    try:
        found = sorted(entry.name for entry in folder.iterdir() if entry.suffix != ".sample" and entry.is_file())
    except OSError:
        return []
    return [name for name in found if os.access(folder / name, os.X_OK)]


def _remote(git: Git, branch: str) -> dict[str, Any] | None:
    """The remote branch and how far both are apart, as of the last fetch (None: never fetched)."""
    source = remote.upstream(git, branch)
    if source is None:
        return None
    theirs = remote.tip(git, source)
    ahead = behind = None
    if theirs is not None:
        ours = [git.head()] if git.head() else []
        ahead, behind = (count(git, one, two) for one, two in ((ours, [theirs]), ([theirs], ours)))
    shown = {"name": source.remote, "url": remote.shown_url(source.url), "branch": source.branch}
    return {**shown, "ahead": ahead, "behind": behind}


def count(git: Git, of: Iterable[str | None], without: Iterable[str | None]) -> int:
    """How many commits one side has and the other lacks."""
    words = [str(one) for one in of]
    return int(git.run(["rev-list", "--count", *words, "--not", *map(str, without)]).out) if words else 0


def _changes(git: Git) -> list[dict[str, str]]:
    words = ["status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=all"]
    found = []
    for line in git.run(words).out.split(b"\0"):
        kind, _, rest = line.partition(b" ")
        if kind in (b"1", b"u"):
            path = rest.split(b" ", 7 if kind == b"1" else 9)[-1]
            state = "conflict" if kind == b"u" else _state(rest[:2].decode())
            found.append({"path": shown_path(path), "state": state})
        elif kind == b"?":
            found.append({"path": shown_path(rest), "state": "new"})
    return found


def _state(letters: str) -> str:
    staged, loose = (_STATES.get(letter) for letter in letters)
    words = [f"{staged}, staged" if staged else None, loose]
    return "; ".join(word for word in words if word)


def _hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))
