"""What does a difference of two large trees cost, and a snapshot of an unchanged one?

    make bench-trees            100,000 files nested and flat, one change each; then 100,000 real files in memory

Bars: nested 1 ms, flat 10 ms and 200 KB read from packs, both with cold frames after opening; an unchanged snapshot
about as long as a directory walk.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from memoryd.config import StoreConfig
from memoryd.files import Files
from memoryd.operations.home import Caller, open_home
from memoryd.operations.owner import own_home
from memoryd.operations.recover import recover
from memoryd.operations.snapshots import take
from memoryd.store.chunkstore import ChunkStore
from memoryd.store.merkle import DIRECTORY, FILE, TreeEntry, build
from memoryd.store.shelf import PackFile
from memoryd.store.treediff import differences

FILES = 100_000
ROUNDS = 21


def nested(nodes: dict[bytes, bytes], changed: bool, prefix: bytes = b"", depth: int = 3) -> bytes:
    """The root of 10 x 10 x 10 directories of 100 files each."""
    if depth:
        below = [(b"%d" % n, prefix + b"%d/" % n) for n in range(10)]
        found = [TreeEntry(name, DIRECTORY, False, 0, nested(nodes, changed, path, depth - 1)) for name, path in below]
    else:
        found = [leaf(prefix + b"%02d" % n, changed and (prefix, n) == (b"5/5/5/", 50)) for n in range(100)]
    return kept(nodes, found)


def flat(nodes: dict[bytes, bytes], changed: bool) -> bytes:
    """The root of one directory with everything in it."""
    return kept(nodes, [leaf(b"file-%06d.txt" % n, changed and n == 77_777) for n in range(FILES)])


def leaf(path: bytes, changed: bool) -> TreeEntry:
    data = path + (b" changed" if changed else b"")
    return TreeEntry(path.rpartition(b"/")[2], FILE, False, len(data), hashlib.sha256(data).digest())


def kept(nodes: dict[bytes, bytes], found: list[TreeEntry]) -> bytes:
    root, made = build(found)
    nodes.update(made)
    return root


def stored(place: Path, make: Callable[[dict[bytes, bytes], bool], bytes]) -> tuple[bytes, bytes]:
    """Both roots, their nodes in packs."""
    store = ChunkStore.open(place, files=Files(), sizes=StoreConfig())
    roots = []
    for changed in (False, True):
        nodes: dict[bytes, bytes] = {}
        roots.append(make(nodes, changed))
        with store.group() as group:
            group.nodes(nodes)
            group.commit()
    store.close()
    return roots[0], roots[1]


def measure_diff(name: str, make: Callable[[dict[bytes, bytes], bool], bytes], bar: float) -> None:
    """Every round opens the store anew, so that nothing is cached."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        roots = stored(Path(folder), make)
        times, busy, read, nodes = [], [], 0, 0
        for _ in range(ROUNDS):
            store = ChunkStore.open(Path(folder), files=Files(), sizes=StoreConfig())
            store.node_places([roots[0]])  # opened: the index was asked once
            began, worked = time.perf_counter(), time.process_time()
            found = list(differences(store.node, *roots, store.node_pair))
            times.append((time.perf_counter() - began) * 1000)
            busy.append((time.process_time() - worked) * 1000)
            read, nodes = counted(store, roots)
            store.close()
    assert len(found) == 1
    middle, cpu = sorted(times)[ROUNDS // 2], sorted(busy)[ROUNDS // 2]
    told = f"median {middle:.2f} ms ({cpu:.2f} ms CPU), best {min(times):.2f} ms (bar {bar:g} ms)"
    print(f"{name:7} {told}, {nodes} nodes, {read / 1000:.0f} KB read from packs")


def counted(store: ChunkStore, roots: tuple[bytes, bytes]) -> tuple[int, int]:
    """Bytes that a cold difference reads from packs, and the nodes."""
    read, nodes = 0, 0
    plain = PackFile.read_at

    def counting(file: PackFile, offset: int, length: int) -> bytes:
        nonlocal read
        read += length
        return plain(file, offset, length)

    def node(address: bytes) -> bytes:
        nonlocal nodes
        nodes += 1
        return store.node(address)

    store._shelf._cached.clear()
    PackFile.read_at = counting  # type: ignore[method-assign]
    try:
        list(differences(node, *roots))
    finally:
        PackFile.read_at = plain  # type: ignore[method-assign]
    return read, nodes


def walked(top: Path) -> int:
    """A walk that looks at everything and keeps nothing."""
    seen, waiting = 0, [os.fsencode(top)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    entry.stat(follow_symlinks=False)
                    seen += 1
    return seen


def measure_snapshots(files: int) -> None:
    """First, unchanged, and unchanged but read: beside a walk of the same tree."""
    base = Path(tempfile.mkdtemp(dir="/dev/shm"))
    try:
        for number in range(files // 100):
            folder = base / "tree" / f"{number // 100:02d}" / f"{number % 100:02d}"
            folder.mkdir(parents=True)
            for inner in range(100):
                (folder / f"file-{inner:02d}.txt").write_bytes(b"file %d of %d\n" % (inner, number) * 60)
        time.sleep(0.1)  # nothing was changed a moment ago
        lock = own_home(base / "home")
        home = open_home(base / "home", environment={})
        recover(home)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        rows = [("first", False), ("unchanged", False), ("unchanged", False), ("read", True)]
        for name, full in rows:
            walk = seconds(lambda: walked(base / "tree"))
            cost = seconds(lambda full=full: take(home, Caller(), path=str(base / "tree"), label="t", full=full))  # type: ignore[misc]
            print(f"{name:10} {files} files: {cost:.2f} s CPU; a walk: {walk:.2f} s")
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"memory: {(after - before) / 1024:.0f} MB more than before")
        home.close()
        lock.release()
    finally:
        shutil.rmtree(base)


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=FILES, help="files of the real tree")
    given = parser.parse_args()
    measure_diff("nested", nested, 1)
    measure_diff("flat", flat, 10)
    if given.files:
        measure_snapshots(given.files)


if __name__ == "__main__":
    main()
