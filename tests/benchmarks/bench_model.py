"""What does an embedding model cost here: to load, to hold in memory, a query, a passage, a reranking, a whole search?

`make bench-model` measures the embedded model and a BGE-M3 of the real size with random numbers in it (568 million
parameters; 2.3 GB of disk and some minutes to make, kept in --scratch). Random weights cost what real ones cost; what
they find means nothing. Machines are noisy: the load beside it is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memoryd.models.choice import best_precision
from memoryd.operations import reading
from memoryd.operations.gateway import add
from memoryd.operations.home import Caller, Home, open_home
from memoryd.operations.indexing import catch_up
from memoryd.operations.owner import own_home
from memoryd.operations.recover import recover
from memoryd.operations.reranking import rerank

SEARCH_BAR_MS = 2100.0
"""What a search waits for the query's vector, and for its reranking, with the settings as they come."""
HOST_BAR_MB = {"embedded": 210.0, "bge-m3": 1200.0}
RERANKED = 20
WORDS = "the daemon keeps one index for all sessions and answers a question from the vault within a second".split()
HERE = Caller()


def memory(pid: int) -> dict[str, float]:
    """Megabytes of a process: private, all, and the most it ever held."""
    names = {"RssAnon": "private", "VmRSS": "rss", "VmHWM": "peak"}
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = dict(line.split(":", 1) for line in lines)
    return {names[name]: int(found[name].split()[0]) / 1024 for name in names}


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def passage(number: int, words: int) -> str:
    return " ".join(
        f"{WORDS[(number * 7 + n * n) % len(WORDS)]}{number % 97 if n % 9 == 0 else ''}" for n in range(words)
    )


def p95(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, round(0.95 * (len(values) - 1)))]


def measured(home: Home, name: str, passages: int, queries: int, words: int) -> dict[str, Any]:
    host = home.host
    began = time.perf_counter()
    host.encode_query("first of all", 600)
    row: dict[str, Any] = {"model": host.identity.name, "load_s": time.perf_counter() - began}
    row["loaded_mb"] = memory(host.status()["pid"])
    asked = [timed(lambda n=n: host.encode_query(f"question {n}: {passage(n, 8)}", 600)) for n in range(queries)]
    row |= {"query_ms": statistics.median(asked), "query_p95_ms": p95(asked)}
    texts = [passage(n, words) for n in range(passages)]
    began = time.perf_counter()
    made = host.encode_passages(texts, lambda: False)
    row["passages_per_s"] = passages / (time.perf_counter() - began)
    kept = [one for one in made if one is not None]
    row["tokens_a_passage"] = sum(len(one.tokens) for one in kept) / len(kept) / host.identity.dims
    row["bytes_a_passage"] = {
        part: sum(len(getattr(one, part)) for one in kept) // len(kept) for part in kept[0]._fields
    }
    for number in range(RERANKED):
        add(home, HERE, content=passage(number, 40), type="note", scope="global", force="made up for a benchmark")
    while catch_up(home):
        pass
    row |= searches(home, queries)
    row["used_mb"] = memory(host.status()["pid"])
    row["daemon_side_mb"] = memory(os.getpid())
    row["bar_met"] = row["used_mb"]["private"] <= HOST_BAR_MB[name]
    return row


def searches(home: Home, queries: int) -> dict[str, Any]:
    """A whole search and the reranking of its best, one after the other, as a session would wait for both."""
    passages = []
    for document in home.documents.current("vault"):
        for one in home.passages.of_document(document.document_id):
            passages.append((one.text_sha256, ""))
    passages = passages[:RERANKED]
    whole, alone, skipped, late = [], [], [], 0
    for number in range(queries):
        query = f"which question {number} about {passage(number + 500, 6)}"
        done: list[Any] = []
        first = timed(lambda query=query, done=done: done.append(reading.search(home, HERE, query=query)))
        late += bool(done.pop()["index"]["degraded"])
        then = timed(lambda query=query, done=done: done.append(rerank(home, query, passages)))
        whole.append(first + then)
        alone.append(then)
        if done[0].scores is None:
            skipped.append(done[0].reason)
    found = {"rerank_20_ms": statistics.median(alone), "search_p50_ms": statistics.median(whole)}
    found |= {"search_p95_ms": p95(whole), "search_bar_met": p95(whole) <= SEARCH_BAR_MS}
    found |= {"by_words_only": late, "reranks_left_out": len(skipped), "of": queries}
    return found | ({"why_left_out": skipped[0]} if skipped else {})


def run(
    scratch: Path, model: str, precision: str, threads: int, passages: int, queries: int, words: int
) -> dict[str, Any]:
    root = scratch / f"home-{model}-{precision}"
    root.mkdir(parents=True, exist_ok=True)
    settings = {"name": model, "threads": threads, "precision": precision, "path": str(scratch / "bge-m3")}
    (root / "config.json").write_text(json.dumps({"model": settings, "search": {"reranker": "maxsim"}}))
    lock = own_home(root)
    try:
        home = open_home(root, environment={})
        try:
            recover(home)
            return measured(home, model, passages, queries, words)
        finally:
            home.close()
    finally:
        lock.release()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path, required=True, help="where the random model and the homes are kept")
    parser.add_argument("--models", nargs="*", default=["embedded", "bge-m3"])
    parser.add_argument("--precisions", nargs="*", default=list(dict.fromkeys([best_precision(), "fp32"])))
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--passages", type=int, default=12)
    parser.add_argument("--queries", type=int, default=12)
    parser.add_argument(
        "--words", type=int, default=60, help="of a passage; the made-up tokenizer makes four tokens of one"
    )
    parser.add_argument("--tiny", action="store_true", help="a tiny random model instead of one of the real size")
    given = parser.parse_args()
    folder = given.scratch / "bge-m3"
    if "bge-m3" in given.models and not folder.is_dir():
        from tests.models.checkpoints import REAL, REAL_PIECES, TINY, TINY_PIECES, build

        size, pieces = (TINY, TINY_PIECES) if given.tiny else (REAL, REAL_PIECES)
        print(f"making a random model in {folder}", file=sys.stderr)
        build(folder, size=size, pieces=pieces)
    for model in given.models:
        for precision in given.precisions if model == "bge-m3" else ["auto"]:
            row = run(given.scratch, model, precision, given.threads, given.passages, given.queries, given.words)
            row["load_beside"] = os.getloadavg()[0]
            print(json.dumps(row, indent=1, default=lambda value: round(value, 2)), flush=True)


if __name__ == "__main__":
    main()
