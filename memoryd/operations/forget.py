"""How does a person erase a secret, so that nothing of it is left and no rebuild brings it back?

The memory's file leaves the vault by a commit, tombstones make it final, traces outside the packs go, and the packs are
written again without it. Each step may be interrupted; the same call goes on then.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from memoryd.digest import PREFIX, address_of
from memoryd.errors import DiskFull, HomeError, NotFound, StoreError, VaultError
from memoryd.operations import burial, collect, erase
from memoryd.operations.erasure import Plan, holding
from memoryd.operations.home import Home, timestamp
from memoryd.operations.ingest import bury
from memoryd.operations.kept import shown
from memoryd.operations.purge import git_history
from memoryd.operations.recover import open_generation, tell_interrupted
from memoryd.records import DocumentEvent, TombstoneRecord

Progress = Callable[[int, int, str], None]


def run(
    home: Home, made: Plan, *, reason: str = "forgotten", progress: Progress = lambda _d, _t, _n: None
) -> dict[str, Any]:
    """Erase it; what was done, and what git still holds. The caller owns the home alone and asked a person.

    Raises VaultError kinds (nothing was erased yet), StoreError and HomeError kinds: the same call goes on then.
    """
    try:
        return _run(home, made, reason, progress) if made.addresses else _snapshots_only(home, made, reason)
    except OSError as error:
        kind = DiskFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else HomeError
        told = f"The erasure was cut off: {error.strerror or error}."
        raise kind(told, next_step="Mend that, then give the same command again: it goes on.") from error


def _run(home: Home, made: Plan, reason: str, progress: Progress) -> dict[str, Any]:
    assert made.reach is not None and made.sweep is not None
    git = git_history(home, [row.path for row in made.rows.values()], made.text)
    mark = home.root / burial.MARKER
    home.store.release_reserve()  # on a full disk the first steps need a little room, the next ones give some back
    before, needs_text = set(burial.interrupted(home)), burial.interrupted_by_text(home)
    by_text = needs_text or bool(made.text)
    home.files.replace(mark, burial.marker(made.addresses | before, by_text), owner=erase.OWNER)
    progress(1, 6, "vault")
    commit = _leave_vault(home, made)
    progress(2, 6, "tombstones")
    _bury(home, made, reason)
    progress(3, 6, "indexes")
    traces = made.traces
    remote = erase.drop_indexes(home)
    done: dict[str, Any] = {"set_aside": erase.drop_set_aside(home) + erase.drop_quarantined(home, traces)}
    progress(4, 6, "logs and caches")
    done |= {"logs": erase.redact_logs(home, traces), "rows": erase.forget_views(home, traces)}
    progress(5, 6, "packs")  # last: the contents tell what to look for elsewhere, also when this is begun again
    done["packs"] = _rewrite(home, made)
    home.store.damaged.difference_update(made.addresses)
    open_generation(home)
    remaining = _remaining(home, made) + remote
    unfinished = before if needs_text and not made.text else before - made.addresses
    if unfinished or remaining:
        home.files.replace(mark, burial.marker(unfinished or made.addresses, by_text), owner=erase.OWNER)
    else:
        home.files.unlink(mark, owner=erase.OWNER)
    tell_interrupted(home)
    progress(6, 6, "done")
    snapshots = [shown(record) for record in made.snapshots]
    told = {"forgotten": sorted(made.addresses), "snapshots": snapshots, "commit": commit}
    return {**told, **done, "remains": remaining, "git": git}


def _snapshots_only(home: Home, made: Plan, reason: str) -> dict[str, Any]:
    """Records of snapshots alone: nothing of theirs lies elsewhere, and a collection takes what only they need."""
    _bury(home, made, reason)
    told = {"forgotten": [], "snapshots": [shown(record) for record in made.snapshots], "commit": None}
    empty = {"set_aside": [], "logs": {}, "rows": {}, "packs": 0, "remains": []}
    return {**told, **empty, "git": git_history(home, [])}


def _leave_vault(home: Home, made: Plan) -> str | None:
    """Remove the memories' files, and any other file with the very bytes, by one commit."""
    with home.vault_lane:
        paths = {row.path for row in made.rows.values()}  # a removal that was cut off may wait for its commit
        paths |= {path for path in home.vault.listing() if _address_in(home, path) in made.addresses}
        home.vault_seen.clear()
        return home.vault.remove(sorted(paths), f"Forget {len(paths)} file(s)") if paths else None


def _address_in(home: Home, path: bytes) -> str | None:
    try:
        return address_of(home.vault.read(path))
    except (NotFound, VaultError):
        return None


def _bury(home: Home, made: Plan, reason: str) -> None:
    """The commit point: from here on no rebuild brings it back."""
    known = burial.standing(home)
    stones = [TombstoneRecord(one, None, reason) for one in sorted(made.addresses - known)]
    stones += [TombstoneRecord(None, seq, reason) for seq in made.targets]
    now = timestamp(home)
    gone = [
        DocumentEvent(row.source, row.path, row.scope, row.kind, "gone", None, 0, observed=now)
        for row in made.current.values()
    ]
    if stones or gone:
        with home.store_lane:
            bury(home, stones, gone)


def _rewrite(home: Home, made: Plan) -> int:
    """Write every pack again that holds bytes of it; how many. Raises StoreError kinds where one could not be."""
    assert made.reach is not None and made.sweep is not None
    work = collect.Run(home, home.clock(), 0.0, lambda _d, _t, _n: None, lambda: False)
    collect.sweep_packs(work, made.reach, made.sweep)
    if work.unread:
        raise StoreError(f"{len(work.unread)} packs could not be written again: {work.unread[0]}")
    if work.rewritten < len(made.sweep.chosen) and work.full is not None:
        raise DiskFull(
            f"{work.full} Not every pack was written again.", next_step="Free disk space, then forget again."
        )
    return work.rewritten


def _remaining(home: Home, made: Plan) -> list[str]:
    """Where the words, or bytes only they had, still stand; nothing else than git's history is expected."""
    left = [PREFIX + one.hex() for one in sorted(made.raw()) if home.store.size(PREFIX + one.hex()) is not None]
    with home.store_lane:
        home.store.sweep_replaced()
        left += [f"replaced pack {one.hex()}" for one in sorted(home.store.in_force()[1])]
    left += [one.hex() for one, places in home.store.chunk_places(sorted(made.traces.chunks)).items() if places]
    if made.text:
        left += sorted(holding(home, made.text))
        left += erase.remains(home, [made.text])
    return left
