"""What do build, rebuild, memory and search cost at 1,000 to 1,000,000 passages, beside the two bare engines?

`make bench-scale` prints one line a figure with its bar. Vectors are synthetic (clusters of 384 numbers) and lie in the
embedding cache, so that nothing is embedded; texts are sections of 60 words. `ARGS="--sizes 1000,10000"` chooses
sizes, `ARGS="--only million"` measures the engines alone at 1,000,000 vectors.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from memoryd.index.vector import VectorEntry, VectorIndex
from memoryd.operations import indexing, ingest, reading, rebuild
from memoryd.operations.check import check
from memoryd.operations.home import Caller, Home
from memoryd.records import Encoded, Filter
from tests.benchmarks.bench import Figure, memory_of, percentile, sentence, timed, told_of
from tests.benchmarks.homes import fresh_home

DIMS = 384
CLUSTERS = 20
SCOPES = [f"p-part{number}-0000000{number}" for number in range(10)]
CANDIDATES = 100


class Vectors:
    """Unit vectors around some centres, as texts of so many subjects would have."""

    def __init__(self, seed: int) -> None:
        self._chance = np.random.default_rng(seed)
        self._centres = np.random.default_rng(1).standard_normal((CLUSTERS, DIMS)).astype("<f4")

    def some(self, count: int, spread: float = 1.2) -> Any:
        """float32, shape (count, DIMS); two around one centre have a cosine of about 1 / (1 + spread²)."""
        apart = spread * self._chance.standard_normal((count, DIMS)).astype("<f4")
        found = self._centres[self._chance.integers(0, CLUSTERS, count)] + apart
        return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype("<f4")


def store(home: Home, passages: int, sections: int) -> float:
    """Documents of so many sections, one passage each, and their vectors in the cache; seconds of the storing."""
    chance = random.Random(11)

    def text() -> bytes:
        parts = [f"## {sentence(chance, 3)}\n\n{sentence(chance, 60)}\n" for _ in range(sections)]
        return "\n".join(parts).encode()

    seen = (
        ingest.Seen("bench", f"{n // 500:03}/{n:06}.md".encode(), SCOPES[n % len(SCOPES)], "document", text())
        for n in range(passages // sections)
    )
    spent = timed(lambda: ingest.store_documents(home, seen))
    vectors, number = Vectors(3), 0
    while page := home.passages.texts_after(number, 5000):
        made = vectors.some(len(page))
        home.cache.put_many(
            home.host.identity.fingerprint, {one[2]: vector.tobytes() for one, vector in zip(page, made, strict=True)}
        )
        number = page[-1][0]
    return spent


def spoken(home: Home) -> Callable[[], tuple[str, str]]:
    """Makes the model give a vector at once; what gives the next query and its scope."""
    chance, pool = random.Random(17), Vectors(5).some(2000, 0.5)  # near enough to their best passages to be answered
    at = iter(range(10**9))
    home.host.begin_query = lambda _text: lambda _timeout: Encoded(pool[next(at) % len(pool)].tobytes())  # type: ignore[method-assign]
    return lambda: (sentence(chance, 6), chance.choice(SCOPES))


class Bare:
    """The two engines with nothing around them: what any search over these indexes costs at the least."""

    def __init__(self, home: Home) -> None:
        import qdrant_edge
        import tantivy

        generation = home.generation
        assert generation is not None and generation.lexical is not None and isinstance(generation.vectors, VectorIndex)
        self._edge, self._tantivy = qdrant_edge, tantivy
        self._shard = generation.vectors._shard
        index = generation.lexical._index
        self._schema, self._searcher = index.schema, index.searcher()
        self._pool, self._at = Vectors(7).some(2000), 0

    def search(self, text: str, scope: str | None) -> None:
        self.words(text, scope)
        self.vectors(scope)

    def words(self, text: str, scope: str | None) -> None:
        query, occur = self._tantivy.Query, self._tantivy.Occur
        terms = [query.term_query(self._schema, "word", word) for word in text.split()]
        wanted = query.boolean_query([(occur.Should, term) for term in terms])
        if scope is not None:
            allowed = query.const_score_query(query.term_query(self._schema, "scope", scope), 0.0)
            wanted = query.boolean_query([(occur.Must, wanted), (occur.Must, allowed)])
        for _, address in self._searcher.search(wanted, CANDIDATES).hits:
            self._searcher.doc(address).get_first("document_id")

    def vectors(self, scope: str | None) -> None:
        edge = self._edge
        self._at += 1
        one = None if scope is None else edge.FieldCondition("visible", match=edge.MatchValue(f"in_force:{scope}"))
        self._shard.query(
            edge.QueryRequest(
                limit=CANDIDATES,
                query=edge.Query.Nearest(self._pool[self._at % len(self._pool)].tolist()),
                filter=None if one is None else edge.Filter(must=[one]),
                with_payload=["document_id"],
            )
        )


def measured(home: Home, queries: int) -> dict[str, list[float]]:
    """Milliseconds of searches in one scope, in all scopes, by keyword alone, and of the bare engines, in turn."""
    ask, bare = spoken(home), Bare(home)
    found: dict[str, list[float]] = {name: [] for name in ("scope", "all", "keyword", "bare scope", "bare all")}
    for turn in range(queries + 20):
        text, scope = ask()
        rows = {
            "scope": lambda text=text, scope=scope: reading.search(home, Caller(), query=text, scope=scope),
            "keyword": lambda text=text, scope=scope: reading.search(
                home, Caller(), query=text + " x", scope=scope, mode="keyword"
            ),
            "all": lambda text=text: _in_all(home, text),
            "bare scope": lambda text=text, scope=scope: bare.search(text, scope),
            "bare all": lambda text=text: bare.search(text, None),
        }
        for name, work in rows.items():
            spent = timed(work) * 1000
            if turn >= 20:
                found[name].append(spent)
    return found


def _in_all(home: Home, text: str) -> None:
    from memoryd.operations import answers

    wanted = Filter(tuple(SCOPES))
    outcome, _index = answers.ranked(home, text, "hybrid", wanted, 16)
    answers.hits(home, text, outcome.hits, 8, wanted)


BARS = {1000: 3.0, 10_000: 6.0, 50_000: 15.0}


def bench_size(passages: int, sections: int, queries: int) -> Iterator[Figure]:
    """One home of so many passages."""
    with tempfile.TemporaryDirectory(prefix="memoryd-bench-") as folder:
        root = Path(folder) / "home"
        name = f"{passages} passages"
        with fresh_home(root) as home:
            yield Figure(f"{name}: documents of {sections} sections stored", store(home, passages, sections), "s")
            yield Figure(f"{name}: first index, cached embeddings", timed(lambda: fill(home)), "s")
            bar = 60.0 if passages == 100_000 else None
            yield Figure(f"{name}: rebuild, cached embeddings", timed(lambda: rebuild.rebuild(home)), "s", bar)
            found = measured(home, queries)
            yield from searched(name, passages, found)
            if passages >= 10_000:
                yield from busy(home, name)
        yield from opened_anew(root, name, passages)


def fill(home: Home) -> None:
    rebuild.new_generation(home, lambda *_: None, lambda: False)


def searched(name: str, passages: int, found: dict[str, list[float]]) -> Iterator[Figure]:
    for part, bare in (("scope", "bare scope"), ("all", "bare all")):
        high, low = percentile(found[part], 0.95), percentile(found[bare], 0.95)
        where = "one scope" if part == "scope" else "all scopes"
        yield Figure(f"{name}: search in {where}, p95", high, "ms", BARS.get(passages) if part == "scope" else None)
        yield Figure("  p50", statistics.median(found[part]), "ms")
        yield Figure("  the two bare engines, p95", low, "ms")
        yield Figure("  against the two bare engines, p95", high / low, "x", 2.0 if part == "scope" else None)
    bar = 2.0 if passages == 10_000 else None
    yield Figure(
        f"{name}: keyword search whole (fusion, excerpts), p50", statistics.median(found["keyword"]), "ms", bar
    )


def busy(home: Home, name: str) -> Iterator[Figure]:
    """Searches twenty a second at rest, and while everything is made again."""
    ask = spoken(home)

    def one() -> float:
        text, scope = ask()
        return timed(lambda: reading.search(home, Caller(), query=text, scope=scope)) * 1000

    def paced(until: Callable[[], bool]) -> list[float]:
        times = []
        while not until():
            times.append(one())
            time.sleep(0.05)
        return times

    end = time.monotonic() + 10
    idle = paced(lambda: time.monotonic() > end)
    work = threading.Thread(target=lambda: rebuild.rebuild(home))
    work.start()
    during = paced(lambda: not work.is_alive())
    ratio = percentile(during, 0.95) / percentile(idle, 0.95)
    yield Figure(f"{name}: search during a full rebuild against at rest, p95", ratio, "x", 2.0)
    yield Figure("  at rest, p95", percentile(idle, 0.95), "ms")
    yield Figure(f"  during a rebuild, p95 of {len(during)}", percentile(during, 0.95), "ms")


OPENED = """
import json, sys, time
from pathlib import Path
from memoryd.operations.home import Caller, open_home
from memoryd.operations.owner import own_home
from memoryd.operations.recover import recover
from memoryd.operations import indexing, reading
from memoryd.records import Encoded
from tests.benchmarks.bench import memory_of, sentence
import os, random
root = Path(sys.argv[1])
lock = own_home(root, wait_seconds=10)
began = time.perf_counter()
home = open_home(root, environment={})
recover(home)
spent = time.perf_counter() - began
vector = bytes.fromhex("0000803f") + bytes(383 * 4)
home.host.begin_query = lambda text: lambda timeout: Encoded(vector)
chance = random.Random(3)
for number in range(200):
    reading.search(home, Caller(), query=sentence(chance, 6), scope=f"p-part{number % 10}-0000000{number % 10}")
print(json.dumps([spent, memory_of(os.getpid())]))
home.close()
lock.release()
"""


def opened_anew(root: Path, name: str, passages: int) -> Iterator[Figure]:
    """A process of its own, without a benchmark's imports: opening, and memory after 200 searches."""
    import json

    command = [sys.executable, "-c", OPENED, str(root)]
    spent, memory = json.loads(subprocess.run(command, check=True, capture_output=True, cwd=Path.cwd()).stdout)
    yield Figure(f"{name}: open and recover", spent, "s")
    bar = 100.0 if passages <= 20_000 else None
    yield Figure(f"{name}: private memory after 200 searches (RssAnon, without server)", memory["RssAnon"], "MB", bar)
    yield Figure("  RSS", memory["VmRSS"], "MB")


def bench_sixty() -> Iterator[Figure]:
    """Sixty entries from nothing with the real model, then once more from the cache."""
    with tempfile.TemporaryDirectory(prefix="memoryd-bench-") as folder, fresh_home(Path(folder) / "home") as home:
        chance = random.Random(23)
        texts = [f"# Entry {n}\n\n{sentence(chance, 120)}\n".encode() for n in range(60)]
        ingest.store_documents(
            home, (ingest.Seen("bench", b"%d.md" % n, "global", "document", text) for n, text in enumerate(texts))
        )

        def settle() -> None:
            while indexing.catch_up(home):
                pass

        yield Figure("60 entries cold, embedded model, its start included", timed(settle), "s", 15)
        yield Figure("60 entries cached: everything made again", timed(lambda: rebuild.rebuild(home)), "s", 1)


KILLED = """
import sys
from pathlib import Path
from memoryd.operations import building, rebuild
from memoryd.operations.ingest import Seen, store_documents
from tests.benchmarks.homes import fresh_home
building.BESIDE_FROM = 1
with fresh_home(Path(sys.argv[1])) as home:
    print("open", flush=True)
    for turn in range(1000):
        text = f"# Late {turn}\\n\\nacknowledged number {turn}\\n".encode()
        name = f"late-{sys.argv[2]}-{turn}.md"
        store_documents(home, [Seen("bench", name.encode(), "global", "document", text)])
        print(name, flush=True)
        rebuild.rebuild(home)
"""


def bench_kills(rounds: int) -> Iterator[Figure]:
    """kill -9 at random moments of writes and rebuilds; each time all that was acknowledged is there, counts agree."""
    chance = random.Random(29)
    lost = wrong = silent = 0
    with tempfile.TemporaryDirectory(prefix="memoryd-bench-") as folder:
        root = Path(folder) / "home"
        with fresh_home(root) as home:
            store(home, 2000, 2)
            fill(home)
        said: list[str] = []
        for turn in range(rounds):
            command = [sys.executable, "-c", KILLED, str(root), str(turn)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()) as child:
                assert child.stdout is not None
                child.stdout.readline()
                time.sleep(chance.uniform(0.0, 4.0))
                child.kill()
                said += child.stdout.read().split()
            with fresh_home(root) as home:
                answer = reading.search(home, Caller(), query="request token index", scope=SCOPES[0], mode="keyword")
                silent += not answer["memories"]
                while indexing.catch_up(home):
                    pass
                held = {row.path.decode() for row in home.documents.current("bench")}
                lost += len(set(said) - held)
                wrong += len(check(home)["findings"])
    yield Figure(f"kill -9 at {rounds} moments: acknowledged items lost (of {len(said)})", lost, "", 0)
    yield Figure("  starts at which the old answers were not served", silent, "", 0)
    yield Figure("  findings of a check afterwards (counts that differ)", wrong, "", 0)


def bench_vectors(count: int, queries: int) -> Iterator[Figure]:
    """The vector engine alone: so many synthetic vectors, in a process that may stand still."""
    vectors = Vectors(31)
    with tempfile.TemporaryDirectory(prefix="memoryd-bench-") as folder:
        index = VectorIndex.create(Path(folder) / "vectors", DIMS)
        began, exact = time.perf_counter(), []
        for start in range(0, count, 5000):
            made = vectors.some(min(5000, count - start))
            exact.append(made)
            index.replace([], [_entry(start + at, vector) for at, vector in enumerate(made)])
        index.flush()
        yield Figure(f"{count} vectors written", time.perf_counter() - began, "s")
        yield Figure(f"{count} vectors arranged by the engine", timed(index.settle), "s")
        yield Figure(f"{count} vectors: closed and opened", timed(lambda: _again(index)), "s")
        index = VectorIndex.open(Path(folder) / "vectors", DIMS)
        try:
            yield from _recall(index, np.concatenate(exact), queries, count)
            gc.collect()
            size = sum(path.stat().st_blocks for path in index.path.rglob("*")) * 512 / (1 << 20)
            yield Figure(f"{count} vectors on disk", size, "MB")
            yield Figure(f"{count} vectors: private memory of this process", memory_of(os.getpid())["RssAnon"], "MB")
        finally:
            index.close()


def _again(index: VectorIndex) -> None:
    index.close()
    VectorIndex.open(index.path, DIMS).close()


def _entry(number: int, vector: Any) -> VectorEntry:
    import uuid

    scope = SCOPES[number % len(SCOPES)]
    return VectorEntry(
        str(uuid.UUID(int=number + 1)),
        f"{number:064x}",
        scope,
        "document",
        "",
        "in_force",
        ["bench/"],
        vector.tobytes(),
    )


def _recall(index: VectorIndex, exact: Any, queries: int, count: int) -> Iterator[Figure]:
    asked = Vectors(37).some(queries)
    for name, scopes in (("one scope", SCOPES[:1]), ("all scopes", SCOPES)):
        times, same = [], 0
        for vector in asked:
            began = time.perf_counter()
            hits = index.search(vector.tobytes(), Filter(tuple(scopes)), CANDIDATES)
            times.append((time.perf_counter() - began) * 1000)
            scores = exact @ vector
            if len(scopes) == 1:
                scores[np.arange(len(scores)) % len(SCOPES) != 0] = -2
            best = np.argpartition(-scores, 10)[:10]
            same += len({f"{int(one):064x}" for one in best} & {hit.document_id for hit in hits[:10]})
        yield Figure(
            f"{count} vectors, {name}: recall@10 against exact", same / (10 * queries), "", 0.99, at_least=True
        )
        yield Figure(f"  p95 (p50 {statistics.median(times):.1f})", percentile(times, 0.95), "ms")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1000,10000,50000,100000", help="passages, by commas")
    parser.add_argument("--sections", type=int, default=4, help="passages a document")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--vectors", type=int, default=1_000_000, help="how many the part `million` takes")
    parser.add_argument("--only", choices=["sizes", "sixty", "kills", "million"])
    chosen = parser.parse_args()
    parts: dict[str, Callable[[], Iterator[Figure]]] = {
        "sizes": lambda: (
            figure
            for size in map(int, chosen.sizes.split(","))
            for figure in bench_size(size, chosen.sections, chosen.queries)
        ),
        "sixty": bench_sixty,
        "kills": lambda: bench_kills(chosen.kills),
        "million": lambda: bench_vectors(chosen.vectors, 200),
    }
    for name, part in parts.items():
        if chosen.only == name or (chosen.only is None and name != "million"):
            for figure in part():
                print(told_of(figure), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
