"""How does a daemon answer many clients at once, beside a lone one in the same run?

    make bench-clients          1,000 documents; ARGS="--documents N --seconds S"

Open loop: each client asks two questions a second whatever became of the one before, and a late answer counts from when
the question was due. Closed loop: each asks the next question when it has its answer. Every question is another one, so
nothing is answered from what was kept.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.bench import BIN, Bare, Figure, percentile, sentence, told_of

CLIENTS = 16
A_SECOND = 2.0
TICKS = os.sysconf("SC_CLK_TCK")


class Asker:
    """One session on the daemon's socket that asks questions of its own."""

    def __init__(self, home: Path, seed: int) -> None:
        self._bare = Bare(home)
        self._bare.start()
        self._chance = random.Random(seed)
        self._id = 10

    def ask(self) -> None:
        """One search for words that nobody asked before."""
        self._id += 1
        call = {"name": "memory_search", "arguments": {"query": sentence(self._chance, 7), "scope": "global"}}
        answer = self._bare.ask({"jsonrpc": "2.0", "id": self._id, "method": "tools/call", "params": call})
        assert not answer["result"]["structuredContent"]["index"]["degraded"], answer

    def end(self) -> None:
        """Close the session."""
        self._bare.end()


def run(askers: list[Asker], work: Callable[[Asker], list[float]]) -> list[float]:
    """Seconds of all answers of all clients, each in a thread of its own."""
    found: list[list[float]] = [[] for _ in askers]

    def one(at: int) -> None:
        found[at] = work(askers[at])

    threads = [threading.Thread(target=one, args=(at,)) for at in range(len(askers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [seconds for part in found for seconds in part]


def open_loop(asker: Asker, seconds: float) -> list[float]:
    """From when a question was due to its answer."""
    found = []
    due = time.perf_counter() + random.random() / A_SECOND
    end = due + seconds
    while due < end:
        time.sleep(max(0.0, due - time.perf_counter()))
        asker.ask()
        found.append(time.perf_counter() - due)
        due += 1 / A_SECOND
    return found


def closed_loop(asker: Asker, seconds: float) -> list[float]:
    """One question after the other."""
    found = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        asker.ask()
        found.append(time.perf_counter() - began)
    return found


def processor_seconds(home: Path) -> dict[int, float]:
    """What the daemon and the model's process have used, by process."""
    daemon = int(json.loads(told(home, "start", "--json"))["pid"])
    model = json.loads(told(home, "status", "--json"))["model"]["pid"]
    return {pid: used(pid) for pid in (daemon, int(model))}


def used(pid: int) -> float:
    """Processor seconds of one process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def told(home: Path, *words: str) -> str:
    """What the command line says."""
    return subprocess.run([BIN / "memoryd", "--home", home, *words], check=True, capture_output=True, text=True).stdout


def filled(folder: Path, documents: int) -> Path:
    """A home with a daemon that has indexed so many documents."""
    home, docs, chance = folder / "home", folder / "docs", random.Random(23)
    for number in range(documents):
        place = docs / f"{number % 50:02}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:06}.md").write_text(f"# Note {number}\n\n{sentence(chance, 60)}\n")
    home.mkdir()
    (home / "config.json").write_text(json.dumps({"corpora": [{"label": "docs", "path": str(docs)}]}))
    told(home, "start")
    told(home, "corpus", "scan")
    while json.loads(told(home, "status", "--json"))["index"]["pending"]:
        time.sleep(1.0)
    return home


def measured(documents: int, seconds: float) -> Iterator[Figure]:
    """All figures of one home."""
    with TemporaryDirectory(prefix="memoryd-bench-") as folder:
        home = filled(Path(folder), documents)
        askers = [Asker(home, seed) for seed in range(CLIENTS)]
        try:
            run(askers, lambda one: closed_loop(one, 1.0))
            yield from _open(askers, seconds)
            yield from _closed(home, askers, seconds)
        finally:
            for one in askers:
                one.end()
            subprocess.run([BIN / "memoryd", "--home", home, "stop"], check=False, capture_output=True)


def _open(askers: list[Asker], seconds: float) -> Iterator[Figure]:
    alone = percentile(run(askers[:1], lambda one: open_loop(one, seconds)), 0.95)
    many = percentile(run(askers, lambda one: open_loop(one, seconds)), 0.95)
    yield Figure("a lone client, 2 questions a second, p95", alone * 1000, "ms")
    yield Figure(f"{CLIENTS} clients, 2 questions a second each, p95", many * 1000, "ms")
    yield Figure("  against the lone client", many / alone, "x", 3)


def _closed(home: Path, askers: list[Asker], seconds: float) -> Iterator[Figure]:
    alone = len(run(askers[:1], lambda one: closed_loop(one, seconds))) / seconds
    before = processor_seconds(home)
    began = time.perf_counter()
    count = len(run(askers, lambda one: closed_loop(one, seconds)))
    many = count / (time.perf_counter() - began)
    after = processor_seconds(home)
    cost = max(after[pid] - before.get(pid, 0.0) for pid in after) / count
    yield Figure("a lone client, one question after the other", alone, "/s")
    yield Figure(f"{CLIENTS} clients, one question after the other", many, "/s")
    yield Figure("  against the lone client", many / alone, "x", 1.3, at_least=True)
    yield Figure("  processor seconds a request in the busiest process", cost * 1000, "ms")
    yield Figure("  of what that process could answer", many * cost, "", 0.8, at_least=True)


def main() -> int:
    """The command: 0 when all ran."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=15.0)
    chosen = parser.parse_args()
    for figure in measured(chosen.documents, chosen.seconds):
        print(told_of(figure), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
