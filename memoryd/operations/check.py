"""Is everything that memoryd promised still there and whole?

Store, catalog, vault and indexes are compared with each other. Nothing is changed, but for one thing: a vault file
whose stored content turns out damaged is stored again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from memoryd.digest import raw_address
from memoryd.errors import StoreError, VaultError
from memoryd.operations import burial, fresh, indexing, ingest, losses, reconcile, shadow
from memoryd.operations.answers import source_of
from memoryd.operations.home import Home
from memoryd.records import ARTIFACT_SOURCE, VAULT_SOURCE, Finding, shown_path

NAMED_MOST = 50
HISTORY = "Run `memoryd repair`: it says where it may still come from; or add the same content again if you have it."
Progress = Callable[[int, int, str], None]


def check(
    home: Home,
    *,
    read_data: bool = False,
    quick: bool = False,
    progress: Progress = lambda _done, _total, _note: None,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """All findings; `clean` is True when there are none.

    `quick` looks at files, footers and counts; else every header, list and tree is read and compared with the indexes;
    `read_data` reads and hashes every stored byte, too.
    """
    quick = quick and not read_data
    findings: list[Finding] = []
    parts: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
        ("store", lambda: _store(home, read_data, quick)),
        ("catalog", lambda: _catalog(home, read_data, stop)),
        ("snapshots", lambda: _kept(home, stop) if not quick else iter(())),
        ("vault", lambda: _vault(home)),
        ("state", lambda: _state(home)),
        ("index", lambda: _index(home, read_data)),
    )
    for number, (name, part) in enumerate(parts):
        if stop():
            break
        progress(number, len(parts), name)
        findings += part()
    progress(len(parts), len(parts), "done")
    return {
        "clean": not findings,
        "read_data": read_data,
        "quick": quick,
        "findings": [
            {"code": f.code, "where": f.where, "message": f.message, "remedy": f.remedy, **f.details} for f in findings
        ],
    }


def _store(home: Home, read_data: bool, quick: bool) -> Iterator[Finding]:
    """What is found while somebody writes may be half of a commit: it counts when it is found again without."""
    found = list(home.store.findings(read_data=read_data, quick=quick))
    if found:
        with home.store_lane:
            found = list(home.store.findings(read_data=read_data, quick=quick))
    yield from found


def _kept(home: Home, stop: Callable[[], bool]) -> Iterator[Finding]:
    """Whether every content that a document holds or held is there, and every node and content of every kept tree."""
    lost = losses.find(home, (), stop)
    named = losses.named_by(home, lost)
    for one in (*named["memories"], *named["documents"]):
        if one["in_history_only"]:  # what it holds now is told with the catalog
            message = f"A former state of it, {one['address']}, is held by no pack any more, or cannot be read."
            yield Finding("history-lost", one["path"], message, HISTORY, {"address": one["address"]})
    for record, paths in lost.snapshots:
        first = shown_path(paths[0]) if paths else "."
        message = f"The snapshot {record.label} (number {record.seq}) lacks {len(paths)} of its paths, first {first}."
        yield Finding("snapshot-damaged", record.source, message, "Run `memoryd repair`.", {"label": record.label})


def _catalog(home: Home, read_data: bool, stop: Callable[[], bool]) -> Iterator[Finding]:
    for problem in home.catalog.problems():
        yield Finding("catalog-damaged", "catalog.db", problem, "Stop memoryd, remove catalog.db, start it again.")
    waiting = home.store.last_seq() - ingest.applied(home)
    if waiting > 0:
        message = f"{waiting} records of the packs are not in the catalog."
        yield Finding("catalog-behind", "catalog.db", message, "It follows by itself once the disk has room.")
    for source in home.documents.sources():
        for row in home.documents.current(source):
            if row.address is not None and home.store.size(row.address) is None:
                yield Finding(
                    "content-missing",
                    source_of(row),
                    f"The catalog names {row.address}, which no pack holds.",
                    "Scan the corpus or touch the file: content that still exists heals.",
                )

    for address in sorted(burial.standing(home)):
        if home.store.size(address) is not None:
            message = "A person had it erased, but the packs still hold it."
            yield Finding("content-forgotten", address, message, f"Run `memoryd forget {address}` again.")
    if read_data:
        yield from _catalog_against_packs(home, stop)


def _catalog_against_packs(home: Home, stop: Callable[[], bool]) -> Iterator[Finding]:
    """Every record read again, and with it the content of every document."""
    wrong, damaged = shadow.differing(home, stop)
    for row in wrong[:NAMED_MOST]:
        message = "The catalog tells this document otherwise than the packs do."
        yield Finding("catalog-differs", source_of(row), message, "Run `memoryd rebuild`.", {"documents": len(wrong)})
    for row in damaged:
        again = False
        if row.source == VAULT_SOURCE:
            with suppress(StoreError, VaultError):
                again = fresh.heal_file(home, row.path)
        remedy = "Scan the corpus: content that still exists is stored again."
        if row.source == VAULT_SOURCE:
            remedy = "Nothing to do: it was stored again from its file." if again else "Restore the file in the vault."
        if row.source == ARTIFACT_SOURCE:
            remedy = "Run `memoryd repair`, or add the same content again."
        yield Finding("content-damaged", source_of(row), row.problem or "", remedy)
    _settle(home)


def _settle(home: Home) -> None:
    """What was noted as damaged once and reads well by now, or is stored no longer, is noted no more."""
    for address in sorted(home.store.damaged):
        digest = raw_address(address)
        node = bool(home.store.node_places([digest]).get(digest))
        if node and losses.unread_nodes(home, [digest]):
            continue
        if home.store.size(address) is None or losses.readable(home, digest):
            home.store.damaged.discard(address)


def _vault(home: Home) -> Iterator[Finding]:
    try:
        home.vault.git.run(["fsck", "--no-dangling", "--no-progress"])
    except VaultError as error:
        yield Finding(error.code, str(home.vault.path), error.message, error.next_step)
    yield from _vault_against_catalog(home)
    for row in home.documents.with_problems(VAULT_SOURCE):
        if row.extractor != ingest.UNREAD:
            where, message = shown_path(row.path), row.problem or ""
            yield Finding("vault-file-invalid", where, message, "Correct the named line by hand.")
    for identity in home.memories.duplicates():
        files = " and ".join(map(shown_path, home.memories.copies(identity)))
        yield Finding("duplicate-id", identity, f"More than one file holds this id: {files}.", "Remove the copy.")


def _vault_against_catalog(home: Home) -> Iterator[Finding]:
    """Files without a document and documents without a file, what is on its way aside."""
    try:
        listing = home.vault.listing()
    except VaultError as error:
        yield Finding(error.code, str(home.vault.path), error.message, error.next_step)
        return
    moving = {intent.path for intent in home.state.intents.all()} | {one.path for one in list(home.fresh)}
    held = {row.path for row in home.documents.current(VAULT_SOURCE)}
    for path in sorted((listing.keys() ^ held) - moving)[:NAMED_MOST]:
        there = path in listing
        message = "The catalog does not know this file." if there else "The catalog knows a file that is not there."
        remedy = f"Check again after the next look at the vault ({home.config.vault.poll_seconds} s)"
        remedy += ", or run `memoryd rebuild`." if there else "; the notices of `memoryd status` say why it is kept."
        yield Finding("vault-differs", shown_path(path), message, remedy)


def _state(home: Home) -> Iterator[Finding]:
    for problem in home.state.problems():
        yield Finding("state-damaged", "state.db", problem, "Restart memoryd: what can be read is carried over.")
    for topic in (reconcile.INTENTS_NOTICE, fresh.PACKS_NOTICE):
        if topic in home.notices:
            yield Finding("write-unsettled", topic, home.notices[topic], "End what is named, or restart memoryd.")


def _index(home: Home, read_data: bool) -> Iterator[Finding]:
    generation = home.generation
    if generation is None:
        yield Finding("index-missing", str(home.root / "indexes"), "No generation is open.", "Run `memoryd rebuild`.")
        return
    for problem in indexing.verify(home, generation):
        yield Finding(problem.code, str(generation.path), problem.message, problem.next_step)
    if not read_data:
        return
    with home.index_lane:
        for leg in indexing.LEGS:
            wrong = indexing.wrong_documents(home, generation, leg)
            if wrong:
                message = f"{len(wrong)} documents have other entries than the catalog says."
                yield Finding("index-mismatch", f"{generation.path}/{leg}", message, "Run `memoryd rebuild`.")
        if generation.vectors is not None:
            for passage in generation.vectors.damaged():
                message = f"The vector of passage {passage} is broken."
                yield Finding("index-damaged", f"{generation.path}/vectors", message, "Run `memoryd rebuild`.")
