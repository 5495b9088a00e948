"""How are all views made again from packs and vault alone?

The old generation serves until the new one holds everything and its counts agree; then one pointer moves.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from memoryd.errors import ViewsLost
from memoryd.index.generations import Generation
from memoryd.operations import reconcile
from memoryd.operations.building import Build
from memoryd.operations.home import Home
from memoryd.operations.shadow import take_over

LOOK_SECONDS = 0.05
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
    with home.build_lane:
        replayed = refresh_catalog(home, stop)
        reconcile.look_ahead(home)
        vault = reconcile.reconcile_vault(home)
        generation = _built(home, progress, stop)
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

    Waits for whoever else builds one. Raises IndexProblem where it could not be filled or its counts do not agree,
    OSError.
    """
    with home.build_lane:
        return _built(home, progress, stop)


def _built(home: Home, progress: Progress, stop: Callable[[], bool]) -> Generation | None:
    if home.build is not None:  # the indexing loop's: begun earlier, it knows less
        home.build.end()
        home.build = None
    build = Build(home)
    try:
        while build.served is None and not stop():
            if not build.advance(stop):
                time.sleep(LOOK_SECONDS)
            progress(*build.progress(), "indexing")
    finally:
        build.end()
    return build.served


def refresh_catalog(home: Home, stop: Callable[[], bool]) -> int:
    """Make the catalog anew from every record; answers go on from the rows that are there until it stands."""
    with home.store_lane:
        home.store.rebuild_index()
    return take_over(home, stop)
