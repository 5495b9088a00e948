"""What must happen between opening a home and serving it?

In order: packs into the catalog, interrupted memory writes rolled forward or undone, the vault's working tree against
what was last seen, then the current index generation. Everything here may be interrupted and simply runs again.
"""

from __future__ import annotations

from typing import Any

from memoryd.errors import DiskFull, IndexProblem
from memoryd.operations.home import Home, index_identity
from memoryd.operations.ingest import replay
from memoryd.operations.reconcile import reconcile_vault, settle_intents
from memoryd.operations.shadow import sweep


def recover(home: Home) -> dict[str, Any]:
    """Make a freshly opened home serve-ready; returns what was done. Raises StoreError, VaultError kinds."""
    sweep(home.root)
    home.jobs.abandon_running()
    replayed = replay(home)
    intents = settle_intents(home)
    vault = reconcile_vault(home)
    open_generation(home)
    return {"replayed": replayed, "intents": intents, "vault": vault}


def open_generation(home: Home) -> None:
    """Open the current generation, or begin an empty one that the indexing loop fills (its backlog is told)."""
    identity = index_identity(home)
    current = home.generations.open_current(identity)
    if current is not None and current.watermark.lexical_seq > home.documents.last_seq():
        current.close()  # it belongs to records that are no longer there: the numbers begin anew
        current = None
    if current is None:
        try:
            current = home.generations.create(identity)
        except (IndexProblem, DiskFull) as error:
            home.notices["index"] = f"No index could be made: {error.message}"
            return  # everything stored stays readable; the indexing loop tries again
        home.generations.publish(current)
        home.generations.collect()
    home.notices.pop("index", None)
    home.generation = current
    home.work.set()
