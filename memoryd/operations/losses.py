"""Which contents that something in force names can no longer be read, and who names them?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from memoryd.catalog.told import Told
from memoryd.digest import PREFIX, raw_address
from memoryd.errors import NotFound, StoreError
from memoryd.operations.burial import standing
from memoryd.operations.home import Home
from memoryd.records import VAULT_SOURCE, SnapshotRecord, shown_path
from memoryd.store.mend import Ruin
from memoryd.store.merkle import DIRECTORY, FILE, SYMLINK, TreeNode, parse_node

BATCH = 1000
NAMED_MOST = 50
"""Paths that are named of one snapshot."""
Stop = Callable[[], bool]


@dataclass(slots=True)
class Losses:
    """Addresses without prefix (32 bytes). `paths`: for each snapshot that is hit, the paths that cannot be read."""

    contents: set[bytes] = field(default_factory=set)
    nodes: set[bytes] = field(default_factory=set)
    snapshots: list[tuple[SnapshotRecord, list[bytes]]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.contents or self.nodes)


def find(home: Home, ruins: Iterable[Ruin], stop: Stop = lambda: False) -> Losses:
    """Everything that documents (now or before) and snapshots name and that cannot be read. Raises StoreError kinds."""
    trees = _Trees(home)
    suspect = _suspects(home, ruins)
    named = _Batches(home)
    for address in Told(home.catalog).addresses():
        named.take(raw_address(address))
    for digest in trees.contents():
        named.take(digest)
    wanted = (named.lacking() | (suspect & named.seen)) - {raw_address(one) for one in standing(home)}
    found = Losses({one for one in wanted if not stop() and not readable(home, one)}, trees.unread)
    if found:
        found.snapshots = trees.hit(found.contents)
    return found


def _suspects(home: Home, ruins: Iterable[Ruin]) -> set[bytes]:
    """Contents that may have lost something in these packs."""
    chunks: set[bytes] = set()
    contents: set[bytes] = set()
    for ruin in ruins:
        chunks |= ruin.chunks
        contents |= ruin.contents
    if chunks:
        for manifest in home.store.manifests():
            if any(digest in chunks for digest, _length in manifest.chunks):
                contents.add(manifest.address)
    return contents | chunks


def readable(home: Home, digest: bytes) -> bool:
    try:
        for _piece in home.store.pieces(PREFIX + digest.hex()):
            pass
    except (NotFound, StoreError):
        return False
    return True


def unread_nodes(home: Home, nodes: Iterable[bytes]) -> set[bytes]:
    """Those of these tree nodes that cannot be read."""
    found = set()
    for address in nodes:
        try:
            home.store.node(address)
        except (NotFound, StoreError):
            found.add(address)
    return found


class _Batches:
    """Asks the store for many contents at a time. `seen`: all that were asked for."""

    def __init__(self, home: Home) -> None:
        self._store = home.store
        self._waiting: list[bytes] = []
        self._lacking: set[bytes] = set()
        self.seen: set[bytes] = set()

    def take(self, digest: bytes) -> None:
        if digest not in self.seen:
            self.seen.add(digest)
            self._waiting.append(digest)
        if len(self._waiting) >= BATCH:
            self._ask()

    def lacking(self) -> set[bytes]:
        """Those of which the index does not know every chunk."""
        self._ask()
        return self._lacking

    def _ask(self) -> None:
        self._lacking |= set(self._waiting) - self._store.held(self._waiting)
        self._waiting = []


class _Trees:
    """The trees of all snapshots, each node read once. `unread`: nodes that cannot be."""

    def __init__(self, home: Home) -> None:
        self._store = home.store
        self._records = home.snapshots.all(None)
        self.unread: set[bytes] = set()
        self._tainted: dict[bytes, bool] = {}

    def _node(self, address: bytes) -> TreeNode | None:
        try:
            return parse_node(self._store.node(address))
        except (NotFound, StoreError):
            self.unread.add(address)
            return None

    def contents(self) -> Iterator[bytes]:
        """Every content that a tree names."""
        seen: set[bytes] = set()
        waiting = [bytes.fromhex(record.root) for record in self._records]
        while waiting:
            address = waiting.pop()
            if address in seen:
                continue
            seen.add(address)
            node = self._node(address)
            if node is not None:
                waiting += _below(node)
                yield from (entry.address for entry in node.entries if entry.kind in (FILE, SYMLINK))

    def hit(self, lost: set[bytes]) -> list[tuple[SnapshotRecord, list[bytes]]]:
        """The snapshots that something lost belongs to, and the paths of it."""
        found = []
        for record in self._records:
            root = bytes.fromhex(record.root)
            if self._is_tainted(root, lost):
                found.append((record, list(islice(self._paths(root, lost), NAMED_MOST))))
        return found

    def _is_tainted(self, address: bytes, lost: set[bytes]) -> bool:
        """Whether something below a node is lost; children are settled before their parents."""
        waiting = [address]
        while waiting:
            top = waiting[-1]
            if top in self._tainted:
                waiting.pop()
                continue
            node = self._node(top)
            below = [] if node is None else _below(node)
            fresh = [one for one in below if one not in self._tainted]
            if fresh:
                waiting += fresh
                continue
            own = node is None or any(entry.address in lost for entry in node.entries)
            self._tainted[top] = own or any(self._tainted[one] for one in below)
        return self._tainted[address]

    def _paths(self, address: bytes, lost: set[bytes]) -> Iterator[bytes]:
        """In the order of the tree; a tree may be deeper than calls can be."""
        waiting: list[tuple[bytes, bytes | None]] = [(b"", address)]
        while waiting:
            prefix, at = waiting.pop()
            if at is None:
                yield prefix
                continue
            node = self._node(at)
            if node is None:
                yield prefix + b"/" if prefix else b"."
                continue
            below: list[tuple[bytes, bytes | None]] = [
                (prefix, branch.address) for branch in node.branches if self._tainted[branch.address]
            ]
            for entry in node.entries:
                path = prefix + b"/" + entry.name if prefix else entry.name
                if entry.kind == DIRECTORY and self._tainted[entry.address]:
                    below.append((path, entry.address))
                elif entry.kind != DIRECTORY and entry.address in lost:
                    below.append((path, None))
            waiting += reversed(below)


def _below(node: TreeNode) -> list[bytes]:
    inner = [branch.address for branch in node.branches]
    return inner + [entry.address for entry in node.entries if entry.kind == DIRECTORY]


def named_by(home: Home, losses: Losses) -> dict[str, list[Any]]:
    """Documents, memories and snapshots that a loss hits, as answers show them."""
    documents: dict[tuple[str, bytes], dict[str, Any]] = {}
    memories = []
    for digest in sorted(losses.contents):
        address = PREFIX + digest.hex()
        for row in home.documents.ever_at(address, None):
            place = f"{row.source}/{shown_path(row.path)}"
            now = row.address == address
            if row.source == VAULT_SOURCE:
                memories.append({"path": place, "title": row.title, "address": address, "in_history_only": not now})
            else:
                documents[row.source, row.path + digest] = {
                    "path": place,
                    "address": address,
                    "in_history_only": not now,
                }
    snapshots = [
        {"label": record.label, "seq": record.seq, "paths": [shown_path(path) for path in paths]}
        for record, paths in losses.snapshots
    ]
    return {"documents": list(documents.values()), "memories": memories, "snapshots": snapshots}
