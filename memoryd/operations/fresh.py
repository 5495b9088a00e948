"""How do the vault's files follow into packs and catalog, whoever noticed them first?

A file is read while the store lane is held: what is stored later is never older than what was stored before. So it
does not matter in which order a writer, the poll and a start notice the same file, and nobody stores a state twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress

from memoryd.catalog.documents import DocumentRow
from memoryd.digest import address_of
from memoryd.errors import ContentDamaged, DiskFull, HomeError, NotFound, StoreError, VaultError, VaultFileInvalid
from memoryd.operations.burial import standing
from memoryd.operations.evidence import keep_waiting
from memoryd.operations.home import Home
from memoryd.operations.ingest import UNREAD, Seen, store_group, valid_scope
from memoryd.records import GLOBAL_SCOPE, VAULT_SOURCE, shown_path
from memoryd.sources import entry

BATCH = 200
PACKS_NOTICE = "packs"
ERASED = "Exactly these bytes were erased with `memoryd forget`: the file is not taken in. Remove it, or change it."


def vault_seen(path: bytes, data: bytes, known: DocumentRow | None = None) -> Seen:
    """A vault file as ingest takes it: its scope is the frontmatter's, else its folder's, else the one it was `known`
    under (a slip in the frontmatter must not show it to others), else `global`."""
    try:
        scope = entry.parse(data).fields.scope
    except VaultFileInvalid:
        folder = shown_path(path).split("/")[0]
        scope = folder if valid_scope(folder) else known.scope if known is not None else GLOBAL_SCOPE
    return Seen(VAULT_SOURCE, path, scope, "memory", data)


def differs(home: Home, row: DocumentRow | None, one: Seen) -> bool:
    """Whether what was read is not what the catalog holds, or the packs miss its content or hold it damaged."""
    if row is None or row.address is None or one.data is None:
        return True
    told = (row.address, row.scope, row.kind, row.exec)
    return told != (address_of(one.data), one.scope, one.kind, one.exec) or _lost(home, row)


def holds(home: Home, row: DocumentRow | None, data: bytes) -> bool:
    """Whether packs and catalog hold exactly these bytes for a vault file. The same bytes at one path say the same of
    it: they need not be parsed to be compared."""
    return row is not None and row.address == address_of(data) and not _lost(home, row)


def _lost(home: Home, row: DocumentRow) -> bool:
    """Whether the packs miss a content that there should be, or hold it damaged."""
    assert row.address is not None
    return row.extractor == UNREAD or row.address in home.store.damaged or home.store.size(row.address) is None


def take_files(home: Home, paths: Iterable[bytes], gone: Collection[bytes] = ()) -> dict[str, int]:
    """Bring packs and catalog to what lies at these paths now; counts `added`, `changed`, `removed`.

    Where nothing lies, a document is only removed if its path is among `gone`; absence alone removes nothing. The
    caller holds no lane. Raises StoreError kinds; batches stored before the error stay.
    """
    counts = {"added": 0, "changed": 0, "removed": 0}
    wanted = [*dict.fromkeys([*paths, *gone])]
    for start in range(0, len(wanted), BATCH):
        with home.store_lane:
            _take(home, wanted[start : start + BATCH], gone, counts)
    if any(counts.values()):
        home.work.set()
    return counts


def _take(home: Home, paths: Iterable[bytes], gone: Collection[bytes], counts: dict[str, int]) -> None:
    batch: list[Seen] = []
    forgotten = standing(home)
    for path in paths:
        row = home.documents.by_path(VAULT_SOURCE, path)
        there = row is not None and row.address is not None
        one = _look(home, path, row)
        if forgotten and one is not None and one.data is not None and address_of(one.data) in forgotten:
            home.notices[f"vault/{shown_path(path)}"] = ERASED
            continue
        if one is None and path in gone and row is not None and there and not home.vault.exists(path):
            counts["removed"] += 1
            batch.append(Seen(VAULT_SOURCE, path, row.scope, "memory", None))
        elif one is not None and differs(home, row, one):
            counts["changed" if there else "added"] += 1
            batch.append(one)
    if batch:
        store_group(home, batch)


def damaged_files(home: Home) -> set[bytes]:
    """Paths of vault documents whose stored content was found damaged, and that wait to be stored again."""
    rows = [row for row in home.documents.with_problems(VAULT_SOURCE) if row.extractor == UNREAD]
    for address in home.store.damaged.copy():
        rows += home.documents.by_address(address, None)
    return {row.path for row in rows if row.source == VAULT_SOURCE}


def heal_file(home: Home, path: bytes) -> bool:
    """Store a vault file's content again where its stored bytes are damaged; the caller holds no lane.

    Raises StoreError kinds.
    """
    row = home.documents.by_path(VAULT_SOURCE, path)
    if row is None or row.address is None:
        return False
    with suppress(NotFound, ContentDamaged):
        home.store.read(row.address)
        if row.extractor != UNREAD:
            return False
    return any(take_files(home, [path]).values())


def _look(home: Home, path: bytes, row: DocumentRow | None = None) -> Seen | None:
    topic = f"vault/{shown_path(path)}"
    try:
        data = home.vault.read(path)
    except NotFound:
        return None
    except VaultError as error:
        home.notices[topic] = error.message
        return None
    home.notices.pop(topic, None)
    return vault_seen(path, data, row)


def drain_fresh(home: Home, *, wait: bool = True) -> int:
    """Ingest memories that were committed a moment ago; without `wait` only if the store lane is free now.

    Any number of threads may call it. Returns how many had waited. Raises StoreError kinds; they wait on then.
    """
    if not (home.fresh or home.cited) or not home.store_lane.acquire(blocking=wait):
        return 0
    try:
        waiting = list(home.fresh)
        _take(home, dict.fromkeys(one.path for one in waiting), (), {"added": 0, "changed": 0})
        # only the holder of the store lane takes away, others only append: these are still the first ones
        for _ in waiting:
            home.fresh.popleft()
        keep_waiting(home)
    finally:
        home.store_lane.release()
    home.notices.pop(PACKS_NOTICE, None)
    home.work.set()
    return len(waiting)


def try_drain(home: Home, *, wait: bool = False) -> int:
    """As `drain_fresh`, where a store or catalog that cannot write must not spoil what the caller does.

    What was committed to the vault is durable; it waits in the backlog, and a notice says why.
    """
    try:
        try:
            return drain_fresh(home, wait=wait)
        except DiskFull:
            if not home.store.release_reserve():
                raise
            return drain_fresh(home, wait=wait)
    except (StoreError, HomeError) as error:
        home.notices[PACKS_NOTICE] = f"{len(home.fresh)} committed memories wait for the store: {error.message}"
        return 0
