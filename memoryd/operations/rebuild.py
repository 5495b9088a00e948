"""How are all views made again from packs and vault alone?

The old generation serves until the new one holds everything and its counts agree; then one pointer moves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memoryd.errors import IndexMismatch, ViewsLost
from memoryd.index.generations import Generation
from memoryd.operations import indexing, reconcile
from memoryd.operations.home import Home, index_identity
from memoryd.operations.shadow import take_over

Progress = Callable[[int, int, str], None]


def rebuild(
    home: Home,
    *,
    progress: Progress = lambda _done, _total, _note: None,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Catalog from the packs, then a new generation, then the check; returns counts. Stopping leaves the old one.

    Raises ViewsLost where views were removed under a running daemon, StoreError kinds, and IndexMismatch where the new
    generation's counts do not agree with the catalog.
    """
    if lost := home.lost_views():
        raise ViewsLost(f"{', '.join(lost)} were removed while this daemon had them open.", views=lost)
    progress(0, 0, "catalog from packs")
    replayed = refresh_catalog(home, stop)
    reconcile.look_ahead(home)
    vault = reconcile.reconcile_vault(home)
    generation = new_generation(home, progress, stop)
    if generation is None:
        return {"stopped": True, "records": replayed}
    return {
        "stopped": False,
        "records": replayed,
        "vault": vault,
        "documents": home.documents.live_count(),
        "passages": home.passages.count(),
        "generation": generation.number,
    }


def new_generation(home: Home, progress: Progress, stop: Callable[[], bool]) -> Generation | None:
    """Fill a new generation from the catalog and serve it; None where stopped (the old one serves on).

    Raises IndexProblem where its counts do not agree, OSError.
    """
    generation = home.generations.create(index_identity(home))
    finished = False
    try:
        _fill(home, generation, progress, stop)
        if stop():
            return None
        _require_counts(home, generation)
        finished = True
    finally:
        if not finished:
            generation.close()
            home.generations.collect()
    swap(home, generation)
    return generation


def refresh_catalog(home: Home, stop: Callable[[], bool]) -> int:
    """Make the catalog anew from every record; answers go on from the rows that are there until it stands."""
    with home.store_lane:
        home.store.rebuild_index()
    return take_over(home, stop)


def _fill(home: Home, generation: Generation, progress: Progress, stop: Callable[[], bool]) -> None:
    while not stop():
        total = home.documents.live_count()
        left = indexing.pending(home, generation)
        progress(max(0, total - left), total, "indexing")
        if not indexing.step(home, generation, stop):
            return


def _require_counts(home: Home, generation: Generation) -> None:
    mismatches = generation.mismatches()
    if mismatches:
        raise next(iter(mismatches.values()))
    mark = generation.watermark
    expected = indexing.embeddable(home)
    if mark.vector_seq == home.documents.last_seq() and mark.vector_count != expected:
        raise IndexMismatch(f"The new generation holds {mark.vector_count} of {expected} passages.", leg="vectors")


def swap(home: Home, generation: Generation) -> None:
    """Serve `generation` from now on and remove the others."""
    with home.index_lane:
        home.generations.publish(generation)
        old, home.generation = home.generation, generation
        home.heal.clear()
        if old is not None:
            old.close()
        home.generations.collect()
    home.work.set()
