"""The work of a whole home, with every room: what it is killed in, and what must hold after the next start."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memoryd.digest import address_of
from memoryd.errors import NotFound
from memoryd.files import Files
from memoryd.operations import artifacts, collect, erasure, forget, gateway, optimize, rebuild, repair, snapshots
from memoryd.operations.check import check
from memoryd.operations.home import Caller, Home
from memoryd.operations.scan import scan_corpora
from tests.crash.stores import flip_payload
from tests.operations.conftest import configure, opened, settle
from tests.templates import copy

HERE = Caller()
WORDS = [f"Rule {number}: the queue of kind {number} holds {number * 7} jobs.\n" * 9 for number in range(10)]
MEMORY = "The release is cut on Tuesday."
SECRET = "The password of the old router is swordfish."


def prepared(folder: Path) -> Path:
    """A home with memories, a corpus with a past state and a snapshot; all of it indexed."""
    docs, root = folder / "docs", folder / "home"
    docs.mkdir(parents=True)
    for number, text in enumerate(WORDS):
        (docs / f"rule-{number}.md").write_text(text)
    retention = {"history_revisions": 0, "history_days": 0, "snapshots": 1, "snapshot_days": 0}
    configure(root, corpora=[{"label": "docs", "path": str(docs), "scope": "global"}], retention=retention)
    with opened(root) as home:
        gateway.add(home, HERE, content=MEMORY, type="fact", scope="global")
        gateway.add(home, HERE, content=SECRET, type="note", scope="global")
        scan_corpora(home)
        (docs / "rule-0.md").write_text("Rule 0 has changed.\n")
        scan_corpora(home)
        settle(home)
    return folder


def contents() -> list[str]:
    return ["Rule 0 has changed.\n", *WORDS[1:]]


@dataclass(frozen=True)
class Task:
    """`ready` changes the files before, `do` works."""

    do: Callable[[Home, Path], object]
    ready: Callable[[Path], None] = lambda _folder: None


def _memory(home: Home, _folder: Path) -> None:
    gateway.add(home, HERE, content="Tokens expire after an hour.", type="fact", scope="global")
    gateway.add(home, HERE, content="Colours are chosen by season.", type="lesson", scope="global")


def _more_files(folder: Path) -> None:
    for number in range(30):
        (folder / "docs" / f"more-{number}.md").write_text(f"More of kind {number}.\n" * 20)


def _ingest(home: Home, _folder: Path) -> None:
    assert scan_corpora(home)["ok"]


def _forget(home: Home, _folder: Path) -> None:
    with suppress(NotFound):  # all of it is gone already
        forget.run(home, erasure.plan(home, (), SECRET))


def _damage(folder: Path) -> None:
    for path in (folder / "home" / "store" / "packs").rglob("*.pack"):
        flip_payload(path)


def _tree(folder: Path) -> None:
    tree = folder / "tree"
    (tree / "sub").mkdir(parents=True)
    for number in range(12):
        (tree / "sub" / f"{number}.txt").write_text(f"words {number}\n" * 50)


TASKS: dict[str, Task] = {
    "memory write": Task(_memory),
    "bulk ingest": Task(_ingest, _more_files),
    "artifact": Task(
        lambda home, _f: artifacts.add_given(home, HERE, text="log line\n" * 50, name="log.txt", scope="global")
    ),
    "gc": Task(lambda home, _folder: collect.gc(home, now=True)),
    "optimize": Task(lambda home, _folder: optimize.optimize(home, everything=True)),
    "repair": Task(lambda home, _folder: repair.repair(home, apply=True), _damage),
    "snapshot": Task(
        lambda home, folder: snapshots.take(home, HERE, path=str(folder / "tree"), label="tree", scope="global"), _tree
    ),
    "rebuild": Task(lambda home, _folder: rebuild.rebuild(home)),
    "forget": Task(_forget),
}


def at_point(folder: Path, task: Task, nth: int) -> tuple[bool, int]:
    """A forked child does the task and is killed at the nth announced step; (whether it lived, steps it announced)."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        seen = [0]

        def fault(_point: str) -> None:
            seen[0] += 1
            if seen[0] == nth:
                os.kill(os.getpid(), signal.SIGKILL)

        status = 1
        try:
            os.close(reader)
            with opened(folder / "home", files=Files(fault)) as home:
                task.do(home, folder)
            os.write(writer, str(seen[0]).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    said = os.read(reader, 100)
    os.close(reader)
    _pid, status = os.waitpid(child, 0)
    lived = not os.WIFSIGNALED(status)
    assert not lived or os.WEXITSTATUS(status) == 0, "the task failed by itself"
    return lived, int(said or 0)


def examine(folder: Path, name: str, task: Task) -> None:
    """The next start finds everything that was there; a full check is clean; the task can be done to its end."""
    with opened(folder / "home") as home:
        if name != "repair":  # there it was damaged before, and the repair is begun again
            readable(home)
            settle(home)
            found = check(home, read_data=True)["findings"]
            if name == "forget":  # half done, it is told, and the same call ends it; the indexes mend themselves
                settle(home)
                found = check(home, read_data=True)["findings"]
                found = [one for one in found if one["code"] != "content-forgotten"]
            assert found == [], found
        task.do(home, folder)
        settle(home)
        readable(home)
        found = check(home, read_data=True)["findings"]
        if (
            name == "repair"
        ):  # a tree of the past, which nothing but its node told of, may be lost for good: it is named
            assert repair.repair(home, apply=True)["nothing_to_do"]
            found = [one for one in found if one["code"] != "snapshot-damaged"]
        assert found == [], found


def readable(home: Home) -> None:
    """All contents of today, and the memory that nobody asked to forget."""
    for text in contents():
        assert home.store.read(address_of(text.encode())) == text.encode()
    held = [row for row in home.documents.current("vault") if row.title.startswith("The release")]
    assert len(held) == 1


def copied(template: Path, target: Path) -> Path:
    """The home at another place, with a corpus of its own."""
    copy(template, target)
    config = target / "home" / "config.json"
    config.write_text(config.read_text().replace(str(template / "docs"), str(target / "docs")))
    return target
