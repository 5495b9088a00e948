"""How does a corpus become documents, and what keeps a bad scan from losing any?

Incremental: a file that looks as it did when it was last read is passed over (a full scan reads all), of the others
those whose content changed are stored. Nothing is removed below a place that could not be read, from a root that is
suddenly empty or nearly so, or while the configuration differs from the one in force.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memoryd.catalog.documents import DocumentRow
from memoryd.config import CorpusConfig
from memoryd.digest import address_of
from memoryd.errors import InvalidInput, NotFound
from memoryd.operations.burial import standing
from memoryd.operations.corpustree import record_corpus
from memoryd.operations.fresh import differs
from memoryd.operations.home import Home
from memoryd.operations.indexing import pending, verify
from memoryd.operations.ingest import UNREAD, Seen, applied, store_documents
from memoryd.operations.scancache import ScanCache
from memoryd.records import ARTIFACT_SOURCE, VAULT_SOURCE, Finding, shown_path
from memoryd.sources import corpora

Progress = Callable[[int, int, str], None]
MANY = 20
"""From so many known documents on, a scan that misses nearly all of them is not believed unasked."""
MOST = 0.9


def scan_corpora(
    home: Home,
    labels: list[str] | None = None,
    *,
    drop: list[str] | None = None,
    accept_removals: bool = False,
    dry_run: bool = False,
    full: bool = False,
    progress: Progress = lambda _done, _total, _note: None,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Scan the named corpora (all when None); returns one report a label and what is wrong overall.

    `drop` names sources that are no longer configured: after a scan of all corpora whose roots could be read, their
    documents are marked gone. `accept_removals` confirms that files of the named corpora are meant to be gone although
    they are nearly all there were. `full` reads also the files that look unchanged. A root that cannot be read is
    reported, the other corpora go on. Raises NotFound (unknown label), InvalidInput (one that cannot be dropped).
    """
    if accept_removals and not labels:
        raise InvalidInput("`accept_removals` needs the labels it is meant for.", parameter="accept_removals")
    chosen = _chosen(home, labels)
    dropped = _droppable(home, labels, drop or [])
    changed = home.loaded.file_differs()
    reports = {}
    for corpus in chosen:
        if stop():
            break
        reports[corpus.label] = _scan_one(home, corpus, dry_run, full, accept_removals, changed, progress, stop)
    changed = changed or home.loaded.file_differs()
    report: dict[str, Any] = {"dry_run": dry_run, "corpora": reports}
    if dropped:
        keep = dry_run or changed or stop() or not all(reports[one.label]["complete"] for one in chosen)
        report["dropped"] = {label: _drop(home, label, keep=keep) for label in dropped}
    report["orphaned"] = orphaned(home)
    if changed:
        report["config_differs"] = (
            "config.json changed since the daemon started, and what it says now is not in force: no entry was removed. "
            "Run `memoryd stop` and scan again: the next start reads it."
        )
    if not dry_run:
        report["check"] = _checked(home, reports)
    report["ok"] = _went_well(report)
    return report


def _went_well(report: dict[str, Any]) -> bool:
    """Whether every root was seen, nothing was held back, and the check agrees."""
    complete = all(one["complete"] for one in report["corpora"].values())
    kept = any(one["documents"] > one["removed"] for one in report.get("dropped", {}).values())
    if not complete or "config_differs" in report:
        return False
    return bool(report["dry_run"] or (report["check"]["ok"] and not kept))


def orphaned(home: Home) -> list[dict[str, Any]]:
    """Sources whose documents are still searchable although config.json names them no longer."""
    known = {VAULT_SOURCE, ARTIFACT_SOURCE, *(corpus.label for corpus in home.config.corpora)}
    counts = home.documents.counts()["source"]
    return [
        {"label": label, "documents": counts[label], "next_step": f"memoryd corpus scan --drop {label}"}
        for label in sorted(counts.keys() - known)
    ]


def _droppable(home: Home, labels: list[str] | None, drop: list[str]) -> list[str]:
    if drop and labels:
        raise InvalidInput("`drop` goes with a scan of all corpora: name no labels.", parameter="drop")
    orphans = {one["label"] for one in orphaned(home)}
    for label in drop:
        if label == VAULT_SOURCE or any(corpus.label == label for corpus in home.config.corpora):
            raise InvalidInput(
                f"{label!r} is in force and cannot be dropped.",
                next_step="Take it out of config.json and run `memoryd stop`, then drop it.",
                parameter="drop",
            )
        if label not in orphans:
            raise NotFound(f"Nothing is known of a source {label!r}.", next_step="Run `memoryd corpus list`.")
    return list(dict.fromkeys(drop))


def _drop(home: Home, label: str, *, keep: bool) -> dict[str, Any]:
    """Mark a source's documents gone (their contents stay in the store), or only count them."""
    rows = list(home.documents.current(label))
    if not keep:
        store_documents(home, (Seen(label, row.path, row.scope, row.kind, None) for row in rows))
        home.notices.pop(f"corpus/{label}", None)
    return {"documents": len(rows), "removed": 0 if keep else len(rows)}


def _checked(home: Home, reports: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Do catalog, packs and indexes agree now that the work is done?"""
    problems = []
    for label, report in reports.items():
        held = home.documents.live_count(label)
        if held != report["documents"]:
            problems.append(f"The catalog holds {held} documents of {label}, not {report['documents']}.")
    with home.store_lane:
        behind = home.store.last_seq() - applied(home)
    if behind:
        problems.append(f"{behind} records of the packs are not in the catalog.")
    if home.generation is None:
        problems.append("No index is open.")
    else:
        problems += [problem.message for problem in verify(home, home.generation)]
    return {"ok": not problems, "problems": problems, "pending": pending(home)}


def _chosen(home: Home, labels: list[str] | None) -> list[CorpusConfig]:
    by_label = {corpus.label: corpus for corpus in home.config.corpora}
    for label in labels or []:
        if label not in by_label:
            step = "Run `memoryd corpus list`; what is no longer configured goes with `--drop`."
            raise NotFound(f"No corpus is labelled {label!r}.", next_step=step, label=label)
    return [by_label[label] for label in labels] if labels else list(home.config.corpora)


def _scan_one(
    home: Home,
    corpus: CorpusConfig,
    dry_run: bool,
    full: bool,
    accept: bool,
    keep_all: bool,
    progress: Progress,
    stop: Callable[[], bool],
) -> dict[str, Any]:
    known = {row.path: row for row in home.documents.current(corpus.label)}
    report: dict[str, Any] = {"files": 0, "added": 0, "changed": 0, "unchanged": 0, "removed": 0, "problems": []}
    base, limit = home.loaded.path.parent, home.config.limits.file_bytes
    cache = ScanCache(home, corpora.resolve_root(corpus.path, base=base), full=full)
    walk = corpora.walk(corpus, known=len(known), file_limit=limit, base=base, reserved=home.reserved)
    report["files"] = len(walk.files)
    report["complete"] = walk.complete  # False: the root is missing, unreadable, no folder, or suddenly (nearly) empty
    report["folders"] = dict(Counter(_top_folder(file.path) for file in walk.files))
    if dry_run:
        report["problems"] = [_shown(problem) for problem in walk.problems]
        cache.keep(complete=False)
        return report
    reader = _Reader(home, corpus, base, limit, known, report, walk, cache, progress, stop)
    store_documents(home, reader.changed())
    cache.keep(complete=walk.complete and not stop())
    walk.files[:] = [file for file in walk.files if file.path not in reader.erased]
    gone = _gone(home, corpus, walk, known, accept)
    report["complete"] = walk.complete
    # asked again: reading the files may have taken an hour, and a changed configuration may mean another root
    if not keep_all and walk.complete and not stop() and not home.loaded.file_differs():
        store_documents(home, (Seen(corpus.label, p, known[p].scope, known[p].kind, None) for p in gone))
        report["removed"] = len(gone)
    report["documents"] = len(known) + report["added"] - report["removed"]
    report["problems"] = [_shown(problem) for problem in walk.problems]
    _note(home, corpus.label, walk.problems)
    if walk.complete and not stop():
        report["snapshot"] = record_corpus(home, corpus.label, corpus.scope, left_out=len(walk.unread))
    return report


def _gone(
    home: Home, corpus: CorpusConfig, walk: corpora.Walk, known: dict[bytes, DocumentRow], accept: bool
) -> list[bytes]:
    """Paths whose files are no longer there; none where they are too many to be believed unasked."""
    seen = {file.path for file in walk.files}
    gone = [path for path in known if path not in seen and not walk.hides(path)]
    if accept or len(known) < MANY or len(gone) <= MOST * len(known):
        return gone
    kept = {row.address for row in home.documents.current(corpus.label) if row.path in seen}
    lost = sum(known[path].address not in kept for path in gone)  # the others only moved
    if lost <= MOST * len(known):
        return gone
    message = f"{lost} of {len(known)} known documents are suddenly missing: nothing was removed."
    step = f"Bring the files back, or confirm: `memoryd corpus scan {corpus.label} --accept-removals`."
    walk.unread[:] = [b""]
    walk.problems.append(Finding("corpus-emptied", corpus.label, f"{message} {step}", step))
    return []


@dataclass
class _Reader:
    """Reads the files of a walk and gives out those whose content is new."""

    home: Home
    corpus: CorpusConfig
    base: Path
    limit: int
    known: dict[bytes, DocumentRow]
    report: dict[str, Any]
    walk: corpora.Walk
    cache: ScanCache
    progress: Progress
    stop: Callable[[], bool]
    forgotten: set[str] = field(default_factory=set)
    erased: set[bytes] = field(default_factory=set)
    """Paths of files whose very bytes a person had erased: they are told, and count as not there."""

    def changed(self) -> Iterator[Seen]:
        """New or changed documents; what cannot be read joins the walk's problems and counts as not seen."""
        total = len(self.walk.files)
        self.forgotten = standing(self.home)
        for number, file in enumerate(self.walk.files, 1):
            if self.stop():
                return
            if number % 200 == 0 or number == total:
                self.progress(number, total, self.corpus.label)
            if self._as_known(file):
                self.report["unchanged"] += 1
                continue
            data = self._read(file.path)
            if data is not None and (one := self._new(file, data)) is not None:
                yield one

    def _as_known(self, file: corpora.CorpusFile) -> bool:
        """Whether a file looks as it did when it held what the catalog has, so that it need not be read."""
        row = self.known.get(file.path)
        if row is None or row.extractor == UNREAD or row.scope != self.corpus.scope:
            return False
        return row.kind == corpora.kind_of(file.path) and row.address == self.cache.address(file)

    def _read(self, path: bytes) -> bytes | None:
        try:
            return corpora.read_file(self.corpus, path, file_limit=self.limit, base=self.base)
        except OSError as error:
            self.walk.unread.append(path)
            where = f"{self.corpus.label}/{shown_path(path)}"
            message = error.strerror or "It cannot be read."
            self.walk.problems.append(Finding("file-unreadable", where, message, "Make it readable, then scan again."))
            return None

    def _new(self, file: corpora.CorpusFile, data: bytes) -> Seen | None:
        if self.forgotten and address_of(data) in self.forgotten:
            self.erased.add(file.path)
            where = f"{self.corpus.label}/{shown_path(file.path)}"
            message = "Exactly these bytes were erased with `memoryd forget`; they were not stored again."
            self.walk.problems.append(Finding("content-forgotten", where, message, "Remove or exclude the file."))
            return None
        row, kind = self.known.get(file.path), corpora.kind_of(file.path)
        one = Seen(self.corpus.label, file.path, self.corpus.scope, kind, data, exec=file.exec)
        if row is not None and row.address is not None and not differs(self.home, row, one):
            self.report["unchanged"] += 1
            self.cache.note(file, row.address)
            return None
        self.cache.note(file, address_of(data))
        self.report["added" if row is None else "changed"] += 1
        return one


def _top_folder(path: bytes) -> str:
    first, _, rest = path.partition(b"/")
    return shown_path(first) + "/" if rest else "./"


def _shown(problem: Finding) -> dict[str, Any]:
    return {"code": problem.code, "where": problem.where, "message": problem.message, "remedy": problem.remedy}


def _note(home: Home, label: str, problems: list[Finding]) -> None:
    topic = f"corpus/{label}"
    if problems:
        home.notices[topic] = (
            f"{len(problems)} problem(s) at the last scan, first: {problems[0].where}: {problems[0].message}"
        )
    else:
        home.notices.pop(topic, None)


def listed(home: Home) -> list[dict[str, Any]]:
    """The configured corpora with what the catalog holds of each."""
    found = []
    for corpus in home.config.corpora:
        found.append(
            {
                "label": corpus.label,
                "path": corpus.path,
                "scope": corpus.scope,
                "code": corpus.code,
                "documents": home.documents.live_count(corpus.label),
                "problem": home.notices.get(f"corpus/{corpus.label}"),
            }
        )
    return found
