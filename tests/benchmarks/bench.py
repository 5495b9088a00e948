"""What do process, wire, memory and search cost, as ratios measured side by side in one run?

`make bench` runs everything and prints one line a figure with its bar. Machines are noisy: figures are medians of
interleaved runs, and only ratios and memory have bars that mean something elsewhere.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@dataclass
class Figure:
    """One measured number; `bar` is None where it is only shown."""

    name: str
    value: float
    unit: str
    bar: float | None = None
    at_least: bool = False
    note: str = ""

    @property
    def met(self) -> bool:
        return self.bar is None or (self.value >= self.bar if self.at_least else self.value <= self.bar)


def told_of(figure: Figure) -> str:
    """A figure with its bar and whether it was met, as one line."""
    bar = "" if figure.bar is None else f"  bar {'>=' if figure.at_least else '<='} {figure.bar:g}"
    verdict = "" if figure.bar is None else ("  met" if figure.met else "  MISSED")
    note = f"  ({figure.note})" if figure.note else ""
    return f"{figure.name:<76} {figure.value:9.2f} {figure.unit:<3}{bar}{verdict}{note}"


def line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


class Proxy:
    """A real memproxy that is spoken to over its pipes."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            [BIN / "memproxy", "--home", home], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=home.parent
        )

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line(message))
        self.process.stdin.flush()
        while True:
            answer: dict[str, Any] = json.loads(self.process.stdout.readline())
            if answer.get("id") == message.get("id"):
                return answer

    def start(self) -> None:
        self.ask(INITIALIZE)
        assert self.process.stdin is not None
        self.process.stdin.write(line(INITIALIZED))
        self.process.stdin.flush()

    def end(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


class Bare:
    """The daemon's own socket, without a proxy in between."""

    def __init__(self, home: Path) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(home / "run" / "rpc.sock"))
        self.stream = self.sock.makefile("rwb")
        hello = {"memoryd": "hello", "wire": 1, "version": "0.1.0", "pid": os.getpid(), "directory": str(home.parent)}
        self.stream.write(line(hello))
        self.stream.flush()
        self.stream.readline()

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        self.stream.write(line(message))
        self.stream.flush()
        while True:
            answer: dict[str, Any] = json.loads(self.stream.readline())
            if answer.get("id") == message.get("id"):
                return answer

    def start(self) -> None:
        self.ask(INITIALIZE)
        self.stream.write(line(INITIALIZED))
        self.stream.flush()

    def end(self) -> None:
        self.stream.close()
        self.sock.close()


def memory_of(pid: int) -> dict[str, float]:
    """RssAnon, VmRSS and PSS of a process in MB."""
    found: dict[str, float] = {}
    for name, file in (("RssAnon", "status"), ("VmRSS", "status"), ("Pss", "smaps_rollup")):
        for text in Path(f"/proc/{pid}/{file}").read_text().splitlines():
            if text.startswith(f"{name}:"):
                found[name] = int(text.split()[1]) / 1024
    return found


@contextmanager
def running_home() -> Iterator[Path]:
    """A throw-away home with its daemon."""
    with tempfile.TemporaryDirectory(prefix="memoryd-bench-") as folder:
        home = Path(folder) / "home"
        subprocess.run([BIN / "memoryd", "--home", home, "start"], check=True, capture_output=True)
        try:
            yield home
        finally:
            subprocess.run([BIN / "memoryd", "--home", home, "stop"], check=False, capture_output=True)


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def bench_wire(rounds: int) -> list[Figure]:
    """Start and added latency of the proxy, memory of proxy and daemon before any model use."""
    with running_home() as home:
        pid = int((home / "daemon.lock").read_text().split()[0])
        cold = memory_of(pid)
        bare_python, starts = [], []

        def start_one() -> None:
            proxy = Proxy(home)
            proxy.start()
            proxies.append(proxy)

        for _ in range(rounds):
            proxies: list[Proxy] = []
            bare_python.append(timed(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)))
            starts.append(timed(start_one))
            proxies[0].end()
        proxy, bare = Proxy(home), Bare(home)
        proxy.start()
        bare.start()
        call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}
        call["params"] = {"name": "memory_search", "arguments": {"query": "anything at all", "mode": "keyword"}}
        through, direct = [], []
        for _ in range(rounds * 20):
            direct.append(timed(lambda: bare.ask(call)))
            through.append(timed(lambda: proxy.ask(call)))
        held = memory_of(proxy.process.pid)
        proxy.end()
        bare.end()
    ratio = statistics.median(a / b for a, b in zip(starts, bare_python, strict=True))
    added = (statistics.median(through) - statistics.median(direct)) * 1000
    return [
        Figure("memproxy start to initialize, against `python -c pass`", ratio, "x", 3.5, note="stretch 2.5"),
        Figure("  memproxy start", statistics.median(starts) * 1000, "ms"),
        Figure("  bare python", statistics.median(bare_python) * 1000, "ms"),
        Figure("memproxy RSS", held["VmRSS"], "MB", 13),
        Figure("memproxy PSS (what one more session costs)", held["Pss"], "MB", 13),
        Figure("added latency of a call through the proxy, p50", added, "ms", 0.3),
        Figure("  call on the bare socket, p50", statistics.median(direct) * 1000, "ms"),
        Figure("daemon before any model use, private (RssAnon)", cold["RssAnon"], "MB", 60),
        Figure("daemon before any model use, RSS", cold["VmRSS"], "MB", 110),
    ]


WORDS = (
    "request token index shard queue lease retry budget cache worker schema branch deploy rollback socket stream "
    "parser buffer thread signal handle cursor replica leader quorum ledger audit metric alert canary secret vault "
    "invoice ledger customer order basket refund payment currency discount shipping parcel label carrier route"
).split()


def sentence(chance: random.Random, words: int) -> str:
    return " ".join(chance.choice(WORDS) + str(chance.randrange(400)) * (chance.random() < 0.3) for _ in range(words))


def bench_embedding(rounds: int) -> list[Figure]:
    """The model host against a bare loop over the same runtime and texts, in turn."""
    from memoryd.models.host import ModelHost
    from memoryd.models.identity import locate

    loop = (
        "import sys, time, json, onnxruntime as o, numpy as n\n"
        "from tokenizers import Tokenizer\n"
        "s = o.SessionOptions(); s.intra_op_num_threads = 1\n"
        "m = o.InferenceSession(sys.argv[1], s, providers=['CPUExecutionProvider'])\n"
        "t = Tokenizer.from_file(sys.argv[2]); t.no_padding(); t.enable_truncation(256)\n"
        "for line in sys.stdin:\n"
        "    began = time.perf_counter()\n"
        "    for text in json.loads(line):\n"
        "        e = t.encode(text); i = n.array([e.ids], dtype=n.int64); a = n.ones_like(i)\n"
        "        h = m.run(None, {'input_ids': i, 'attention_mask': a, 'token_type_ids': n.zeros_like(i)})[0]\n"
        "        v = h.mean(axis=1)[0]; v /= n.linalg.norm(v)\n"
        "    print(time.perf_counter() - began, flush=True)\n"
    )
    files = locate()
    command = [sys.executable, "-c", loop, str(files.weights), str(files.tokenizer)]
    bare = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert bare.stdin is not None and bare.stdout is not None
    host = ModelHost(threads=1, idle_seconds=600, log=None, clock=time.monotonic)
    chance = random.Random(5)
    ratios, speeds = [], []
    try:
        for number in range(rounds + 1):
            texts = [sentence(chance, 90) for _ in range(24)]
            bare.stdin.write(json.dumps(texts) + "\n")
            bare.stdin.flush()
            plain = float(bare.stdout.readline())
            ours = timed(lambda: host.embed_passages(texts, lambda: False))
            if number:
                ratios.append(plain / ours)
                speeds.append(len(texts) / ours)
        private = memory_of(host.status()["pid"])["RssAnon"]
    finally:
        host.close()
        bare.stdin.close()
        bare.wait(10)
        bare.stdout.close()
    return [
        Figure(
            "embedding through the host, against a bare onnxruntime loop", statistics.median(ratios), "x", 0.9, True
        ),
        Figure("  passages of 90 words embedded", statistics.median(speeds), "/s"),
        Figure("model host, private (RssAnon)", private, "MB", 210),
    ]


def bench_search(passages: int, queries: int) -> list[Figure]:
    """Searches of one size with synthetic vectors, against the two bare engines, in turn; `make bench-scale` has all."""
    from tests.benchmarks import bench_scale
    from tests.benchmarks.homes import fresh_home

    with tempfile.TemporaryDirectory(prefix="memoryd-bench-") as folder, fresh_home(Path(folder) / "home") as home:
        bench_scale.store(home, passages, 4)
        bench_scale.fill(home)
        found = bench_scale.measured(home, queries)
        figures = list(bench_scale.searched(f"{passages} passages", passages, found))
        private = memory_of(os.getpid())["RssAnon"]
    return [*figures, Figure("  private memory of this process with that index", private, "MB")]


def bench_ends() -> list[Figure]:
    """See `tests.benchmarks.ends`."""
    from tests.benchmarks import ends

    return ends.bench_ends()


def bench_sessions(counts: tuple[int, ...] = (1, 3, 8)) -> list[Figure]:
    """Sessions that search at once on a cold model: processes that map the model, and what each session costs."""
    figures = []
    for count in counts:
        with running_home() as home:
            memory = ["--home", home, "remember", "The build cache lives on the second disk.", "--type", "fact"]
            subprocess.run([BIN / "memoryd", *memory, "--scope", "global"], check=True, capture_output=True)
            proxies = [Proxy(home) for _ in range(count)]
            for proxy in proxies:
                proxy.start()
            call = {"jsonrpc": "2.0", "id": 9, "method": "tools/call"}
            call["params"] = {"name": "memory_search", "arguments": {"query": "where is the cache of builds kept"}}
            for proxy in proxies:
                assert proxy.process.stdin is not None
                proxy.process.stdin.write(line(call))
                proxy.process.stdin.flush()
            found = 0
            for proxy in proxies:
                assert proxy.process.stdout is not None
                while (answer := json.loads(proxy.process.stdout.readline())).get("id") != 9:
                    pass
                found += len(answer["result"]["structuredContent"]["memories"])
            assert found == count, "each session found the memory"
            mapped = [pid for pid in pids() if maps_model(pid, home)]
            costs = [memory_of(proxy.process.pid)["Pss"] for proxy in proxies]
            for proxy in proxies:
                proxy.end()
        figures.append(Figure(f"{count} sessions search at once: processes that map the model", len(mapped), "", 1))
        figures.append(Figure(f"  {count} sessions: the largest proxy, PSS", max(costs), "MB", 13))
    return figures


def pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def maps_model(pid: int, home: Path) -> bool:
    """Whether a process that writes this home's model log has the runtime or the weights in its memory map."""
    try:
        log = any(os.readlink(fd).startswith(str(home)) for fd in Path(f"/proc/{pid}/fd").iterdir())
        return log and "onnxruntime" in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


def bench_health(passages: int) -> list[Figure]:
    """The slowest answers of /healthz while a corpus is scanned and the model loads and embeds."""
    with tempfile.TemporaryDirectory(prefix="memoryd-bench-") as folder:
        home, docs = Path(folder) / "home", Path(folder) / "docs"
        chance = random.Random(17)
        for number in range(passages):
            place = docs / f"{number % 50:02}"
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{number:06}.md").write_text(f"# Note {number}\n\n{sentence(chance, 60)}\n")
        home.mkdir()
        (home / "config.json").write_text(json.dumps({"corpora": [{"label": "docs", "path": str(docs)}]}))
        command = [BIN / "memoryd", "--home", home]
        subprocess.run([*command, "start"], check=True, capture_output=True)
        try:
            scan = subprocess.Popen([*command, "corpus", "scan", "--json"], stdout=subprocess.DEVNULL)
            times, ended = [], 0.0
            while scan.poll() is None or time.monotonic() < ended:
                if scan.poll() is None:
                    ended = time.monotonic() + 20  # the model loads and embeds meanwhile
                times.append(timed(lambda: healthz(home)) * 1000)
                time.sleep(0.02)
            assert scan.returncode == 0
        finally:
            subprocess.run([*command, "stop"], check=False, capture_output=True)
    return [
        Figure(f"/healthz during a scan of {passages} passages and a model load, slowest", max(times), "ms", 100),
        Figure(f"  the same, p99 of {len(times)}", percentile(times, 0.99), "ms"),
    ]


def healthz(home: Path) -> bytes:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(home / "run" / "http.sock"))
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: memoryd\r\nConnection: close\r\n\r\n")
        found = b""
        while piece := sock.recv(65536):
            found += piece
    assert found.startswith(b"HTTP/1.1 200"), found[:100]
    return found


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", choices=["wire", "embedding", "search", "sessions", "health", "ends"], help="one part"
    )
    parser.add_argument("--passages", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    parts: dict[str, Callable[[], list[Figure]]] = {
        "wire": lambda: bench_wire(30),
        "embedding": lambda: bench_embedding(12),
        "search": lambda: bench_search(chosen.passages, 400),
        "sessions": bench_sessions,
        "health": lambda: bench_health(chosen.passages),
        "ends": bench_ends,
    }
    figures = [figure for name, part in parts.items() if chosen.only in (None, name) for figure in part()]
    if chosen.json:
        print(json.dumps([{**vars(figure), "met": figure.met} for figure in figures], indent=2))
        return 0
    for figure in figures:
        print(told_of(figure))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
