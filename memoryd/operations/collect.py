"""How does the room of what nobody needs any more come back, without a moment in which something needed is missing?

Records that are past the configured retention get tombstones. What nothing in force leads to is condemned, with the
time. What was condemned longer than the grace period ago, and is still not needed when looked at again under the store
lane, is left out when its packs are written again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any

from memoryd.digest import raw_address
from memoryd.errors import DiskFull, IndexProblem, PackDamaged, ReachUnknown
from memoryd.operations.home import Home
from memoryd.operations.ingest import bury
from memoryd.operations.roots import Decision, Ledger
from memoryd.records import TombstoneRecord
from memoryd.store import pack as packs
from memoryd.store.condemned import CHUNK, MANIFEST, NODE, WHOLE
from memoryd.store.reach import Live, Reach, unresolved
from memoryd.store.sweep import Sweep, Tally, tally

COLLECTED = "collected"
"""Catalog meta: when the last collection by itself began to count, in seconds since 1970."""
STONES_MOST = 2000
"""Tombstones of one commit."""
TEXTS_PAGE = 5000
HOUR = 3600.0
EXPIRED = "expired: past the retention in force"
Progress = Callable[[int, int, str], None]
Stop = Callable[[], bool]
_log = logging.getLogger(__name__)


def is_due(home: Home) -> bool:
    """Whether `gc.every_hours` have passed since the last time; then they are counted from now on."""
    now, last = home.clock(), home.catalog.meta(COLLECTED)
    if last is not None and 0 <= now - float(last) < home.config.gc.every_hours * HOUR:
        return False
    with home.catalog.write() as tx:
        home.catalog.set_meta(tx, COLLECTED, str(now))
    return last is not None


@dataclass(slots=True)
class Run:
    """One collection under way."""

    home: Home
    now: float
    grace: float
    progress: Progress
    stop: Stop
    decision: Decision = field(default_factory=Decision)
    rewritten: int = 0
    dropped: dict[bytes, int] = field(default_factory=dict)
    dropped_records: int = 0
    unread: list[str] = field(default_factory=list)
    full: str | None = None
    newer_contents: set[bytes] = field(default_factory=set)
    newer_nodes: set[bytes] = field(default_factory=set)


def gc(
    home: Home,
    *,
    dry_run: bool = False,
    now: bool = False,
    progress: Progress = lambda _done, _total, _note: None,
    stop: Stop = lambda: False,
) -> dict[str, Any]:
    """Collect once; counts of what is live, condemned and dropped. `now`: without grace, for who owns the home alone.

    Stopped, or on a disk that is full: what was done stands, a later run goes on. The caller holds no lane. Raises
    ReachUnknown (something that cannot be read may lead to what is needed: nothing was removed), StoreError kinds.
    """
    grace = 0.0 if now else home.config.retention.grace_hours * HOUR
    with home.store_lane:
        home.store.condemned.watch()
    try:
        return _collected(Run(home, home.clock(), grace, progress, stop), dry_run)
    finally:
        home.store.condemned.unwatch()


def _collected(run: Run, dry_run: bool) -> dict[str, Any]:
    home, before = run.home, run.home.store.stats()
    reach = Reach(home.store)
    found = _mark(run, reach, dry_run)
    if found is None:
        return {"stopped": True, "dry_run": dry_run}
    since = _condemned(home, found, run.now)
    sweep = Sweep(home.store, reach, found.shares, {key for key, when in since.items() if run.now - when >= run.grace})
    report = _report(run, reach, found, since, sweep)
    if dry_run:
        return {**report, "dry_run": True, "ok": True}
    sweep_packs(run, reach, sweep)
    left = {key: when for key, when in since.items() if key not in run.dropped}
    told = {**report, **_done(run, left, before.stored_bytes), "embeddings": _forget_embeddings(run)}
    return {**told, "ok": _recount(run, reach)}


def _forget_embeddings(run: Run) -> int:
    """Drop what was cached for texts that no passage holds any more; how many rows that were."""
    held: set[bytes] = set()
    number = 0
    while page := run.home.passages.texts_after(number, TEXTS_PAGE):
        held |= {bytes.fromhex(text) for _, _, text in page}
        number = page[-1][0]
    try:
        return run.home.cache.retain(lambda asked: {one for one in asked if bytes.fromhex(one) in held}, run.stop)
    except (DiskFull, IndexProblem) as error:  # only a view: the next collection tries again
        _log.warning("the embedding cache could not be cleaned: %s", error)
        return 0


def _mark(run: Run, reach: Reach, dry_run: bool) -> Tally | None:
    """Everything that is needed, and what each pack holds of the rest; None where stopped. Raises ReachUnknown."""
    home, ledger = run.home, Ledger()
    run.progress(0, 0, "records and trees")
    if not reach.look(ledger.take, run.stop):
        return None
    decision = run.decision = ledger.decide(home.config.retention, run.now)
    missing = reach.follow(decision.contents, decision.trees, forgotten=decision.forgotten)
    if not dry_run and not _expire(run):
        decision = run.decision = ledger.decide(home.config.retention, run.now, expire=False)
        missing |= reach.follow(decision.contents, decision.trees, forgotten=decision.forgotten)
    run.progress(0, 0, "what each pack holds")
    idle = set() if home.store.in_force()[1] else decision.idle
    found = tally(reach, missing, decision.buried | set(decision.expired), idle, run.stop)
    if run.stop():
        return None
    if found.missing:
        raise unresolved(found.missing)
    return found


def _expire(run: Run) -> bool:
    """Tombstones for what is past its retention; False where a full disk takes none: then all of it stays."""
    waiting = iter(run.decision.expired)
    try:
        while batch := list(islice(waiting, STONES_MOST)):
            with run.home.store_lane:
                bury(run.home, [TombstoneRecord(None, seq, EXPIRED) for seq in batch])
    except DiskFull as error:
        run.full = error.message
        return False
    return True


def _condemned(home: Home, found: Tally, now: float) -> dict[bytes, float]:
    """Every item that is not needed, with the time since when that is known."""
    known = home.store.condemned.since()
    return {key: known.get(key, now) for share in found.shares.values() for key in share.dead}


def sweep_packs(run: Run, reach: Reach, sweep: Sweep) -> None:
    """Carry out a sweep as far as disk and `run.stop` allow; what happened is noted in `run`."""
    waiting = deque(sweep.steps)
    for number in count(1):
        if run.stop() or not waiting:
            return
        run.progress(number, number + len(waiting), "packs")
        step = waiting.popleft()
        try:
            with run.home.store_lane:
                spared = _spared(run, reach, sweep)
                _count(run, sweep, step, sweep.run(step, spared))
        except PackDamaged as error:
            run.unread.append(error.message)
        except DiskFull as error:
            run.full = error.message
            if len(step) > 1:
                waiting.extendleft([pack] for pack in sorted(step, key=sweep.left, reverse=True))


def _spared(run: Run, reach: Reach, sweep: Sweep) -> Live:
    """What came to be needed since the mark: whatever newer packs hold or name, and what write groups found."""
    home, live = run.home, Live()
    contents: set[bytes] = set()
    nodes: set[bytes] = set()

    def take(kind: int, _seq: int, data: dict[str, Any]) -> None:
        if kind == packs.DOCUMENT and data["address"] is not None:
            contents.add(raw_address(data["address"]))
        elif kind == packs.SNAPSHOT:
            nodes.add(bytes.fromhex(data["root"]))

    for pack in home.store.in_force()[0]:
        if pack not in reach.known and pack not in sweep.own:
            for item in reach.look_at(pack, take)[1]:
                if item.kind == packs.TREE:
                    nodes.add(item.digest)
                elif item.kind == packs.MANIFEST or item.whole:
                    contents.add(item.digest)
    asked = home.store.condemned.asked()
    run.newer_contents |= contents | asked
    run.newer_nodes |= nodes | asked
    reach.follow_loosely(live, run.newer_contents, run.newer_nodes)
    live.chunks |= asked
    return live


def _count(run: Run, sweep: Sweep, step: list[bytes], written: bool) -> None:
    if written:
        run.rewritten += len(step)
        run.dropped |= sweep.gone
        run.dropped_records += sum(len(sweep.shares[pack].seqs) for pack in step)


def _report(run: Run, reach: Reach, found: Tally, since: dict[bytes, float], sweep: Sweep) -> dict[str, Any]:
    due = sweep.drop & {key for pack in sweep.chosen for key in found.shares[pack].dead}
    sizes = {key: size for share in found.shares.values() for key, size in share.dead.items()}
    live = reach.live
    return {
        "stopped": False,
        "dry_run": False,
        "grace_hours": round(run.grace / HOUR, 3),
        "expired": {
            "documents": len(run.decision.expired_documents),
            "snapshots": len(run.decision.expired_snapshots),
        },
        "live": {
            "contents": len(live.contents),
            "chunks": found.live_chunks,
            "nodes": len(live.nodes),
            "bytes": found.live_bytes,
        },
        "condemned": _counts(sizes, set(since)),
        "due": _counts(sizes, due),
        "packs": {"all": len(found.shares), "to_rewrite": sum(map(len, sweep.steps))},
    }


def _counts(sizes: dict[bytes, int], keys: set[bytes]) -> dict[str, int]:
    contents = {key[1:] for key in keys if key[:1] in (MANIFEST, WHOLE)}
    chunks = [key for key in keys if key[:1] == CHUNK]
    nodes = sum(1 for key in keys if key[:1] == NODE)
    size = sum(sizes[key] for key in chunks)
    return {"contents": len(contents), "chunks": len(chunks), "nodes": nodes, "bytes": size}


def _done(run: Run, left: dict[bytes, float], stored_before: int) -> dict[str, Any]:
    """Note what stays condemned, and tell what was done."""
    store = run.home.store
    noted = True
    with run.home.store_lane:
        try:
            store.condemned.settle(left)
        except OSError as error:  # only a view: the next collection condemns again
            _log.warning("what is condemned could not be noted: %s", error)
            noted = False
    sizes = dict(run.dropped)
    told: dict[str, Any] = {
        "stopped": run.stop(),
        "dropped": {**_counts(sizes, set(sizes)), "records": run.dropped_records},
        "rewritten": run.rewritten,
        "freed_bytes": stored_before - store.stats().stored_bytes,
        "noted": noted,
    }
    if run.unread:
        told["unreadable"] = run.unread
    if run.full is not None:
        told["disk_full"] = run.full
    return told


def _recount(run: Run, reach: Reach) -> bool:
    """Whether everything that the mark found in force is still there. Raises ReachUnknown."""
    held: set[bytes] = set()
    for pack in run.home.store.in_force()[0]:
        if run.stop():
            return True
        for item in reach.read(pack)[1]:
            if item.kind in (packs.MANIFEST, packs.TREE) or item.whole:
                held.add(item.digest)
    lost = (reach.live.contents | reach.live.nodes) - held
    if lost:
        raise ReachUnknown(f"{len(lost)} contents in force are not found after the collection.", contents=len(lost))
    return run.full is None and not run.unread
