"""What did people change in the vault by hand, and how does the catalog follow?

The working tree is compared with what was last seen (by file status first, by bytes where that differs). A vault that
cannot be read, or is suddenly empty, removes nothing: absence is not deletion.
"""

from __future__ import annotations

from typing import Any

from memoryd.digest import address_of
from memoryd.errors import NotFound, VaultError
from memoryd.operations.home import Home
from memoryd.operations.ingest import Seen, store_documents, vault_seen
from memoryd.records import VAULT_SOURCE, shown_path

VAULT_COMMIT = "vault_commit"


def reconcile_vault(home: Home) -> dict[str, Any]:
    """Follow the working tree once; returns counts `added`, `changed`, `removed`, the `head`, and `problem`."""
    with home.vault_lane:
        seen, report = _differences(home)
        head = home.vault.head() or ""
    if seen:
        store_documents(home, seen)
    if home.catalog.meta(VAULT_COMMIT) != head:
        with home.catalog.write() as tx:
            home.catalog.set_meta(tx, VAULT_COMMIT, head)
    return {**report, "head": head}


def _differences(home: Home) -> tuple[list[Seen], dict[str, Any]]:
    report: dict[str, Any] = {"added": 0, "changed": 0, "removed": 0, "problem": None}
    try:
        listing = home.vault.listing()
    except VaultError as error:
        return [], _refuse(home, report, error.message)
    if listing == home.vault_seen and len(listing) == home.documents.live_count(VAULT_SOURCE):
        return [], report
    known = {row.path: row for row in home.documents.current(VAULT_SOURCE)}
    if not listing and known:
        return [], _refuse(home, report, f"The vault {home.vault.path} is suddenly empty; nothing was removed.")
    home.notices.pop("vault", None)
    found: list[Seen] = []
    settled = dict(listing)
    for path, status in listing.items():
        if home.vault_seen.get(path) == status and path in known:
            continue
        try:
            data = home.vault.read(path)
        except (NotFound, VaultError) as error:
            home.notices[f"vault/{shown_path(path)}"] = error.message
            settled.pop(path)
            continue
        home.notices.pop(f"vault/{shown_path(path)}", None)
        row = known.get(path)
        one = vault_seen(path, data)
        if row is None or row.address != address_of(data) or row.scope != one.scope:
            report["added" if row is None else "changed"] += 1
            found.append(one)
    for path, row in known.items():
        if path not in listing:
            report["removed"] += 1
            found.append(Seen(VAULT_SOURCE, path, row.scope, "memory", None))
    home.vault_seen.clear()
    home.vault_seen.update(settled)
    return found, report


def _refuse(home: Home, report: dict[str, Any], problem: str) -> dict[str, Any]:
    home.notices["vault"] = problem
    return {**report, "problem": problem}
