"""How is the state of a directory kept?"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memoryd.catalog.statcache import StatCache
from memoryd.digest import PREFIX
from memoryd.errors import HomeError, InvalidInput, NotFound, SnapshotError, SnapshotIncomplete, StoreError
from memoryd.operations import burial, callers
from memoryd.operations.calm import rarely_collected
from memoryd.operations.home import Caller, Home, timestamp
from memoryd.operations.inputs import checked_line
from memoryd.operations.kept import place_text, shown
from memoryd.operations.treewalk import Seen, Stopped, TreeWalk
from memoryd.operations.treewriter import TreeWriter
from memoryd.records import GLOBAL_SCOPE, SnapshotRecord, shown_path

LABEL_LIMIT = 100
_NUMBER = re.compile(r"[0-9]{1,18}")
Progress = Callable[[int, int, str], None]


def take(
    home: Home,
    caller: Caller,
    *,
    path: str,
    label: str | None = None,
    scope: str | None = None,
    full: bool = False,
    partial: bool = False,
    progress: Progress = lambda _done, _total, _note: None,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Keep the state of a directory; the same state under the same label once more is the same snapshot.

    `full` reads every file, also those that look unchanged; `partial` keeps what could be read where something could
    not. The caller holds no lane. Raises InvalidInput, NotFound, SnapshotIncomplete, SnapshotError, ScopeError and
    StoreError kinds. Stopped: nothing is recorded.
    """
    root = _directory(home, caller, path)
    name = _label(home, label, root)
    chosen = _scope(home, caller, scope, root)
    with _stat_cache(home) as cache, rarely_collected():
        writer = TreeWriter(home, cache)
        erased = frozenset(bytes.fromhex(one.removeprefix(PREFIX)) for one in burial.standing(home))
        walk = TreeWalk(home, root, writer, cache=cache, full=full, forgotten=erased, progress=progress, stop=stop)
        try:
            address = walk.take()
        except Stopped:
            writer.flush()
            return {"stopped": True, "label": name, "path": place_text(root), "read_files": walk.seen.read_files}
        except OSError as error:
            raise SnapshotError(f"{root} cannot be read: {error.strerror}.", path=place_text(root)) from error
        if walk.seen.unread_count and not partial:
            writer.flush()  # the next attempt need not read it again
            raise _incomplete(root, walk.seen)
        record = SnapshotRecord(
            name,
            place_text(root),
            chosen,
            address.hex(),
            timestamp(home),
            files=walk.seen.files,
            size=walk.seen.size,
            left_out=walk.seen.unread_count,
        )
        known = _same(home, record)
        kept = writer.finish(known or record)
    return {"outcome": "exists" if known else "added", **shown(kept), **_met(walk.seen, writer)}


def _directory(home: Home, caller: Caller, path: str) -> Path:
    if not path or "\0" in path:
        raise InvalidInput("`path` must name a directory.", parameter="path")
    place = Path(os.path.realpath(Path(caller.directory or "/") / Path(path)))
    if not place.is_dir():
        raise NotFound(f"{place_text(place)} is no directory.", next_step="Name an existing directory.")
    for own in home.reserved:
        if place.is_relative_to(os.path.realpath(own)):
            raise InvalidInput(f"{place_text(place)} belongs to memoryd itself.", next_step="Name another directory.")
    return place


def _label(home: Home, label: str | None, root: Path) -> str:
    found = checked_line("label", label if label is not None else shown_path(os.fsencode(root.name)), LABEL_LIMIT)
    if not found:
        raise InvalidInput("This directory has no name: give a label.", parameter="label")
    if "@" in found or _NUMBER.fullmatch(found) or found.startswith(PREFIX):
        raise InvalidInput("A label holds no `@`, is no number and no address.", parameter="label")
    if any(corpus.label == found for corpus in home.config.corpora):
        raise InvalidInput(f"`{found}` is the label of a corpus, whose scans are kept under it.", parameter="label")
    return found


def _scope(home: Home, caller: Caller, scope: str | None, root: Path) -> str:
    """The named scope, else that of the directory's project, else the caller's, else `global`."""
    there = Caller(os.fspath(root), caller.name)
    if scope is None and callers.project(home, there) is not None:
        return callers.writable(home, there, None)
    if scope is None and callers.project(home, caller) is None:
        return GLOBAL_SCOPE
    return callers.writable(home, caller, scope)


@contextmanager
def _stat_cache(home: Home) -> Iterator[StatCache | None]:
    """The home's stat cache; None where it cannot be opened or written: then every file is read."""
    try:
        cache = StatCache(home.root / "stats.db")
    except (HomeError, StoreError):
        yield None
        return
    try:
        yield cache
    finally:
        cache.close()


def _incomplete(root: Path, seen: Seen) -> SnapshotIncomplete:
    first = seen.unread[0]
    return SnapshotIncomplete(
        f"{seen.unread_count} of the entries of {place_text(root)} could not be read, "
        f"first {first['path']}: {first['reason']}. Nothing was recorded.",
        unread=seen.unread,
    )


def _same(home: Home, record: SnapshotRecord) -> SnapshotRecord | None:
    """The newest snapshot of this label, where it tells exactly this."""
    before = home.snapshots.labelled(record.label, [record.scope])
    if not before:
        return None
    told = ("source", "root", "left_out")
    last = before[-1]
    return last if all(getattr(last, name) == getattr(record, name) for name in told) else None


def _met(seen: Seen, writer: TreeWriter) -> dict[str, Any]:
    return {
        "directories": seen.directories,
        "read_files": seen.read_files,
        "reused_files": seen.reused_files,
        "read_bytes": writer.stored,
        "unread": seen.unread,
        "skipped": seen.skipped,
        "unsteady": seen.unsteady,
    }
