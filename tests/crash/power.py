"""Plays every legal state after a power loss of one piece of work, and examines each."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from tests.crash.disk import Disk, Recorder, build
from tests.crash.stores import LONG_WORK, WORK, Broken, Promise, examine, filled, hurt, open_store

Image = tuple[int, bytes, bool]
"""Position in the log, index.db as it was then, whether it was durable (a replaced pack is to be removed)."""


def recorded(name: str, home: Path, *, recorder: type[Recorder] = Recorder) -> tuple[Recorder, Promise, list[Image]]:
    """Do the work on a new store, recorded; (recorder, the promise before it, images of index.db by log position)."""
    before = filled(home)
    if name == "repair":
        hurt(home)
    (home / "store" / "index.db").unlink()
    images: list[Image] = []
    files = recorder(home)

    def note(point: str) -> None:
        if point.startswith(("pack.", "index.", "replaced.")):
            images.append((len(files.log), _image(home), point == "replaced.unlink"))

    files.fault = note
    store = open_store(home, files)
    images.append((len(files.log), _image(home), False))
    promise = Promise(set(before.must), set(before.gone), dict(before.nodes), before.seq)
    try:
        {**WORK, **LONG_WORK}[name](store, promise, files.mark)
    finally:
        images.append((len(files.log), _image(home), False))
        store.close()
    return files, before, images


def _image(home: Path) -> bytes:
    connection = sqlite3.connect(f"file:{home / 'store' / 'index.db'}?mode=ro", uri=True)
    try:
        return connection.serialize()
    finally:
        connection.close()


State = tuple[int, dict[str, bytes], set[str], list[object], bytes | None]
"""Position in the log, bytes by name, folders, what was told until then, index.db."""


def states(files: Recorder, images: list[Image], *, limit: int | None, seed: int) -> Iterator[State]:
    """Legal states after a power loss at any moment of a log; with a limit, a sample of them. One is held at a time."""
    if limit is None:
        yield from _all(files, images, seed)
        return
    count = sum(1 for _ in _all(files, images, seed))
    chosen = set(random.Random(seed).sample(range(count), min(limit, count)))
    yield from (state for number, state in enumerate(_all(files, images, seed)) if number in chosen)


def _all(files: Recorder, images: list[Image], seed: int) -> Iterator[State]:
    turn = random.Random(seed)
    disk = Disk.of(files)
    for position, op in enumerate([*files.log, ("end",)]):
        older = [image for image in images if image[0] <= position]
        synced = max((number for number, image in enumerate(older) if image[2]), default=0)
        older = [image[1] for image in older[synced:]]
        # the index is a view in a file of its own: none of it, an old one, or the newest one may be there
        views = list(dict.fromkeys([None, *older[:1], *older[-1:]]))
        for state in disk.states(turn):
            for image in views:
                yield position, state, set(disk.dirs), list(disk.told), image
        disk.play(op)


def survive(name: str, folder: Path, *, limit: int | None, seed: int = 1, recorder: type[Recorder] = Recorder) -> int:
    """Examine the states after a power loss during this work; how many. Raises Broken."""
    files, before, images = recorded(name, folder / "work", recorder=recorder)
    count = 0
    for number, (position, state, dirs, told, image) in enumerate(states(files, images, limit=limit, seed=seed)):
        home = folder / f"state-{number}"
        build(state, dirs | {"store/packs", "store/tmp", "store/quarantine"}, home)
        if image is not None:
            (home / "store" / "index.db").write_bytes(image)
        promise = told[-1] if told else before
        if name in ("gc", "life"):  # what is being removed may be gone before anybody is told
            promise = Promise(promise.must - last(files).gone, last(files).gone, promise.nodes, promise.seq)
        try:
            examine(home, promise, damaged=name == "repair")
        except Broken as error:
            raise Broken(f"{name}, after {position} of {len(files.log)} operations: {error}") from error
        count += 1
        shutil.rmtree(home)
    return count


def last(files: Recorder) -> Promise:
    found = [op[1] for op in files.log if op[0] == "mark"]
    return found[-1] if found else Promise()
