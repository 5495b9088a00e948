"""What did people change in the vault by hand, and how does the catalog follow?

Interrupted writes are settled first. Then the working tree is compared with what was last seen (by file status first,
by bytes where that differs). Absence is not deletion: a vault that cannot be read, or whose working tree lost most of
its files at once while HEAD still holds them, is taken for not mounted, and nothing is removed until the files are back
or git has the deletion.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any

from memoryd.catalog.documents import DocumentRow
from memoryd.catalog.state import Intent
from memoryd.digest import address_of, document_id
from memoryd.errors import NotFound, StoreError, VaultError
from memoryd.operations.fresh import damaged_files, holds, take_files
from memoryd.operations.home import Home
from memoryd.operations.ingest import follow_packs
from memoryd.records import VAULT_SOURCE, shown_path
from memoryd.sources import entry

VAULT_COMMIT = "vault_commit"
VAULT_ABSENT = "vault_absent"
"""Catalog meta: `1` while the working tree is taken for not mounted; it outlives restarts and later writes."""
FEW = 2
"""So many files may vanish at once and are believed to be deleted by hand."""
TREE_BATCH = 500
DISK_NOTICE = "disk"
"""Told while a full disk keeps the catalog from following; the next look that succeeds takes it back."""
INTENTS_NOTICE = "vault/interrupted"
MERGE_NOTICE = "vault/merge"
PASSED = "A link or special file: it is passed over, whatever it leads to."


def reconcile_vault(home: Home) -> dict[str, Any]:
    """Follow the working tree once; returns counts `added`, `changed`, `removed`, the `head`, and `problem`."""
    follow_packs(home)
    intents = settle_intents(home, patience=0.0)
    with home.vault_lane:
        head = home.vault.head() or ""
        changed, gone, problem = _differences(home, head)
    try:
        counts = take_files(home, changed, gone)
    except StoreError:
        for path in changed:
            home.vault_seen.pop(path, None)  # looked at, but not taken in: the next poll looks again
        raise
    if home.catalog.meta(VAULT_COMMIT) != head:
        with home.catalog.write() as tx:
            home.catalog.set_meta(tx, VAULT_COMMIT, head)
    home.notices.pop(DISK_NOTICE, None)
    return {**counts, "problem": problem, "head": head, "left": intents["left"]}


def look_ahead(home: Home) -> None:
    """Note which files hold what the catalog says, so that the next look, which holds the vault lane, need not read
    them. The caller holds no lane: writes go on meanwhile."""
    try:
        with home.vault_lane:
            listing = home.vault.listing()
    except VaultError:
        return  # the look itself tells
    known = {row.path: row for row in home.documents.current(VAULT_SOURCE)}
    same = {}
    for path, status in listing.items():
        with suppress(NotFound, VaultError):
            if path in known and holds(home, known[path], home.vault.read(path)):
                same[path] = status
    with home.vault_lane:
        home.vault_seen.update(same)


def settle_intents(home: Home, *, patience: float | None = None) -> dict[str, int]:
    """Finish or undo each memory write that was interrupted; counts `forward` and `undone` files, `left` writes.

    What cannot be settled now (a git of someone else holds a lock, for which `patience` seconds are waited) is left,
    told in the home's notices and tried again at the next call.
    """
    done = {"forward": 0, "undone": 0, "left": 0}
    with home.vault_lane:
        _settle_merge(home, patience)
        for write, intents in groupby(sorted(home.state.intents.all(), key=_order), key=lambda one: one.id):
            try:
                _settle(home, list(intents), patience, done)
                home.state.intents.drop(write)
            except (VaultError, StoreError) as error:  # also where state.db takes no writes: the vault goes on
                done["left"] += 1
                home.notices[INTENTS_NOTICE] = f"An interrupted write waits to be settled: {error.message}"
    if not done["left"]:
        home.notices.pop(INTENTS_NOTICE, None)
    return done


def _settle_merge(home: Home, patience: float | None) -> None:
    try:
        home.vault.settle_merge(patience=patience)
    except VaultError as error:
        home.notices[MERGE_NOTICE] = f"A merge that was cut off waits to be settled: {error.message}"
    else:
        home.notices.pop(MERGE_NOTICE, None)


def _order(intent: Intent) -> tuple[str, float, bytes]:
    return intent.id, intent.started, intent.path


def _settle(home: Home, intents: list[Intent], patience: float | None, done: dict[str, int]) -> None:
    for intent in intents:
        home.vault.remove_stale_lock(intent.pid, intent.started, patience=patience)
        done[home.vault.settle(intent.path, intent.sha256, parent=intent.parent)] += 1


def _differences(home: Home, head: str) -> tuple[list[bytes], list[bytes], str | None]:
    """Paths whose file is new or other than known, paths that are gone, and why nothing is removed."""
    try:
        listing = home.vault.listing()
    except VaultError as error:
        return [], [], _refuse(home, error.message)
    _tell_passed(home)
    unsettled = {intent.path for intent in home.state.intents.all()}
    for path in damaged_files(home):
        home.vault_seen.pop(path, None)  # look at it again: its file heals what the packs lost
    if listing == home.vault_seen and len(listing) == home.documents.live_count(VAULT_SOURCE):
        _note_absence(home, None)
        return [], [], None
    known = {row.path: row for row in home.documents.current(VAULT_SOURCE)}
    missing = [path for path in known if path not in listing and path not in unsettled]
    seen_before = dict(home.vault_seen)
    changed = _changed(home, listing, known, unsettled)
    lost = _not_moved(home, missing, known, changed) if missing else []
    problem = _not_mounted(home, head, lost, known, listing, seen_before) if lost else None
    _note_absence(home, problem)
    return list(changed), [path for path in missing if not problem or path not in lost], problem


def _not_moved(
    home: Home, missing: Sequence[bytes], known: Mapping[bytes, DocumentRow], changed: Mapping[bytes, str]
) -> list[bytes]:
    """Missing paths whose memory lies at no other place now: a move is no absence."""
    arrived = set(changed.values())
    left = [path for path in missing if known[path].address not in arrived]
    rows = home.memories.of_documents([document_id(VAULT_SOURCE, path) for path in left]) if changed and left else {}
    ids = {row.path: row.fields.id for row in rows.values()}
    elsewhere = {_id_at(home, path) for path in changed} if ids else set()
    return [path for path in left if ids.get(path) is None or ids[path] not in elsewhere]


def _id_at(home: Home, path: bytes) -> str | None:
    with suppress(NotFound, VaultError):
        return entry.parse(home.vault.read(path)).fields.id
    return None


def _tell_passed(home: Home) -> None:
    """Name the links and special files that look like memories; those that are gone are named no more."""
    passed = {f"vault/{shown_path(path)}" for path in home.vault.passed}
    for topic in [topic for topic, text in list(home.notices.items()) if text == PASSED and topic not in passed]:
        home.notices.pop(topic, None)
    home.notices.update(dict.fromkeys(passed, PASSED))


def _changed(
    home: Home, listing: Mapping[bytes, object], known: Mapping[bytes, DocumentRow], unsettled: Collection[bytes]
) -> dict[bytes, str]:
    """Paths whose file is new or other than known, with its address; what was looked at is noted as seen."""
    changed: dict[bytes, str] = {}
    settled = dict(listing)
    for path, status in listing.items():
        if path in unsettled:
            settled.pop(path)  # nobody knows yet whether this write holds
        elif not (home.vault_seen.get(path) == status and path in known):
            try:
                data = home.vault.read(path)
            except (NotFound, VaultError) as error:
                home.notices[f"vault/{shown_path(path)}"] = error.message
                settled.pop(path)
                continue
            home.notices.pop(f"vault/{shown_path(path)}", None)
            if not holds(home, known.get(path), data):
                changed[path] = address_of(data)
    home.vault_seen.clear()
    home.vault_seen.update(settled)
    return changed


def _not_mounted(
    home: Home,
    head: str,
    missing: Sequence[bytes],
    known: Collection[bytes],
    listing: Collection[bytes],
    seen: Collection[bytes],
) -> str | None:
    """Why the missing files are taken for absent rather than deleted; None: a person deleted them."""
    held = _held(home, head, missing)
    if not held:  # git has the deletion; without a commit since the last look nobody told it to git
        unsaid = not listing and head == home.catalog.meta(VAULT_COMMIT)
        return _absence(home, missing, listing) if unsaid else None
    emptied = not any(path in listing for path in (seen or known)) and (len(held) > 1 or not listing)
    most = len(held) > FEW and 2 * len(held) >= len(known)
    if emptied or most or home.catalog.meta(VAULT_ABSENT):
        return _absence(home, held, listing)
    return None


def _held(home: Home, head: str, paths: Sequence[bytes]) -> list[bytes]:
    """Those of the paths that HEAD holds; all of them where there is no commit."""
    if not head:
        return list(paths)
    held: list[bytes] = []
    for start in range(0, len(paths), TREE_BATCH):
        entries = home.vault.git.tree_entries(head, paths[start : start + TREE_BATCH])
        held += [path for path, blob in entries.items() if blob is not None]
    return held


def _absence(home: Home, paths: Sequence[bytes], listing: Collection[bytes]) -> str:
    folder = shown_path(min(paths).rpartition(b"/")[0]) or "its top"  # a name may tell what another project decided
    what = f"lacks {len(paths)} files, first in {folder}" if listing else "is suddenly empty"
    step = "Mount or restore it (`git checkout -- .`), or commit the deletion with git."
    return f"The vault {home.vault.path} {what}; nothing was removed. {step}"


def _note_absence(home: Home, problem: str | None) -> None:
    """Keep in mind, beyond a restart, that files are absent; or that they are not."""
    mark = "1" if problem else ""
    if (home.catalog.meta(VAULT_ABSENT) or "") != mark:
        with home.catalog.write() as tx:
            home.catalog.set_meta(tx, VAULT_ABSENT, mark)
    if problem:
        _refuse(home, problem)
    else:
        home.notices.pop("vault", None)


def _refuse(home: Home, problem: str) -> str:
    home.notices["vault"] = problem
    return problem
