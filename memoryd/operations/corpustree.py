"""Which tree does a corpus make, as the catalog holds it now?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from memoryd.catalog.documents import DocumentRow
from memoryd.digest import PREFIX
from memoryd.operations.home import Home, timestamp
from memoryd.operations.treewriter import TreeWriter
from memoryd.records import SnapshotRecord
from memoryd.store.merkle import DIRECTORY, FILE, TreeEntry, build


def record_corpus(home: Home, label: str, scope: str, *, left_out: int = 0) -> dict[str, Any]:
    """Keep the state of a corpus as a snapshot, where it is not the last one's: its `seq`, its `root`, whether new.

    `left_out` counts what the scan could not read. The caller holds no lane, and nothing else changes this corpus
    meanwhile. Raises StoreError kinds.
    """
    writer = TreeWriter(home)
    tree = CorpusTree(writer)
    tree.add(home.documents.current(label))
    root = tree.root().hex()
    last = home.snapshots.last_of(label)
    if last is not None and (last.root, last.scope, last.left_out) == (root, scope, left_out):
        return {"seq": last.seq, "root": root, "new": False}
    made = SnapshotRecord(
        label, label, scope, root, timestamp(home), files=tree.files, size=tree.size, left_out=left_out
    )
    return {"seq": writer.finish(made).seq, "root": root, "new": True}


class Nodes(Protocol):
    """Who takes the nodes."""

    def nodes(self, nodes: Mapping[bytes, bytes]) -> None: ...


class CorpusTree:
    """Builds nodes from rows in the order of their paths, one branch of the tree in memory at a time."""

    def __init__(self, writer: Nodes) -> None:
        self._writer = writer
        self._open: list[tuple[bytes, dict[bytes, TreeEntry]]] = [(b"", {})]
        self.files = 0
        self.size = 0

    def add(self, rows: Iterable[DocumentRow]) -> None:
        """Take documents that are not gone. Raises StoreError kinds."""
        for row in rows:
            *folders, name = row.path.split(b"/")
            if row.address is None or not all((*folders, name)):
                continue
            same = 0
            for (opened, _entries), wanted in zip(self._open[1:], folders, strict=False):
                if opened != wanted:
                    break
                same += 1
            while len(self._open) > same + 1:
                self._close()
            self._open += [(folder, {}) for folder in folders[same:]]
            digest = bytes.fromhex(row.address.removeprefix(PREFIX))
            self._open[-1][1].setdefault(name, TreeEntry(name, FILE, row.exec, row.size, digest))
            self.files += 1
            self.size += row.size

    def root(self) -> bytes:
        """The address of the whole tree."""
        while len(self._open) > 1:
            self._close()
        return self._built(self._open[0][1])

    def _close(self) -> None:
        """A directory is complete: it takes its place above, before a file of its name that was not seen to go."""
        name, found = self._open.pop()
        self._open[-1][1][name] = TreeEntry(name, DIRECTORY, False, 0, self._built(found))

    def _built(self, found: dict[bytes, TreeEntry]) -> bytes:
        address, nodes = build(list(found.values()))
        self._writer.nodes(nodes)
        return address
