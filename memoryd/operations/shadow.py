"""What would the catalog hold if it were made from the packs alone?

A second catalog beside the first one is filled from every record: a rebuild takes its rows over, a check compares them.
Until then answers go on from the rows that are there; a crash leaves a file that the next start removes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from memoryd.catalog.db import Database
from memoryd.catalog.documents import DocumentRow, Documents
from memoryd.catalog.jobs import Jobs
from memoryd.catalog.memories import Memories
from memoryd.catalog.passages import Passages
from memoryd.catalog.schema import CATALOG
from memoryd.catalog.scopes import Scopes
from memoryd.catalog.snapshots import Snapshots
from memoryd.errors import IndexProblem
from memoryd.operations import ingest
from memoryd.operations.filling import Filling, orders_for
from memoryd.operations.home import Home

PAGE = 1000
BESIDE_FROM = 500
"""Records from which on another process replays them: starting it takes about half a second."""
_log = logging.getLogger(__name__)


@contextmanager
def shadow(home: Home, stop: Callable[[], bool]) -> Iterator[Home]:
    """The home on a new catalog that holds what the packs say (less, where stopped); it is removed at the end.

    The caller holds no lane, and takes the store lane and `ingest.replay_rest` for the records written meanwhile.
    Raises StoreError kinds.
    """
    sweep(home.root)
    if home.store.last_seq() >= BESIDE_FROM:
        _replay_beside(home, stop)
    database = Database(_path(home.root), CATALOG)
    try:
        fresh = _on(home, database)
        ingest.replay(fresh, stop=stop)
        yield fresh
    finally:
        database.close()
        sweep(home.root)


def _on(home: Home, database: Database) -> Home:
    return replace(
        home,
        catalog=database,
        scopes=Scopes(database),
        documents=Documents(database),
        memories=Memories(database),
        passages=Passages(database),
        jobs=Jobs(database),
        snapshots=Snapshots(database),
    )


def _replay_beside(home: Home, stop: Callable[[], bool]) -> None:
    """Let another process replay: it costs 0.3 ms a record, in which no thread of this process would get on well.

    What it leaves undone (it ended, or was stopped) is done here.
    """
    orders = orders_for(home, "catalog", _path(home.root), home.store.last_seq())
    try:
        with closing(Filling(orders, home.root)) as filling:
            home.notices |= (filling.wait(stop) or {}).get("notices", {})
    except IndexProblem as problem:
        _log.warning("%s", problem.message)


def replayed(home: Home, path: Path, progress: Callable[[int], None]) -> int:
    """Make a catalog of every record, in `path`; how many records that took. Raises StoreError kinds."""
    database = Database(path, CATALOG)
    try:
        fresh = _on(home, database)

        def tell() -> bool:
            progress(ingest.applied(fresh))
            return False

        return ingest.replay(fresh, stop=tell)
    finally:
        database.close()


def sweep(root: Path) -> None:
    """Remove what a process that ended in the middle left behind."""
    path = _path(root)
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _path(root: Path) -> Path:
    return root / "catalog.db.new"


def take_over(home: Home, stop: Callable[[], bool]) -> int:
    """Give the catalog exactly the rows that the packs tell; returns how many records that took. Stopped: no change.

    The caller holds no lane. Raises StoreError kinds.
    """
    with shadow(home, stop) as fresh:
        if stop():
            return ingest.applied(fresh)
        with home.store_lane:
            ingest.replay_rest(fresh)
            home.catalog.take_over(fresh.catalog.path)
    with home.vault_lane:
        home.vault_seen.clear()  # the next look compares every file with the new rows
    return ingest.applied(home)


def differing(home: Home, stop: Callable[[], bool]) -> tuple[list[DocumentRow], list[DocumentRow]]:
    """Documents that the catalog and the packs tell differently, and those whose content cannot be read.

    The caller holds no lane. Raises StoreError kinds.
    """
    with home.build_lane, shadow(home, stop) as fresh:
        if stop():
            return [], []
        with home.store_lane:
            ingest.replay_rest(fresh)
            if ingest.applied(home) != ingest.applied(fresh):
                return [], list(unread(fresh))  # what is not applied yet is told as such
            wrong = {row.document_id: row for row in _wrong(fresh, home)}
            wrong |= {row.document_id: row for row in _wrong(home, fresh)}
            return list(wrong.values()), list(unread(fresh))


def unread(home: Home) -> Iterator[DocumentRow]:
    """Documents whose content could not be read when the catalog took them in."""
    for source in home.documents.sources():
        yield from (row for row in home.documents.with_problems(source) if row.extractor == ingest.UNREAD)


def _wrong(one: Home, other: Home) -> Iterator[DocumentRow]:
    last = 0
    while rows := one.documents.changed_after(last, PAGE):
        found = other.documents.get_many([row.document_id for row in rows])
        for row in rows:
            twin = found.get(row.document_id)
            if twin is None or (_told(row) != _told(twin) and ingest.UNREAD not in (row.extractor, twin.extractor)):
                yield row
        last = rows[-1].seq


def _told(row: DocumentRow) -> tuple[object, ...]:
    """What the records say of a document; what was derived from its content counts only while it is there."""
    if row.address is None:
        return row.scope, row.kind, row.tags, row.seq
    return row.scope, row.address, row.kind, row.type, row.status, row.tags, row.title, row.seq
