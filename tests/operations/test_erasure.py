"""What holds a secret is found in trees of any depth and files of any size."""

from __future__ import annotations

import hashlib
import tracemalloc

import pytest

from memoryd.digest import PREFIX, address_of
from memoryd.operations import snapshots
from memoryd.operations.erasure import WINDOW, plan, shown
from memoryd.operations.forget import run
from memoryd.operations.home import Caller
from memoryd.operations.ingest import Seen, commit_snapshot, store_documents
from memoryd.records import SnapshotRecord
from memoryd.store.merkle import DIRECTORY, FILE, TreeEntry, build

SECRET = b"hunter2-correct-horse-battery"


@pytest.mark.parametrize("depth", [3, 1500])
def test_a_snapshot_names_what_lies_deep_in_its_tree(home, depth):
    digest = hashlib.sha256(SECRET).digest()
    entries, nodes = [TreeEntry(b"secret.txt", FILE, False, len(SECRET), digest)], {}
    for _ in range(depth):
        root, made = build(entries)
        nodes |= made
        entries = [TreeEntry(b"d", DIRECTORY, False, 0, root)]
    other, made = build([])
    with home.store_lane:
        with home.store.group() as group:
            group.add(SECRET)
            group.nodes(nodes | made)
            commit_snapshot(home, group, SnapshotRecord("deep", "/deep", "global", root.hex(), "2026-01-01T00:00:00Z"))
        with home.store.group() as group:
            commit_snapshot(home, group, SnapshotRecord("none", "/none", "global", other.hex(), "2026-01-02T00:00:00Z"))
    told = shown(home, plan(home, [], SECRET.decode()))
    assert told["snapshots"] == ["deep (2026-01-01T00:00:00Z)"]


def test_a_file_of_a_snapshot_is_never_held_whole(home, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    line = b"%s of the printer\n" % SECRET
    data = line + b"\0" * (12 * WINDOW)
    (tree / "image.bin").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    del data
    snapshots.take(home, Caller(), path=str(tree), label="mine", scope="global")
    tracemalloc.start()
    made = plan(home, [], SECRET.decode())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert made.addresses == {PREFIX + digest}
    assert peak < 6 * WINDOW


def test_an_erased_content_is_noted_as_damaged_no_longer(home, root):
    store_documents(home, [Seen("docs", b"a.md", "global", "document", SECRET)])
    address = address_of(SECRET)
    home.store.damaged.add(address)
    assert address in (root / "store" / "damaged").read_text()
    run(home, plan(home, [address], SECRET.decode()))
    assert not (root / "store" / "damaged").exists()
