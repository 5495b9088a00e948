"""How fast and how dense is the store, beside restic, borg, casync and git on the same bytes in one run?

    make bench-store            twelve releases of two packages, as trees and as tars, then text histories
    make bench-store ARGS="--git FOLDER"      the tags of a git repository as trees besides

Everything lies in memory (`--place`), so that no disk is measured. CPU seconds count, the cost of a peer's bare start
is taken off. The limit is one core that reads, cuts, hashes chunks and contents, and compresses what is new.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import zstandard
from pyfastcdc import FastCDC

from memoryd.config import StoreConfig
from memoryd.operations import optimize, restore, snapshots
from memoryd.operations.home import Caller, Home
from tests.benchmarks.homes import fresh_home
from tests.benchmarks.peers import PEERS, Cost, Git, Peer, measured, own_cpu, size_of
from tests.benchmarks.releases import releases

SIZES = StoreConfig()


def files_below(source: Path) -> Iterator[Path]:
    """Regular files of a source, sorted."""
    if source.is_file():
        yield source
        return
    yield from (path for path in sorted(source.rglob("*")) if path.is_file() and not path.is_symlink())


def limit(sources: Sequence[Path]) -> float:
    """MB/s of one core that does only what cannot be left out."""
    cutter = FastCDC(avg_size=SIZES.chunk_avg, min_size=SIZES.chunk_min, max_size=SIZES.chunk_max)
    packer, seen, total = zstandard.ZstdCompressor(level=3), set(), 0
    paths = [str(path) for source in sources for path in files_below(source)]

    def work() -> None:
        nonlocal total
        waiting: list[bytes | memoryview] = []
        size = 0
        for path in paths:
            with open(path, "rb") as stream:
                data = stream.read()
            total += len(data)
            for digest, part in pieces(cutter, data):
                if digest not in seen:
                    seen.add(digest)
                    waiting.append(part)
                    size += len(part)
                    if size >= 64 << 10:
                        packer.compress(b"".join(waiting))
                        waiting, size = [], 0
        packer.compress(b"".join(waiting))

    cost = measured(work, own_cpu)
    return total / cost.cpu / 1e6


def pieces(cutter: FastCDC, data: bytes) -> list[tuple[bytes, bytes | memoryview]]:
    """The chunks of a content with their hashes; the content is hashed, too."""
    whole = hashlib.sha256(data).digest()
    ends = (
        [chunk.offset + chunk.length for chunk in cutter.cut_buf(data)] if len(data) > SIZES.chunk_min else [len(data)]
    )
    if len(ends) == 1:
        return [(whole, data)]
    view = memoryview(data)
    return [(hashlib.sha256(view[a:b]).digest(), view[a:b]) for a, b in zip([0, *ends], ends, strict=False)]


class Ours:
    """memoryd by its store alone: snapshots in, directories out."""

    name = "memoryd"

    def __init__(self, home: Home, place: Path) -> None:
        self.home = home
        self.place = place
        self._wrapped: dict[Path, Path] = {}

    def take(self, source: Path, *, full: bool = True) -> None:
        snapshots.take(
            self.home, Caller(), path=str(self.folder_of(source)), label=source.name, scope="global", full=full
        )

    def give(self, source: Path, target: Path) -> None:
        found = restore.restore(self.home, Caller(), snapshot=source.name, target=str(target / "out"), scope="global")
        assert found["ok"], found

    def folder_of(self, source: Path) -> Path:
        """A snapshot is one of a directory: a single file gets one of its own."""
        if source.is_dir():
            return source
        if source not in self._wrapped:
            folder = self.place / "single" / source.name
            folder.mkdir(parents=True)
            shutil.copy2(source, folder / source.name)  # links do not reach another file system
            self._wrapped[source] = folder
        return self._wrapped[source]


def same(source: Path, given: Path) -> bool:
    """Whether every file came back with its bytes."""
    for path in files_below(source):
        relative = path.relative_to(source) if source.is_dir() else Path(source.name)
        found = [one for one in (given / relative, given / "out" / relative) if one.is_file()]
        if not found or found[0].read_bytes() != path.read_bytes():
            return False
    return True


def bench(title: str, sources: Sequence[Path], place: Path, peers: Sequence[type[Peer]]) -> None:
    """One corpus: all stores in turn."""
    total = sum(path.stat().st_size for source in sources for path in files_below(source))
    print(f"\n## {title}: {len(sources)} states, {total / 1e6:.0f} MB")
    bar = max(limit(sources), limit(sources))
    print(f"{'limit of one core':24} {bar:8.0f} MB/s")
    print(f"{'store':24} {'in MB/s':>8} {'restore':>8} {'stored MB':>10} {'again MB/s':>11}   (CPU; wall in brackets)")
    for kind in peers:
        if not kind.available():
            print(f"{kind.name:24} not installed")
            continue
        row(kind.name, *run_peer(kind, sources, total, place))
    run_ours(sources, total, place, bar)


def row(name: str, taken: Cost, given: Cost, stored: int, again: Cost, total: int) -> None:
    """One line of the table."""
    speed = [total / max(cost.cpu, 1e-6) / 1e6 for cost in (taken, given, again)]
    wall = [total / max(cost.wall, 1e-6) / 1e6 for cost in (taken, given, again)]
    print(
        f"{name:24} {speed[0]:8.0f} {speed[1]:8.0f} {stored / 1e6:10.2f} {speed[2]:11.0f}   "
        f"({wall[0]:.0f}, {wall[1]:.0f}, {wall[2]:.0f})",
        flush=True,
    )


def run_peer(kind: type[Peer], sources: Sequence[Path], total: int, place: Path) -> tuple[Cost, Cost, int, Cost, int]:
    """Take all in, give all back, take the last in again."""
    peer = kind(place / kind.name)
    peer.make()
    base = peer.start_up()
    taken = Cost()
    for number, source in enumerate(sources):
        taken.add(measured(lambda n=number, s=source: peer.take(n, s)))  # type: ignore[misc]
        taken.add(base, -1)
    stored = size_of(peer.store)
    if isinstance(peer, Git):
        repacked = measured(peer.repack)
        print(f"{'git, loose':24} {'':8} {'':8} {stored / 1e6:10.2f}   then repack: {repacked.cpu:.1f} s CPU")
        taken.add(repacked)
        stored = size_of(peer.store)
    given = Cost()
    for number, source in enumerate(sources):
        with scratch(place) as target:
            given.add(measured(lambda n=number, s=source, t=target: peer.give(n, s, t)))  # type: ignore[misc]
            given.add(base, -1)
            assert same(source, target), f"{kind.name} gave other bytes back"
    again = measured(lambda: peer.take(len(sources), sources[-1]))
    again.add(base, -1)
    size = sum(path.stat().st_size for path in files_below(sources[-1]))
    shutil.rmtree(peer.folder)
    return taken, given, stored, Cost(again.cpu * total / size, again.wall * total / size), total


@contextmanager
def scratch(place: Path) -> Iterator[Path]:
    """An empty folder, removed afterwards."""
    folder = Path(tempfile.mkdtemp(dir=place))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def run_ours(sources: Sequence[Path], total: int, place: Path, bar: float) -> None:
    """memoryd before and after optimize."""
    root = place / "memoryd"
    with fresh_home(root) as home:
        ours = Ours(home, place)
        for source in sources:
            ours.folder_of(source)
        taken = Cost()
        for source in sources:
            taken.add(measured(lambda s=source: ours.take(s), own_cpu))  # type: ignore[misc]
        stored = home.store.stats().stored_bytes
        given = restored(ours, sources, place)
        alone = restored(ours, sources, place, each_cold=True)
        again = measured(lambda: ours.take(sources[-1], full=False), own_cpu)
        size = sum(path.stat().st_size for path in files_below(sources[-1]))
        scaled = Cost(again.cpu * total / size, again.wall * total / size)
        row("memoryd", taken, given, stored, scaled, total)
        cost = measured(lambda: optimize.optimize(home), own_cpu)
        row("memoryd, optimized", taken, restored(ours, sources, place), home.store.stats().stored_bytes, scaled, total)
        later = restored(ours, sources, place, each_cold=True)
        speeds = " and ".join(f"{total / cost.cpu / 1e6:.0f}" for cost in (alone, later))
        print(f"restored each with an empty cache, before and after optimize: {speeds} MB/s CPU")
        found = list(home.store.findings(read_data=True))
        checked = measured(lambda: list(home.store.findings(read_data=True)), own_cpu)
        raw = home.store.stats().raw_bytes
        print(f"optimize took {cost.cpu:.1f} s CPU; share of the limit {total / taken.cpu / 1e6 / bar:.2f}; ", end="")
        print(f"check of every byte {raw / checked.cpu / 1e6:.0f} MB/s of raw bytes, {len(found)} findings")
    shutil.rmtree(root)
    shutil.rmtree(place / "single", ignore_errors=True)


def restored(ours: Ours, sources: Sequence[Path], place: Path, *, each_cold: bool = False) -> Cost:
    """All states given back, each compared; one after the other as a daemon would, or each for itself."""
    given = Cost()
    for source in sources:
        if each_cold:
            ours.home.store.rest()
        with scratch(place) as target:
            given.add(measured(lambda s=source, t=target: ours.give(s, t), own_cpu))  # type: ignore[misc]
            assert same(source, target), "memoryd gave other bytes back"
    return given


def bench_text(texts: Sequence[bytes], place: Path) -> None:
    """A history of one text: what is stored of it, before and after optimize."""
    raw = sum(map(len, texts))
    with fresh_home(place / "text") as home:
        before = home.store.stats()
        for number, text in enumerate(texts):
            with home.store_lane, home.store.group() as group:
                group.record("document", event(f"{number}", group.add(text), len(text)))
                group.commit()
        stats = home.store.stats()
        unique = stats.raw_bytes - before.raw_bytes
        first = stats.stored_bytes
        optimize.optimize(home)
        last = home.store.stats().stored_bytes
    shutil.rmtree(place / "text")
    print(f"\n## text history: {len(texts)} revisions, {raw / 1e6:.1f} MB raw")
    print(f"dedup before compression {raw / unique:.1f}x; stored {100 * first / raw:.1f} % of raw at once, ", end="")
    print(f"{100 * last / raw:.1f} % after optimize")


def event(number: str, address: str, size: int) -> dict[str, object]:
    """A document record of one revision."""
    from memoryd.records import DocumentEvent

    return DocumentEvent("text", b"CHANGES", "global", "document", "seen", address, size, observed=number).to_json()


def bench_insert(place: Path) -> None:
    """Seven bytes put before 10 MB of text: what is stored anew."""
    chance = random.Random(4)
    words = ["".join(chance.choices("etaoinshrdlu", k=chance.randint(2, 9))) for _ in range(4000)]
    text = " ".join(chance.choices(words, k=1_700_000)).encode()[: 10 << 20]
    with fresh_home(place / "insert") as home:
        sizes = []
        for data in (text, b"7 bytes" + text):
            with home.store_lane, home.store.group() as group:
                group.add(data)
                group.commit()
            sizes.append(home.store.stats().raw_bytes)
    shutil.rmtree(place / "insert")
    print(
        f"\n7 bytes before {len(text) >> 20} MiB of text: {100 * (1 - (sizes[1] - sizes[0]) / len(text)):.3f} % reused"
    )


def changelogs(cache: Path) -> list[bytes]:
    """The changelog of a hundred successive releases of setuptools, whose name changed once."""
    trees = [one.tree for one in releases(cache, {"setuptools": ""}, 100)]
    return [path.read_bytes() for tree in trees for path in (tree / "CHANGES.rst", tree / "NEWS.rst") if path.is_file()]


def exported_tags(repository: Path, cache: Path, most: int) -> list[Path]:
    """The trees of a repository's newest tags, oldest first."""
    git = ["git", "-C", str(repository)]
    names = subprocess.run(
        [*git, "tag", "--sort=creatordate"], capture_output=True, text=True, check=True
    ).stdout.split()
    found = []
    for name in names[-most:]:
        tree = cache / "tags" / name.replace("/", "_")
        if not tree.is_dir():
            tree.mkdir(parents=True)
            archive = subprocess.run([*git, "archive", name], capture_output=True, check=True).stdout
            subprocess.run(["tar", "-x", "-C", str(tree)], input=archive, check=True)
        found.append(tree)
    return found


def main() -> int:
    """The command: 0 when all ran."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "memoryd" / "bench")
    parser.add_argument("--place", type=Path, default=Path("/dev/shm"), help="where stores and restored trees lie")
    parser.add_argument("--git", type=Path, help="a repository whose tags are taken as further trees")
    parser.add_argument("--only", choices=("trees", "tars", "text", "insert"))
    parser.add_argument("--peers", default="restic,borg,casync,git")
    given = parser.parse_args()
    peers = [peer for peer in PEERS if peer.name in given.peers.split(",")]
    place = Path(tempfile.mkdtemp(prefix="memoryd-bench-", dir=given.place if given.place.is_dir() else None))
    try:
        found = releases(given.cache)
        if given.only in (None, "trees"):
            bench("trees", [one.tree for one in found], place, peers)
        if given.only in (None, "tars"):
            bench("tars", [one.tar for one in found], place, peers)
        if given.git is not None:
            bench(f"tags of {given.git.name}", exported_tags(given.git, given.cache, 12), place, peers)
        if given.only in (None, "text"):
            bench_text(changelogs(given.cache), place)
        if given.only in (None, "insert"):
            bench_insert(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
