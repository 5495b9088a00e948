"""What holds the secret that a person wants erased, and what shares bytes with it?

Nothing is changed here. A memory counts with all its states, because each of them says its words. What holds a piece of
an erased content, but is something else, stays: only bytes that nothing else needs go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from memoryd.catalog.documents import DocumentRow
from memoryd.digest import PREFIX, parse_address
from memoryd.errors import AmbiguousAddress, NotFound
from memoryd.operations import burial, erase
from memoryd.operations.entries import by_source
from memoryd.operations.erase import Traces
from memoryd.operations.home import Home
from memoryd.operations.ingest import Analysed, analyse
from memoryd.operations.kept import find
from memoryd.operations.purge import git_history, in_messages_only
from memoryd.operations.roots import Ledger
from memoryd.records import VAULT_SOURCE, DocumentEvent, SnapshotRecord, shown_path
from memoryd.store import pack as packs
from memoryd.store.condemned import CHUNK, MANIFEST, NODE, WHOLE
from memoryd.store.reach import Reach
from memoryd.store.sweep import Sweep, tally

WINDOW = 8 << 20
SNAPSHOT = "snapshot:"
Progress = Callable[[int, int, str], None]


@dataclass(slots=True)
class Plan:
    """What is to be erased. `rows`: documents of the vault that go whole; `current`: others that hold it now."""

    addresses: set[str] = field(default_factory=set)
    rows: dict[str, DocumentRow] = field(default_factory=dict)
    current: dict[str, DocumentRow] = field(default_factory=dict)
    former: dict[str, DocumentRow] = field(default_factory=dict)
    targets: list[int] = field(default_factory=list)
    events: list[DocumentEvent] = field(default_factory=list)
    traces: Traces = field(default_factory=Traces)
    snapshots: list[SnapshotRecord] = field(default_factory=list)
    """Whose records are taken back; what they name goes with the next collections, where nothing else needs it."""
    text: bytes | None = None
    reach: Reach | None = None
    sweep: Sweep | None = None

    def raw(self) -> set[bytes]:
        """The addresses as 32 bytes."""
        return {bytes.fromhex(address.removeprefix(PREFIX)) for address in self.addresses}


def plan(home: Home, names: Sequence[str], text: str | None = None) -> Plan:
    """Everything that holds what is named: contents, memories (id), documents (`label/path`), and the words of `text`.

    `snapshot:` and a snapshot's name means its record. The caller owns the home alone. Nothing is changed.

    Raises NotFound, AmbiguousAddress, BadAddress, ReachUnknown.
    """
    made = Plan(text=None if text is None else text.encode("utf-8", "surrogateescape"))
    if made.text:
        made.traces.secret = (made.text,)
        made.addresses |= holding(home, made.text)
        if burial.interrupted_by_text(home):  # contents that are gone say nothing, but their words may stand elsewhere
            made.addresses |= {one for one in burial.interrupted(home) if home.store.size(one) is None}
    for name in names:
        if name.startswith(SNAPSHOT):
            made.snapshots.append(find(home, name.removeprefix(SNAPSHOT), None))
        else:
            made.addresses |= _named(home, name)
    if made.snapshots and not made.addresses:
        made.targets = sorted({record.seq for record in made.snapshots})
        return made
    if not made.addresses:
        raise in_messages_only(home, made.text) or NotFound("Nothing that is stored holds these words.")
    _documents(home, made)
    _events(home, made)
    _traces(home, made)
    _packs(home, made)
    return made


def holding(home: Home, text: bytes) -> set[str]:
    """Addresses of all stored contents whose bytes hold `text`. Raises StoreError kinds where one cannot be read."""
    found = set()
    addresses = {
        item.digest
        for pack in home.store.in_force()[0]
        for item in home.store.items(pack)[1]
        if item.whole or item.manifest is not None
    }
    for digest in sorted(addresses):
        address = PREFIX + digest.hex()
        size = home.store.size(address) or 0
        for start in range(0, max(size, 1), WINDOW):
            if text in home.store.read_range(address, start, start + WINDOW + len(text) - 1):
                found.add(address)
                break
    return found


def _named(home: Home, name: str) -> set[str]:
    if "/" in name:
        row = by_source(home, name)
        if row is None:
            raise NotFound(f"Nothing is known of {name[:200]!r}.", next_step="Name it as search results show it.")
        return _history(home, row.document_id)
    digits, whole = parse_address(name)
    if not name.strip().lower().startswith(PREFIX):
        memories = {row.document_id for row in home.memories.find(digits)}
        if len(memories) > 1:
            raise AmbiguousAddress(f"{digits} is the start of {len(memories)} memories' ids.")
        if memories:
            return _history(home, memories.pop())
    found = set(home.documents.addresses(PREFIX + digits, None))
    if whole and not found and _is_there(home, PREFIX + digits):
        found.add(PREFIX + digits)
    if len(found) > 1:
        raise AmbiguousAddress(f"{digits} is the start of several addresses.")
    if not found:
        raise NotFound(f"Nothing stored has the id or address {name[:100]!r}.")
    return found


def _is_there(home: Home, address: str) -> bool:
    """Whether a content is stored, was erased before, or is at least named by a snapshot. Raises ReachUnknown."""
    if home.store.size(address) is not None or address in burial.forgotten(home):
        return True
    ledger, reach = Ledger(), Reach(home.store)
    reach.look(ledger.take)
    reach.follow((), ledger.decide(home.config.retention, home.clock(), expire=False).trees)
    return bytes.fromhex(address.removeprefix(PREFIX)) in reach.live.contents


def _history(home: Home, document: str) -> set[str]:
    return {row.address for row in home.documents.history(document) if row.address is not None}


def _documents(home: Home, made: Plan) -> None:
    """Who holds or held the contents. A memory's file goes with all its states: they say the same words."""
    waiting = set(made.addresses)
    while waiting:
        for row in home.documents.ever_at(waiting.pop(), None):
            if row.source != VAULT_SOURCE:
                holds = row.address in made.addresses
                (made.current if holds else made.former)[row.document_id] = row
            elif row.document_id not in made.rows:
                made.rows[row.document_id] = row
                more = _history(home, row.document_id) - made.addresses
                made.addresses |= more
                waiting |= more
    told = {event.seq for document in made.rows for event in home.documents.history(document)}
    made.targets = sorted(told | {record.seq for record in made.snapshots})


def _events(home: Home, made: Plan) -> None:
    """The records of these contents: what was embedded of them depends on path and title too."""
    made.events = [
        DocumentEvent.from_json(record.data, record.seq)
        for record in home.store.records()
        if record.kind == "document" and record.data["address"] in made.addresses
    ]


def _traces(home: Home, made: Plan) -> None:
    """What gives the contents away elsewhere, told by their own bytes: the catalog may know them no longer."""
    traces = made.traces
    traces.words.update(address.removeprefix(PREFIX) for address in made.addresses)
    if made.text:
        traces.words.add(made.text.decode("utf-8", "surrogateescape"))
    for row in (*made.rows.values(), *made.current.values()):
        traces.texts.update(one.text_sha256 for one in home.passages.of_document(row.document_id))
    for address in made.addresses:
        events = [one for one in made.events if one.address == address]
        with suppress(NotFound):  # gone already: an earlier run came that far
            # documents were held whole when they were taken in; a file of a snapshot alone may be of any size
            data = home.store.read(address) if events else home.store.read_range(address, 0, WINDOW)
            if not made.text:  # where the person says the words, nothing vaguer is looked for
                traces.add_text(data)
            for event in events:
                _trace(traces, event, analyse(event, data), by_text=bool(made.text))


def _trace(traces: Traces, event: DocumentEvent, told: Analysed, *, by_text: bool) -> None:
    traces.texts.update(one.text_sha256 for one in told.passages)
    names = [] if by_text else [told.title]
    if event.source == VAULT_SOURCE:
        names.append(shown_path(event.path))
    traces.words.update(name for name in names if len(name) >= erase.SHORTEST)
    if told.memory is not None:
        traces.words.add(told.memory.id)
        traces.facts.add(told.memory.fact)


def _packs(home: Home, made: Plan) -> None:
    """Which packs hold bytes that only the erased contents need."""
    ledger, reach = Ledger(), Reach(home.store)
    reach.look(ledger.take)
    ledger.hide(made.raw(), made.targets)
    decision = ledger.decide(home.config.retention, home.clock(), expire=False)
    missing = reach.follow(decision.contents, decision.trees, forgotten=decision.forgotten | made.raw())
    idle = set() if home.store.in_force()[1] else decision.idle
    # what was lost before stays needed: it holds up no erasure, and keeps its own records
    found = tally(reach, missing, decision.buried, idle, lambda: False)
    due = {kind + one for one in made.raw() for kind in (CHUNK, WHOLE, MANIFEST)}
    for one in made.raw():
        due |= reach.named_by(MANIFEST + one)
    dead = {key for share in found.shares.values() for key in share.dead}
    if made.text:
        due |= _orphans(home, reach, dead - due, made.text)
    made.reach = reach
    made.traces.chunks = {key[1:] for key in due if key[:1] == CHUNK and key in dead}
    made.sweep = Sweep(home.store, reach, found.shares, _closed(reach, due & dead, dead), floor=0.0)


def _orphans(home: Home, reach: Reach, dead: set[bytes], text: bytes) -> set[bytes]:
    """Pieces that belong to nothing any more and hold the words."""
    found: set[bytes] = set()
    for pack in reach.known:
        for item in reach.read(pack)[1]:
            if item.kind == packs.CHUNK and CHUNK + item.digest in dead:
                data = home.store.item(pack, item.frame_off, item.inner_off, item.length, item.digest)
                found |= {CHUNK + item.digest} if text in data else set()
    return found


def _closed(reach: Reach, due: set[bytes], dead: set[bytes]) -> set[bytes]:
    """With everything that nothing needs and that names a part of it: it would keep that part.

    A content of which a part goes is no use to anybody, so its other pieces go as well.
    """
    others = {key for key in dead if key[:1] in (MANIFEST, NODE)}
    while more := {key for key in others - due if reach.named_by(key) & due}:
        pieces = {piece for key in more if key[:1] == MANIFEST for piece in reach.named_by(key)}
        due = due | more | (pieces & dead)
    return due


def shown(home: Home, made: Plan) -> dict[str, Any]:
    """The plan for a person to read."""
    raw, reach = made.raw(), made.reach
    return {
        "contents": [{"address": one, "size": home.store.size(one)} for one in sorted(made.addresses)],
        "memories": [
            {"source": source(row), "title": row.title, "other_revisions": _revisions(home, row)}
            for row in made.rows.values()
        ],
        "documents": sorted(map(source, made.current.values())),
        "former": sorted(map(source, made.former.values())),
        "passages": len(made.traces.texts),
        "snapshots": [] if reach is None else _snapshots(home, reach, raw),
        "buried": [f"{one.seq} {one.label} ({one.created})" for one in made.snapshots],
        "sharing": [] if reach is None else _sharing(home, reach, made.addresses),
        "packs": 0 if made.sweep is None else len(made.sweep.chosen),
        "quarantine": [path.name for path in erase.quarantined(home, made.traces)],
        "git": git_history(home, [row.path for row in made.rows.values()], made.text),
    }


def source(row: DocumentRow) -> str:
    """`label/path`."""
    return f"{row.source}/{shown_path(row.path)}"


def _revisions(home: Home, row: DocumentRow) -> list[str]:
    """Other memories of the same fact: they may say the secret as well."""
    memory = home.memories.by_document(row.document_id)
    if memory is None:
        return []
    names = {memory.fields.supersedes, memory.fields.superseded_by} - {None}
    return sorted(str(name) for name in names)


def _snapshots(home: Home, reach: Reach, raw: set[bytes]) -> list[str]:
    """Snapshots whose trees name one of the contents; they stay, without it."""
    known: dict[bytes, bool] = {}
    shots = home.snapshots.all(None)
    return [f"{one.label} ({one.created})" for one in shots if _names(reach, bytes.fromhex(one.root), raw, known)]


def _names(reach: Reach, root: bytes, raw: set[bytes], known: dict[bytes, bool]) -> bool:
    """Whether a tree names one of the contents; it may be deeper than calls can be. `known`: of nodes seen before."""
    waiting = [root]
    while waiting:
        node = waiting[-1]
        if node in known:
            waiting.pop()
            continue
        contents, below = reach.node_named(node)
        fresh = [one for one in below if one not in known]
        if contents & raw or not fresh:
            known[node] = bool(contents & raw) or any(known[one] for one in below)
        else:
            waiting += fresh
    return known[root]


def _sharing(home: Home, reach: Reach, addresses: set[str]) -> list[str]:
    """Documents that keep bytes of an erased content because they hold a whole piece of it."""
    pieces = {key for one in addresses for key in reach.named_by(MANIFEST + bytes.fromhex(one.removeprefix(PREFIX)))}
    pieces |= {CHUNK + bytes.fromhex(one.removeprefix(PREFIX)) for one in addresses}
    found: set[str] = set()
    for content in reach.live.contents:
        address = PREFIX + content.hex()
        if address not in addresses and (CHUNK + content in pieces or reach.named_by(MANIFEST + content) & pieces):
            found.update(source(row) for row in home.documents.ever_at(address, None))
    return sorted(found)
