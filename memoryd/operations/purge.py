"""What does git's history still hold of what was erased, and how does a person take it out?

A commit that retires one memory for another touches both files and names the new one in its message, so a message may
say what no file says any more: those of all commits concerned are replaced, too.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any

from memoryd.errors import NotFound
from memoryd.operations.home import Home
from memoryd.records import shown_path
from memoryd.sources.git import literal

REMOVED = "[removed by memoryd forget]"


def git_history(home: Home, paths: Iterable[bytes], text: bytes | None = None) -> dict[str, Any]:
    """In how many commits these files are, how many messages hold `text`, and the commands that take all of it out."""
    found: dict[str, int] = {}
    said = _saying(home, text)
    touched = dict.fromkeys(said)
    for path in paths:
        if home.vault.head() is not None:
            commits = home.vault.git.run(["log", "--all", "--format=%H", "--", literal(path)]).out.decode().split()
            found[shown_path(path)] = len(commits)
            touched |= dict.fromkeys(commits)
    if not touched:
        return {"commits": {}, "messages": 0, "purge": []}
    chosen = [word for path, commits in found.items() if commits for word in ("--path", path)]
    words = [
        "--force",
        "--commit-callback",
        _without_messages(touched),
        *(["--invert-paths"] if chosen else []),
        *chosen,
    ]
    vault = shlex.quote(str(home.vault.path))
    return {
        "commits": found,
        "messages": len(said),
        "purge": [
            f"git -C {vault} filter-repo {shlex.join(words)}",
            f"git -C {vault} reflog expire --expire=now --all",
            f"git -C {vault} gc --prune=now",
        ],
    }


def in_messages_only(home: Home, text: bytes | None) -> NotFound | None:
    """The error for words that no content holds and git's messages do (the reason of a forced add, for instance)."""
    history = git_history(home, (), text)
    if not history["purge"]:
        return None
    return NotFound(
        f"Nothing that is stored holds these words, but messages of {history['messages']} commits of the vault do.",
        next_step=f"With the daemon stopped: {'; '.join(history['purge'])}",
        git=history,
    )


def _saying(home: Home, text: bytes | None) -> list[str]:
    """The commits whose message holds the words; these are no argument of git, which others could see."""
    if not text or home.vault.head() is None:
        return []
    told = home.vault.git.run(["log", "--all", "--format=%H %B%x00"]).out.split(b"\0")
    found = (raw.strip().partition(b" ") for raw in told)
    return [commit.decode() for commit, _, message in found if text in message]


def _without_messages(commits: Iterable[str]) -> str:
    """The body of a callback of git-filter-repo."""
    ids = ", ".join(f'b"{one}"' for one in commits)
    return f'if commit.original_id in ({ids},): commit.message = b"{REMOVED}\\n"'
