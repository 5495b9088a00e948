"""After optimize everything is there, in fewer and smaller packs; a second run, damage and a stop cost nothing."""

from __future__ import annotations

import os
import random
import signal

from memoryd.digest import address_of
from memoryd.files import Files
from memoryd.operations import ingest, optimize
from memoryd.operations.home import Home
from memoryd.records import SnapshotRecord
from memoryd.store import pack as packs
from memoryd.store.merkle import DIRECTORY, FILE, TreeEntry, build
from tests.operations.conftest import opened
from tests.templates import copy

STEP = int(os.environ.get("CRASH_STEP", "6"))
"""After the first ones every so many steps are tried; CRASH_STEP=1 tries each one."""
WORDS = "parser buffer thread signal handle cursor replica leader quorum ledger audit metric alert canary".split()


def prose(seed: int, lines: int = 400) -> bytes:
    chance = random.Random(seed)
    return "".join(" ".join(chance.choices(WORDS, k=9)) + f" {chance.random()}\n" for _ in range(lines)).encode()


def revisions(count: int) -> list[bytes]:
    """One text in many revisions: each has a line changed."""
    lines = prose(1, 3000).split(b"\n")
    found = []
    for number in range(count):
        lines[(number * 37) % len(lines)] = f"changed in revision {number}".encode()
        found.append(b"\n".join(lines))
    return found


def fill(home: Home, count: int = 40) -> list[bytes]:
    """Documents with a history, small ones, and a snapshot with a folder; every group is a pack of its own."""
    contents = revisions(count)
    for data in contents:
        ingest.store_documents(home, [ingest.Seen("docs", b"CHANGES.md", "global", "document", data)])
    for number in range(count // 2):
        data = prose(100 + number, 5)
        contents.append(data)
        ingest.store_documents(home, [ingest.Seen("docs", f"{number}.md".encode(), "global", "document", data)])
    with home.store_lane, home.store.group() as group:
        data = prose(7)
        address = bytes.fromhex(group.add(data)[7:])
        inner, nodes = build([TreeEntry(b"a.txt", FILE, False, len(data), address)])
        root, outer = build([TreeEntry(b"sub", DIRECTORY, False, 0, inner)])
        group.nodes({**nodes, **outer})
        group.record("snapshot", SnapshotRecord("t", "/t", "global", root.hex(), "2026-01-01T00:00:00Z").to_json())
        group.commit()
    return [*contents, data]


def state(home: Home, contents: list[bytes]) -> list[object]:
    assert all(home.store.read(address_of(data)) == data for data in contents)
    assert list(home.store.findings(read_data=True)) == []
    return [(record.seq, record.kind, record.data) for record in home.store.records()]


def test_everything_stays_and_the_store_shrinks(root):
    with opened(root) as home:
        contents = fill(home)
        before = state(home, contents)
        report = optimize.optimize(home)
        assert state(home, contents) == before
        assert report["packs_after"] == 1 < report["packs_before"]
        assert report["stored_after"] < 0.7 * report["stored_before"]
        assert (report["stopped"], report["damaged"]) == (False, [])
    (root / "store" / "index.db").unlink()
    with opened(root) as home:
        assert state(home, contents) == before


def test_a_second_run_changes_nothing(root):
    with opened(root) as home:
        fill(home)
        optimize.optimize(home)
        packs_before = sorted((root / "store" / "packs").rglob("*.pack"))
        assert optimize.optimize(home)["packs_replaced"] == 0
        assert sorted((root / "store" / "packs").rglob("*.pack")) == packs_before


def test_what_came_later_is_merged_with_a_small_pack_and_all_of_it_on_demand(root):
    with opened(root) as home:
        contents = fill(home)
        optimize.optimize(home)
        ingest.store_documents(home, [ingest.Seen("docs", b"new.md", "global", "document", b"a new one")])
        assert optimize.optimize(home)["packs_after"] == 1
        assert optimize.optimize(home, everything=True)["packs_replaced"] == 1
        state(home, [*contents, b"a new one"])


def test_documents_of_today_lie_in_small_frames_and_the_past_in_large_ones(root):
    with opened(root) as home:
        contents = fill(home)
        optimize.optimize(home)
        (pack,) = home.store.pack_ids()
        assert home.store.is_arranged(pack)
        frames = {item.frame_off: 0 for item in home.store.items(pack)[1]}
        for item in home.store.items(pack)[1]:
            if item.kind == packs.CHUNK:
                frames[item.frame_off] += item.length
        today = bytes.fromhex(address_of(contents[40])[7:])
        held = next(item.frame_off for item in home.store.items(pack)[1] if item.digest == today)
        assert frames[held] <= optimize.HOT.limit
        assert max(frames.values()) > optimize.HOT.limit


def test_a_damaged_pack_is_left_alone_and_named(root):
    with opened(root) as home:
        contents = fill(home)
    bad = max((root / "store" / "packs").rglob("*.pack"), key=lambda path: path.stat().st_size)
    data = bytearray(bad.read_bytes())
    data[200] ^= 1
    bad.write_bytes(data)
    with opened(root) as home:
        report = optimize.optimize(home)
        assert report["damaged"] == [bad.name]
        assert bad.read_bytes() == bytes(data)
        assert report["packs_after"] == 2
        assert home.store.read(address_of(contents[-1])) == contents[-1]


def test_a_stop_leaves_the_old_packs_in_force_and_nothing_behind(root):
    with opened(root) as home:
        contents = fill(home)
        before = sorted((root / "store" / "packs").rglob("*.pack"))
        asked = iter(range(10_000))
        report = optimize.optimize(home, stop=lambda: next(asked) > 20)
        assert report["stopped"]
        assert sorted((root / "store" / "packs").rglob("*.pack")) == before
        assert list((root / "store" / "tmp").iterdir()) == []
        state(home, contents)


def test_killed_at_any_step_nothing_is_missing(root, tmp_path, monkeypatch):
    monkeypatch.setattr("memoryd.store.rewrite.PACK_BYTES", 100_000)
    with opened(root) as home:
        contents = fill(home, 3)[-3:]
        before = [(record.seq, record.data) for record in home.store.records()]
    nth, finished = 0, False
    while not finished:
        nth += 1
        place = tmp_path / f"home{nth}"
        copy(root, place)
        child = os.fork()
        if child == 0:
            try:
                seen = [0]

                def fault(point: str, seen: list[int] = seen, nth: int = nth) -> None:
                    if point.startswith(("pack.", "index.", "replaced.")):
                        seen[0] += 1
                        if seen[0] == nth:
                            os.kill(os.getpid(), signal.SIGKILL)

                with opened(place, files=Files(fault)) as home:
                    optimize.optimize(home)
            finally:
                os._exit(0)
        finished = not os.WIFSIGNALED(os.waitpid(child, 0)[1])
        with opened(place) as home:
            assert [(record.seq, record.data) for record in home.store.records()] == before
            assert all(home.store.read(address_of(data)) == data for data in contents)
            assert list(home.store.findings(read_data=False)) == []
        nth += STEP - 1 if nth > 6 else 0
    assert nth > 12
