"""How does content that was seen become durable (packs) and known (catalog)?

One road for memories, hand edits and corpora: bytes and a document record go into one pack, then the catalog follows.
The catalog is a view, so `replay` can make it again from the packs alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from sqlite3 import Connection

from memoryd.digest import address_of, document_id
from memoryd.errors import ContentForgotten, NotFound, StoreError, VaultFileInvalid
from memoryd.extract.passages import Extracted, extract, identify
from memoryd.operations import burial
from memoryd.operations.home import Home, timestamp
from memoryd.records import (
    ARTIFACT_SOURCE,
    GLOBAL_SCOPE,
    DocumentEvent,
    IndexedPassage,
    Kind,
    MemoryFields,
    ScopeRecord,
    SnapshotRecord,
    Status,
    TombstoneRecord,
    shown_path,
)
from memoryd.sources import citation, entry
from memoryd.sources.markers import conflict_line
from memoryd.store.chunkstore import StoredRecord
from memoryd.store.group import WriteGroup

APPLIED = "applied_seq"
GROUP_BYTES = 32 << 20
GROUP_DOCUMENTS = 2000
REPLAY_BATCH = 500
RECORDS_NOTICE = "records"
CITED = ".cited"
"""Folder of a scope's artifacts that holds what memories cite: kept as evidence, not for a search."""
UNREAD = "unread"
"""`extractor` of a document whose content could not be read: its problem is the store's, not the file's."""
HEAD_BYTES = 16384
_MEMORY_KEYS = re.compile(rb"\A---\s.*?^(?:fact[ \t]*:|id[ \t]*:[ \t]*[\"']?[0-9a-f]{64}\b)", re.MULTILINE | re.DOTALL)
"""Frontmatter with a key as only memories have it; other notes have `id` and `type` of their own."""
_SCOPE = re.compile(r"global|p-[a-z0-9-]+-[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class Seen:
    """A document as it was just read; `data` None means that it is gone."""

    source: str
    path: bytes
    scope: str
    kind: Kind
    data: bytes | None
    exec: bool = False
    tags: tuple[str, ...] = ()
    title: str = ""
    allow_forgotten: bool = False
    """A person said that these bytes may come back although they were erased."""


@dataclass(frozen=True, slots=True)
class Analysed:
    """What the catalog keeps of one event, derived from the bytes alone."""

    event: DocumentEvent
    title: str = ""
    type: str = ""
    status: Status = "in_force"
    extractor: str = ""
    encoding: str = "utf-8"
    problem: str | None = None
    memory: MemoryFields | None = None
    passages: tuple[IndexedPassage, ...] = ()


def valid_scope(text: str) -> bool:
    """Whether a text has the form of a scope id."""
    return _SCOPE.fullmatch(text) is not None


def store_documents(home: Home, seen: Iterable[Seen], progress: Callable[[int], None] = lambda _n: None) -> int:
    """Make documents durable and known, in groups; returns how many. The caller holds no lane.

    Raises StoreError kinds; groups committed before the error stay.
    """
    done = 0
    for batch in _grouped(seen):
        with home.store_lane:
            store_group(home, batch)
        done += len(batch)
        progress(done)
    home.work.set()
    return done


def _grouped(seen: Iterable[Seen]) -> Iterator[list[Seen]]:
    batch: list[Seen] = []
    size = 0
    for one in seen:
        batch.append(one)
        size += len(one.data or b"")
        if size >= GROUP_BYTES or len(batch) >= GROUP_DOCUMENTS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def store_group(home: Home, batch: list[Seen]) -> None:
    """One pack and its place in the catalog; the caller holds the store lane.

    Raises StoreError kinds, ContentForgotten.
    """
    if behind(home):
        replay_rest(home)  # a group that the catalog had no room for: records enter it in their order
    refuse_forgotten(home, [one.data for one in batch if one.data is not None and not one.allow_forgotten])
    group = home.store.group()
    observed = timestamp(home)
    new_scopes = _unknown_scopes(home, (one.scope for one in batch))
    for scope in new_scopes:
        group.record("scope", scope.to_json())
    events = []
    for one in batch:
        address = group.add(one.data) if one.data is not None else None
        event = _event(one, address, observed)
        group.record("document", event.to_json())
        events.append(event)
    seqs = group.commit()
    numbered = [replace(event, seq=seq) for event, seq in zip(events, seqs[len(new_scopes) :], strict=True)]
    analysed = [analyse(event, one.data) for event, one in zip(numbered, batch, strict=True)]
    with home.catalog.write() as tx:
        for scope, seq in zip(new_scopes, seqs, strict=False):
            home.scopes.apply(tx, replace(scope, seq=seq))
        _apply(home, tx, analysed)
        _advance(home, tx, seqs[0], seqs[-1])
    for event in events:
        home.notices.pop(event.address or "", None)  # it could not be read before


def refuse_forgotten(home: Home, contents: Iterable[bytes]) -> None:
    """Raises ContentForgotten where one of these was erased on purpose and nobody let it in again."""
    erased = burial.standing(home)
    for data in contents if erased else ():
        if (address := address_of(data)) in erased:
            raise ContentForgotten(f"{address} was erased with `memoryd forget`; it was not stored.", address=address)


def bury(home: Home, stones: Sequence[TombstoneRecord], events: Sequence[DocumentEvent] = ()) -> None:
    """Make tombstones durable, with the records that say what is gone by them, and let the catalog follow.

    The caller holds the store lane. Raises StoreError kinds.
    """
    if behind(home):
        replay_rest(home)
    group = home.store.group()
    for event in events:
        group.record("document", event.to_json())
    for stone in stones:
        group.record("tombstone", stone.to_json())
    seqs = group.commit()
    gone = [Analysed(replace(event, seq=seq)) for event, seq in zip(events, seqs, strict=False)]
    with home.catalog.write() as tx:
        _apply(home, tx, gone)
        burial.apply_stones(home, tx, burial.numbered(stones, seqs[len(events) :]))
        _advance(home, tx, seqs[0], seqs[-1])


def _event(one: Seen, address: str | None, observed: str) -> DocumentEvent:
    return DocumentEvent(
        source=one.source,
        path=one.path,
        scope=one.scope,
        kind=one.kind,
        event="gone" if address is None else "seen",
        address=address,
        size=len(one.data or b""),
        exec=one.exec,
        tags=one.tags,
        observed=observed,
        title=one.title,
    )


def _unknown_scopes(home: Home, scopes: Iterable[str]) -> list[ScopeRecord]:
    """Records for scopes met in documents that nobody registered (a vault copied from elsewhere)."""
    missing = {scope for scope in scopes if scope != GLOBAL_SCOPE and not home.scopes.exists(scope)}
    return [ScopeRecord(id=scope, name=scope[2:-9], remote=None, root=None) for scope in sorted(missing)]


def register_scope(home: Home, record: ScopeRecord) -> None:
    """Record a project once (or again when its name, remote or root changed)."""
    known = home.scopes.get(record.id)
    if known is not None and replace(known, seq=0) == record:
        return
    with home.store_lane:
        if behind(home):
            replay_rest(home)
        group = home.store.group()
        group.record("scope", record.to_json())
        (seq,) = group.commit()
        with home.catalog.write() as tx:
            home.scopes.apply(tx, replace(record, seq=seq))
            _advance(home, tx, seq, seq)


def commit_snapshot(home: Home, group: WriteGroup, record: SnapshotRecord) -> SnapshotRecord:
    """Commit a group, its last one, with the record of a snapshot; the record with its seq.

    The caller holds the store lane, and saw to it that the catalog lacks no record. Raises StoreError kinds.
    """
    group.record("snapshot", record.to_json())
    (seq,) = group.commit()
    numbered = replace(record, seq=seq)
    with home.catalog.write() as tx:
        home.snapshots.apply(tx, numbered)
        _advance(home, tx, seq, seq)
    return numbered


def _advance(home: Home, tx: Connection, first: int, last: int) -> None:
    """Note that records up to `last` are applied, unless a replay has not come to `first` yet: it will."""
    if applied(home) >= first - 1:
        home.catalog.set_meta(tx, APPLIED, str(last))


def applied(home: Home) -> int:
    """The record up to which the catalog follows the packs without a gap."""
    return int(home.catalog.meta(APPLIED) or 0)


def behind(home: Home) -> int:
    """How many records of the packs the catalog lacks: more than none for long only where it had no room."""
    return max(0, home.store.last_seq() - applied(home))


def follow_packs(home: Home) -> int:
    """As `replay`, costing next to nothing where the catalog lacks no record. Raises as `replay` does."""
    return replay(home) if behind(home) else 0


def analyse(event: DocumentEvent, data: bytes | None) -> Analysed:
    """Everything the catalog needs of one event; pure, so that a rebuild gives the same."""
    if data is None:
        return Analysed(event)
    document = document_id(event.source, event.path)
    if event.kind == "memory":
        return _analyse_memory(event, document, data)
    found = extract(shown_path(event.path), data, title=event.title)
    if event.source == ARTIFACT_SOURCE and event.path.split(b"/")[1:2] == [CITED.encode()]:
        found = replace(found, passages=(), extractor="cited@1")
    return _from_extract(event, document, found)


def _analyse_memory(event: DocumentEvent, document: str, data: bytes) -> Analysed:
    fault = memory_fault(event.path, data)
    try:
        parsed = entry.parse(data)
    except VaultFileInvalid:
        # a faulty file stays findable by its words, and every status names it until a person mends it
        plain = _from_extract(event, document, extract(shown_path(event.path), data))
        return plain if fault is None else replace(plain, problem=fault)
    fields = parsed.fields
    found = extract(shown_path(event.path), data, body_start=parsed.body_start, title=fields.title)
    plain = _from_extract(event, document, found)
    told = replace(plain, title=fields.title, type=fields.type, status=fields.status, memory=fields)
    return told if fault is None else replace(told, problem=fault)


def memory_fault(path: bytes, data: bytes) -> str | None:
    """What a person has to mend in a vault file, beginning with its line; None for a whole memory or a plain note."""
    try:
        fault = citation.faulty(entry.parse(data).fields.citations, data)
    except VaultFileInvalid as error:
        if is_plain_note(path, data):
            return None
        fault = error.message
    line = conflict_line(data)
    if line is None:
        return fault
    return f"Line {line}: a merge left its conflict marks (`<<<<<<<` to `>>>>>>>`) here; keep what holds, remove them."


def is_plain_note(path: bytes, data: bytes) -> bool:
    """Whether a file that is no memory does not mean to be one: not where memories lie, and without their own keys."""
    if valid_scope(shown_path(path).split("/")[0]):
        return False
    return not _MEMORY_KEYS.search(data.removeprefix(b"\xef\xbb\xbf").lstrip()[:HEAD_BYTES])


def _from_extract(event: DocumentEvent, document: str, found: Extracted) -> Analysed:
    return Analysed(
        event,
        title=found.title,
        extractor=found.extractor,
        encoding=found.encoding,
        problem=found.problem,
        passages=identify(document, found.said_title, found.passages),
    )


def _apply(home: Home, tx: Connection, analysed: Sequence[Analysed]) -> None:
    for one in analysed:
        event = one.event
        document = document_id(event.source, event.path)
        is_current = home.documents.apply(
            tx,
            event,
            title=one.title,
            type=one.type,
            status=one.status,
            extractor=one.extractor,
            encoding=one.encoding,
            problem=one.problem,
        )
        if not is_current:
            continue  # history only: a newer record of this document was applied before
        if one.passages:
            home.passages.replace(tx, document, list(one.passages))
        else:
            home.passages.remove(tx, document)
        if one.memory is not None and event.address is not None:
            home.memories.apply(tx, document, one.memory, address=event.address, path=event.path)
        else:
            home.memories.remove(tx, document)


def replay(home: Home, *, stop: Callable[[], bool] = lambda: False) -> int:
    """Bring the catalog up to the packs' records; returns how many records were applied. The caller holds no lane.

    The store lane is free between batches, so that a long replay delays no write. Records in damaged frames are passed
    over, and a notice tells of them. Raises StoreError kinds.
    """
    done = 0
    while not stop():
        with home.store_lane:
            applied_now = _replay_some(home)
        done += applied_now
        if applied_now < REPLAY_BATCH:
            break
    return done


def replay_rest(home: Home) -> int:
    """As `replay`, for the few records that came meanwhile; the caller holds the store lane."""
    done = 0
    while True:
        applied_now = _replay_some(home)
        done += applied_now
        if applied_now < REPLAY_BATCH:
            return done


def _replay_some(home: Home) -> int:
    lost: list[str] = []
    batch = list(islice(home.store.records(applied(home), lost=lost), REPLAY_BATCH))
    if batch:
        _replay_batch(home, batch)
    if len(batch) < REPLAY_BATCH and applied(home) < home.store.last_seq():
        with home.catalog.write() as tx:  # no readable record is left
            home.catalog.set_meta(tx, APPLIED, str(home.store.last_seq()))
    if lost:
        step = "Run `memoryd check --read-data`; vault files are taken in again, scan the corpora."
        home.notices[RECORDS_NOTICE] = f"{lost[0]} {step}"
    return len(batch)


def _replay_batch(home: Home, batch: list[StoredRecord]) -> None:
    events = [DocumentEvent.from_json(r.data, r.seq) for r in batch if r.kind == "document"]
    last = {(event.source, event.path): event.seq for event in events}
    analysed = []
    for event in events:
        newest = last[event.source, event.path] == event.seq
        analysed.append(_reread(home, event) if newest else Analysed(event))
    with home.catalog.write() as tx:
        for record in batch:
            if record.kind == "scope":
                home.scopes.apply(tx, ScopeRecord.from_json(record.data, record.seq))
            elif record.kind == "snapshot":
                home.snapshots.apply(tx, SnapshotRecord.from_json(record.data, record.seq))
        _apply(home, tx, analysed)
        stones = [TombstoneRecord.from_json(r.data, r.seq) for r in batch if r.kind == "tombstone"]
        burial.apply_stones(home, tx, stones)
        home.catalog.set_meta(tx, APPLIED, str(batch[-1].seq))


def _reread(home: Home, event: DocumentEvent) -> Analysed:
    if event.address is None:
        return Analysed(event)
    try:
        return analyse(event, home.store.read(event.address))
    except (StoreError, NotFound) as error:
        return Analysed(event, extractor=UNREAD, problem=error.message)
