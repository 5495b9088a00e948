"""How does a person look after the vault: how does it stand, how is it connected, how do two homes share it?

Fetch and push need no lane, however long the network takes; the vault lane is held for the merge alone. What came with
a merge follows into packs and catalog by the road of an edit by hand. History is merged, never rewritten: the ids of
commits are given out as evidence.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memoryd.errors import InvalidInput, MemorydError, NotFound, PushRejected, RemoteFailed, VaultBusy, VaultError
from memoryd.operations.health import faulty
from memoryd.operations.home import Caller, Home
from memoryd.operations.ingest import valid_scope
from memoryd.operations.reconcile import reconcile_vault, settle_intents
from memoryd.records import MEMORY_TYPES, shown_path
from memoryd.sources import remote, standing
from memoryd.sources.merge import Merged
from memoryd.sources.objects import branch_of
from memoryd.sources.proposal import lines_to_add
from memoryd.sources.remote import Upstream, shown_url

Progress = Callable[[int, int, str], None]
Stop = Callable[[], bool]
ATTEMPTS = 2
STEPS = 4
NOTICES = "vault"
_LINE = re.compile(r"Line (\d+)")
CONNECT = "Connect one: `memoryd vault init --remote URL`."


def status(home: Home, caller: Caller) -> dict[str, Any]:
    """How the vault stands, as git and the last look see it; for its owner, so all scopes are shown."""
    del caller  # whoever reaches the home's own socket owns every file in the vault
    found = standing.standing(home.vault.git)
    notices = [(topic, text) for topic, text in sorted(dict(home.notices).items()) if topic.split("/")[0] == NOTICES]
    return {
        **found,
        "unreadable": [_fault(home, row.path, row.problem or "") for row in faulty(home)],
        "duplicates": [
            {"id": one, "paths": [*map(shown_path, home.memories.copies(one))]} for one in home.memories.duplicates()
        ],
        "forks": [{"fact": fact, "ids": ids} for fact, ids in home.memories.forks().items()],
        "notices": [f"{topic.removeprefix('vault/')}: {text}" for topic, text in notices],
        "ready": found["under_way"] is None and found["branch"] is not None and not found["conflicts"],
    }


def _fault(home: Home, path: bytes, problem: str) -> dict[str, Any]:
    line = _LINE.match(problem)
    told = {"path": shown_path(path), "line": int(line[1]) if line else 1, "problem": problem}
    try:
        data = home.vault.read(path)
        made = (home.vault.path / Path(shown_path(path))).stat().st_mtime
    except (NotFound, VaultError, OSError):
        return told
    add = lines_to_add(path, data, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(made)))
    return {**told, "add": add} if add else told


def connect(
    home: Home, url: str, *, progress: Progress = lambda _done, _total, _note: None, stop: Stop = lambda: False
) -> dict[str, Any]:
    """Make `url` the vault's remote and exchange what both hold.

    Raises InvalidInput where another remote is set, RemoteFailed where the address does not answer (it is not kept).
    """
    address = remote.checked_address(url)
    git = home.vault.git
    known = remote.remotes(git)
    if known.get(remote.NAME, address) != address:
        raise InvalidInput(
            f"The vault has the remote {remote.NAME} already: {shown_url(known[remote.NAME])}.",
            next_step=f"To change it: `git -C {home.vault.path} remote set-url {remote.NAME} URL`.",
        )
    new = remote.NAME not in known
    progress(0, STEPS, "asking the remote")
    with home.vault_lane:
        if new:
            git.write(["remote", "add", "--", remote.NAME, address], timeout=git.timeout)
    try:
        names, default = remote.branches(git, remote.NAME, timeout=_patience(home), stop=stop)
        _follow(home, default or (names[0] if len(names) == 1 else None))
    except MemorydError:
        if new:
            with home.vault_lane:
                git.write(["remote", "remove", remote.NAME], timeout=git.timeout)
        raise
    return sync(home, progress=progress, stop=stop)


def _follow(home: Home, there: str | None) -> None:
    """Let the branch follow the remote's; in a vault without commits, take over its name, too."""
    git = home.vault.git
    with home.vault_lane:
        if there is not None and git.head() is None:
            git.write(["symbolic-ref", "HEAD", f"refs/heads/{there}"], timeout=git.timeout)
        branch = _branch(home)
        for key, value in (("remote", remote.NAME), ("merge", f"refs/heads/{there or branch}")):
            git.write(["config", f"branch.{branch}.{key}", value], timeout=git.timeout)


def _branch(home: Home) -> str:
    name = branch_of(home.vault.git.places()) or ""
    if home.vault.git.detached() or not name.startswith("refs/heads/"):
        raise VaultBusy(
            f"HEAD is detached in {home.vault.path}: there is no branch to follow.",
            next_step=f"Check out a branch (`git -C {home.vault.path} switch NAME`), then call again.",
        )
    return name.removeprefix("refs/heads/")


def sync(
    home: Home, *, progress: Progress = lambda _done, _total, _note: None, stop: Stop = lambda: False
) -> dict[str, Any]:
    """Fetch, merge, push; once more where the remote moved meanwhile. What was merged is searchable afterwards.

    Raises RemoteFailed, PushRejected (what was merged stays), VaultConflict (nothing was merged), VaultBusy ...
    """
    settle_intents(home)
    git = home.vault.git
    branch = _branch(home)
    source = remote.upstream(git, branch)
    if source is None:
        raise RemoteFailed(f"The vault {home.vault.path} has no remote to sync with.", next_step=CONNECT)
    exchange = _Exchange(home, source, progress, stop)
    try:
        exchange.run()
    finally:
        took_in = reconcile_vault(home)
    progress(STEPS, STEPS, "done")
    return {
        "outcome": "synced" if exchange.received or exchange.sent else "up to date",
        "branch": branch,
        "remote": source.shown,
        "url": shown_url(source.url),
        "commit": git.head(),
        "received": exchange.received,
        "sent": exchange.sent,
        "settled": sorted(map(shown_path, exchange.settled)),
        "memories": {name: took_in[name] for name in ("added", "changed", "removed")},
        "uncommitted": standing.uncommitted(git),
        "forks": [{"fact": fact, "ids": ids} for fact, ids in home.memories.forks().items()],
    }


class _Exchange:
    """One sync under way: what came, what went."""

    def __init__(self, home: Home, source: Upstream, progress: Progress, stop: Stop) -> None:
        self._home = home
        self._source = source
        self._progress = progress
        self._stop = stop
        self.received = 0
        self.sent = 0
        self.settled: set[bytes] = set()

    def run(self) -> None:
        """Until both sides hold the same. Raises as `sync`."""
        for _ in range(ATTEMPTS):
            self._progress(1, STEPS, "fetching")
            theirs = remote.fetch(self._home.vault.git, self._source, timeout=_patience(self._home), stop=self._stop)
            if theirs is not None:
                self._progress(2, STEPS, "merging")
                self._merge(theirs)
            self._progress(3, STEPS, "pushing")
            if self._push(theirs):
                return
        raise PushRejected(f"{self._source.shown} moved twice while this vault was about to send; nothing was sent.")

    def _merge(self, theirs: str) -> None:
        home, git = self._home, self._home.vault.git
        with home.vault_lane:
            head = git.head()
            coming = standing.count(git, [theirs], [head] if head else [])
            if not coming:
                return
            foreign = head is not None and _unrelated(home, head, theirs)
            if foreign or head is None:
                _require_vault(home, theirs, self._source)
            merged: Merged = home.vault.merge(theirs, self._source.shown, foreign=foreign)
        self.received += coming
        self.settled |= set(merged.settled)

    def _push(self, theirs: str | None) -> bool:
        git = self._home.vault.git
        head = git.head()
        going = standing.count(git, [head], [theirs] if theirs else []) if head else 0
        if head is None or not going:
            return True
        if not remote.push(git, self._source, head, timeout=_patience(self._home), stop=self._stop):
            return False
        self.sent += going
        return True


def _patience(home: Home) -> float:
    return float(home.config.vault.network_timeout_seconds)


def _unrelated(home: Home, one: str, other: str) -> bool:
    return home.vault.git.run(["merge-base", one, other], accept=(0, 1)).code == 1


def _require_vault(home: Home, commit: str, source: Upstream) -> None:
    """Two vaults may become one; something else than a vault is not taken in. Raises RemoteFailed."""
    names = home.vault.git.run(["ls-tree", "-r", "--name-only", "-z", commit]).out.split(b"\0")
    shown = [shown_path(name).split("/") for name in names if name.endswith(b".md")]
    if any(len(parts) > 2 and valid_scope(parts[0]) and parts[1] in MEMORY_TYPES for parts in shown) or not any(names):
        return
    raise RemoteFailed(
        f"{shown_url(source.url)} holds no memories ({len(names) - 1} other files): it is not taken for a vault.",
        next_step="Name an empty repository or another vault: "
        f"`git -C {home.vault.path} remote remove {source.remote}`, then `memoryd vault init --remote URL`.",
    )
