"""Killed at any step, the store opens again with everything acknowledged, whole groups only, and nothing torn."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from memoryd.config import StoreConfig
from memoryd.files import Files
from memoryd.store.chunkstore import ChunkStore

OLD = [b"acknowledged long ago", random.Random(1).randbytes(60_000)]
GROUPS = [
    [b"", b"a small one", random.Random(2).randbytes(90_000)],
    [OLD[0], OLD[1] + b" edited", b"another", bytes(100_000)],
    [b"the last of them"],
]


def open_store(home: Path, fault: Callable[[str], None] | None = None) -> ChunkStore:
    return ChunkStore.open(home, files=Files(fault) if fault else Files(), sizes=StoreConfig())


def commit(store: ChunkStore, contents: list[bytes]) -> tuple[list[str], list[int]]:
    with store.group() as group:
        addresses = [group.add(content) for content in contents]
        for address in addresses:
            group.record("document", {"v": 1, "address": address})
        return addresses, group.commit()


def run_killed(home: Path, nth: int) -> tuple[int, bool]:
    """A forked child does the work and is killed with SIGKILL at the nth step that it announces.

    Returns how many groups it had acknowledged, and whether it lived to the end.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            seen = [0]

            def fault(_point: str) -> None:
                seen[0] += 1
                if seen[0] == nth:
                    os.kill(os.getpid(), signal.SIGKILL)

            store = open_store(home, fault)
            for contents in GROUPS:
                commit(store, contents)
                os.write(writer, b".")
            os.write(writer, b"end")
        finally:
            os._exit(0)
    os.close(writer)
    said = b""
    while part := os.read(reader, 100):
        said += part
    os.close(reader)
    _pid, status = os.waitpid(child, 0)
    finished = said.endswith(b"end")
    assert finished or os.WIFSIGNALED(status)
    return said.count(b"."), finished


def check_whole_groups(store: ChunkStore, acknowledged: int, old: int) -> int:
    """Everything acknowledged is there; a later group is there whole or not at all. Number of groups there."""
    records = [record.data["address"] for record in store.records()][old:]
    there = 0
    expected: list[bytes] = []
    for contents in GROUPS:
        if len(records) < len(expected) + len(contents):
            break
        expected += contents
        there += 1
    assert len(records) == len(expected)
    assert there in (acknowledged, acknowledged + 1)
    assert [store.read(address) for address in records] == expected
    assert list(store.findings(read_data=True)) == []
    assert [record.seq for record in store.records()] == list(range(1, old + len(records) + 1))
    return there


@pytest.mark.parametrize("fresh", [True, False], ids=["new home", "home with content"])
def test_case_14_sigkill_at_every_step(tmp_path, fresh):
    """case 14, H37: kill -9 at every announced step of opening and of three group commits. After a restart what was
    acknowledged is there, the store is sound, temporary files are gone, and the same work can be finished."""
    nth = 0
    finished = False
    outcomes = set()
    while not finished:
        nth += 1
        home = tmp_path / f"home-{nth}"
        old = 0
        if not fresh:
            store = open_store(home)
            old = len(commit(store, OLD)[0])
            store.close()
        acknowledged, finished = run_killed(home, nth)
        store = open_store(home)
        there = check_whole_groups(store, acknowledged, old)
        outcomes.add((acknowledged, there))
        assert list((home / "store/tmp").iterdir()) == []
        for contents in GROUPS[there:]:
            commit(store, contents)
        check_whole_groups(store, len(GROUPS), old)
        assert store.stats().packs == len(GROUPS) + bool(old)
        store.close()
    assert nth > 20
    assert outcomes >= {(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 3), (3, 3)}


def test_a_kill_while_the_index_is_made_anew(tmp_path):
    """Killed at any time between opening and the end of a rebuild, the next open has all answers."""
    home = tmp_path / "home"
    store = open_store(home)
    addresses = [commit(store, contents)[0] for contents in GROUPS]
    store.close()
    for tenths in range(8):
        (home / "store/index.db").unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            try:
                opened = open_store(home)
                while True:
                    opened.rebuild_index()
            finally:
                os._exit(0)
        time.sleep(0.004 * tenths)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        store = open_store(home)
        for contents, found in zip(GROUPS, addresses, strict=True):
            assert [store.read(address) for address in found] == contents
        assert list(store.findings(read_data=True)) == []
        store.close()


WORKER = """
import sys
from pathlib import Path
from memoryd.config import StoreConfig
from memoryd.files import Files
from memoryd.store.chunkstore import ChunkStore
store = ChunkStore.open(Path(sys.argv[1]), files=Files(), sizes=StoreConfig())
n = store.last_seq()
while True:
    n += 1
    with store.group() as group:
        group.add(b"content %d " % n * (n % 7 * 400))
        group.record("document", {"v": 1, "n": n})
        group.commit()
    sys.stdout.write(f"{n}\\n")
    sys.stdout.flush()
"""


def test_case_14_sigkill_at_any_moment(tmp_path):
    """case 14: a writing process is killed again and again at moments nobody chose; nothing it told of is lost."""
    home = tmp_path / "home"
    told = 0
    turn = random.Random(7)
    for _round in range(4):
        writer = subprocess.Popen([sys.executable, "-c", WORKER, str(home)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        for _ in range(turn.randint(3, 25)):
            told = int(writer.stdout.readline())
        time.sleep(turn.random() / 100)
        writer.kill()
        rest = writer.stdout.read().splitlines()
        told = int(rest[-1]) if rest and rest[-1].isdigit() else told
        writer.wait()
        writer.stdout.close()
        store = open_store(home)
        assert store.last_seq() in (told, told + 1)
        assert [record.data["n"] for record in store.records()] == list(range(1, store.last_seq() + 1))
        assert list(store.findings(read_data=True)) == []
        store.close()
    assert told > 10
