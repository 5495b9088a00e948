"""What must happen between opening a home and serving it?

In order: packs into the catalog, interrupted memory writes rolled forward or undone, the vault's working tree against
what was last seen, then the current index generation. Everything here may be interrupted and simply runs again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from memoryd.errors import DiskFull, IndexOutdated, IndexProblem
from memoryd.operations import burial
from memoryd.operations.home import Home, index_identity
from memoryd.operations.ingest import replay
from memoryd.operations.reconcile import DISK_NOTICE, reconcile_vault, settle_intents
from memoryd.operations.shadow import sweep

Done = TypeVar("Done")
COLLECT_TRIES = 60
COLLECT_PAUSE = 0.05
_log = logging.getLogger(__name__)
FORGET_NOTICE = "forget"
NAMED_MOST = 20


def recover(home: Home) -> dict[str, Any]:
    """Make a freshly opened home serve-ready; returns what was done (None: the disk has no room for it now).

    A full disk stops no start: everything stored is readable, and the background work tries again what was left.
    Raises StoreError, VaultError kinds.
    """
    sweep(home.root)
    _room_permitting(home, home.jobs.abandon_running)
    replayed = _room_permitting(home, lambda: replay(home))
    intents = settle_intents(home)
    vault = _room_permitting(home, lambda: reconcile_vault(home))
    open_generation(home)
    tell_interrupted(home)
    home.opening.hold()
    return {"replayed": replayed, "intents": intents, "vault": vault}


def tell_interrupted(home: Home) -> None:
    """Let everybody know of an erasure that is to be gone on with, as long as there is one."""
    home.notices.pop(FORGET_NOTICE, None)
    if left := burial.interrupted(home):
        step = f"Run `memoryd forget {' '.join(left[:NAMED_MOST])}` again."
        if burial.interrupted_by_text(home):
            step = f"{step[:-1]}, with --text again and the same words."
        home.notices[FORGET_NOTICE] = f"An erasure of {len(left)} contents did not come to its end. {step}"


def _room_permitting(home: Home, step: Callable[[], Done]) -> Done | None:
    try:
        return step()
    except DiskFull as error:
        home.notices[DISK_NOTICE] = f"What is new is not taken in: {error.message} {error.next_step}"
        return None


def open_generation(home: Home) -> None:
    """Open the current generation, or begin an empty one that the indexing loop fills (its backlog is told).

    One that was made for another model, other analysers or passages serves on as far as it can: its successor is built
    in the background.
    """
    identity = index_identity(home)
    current = home.generations.open_current(identity)
    if current is None and isinstance(home.generations.reason, IndexOutdated):
        current = home.generations.open_former(identity)
    if current is not None and current.watermark.lexical_seq > home.documents.last_seq():
        current.close()  # it belongs to records that are no longer there: the numbers begin anew
        current = None
    if current is None:
        try:
            current = home.generations.create(identity)
            home.generations.publish(current)
            home.generations.collect()
        except (IndexProblem, DiskFull, OSError) as error:
            if current is not None:
                current.close()
            home.notices["index"] = f"No index could be made: {error}"
            return  # everything stored stays readable; the indexing loop tries again
    home.notices.pop("index", None)
    home.generation = current
    _collect(home)
    home.work.set()


def _collect(home: Home) -> None:
    """Remove what was half built. A process that filled it ends with its daemon, but a moment later."""
    for _ in range(COLLECT_TRIES):
        with suppress(OSError):
            home.generations.collect()
            return
        time.sleep(COLLECT_PAUSE)
    _log.warning("not everything in %s could be removed; the next generation tries again", home.generations.root)
