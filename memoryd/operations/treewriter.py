"""How do contents and tree nodes become durable in packs of bounded size, the record that names them last?

What a crash leaves behind is chunks and nodes that nothing names; the next snapshot of the same directory uses them.
Contents are read without the store lane; only their groups are written under it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memoryd.catalog.statcache import Folder, StatCache
from memoryd.digest import PREFIX
from memoryd.errors import SnapshotError
from memoryd.operations.home import Home
from memoryd.operations.ingest import GROUP_BYTES, behind, commit_snapshot, replay_rest
from memoryd.records import SnapshotRecord
from memoryd.store.group import WriteGroup
from memoryd.store.merkle import DIRECTORY
from memoryd.store.treediff import entries

CONTENTS_MOST = 20_000
NODE_BYTES_MOST = 8 << 20
CHECKED_TOGETHER = 5000


class TreeWriter:
    """Collects contents, nodes and what the stat cache is to remember of them; `finish` writes the record."""

    def __init__(self, home: Home, cache: StatCache | None = None) -> None:
        self._home = home
        self._cache = cache
        self._packs = set(home.store.pack_ids())
        self.epoch = cache.epoch(self._packs) if cache is not None else 0
        """Rows of the stat cache of this epoch name nothing that left the store."""
        self._contents: dict[bytes, bytes] = {}
        self._content_bytes = 0
        self._nodes: dict[bytes, bytes] = {}
        self._node_bytes = 0
        self._folders: list[Folder] = []
        self.stored = 0
        """Bytes of contents that were handed in."""

    def content(self, digest: bytes, data: bytes) -> None:
        """Take a content by its SHA-256. Raises StoreError kinds."""
        if digest not in self._contents:
            self._contents[digest] = data
            self._content_bytes += len(data)
            self.stored += len(data)
        if self._content_bytes >= GROUP_BYTES or len(self._contents) >= CONTENTS_MOST:
            self.flush()

    def stream(self, read: Callable[[int], bytes]) -> tuple[bytes, int]:
        """Take a content of any size; its SHA-256 and size. Raises StoreError kinds, and what `read` raises."""
        self.flush()
        stream = self._home.store.stream(read)
        chunks: list[tuple[bytes, bytes]] = []
        waiting = 0
        for window in stream.windows():
            chunks += window
            waiting += sum(len(part) for _digest, part in window)
            if waiting >= GROUP_BYTES:
                self._commit(lambda group, part=chunks: group.chunks(part))  # type: ignore[misc]
                chunks, waiting = [], 0
        manifest = stream.manifest()

        def rest(group: WriteGroup) -> None:
            group.chunks(chunks)
            group.manifest(manifest)

        self._commit(rest)
        self.stored += manifest.size
        return manifest.address, manifest.size

    def nodes(self, nodes: Mapping[bytes, bytes]) -> None:
        """Take tree nodes, those below them first. Raises StoreError kinds."""
        self._nodes.update(nodes)
        self._node_bytes += sum(map(len, nodes.values()))
        if self._node_bytes >= NODE_BYTES_MOST:
            self.flush()

    def remember(self, folder: Folder) -> None:
        """Let the stat cache know of a directory, once all that it names is durable."""
        self._folders.append(folder)

    def flush(self) -> None:
        """Make durable what was taken so far. Raises StoreError kinds."""
        if self._contents or self._nodes:
            self._commit(self._put)
            self._written()

    def finish(self, record: SnapshotRecord) -> SnapshotRecord:
        """Commit the rest together with the record; the record with its seq.

        One that has a seq is written already: then only the rest is. Raises SnapshotError where packs went away
        meanwhile that held a part of the tree, StoreError kinds.
        """
        home = self._home
        with home.store_lane:
            if self._packs - set(home.store.pack_ids()):
                self._settle(bytes.fromhex(record.root))
            group = self._group()
            self._put(group)
            if record.seq:
                group.commit()
            else:
                record = commit_snapshot(home, group, record)
            packs = home.store.pack_ids()
        self._written()
        if self._cache is not None:
            self._cache.keep_packs(packs, self.epoch)
        return record

    def _settle(self, root: bytes) -> None:
        """Packs were replaced or set aside since the first look: make sure that nothing of the tree went with them."""
        group = self._group()
        self._put(group)
        group.commit()
        if self._cache is not None:
            self._cache.clear()
        missing = lost(self._home, root)
        if missing:
            raise SnapshotError(
                f"{len(missing)} contents of this tree were removed from the store while it was read: {missing[0]}.",
                next_step="Take the snapshot again.",
            )

    def _commit(self, put: Callable[[WriteGroup], None]) -> None:
        with self._home.store_lane:
            group = self._group()
            put(group)
            group.commit()

    def _group(self) -> WriteGroup:
        if behind(self._home):
            replay_rest(self._home)
        return self._home.store.group()

    def _put(self, group: WriteGroup) -> None:
        for digest, data in self._contents.items():
            group.add(data, digest)
        group.nodes(self._nodes)

    def _written(self) -> None:
        self._contents, self._content_bytes = {}, 0
        self._nodes, self._node_bytes = {}, 0
        if self._cache is not None and self._folders:
            self._cache.keep(self._folders)
        self._folders = []


def lost(home: Home, root: bytes) -> list[str]:
    """Addresses of the contents below a tree that the packs do not hold whole. Raises NotFound for a missing node."""
    missing: list[str] = []
    waiting: list[bytes] = []
    folders, seen = [root], {root}

    def check() -> None:
        held = home.store.held(waiting)
        missing.extend(PREFIX + address.hex() for address in waiting if address not in held)
        waiting.clear()

    while folders:
        for entry in entries(home.store.node, folders.pop()):
            if entry.address in seen:
                continue
            seen.add(entry.address)
            (folders if entry.kind == DIRECTORY else waiting).append(entry.address)
        if len(waiting) >= CHECKED_TOGETHER:
            check()
    check()
    return missing
