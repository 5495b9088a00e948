"""What did people change in the vault by hand, and how does the catalog follow?

Interrupted writes are settled first. Then the working tree is compared with what was last seen (by file status first,
by bytes where that differs). A vault that cannot be read, or is suddenly empty, removes nothing: absence is not
deletion.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from memoryd.catalog.state import Intent
from memoryd.errors import DiskFull, NotFound, VaultError
from memoryd.operations.fresh import differs, take_files, vault_seen
from memoryd.operations.home import Home
from memoryd.records import VAULT_SOURCE, shown_path

VAULT_COMMIT = "vault_commit"
INTENTS_NOTICE = "vault/interrupted"


def reconcile_vault(home: Home) -> dict[str, Any]:
    """Follow the working tree once; returns counts `added`, `changed`, `removed`, the `head`, and `problem`."""
    intents = settle_intents(home, patience=0.0)
    with home.vault_lane:
        changed, gone, problem = _differences(home)
        head = home.vault.head() or ""
    counts = take_files(home, changed, gone)
    if home.catalog.meta(VAULT_COMMIT) != head:
        with home.catalog.write() as tx:
            home.catalog.set_meta(tx, VAULT_COMMIT, head)
    return {**counts, "problem": problem, "head": head, "left": intents["left"]}


def settle_intents(home: Home, *, patience: float | None = None) -> dict[str, int]:
    """Finish or undo each memory write that was interrupted; counts `forward` and `undone` files, `left` writes.

    What cannot be settled now (a git of someone else holds a lock, for which `patience` seconds are waited) is left,
    told in the home's notices and tried again at the next call.
    """
    done = {"forward": 0, "undone": 0, "left": 0}
    with home.vault_lane:
        for write, intents in groupby(sorted(home.state.intents.all(), key=_order), key=lambda one: one.id):
            try:
                _settle(home, list(intents), patience, done)
            except (VaultError, DiskFull) as error:
                done["left"] += 1
                home.notices[INTENTS_NOTICE] = f"An interrupted write waits to be settled: {error.message}"
            else:
                home.state.intents.drop(write)
    if not done["left"]:
        home.notices.pop(INTENTS_NOTICE, None)
    return done


def _order(intent: Intent) -> tuple[str, float, bytes]:
    return intent.id, intent.started, intent.path


def _settle(home: Home, intents: list[Intent], patience: float | None, done: dict[str, int]) -> None:
    for intent in intents:
        home.vault.remove_stale_lock(intent.pid, intent.started, patience=patience)
        done[home.vault.settle(intent.path, intent.sha256)] += 1


def _differences(home: Home) -> tuple[list[bytes], list[bytes], str | None]:
    """Paths whose file is new or other than known, paths that are gone, and why nothing was compared."""
    try:
        listing = home.vault.listing()
    except VaultError as error:
        return [], [], _refuse(home, error.message)
    unsettled = {intent.path for intent in home.state.intents.all()}
    if listing == home.vault_seen and len(listing) == home.documents.live_count(VAULT_SOURCE):
        return [], [], None
    known = {row.path: row for row in home.documents.current(VAULT_SOURCE)}
    if not listing and known:
        return [], [], _refuse(home, f"The vault {home.vault.path} is suddenly empty; nothing was removed.")
    home.notices.pop("vault", None)
    changed: list[bytes] = []
    settled = dict(listing)
    for path, status in listing.items():
        if path in unsettled:
            settled.pop(path)  # nobody knows yet whether this write holds
        elif not (home.vault_seen.get(path) == status and path in known):
            try:
                one = vault_seen(path, home.vault.read(path))
            except (NotFound, VaultError) as error:
                home.notices[f"vault/{shown_path(path)}"] = error.message
                settled.pop(path)
                continue
            home.notices.pop(f"vault/{shown_path(path)}", None)
            if differs(home, known.get(path), one):
                changed.append(path)
    home.vault_seen.clear()
    home.vault_seen.update(settled)
    return changed, [path for path in known if path not in listing and path not in unsettled], None


def _refuse(home: Home, problem: str) -> str:
    home.notices["vault"] = problem
    return problem
