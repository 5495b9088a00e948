"""How does a damaged home become whole again, as far as anything of it still exists?

Without `apply` nothing is changed and the plan is told. Damaged packs are kept in quarantine and replaced by what is
sound of them; lost contents are stored again from wherever their very bytes still lie; lost records come from the
catalog; then catalog and indexes follow. What cannot be brought back is named until somebody adds it again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from memoryd.digest import PREFIX
from memoryd.index.generations import Generation
from memoryd.operations import indexing, shadow
from memoryd.operations.check import check
from memoryd.operations.home import Home
from memoryd.operations.ingest import GROUP_BYTES
from memoryd.operations.legs import index_vectors
from memoryd.operations.losses import Losses, find, named_by, readable, unread_nodes
from memoryd.operations.rebuild import new_generation
from memoryd.operations.refill import (
    lies_in_quarantine,
    nodes_of_corpora,
    still_there,
    store_large,
    take_from_quarantine,
)
from memoryd.operations.retold import retold
from memoryd.store.mend import Record, Ruin

Progress = Callable[[int, int, str], None]
Stop = Callable[[], bool]
INDEX_CODES = {"index-damaged", "index-differs", "pack-not-indexed", "pack-missing"}
AGAIN = "Add the named contents again (`memoryd corpus scan`, `memoryd add`), or put a sound copy of the pack from a "
AGAIN += "backup into store/quarantine and repair once more."
RECORDS_LOST = "Documents or snapshots may be missing, and what was forgotten or expired may return: forget it again."


@dataclass(slots=True)
class Run:
    """One repair under way. `steps`: what is (to be) done; `left`: what nobody here can mend."""

    home: Home
    apply: bool
    progress: Progress
    stop: Stop
    steps: list[dict[str, Any]] = field(default_factory=list)
    left: list[dict[str, Any]] = field(default_factory=list)
    restored: list[dict[str, str]] = field(default_factory=list)
    lost_records: int = 0
    restored_records: int = 0
    changed: bool = False
    """Packs or contents changed, so the catalog has to follow."""

    def step(self, code: str, where: str, message: str, remedy: str) -> None:
        self.steps.append({"code": code, "where": where, "message": message, "remedy": remedy})

    def leave(self, code: str, where: str, message: str, remedy: str) -> None:
        self.left.append({"code": code, "where": where, "message": message, "remedy": remedy})


def repair(
    home: Home,
    *,
    apply: bool = False,
    progress: Progress = lambda _done, _total, _note: None,
    stop: Stop = lambda: False,
) -> dict[str, Any]:
    """Find everything that can be mended; with `apply` mend it, for whoever owns the home alone. Holds no lane.

    Stopped or killed at any point it leaves a home that the next repair goes on with. Raises StoreError kinds.
    """
    run = Run(home, apply, progress, stop)
    progress(0, 4, "every byte of the packs")
    with home.store_lane:
        ruins = home.store.ruins(stop)
        losses = find(home, ruins, stop)
    named = named_by(home, losses)
    for part, note in ((_packs, "packs"), (_contents, "contents")):
        if not stop():
            progress(1, 4, note)
            part(run, ruins, losses)
    if not stop():
        progress(2, 4, "catalog")
        _catalog(run)
    if not stop():
        progress(3, 4, "indexes")
        _indexes(run)
    return _report(run, losses, named)


def _packs(run: Run, ruins: list[Ruin], _losses: Losses) -> None:
    home = run.home
    for ruin in ruins:
        where = f"store/packs/{ruin.pack.hex()[:2]}/{ruin.pack.hex()}.pack"
        told = "; ".join(ruin.problems[:3])
        if ruin.why_left:
            run.leave("pack-unreadable", where, told, ruin.why_left)
            continue
        records = _records(run, ruin)
        remedy = "Kept in quarantine, replaced by a pack with all that is sound of it."
        if ruin.gone:
            remedy = "No longer counted on; a file that comes back is taken in again."
        run.step("pack-missing" if ruin.gone else "pack-damaged", where, told, remedy)
        if run.apply and not run.stop():
            with home.store_lane:
                run.changed |= home.store.mend(ruin, records, run.stop)
    _index_of_packs(run, any(ruin.gone for ruin in ruins))


def _records(run: Run, ruin: Ruin) -> list[Record]:
    """The lost records of a pack as far as the catalog knows them; that nobody knows the others is said aloud."""
    found = retold(run.home, ruin)
    run.restored_records += len(found.records)
    run.lost_records += len(found.lost)
    if found.lost:
        first, last = min(found.lost), max(found.lost)
        message = f"{len(found.lost)} records (numbers {first} to {last}) are lost in the packs and in the catalog."
        run.leave("records-lost", "store/packs", message, RECORDS_LOST)
    return found.records


def _index_of_packs(run: Run, again: bool) -> None:
    """Files that are no packs, and an index that does not say what the packs hold."""
    home = run.home
    with home.store_lane:
        found = list(home.store.findings())
        for one in found:
            if one.code == "stray-file":
                run.step(one.code, one.where, one.message, "Moved into quarantine.")
                if run.apply:
                    home.store.put_aside(home.root / one.where)
        wrong = [one for one in found if one.code in INDEX_CODES and not (one.code == "pack-missing" and not again)]
        if wrong:
            run.step(wrong[0].code, "store/index.db", wrong[0].message, "Made anew from the packs.")
            if run.apply:
                home.store.rebuild_index()
        for one in found:
            if one.code == "pack-unsupported":
                run.leave(one.code, one.where, one.message, one.remedy)


def _contents(run: Run, _ruins: list[Ruin], losses: Losses) -> None:
    """Store again whatever still exists; what does not stays among the losses."""
    batch: list[bytes] = []
    size = 0
    for copy in still_there(run.home, losses, run.stop):
        if copy.data is None:
            if run.apply and not store_large(run.home, copy):
                continue
            run.changed |= run.apply
        elif run.apply:
            batch.append(copy.data)
            size += len(copy.data)
            if size >= GROUP_BYTES:
                _store(run, batch)
                batch, size = [], 0
        run.restored.append({"address": PREFIX + copy.digest.hex(), "from": copy.where})
    _store(run, batch)
    if run.restored:
        message = f"{len(run.restored)} lost contents still exist elsewhere."
        run.step("content-lost", "store/packs", message, "Stored again, each with its very SHA-256.")
    losses.contents -= {bytes.fromhex(one["address"].removeprefix(PREFIX)) for one in run.restored}
    if losses.nodes and not run.stop():
        _nodes(run, losses)
    if losses and not run.stop():
        _from_quarantine(run, losses)


def _nodes(run: Run, losses: Losses) -> None:
    nodes = nodes_of_corpora(run.home, losses)
    if nodes:
        message = f"{len(nodes)} lost tree nodes follow from the documents of today."
        run.step("node-lost", "store/packs", message, "Built and stored again.")
        losses.nodes -= nodes.keys()
        if run.apply:
            with run.home.store_lane, run.home.store.group() as group:
                group.nodes(nodes)
                group.commit()


def _from_quarantine(run: Run, losses: Losses) -> None:
    home = run.home
    with home.store_lane:
        found = take_from_quarantine(home, losses) if run.apply else lies_in_quarantine(home, losses)
    if found:
        message = f"{found} lost items, or pieces of them, lie there sound."
        run.step("content-lost", "store/quarantine", message, "Stored again.")
        run.changed |= run.apply
    if run.apply:
        losses.contents = {one for one in losses.contents if not readable(home, one)}
        losses.nodes = unread_nodes(home, losses.nodes)


def _store(run: Run, batch: list[bytes]) -> None:
    if not batch:
        return
    with run.home.store_lane, run.home.store.group() as group:
        for data in batch:
            group.add(data)
        group.commit()
    run.changed = True


def _catalog(run: Run) -> None:
    home = run.home
    wrong, unread = shadow.differing(home, run.stop)
    stale = [row for row in shadow.unread(home) if row.document_id not in {other.document_id for other in unread}]
    if wrong or stale or run.changed or run.restored:
        message = f"{len(wrong) + len(stale)} documents are told otherwise than by the packs."
        run.step("catalog-differs", "catalog.db", message, "Made anew from the packs.")
        if run.apply:
            shadow.take_over(home, run.stop)


def _indexes(run: Run) -> None:
    home, generation = run.home, run.home.generation
    if generation is None or generation.problems:
        why = "No generation is open." if generation is None else next(iter(generation.problems.values())).message
        run.step("index-damaged", "indexes", why, "A new generation is filled and takes its place.")
        if run.apply:
            new_generation(home, run.progress, run.stop)
        return
    with home.index_lane:
        while run.apply and indexing.step(home, generation, run.stop):
            pass
        broken = _broken_vectors(run, generation)
        for leg in indexing.LEGS:
            wrong = indexing.wrong_documents(home, generation, leg)
            if wrong:
                message = f"{len(wrong)} documents have missing, foreign or orphaned entries."
                run.step("index-mismatch", f"indexes/{leg}", message, "The entries of these documents are made anew.")
                if run.apply:
                    indexing.heal(home, leg, run.stop)
        if broken and run.apply:
            _embed_again(run, generation, broken)


def _broken_vectors(run: Run, generation: Generation) -> set[str]:
    """Documents with a vector that is none, or another one than its text has."""
    if generation.vectors is None:
        return set()
    home = run.home

    def expected(passages: list[str]) -> dict[str, bytes]:
        texts = {one.id: one.text_sha256 for one in home.passages.get_many(passages).values()}
        known = home.cache.get_many(home.host.identity.fingerprint, texts.values())
        return {passage: known[text] for passage, text in texts.items() if text in known}

    wrong = {*generation.vectors.damaged(), *generation.vectors.stale(expected)}
    if not wrong:
        return set()
    message = f"{len(wrong)} passages have a broken or a foreign vector."
    run.step("index-damaged", "indexes/vectors", message, "Embedded again.")
    return {document for document, passage in generation.vectors.ids() if passage in wrong}


def _embed_again(run: Run, generation: Generation, documents: set[str]) -> None:
    rows = list(run.home.documents.get_many(sorted(documents)).values())
    if generation.vectors is None or not index_vectors(run.home, generation, rows, run.stop):
        return
    generation.commit_vectors(generation.watermark.vector_seq)


def _report(run: Run, losses: Losses, named: dict[str, list[Any]]) -> dict[str, Any]:
    stopped = run.stop()
    lost = [PREFIX + one.hex() for one in sorted(losses.contents)]
    report: dict[str, Any] = {
        "applied": run.apply,
        "stopped": stopped,
        "steps": run.steps,
        "left": run.left,
        "restored": run.restored,
        "restored_records": run.restored_records,
        "lost_records": run.lost_records,
        "affected": named,
        "lost": {"contents": lost, "nodes": len(losses.nodes), "remedy": AGAIN if losses else ""},
        "nothing_to_do": not run.steps,
    }
    if run.apply and not stopped:
        run.progress(4, 4, "check")
        report["findings"] = check(run.home, read_data=True)["findings"]
    report["ok"] = not (stopped or run.left or losses or report.get("findings") or (run.steps and not run.apply))
    return report
