"""How long does it take until a daemon that is told to end, and a proxy whose editor went away, are gone?

Tests prove that they end and lose nothing; how soon is a figure of the machine, so it stands here (`make bench`).
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.benchmarks.bench import BIN, Bare, Figure, Proxy, line, running_home, sentence

SEARCH = {
    "jsonrpc": "2.0",
    "id": 11,
    "method": "tools/call",
    "params": {"name": "memory_search", "arguments": {"query": "which queue holds the request?"}},
}
PAGES = 3000


def until_gone(pids: list[int]) -> float:
    """Seconds until none of these processes is left; fails after a minute."""
    began = time.perf_counter()
    while any(map(_runs, pids)):
        assert time.perf_counter() - began < 60, f"still there: {pids}"
        time.sleep(0.005)
    return time.perf_counter() - began


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _busy_home(folder: Path) -> Path:
    """A home that is taking in a corpus, with its model loading, while sessions search."""
    home, docs, chance = folder / "home", folder / "docs", random.Random(3)
    docs.mkdir()
    for number in range(PAGES):
        (docs / f"{number:05}.md").write_text(f"# Note {number}\n\n{sentence(chance, 80)}\n")
    home.mkdir()
    (home / "config.json").write_text(json.dumps({"corpora": [{"label": "docs", "path": str(docs)}]}))
    subprocess.run([BIN / "memoryd", "--home", home, "start"], check=True, capture_output=True)
    return home


def _searching(home: Path, stop: threading.Event) -> None:
    with contextlib.suppress(OSError, ValueError):  # the daemon goes away while it is asked
        session = Bare(home)
        session.start()
        while not stop.is_set():
            session.ask(SEARCH)


def _end_of_a_busy_daemon(seconds: float) -> float:
    with tempfile.TemporaryDirectory(prefix="memoryd-bench-") as folder:
        home = _busy_home(Path(folder))
        pid = int((home / "daemon.lock").read_text().split()[0])
        scan = subprocess.Popen(
            [BIN / "memoryd", "--home", home, "corpus", "scan"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        stop = threading.Event()
        sessions = [threading.Thread(target=_searching, args=(home, stop)) for _ in range(3)]
        for session in sessions:
            session.start()
        time.sleep(seconds)
        family = [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
        os.kill(pid, signal.SIGTERM)
        spent = until_gone(family)
        stop.set()
        for session in sessions:
            session.join()
        scan.wait(30)
        return spent


def _end_of_a_proxy(home: Path, before: Callable[[Proxy], None]) -> float:
    proxy = Proxy(home)
    proxy.start()
    before(proxy)
    assert proxy.process.stdin is not None and proxy.process.stdout is not None
    proxy.process.stdin.close()
    began = time.perf_counter()
    proxy.process.wait(60)
    spent = time.perf_counter() - began
    proxy.process.stdout.close()
    return spent


def _asking(proxy: Proxy) -> None:
    assert proxy.process.stdin is not None
    proxy.process.stdin.write(line(SEARCH))
    proxy.process.stdin.flush()


def bench_ends(rounds: int = 4) -> list[Figure]:
    """The slowest of some ends, busy and at rest, with the daemon alive and killed."""
    busy = [_end_of_a_busy_daemon(seconds) for seconds in (0.2, 1.0, 3.0, 6.0)[:rounds]]
    with running_home() as home:
        idle = [_end_of_a_proxy(home, lambda _: None) for _ in range(rounds)]
        asked = [_end_of_a_proxy(home, _asking) for _ in range(rounds)]
        pid = int((home / "daemon.lock").read_text().split()[0])
        lost = [_end_of_a_proxy(home, lambda _: os.kill(pid, signal.SIGKILL))]
    return [
        Figure(f"SIGTERM until a busy daemon and its children are gone, slowest of {len(busy)}", max(busy), "s", 5),
        Figure("a proxy's end after its editor closed the pipe, idle, slowest", max(idle), "s", 2),
        Figure("  the same while a call is under way", max(asked), "s", 2),
        Figure("  the same when the daemon was just killed", max(lost), "s", 2),
    ]
