"""Room comes back only from what nothing in force needs, and never in a moment in which somebody needs it again."""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memoryd.digest import address_of
from memoryd.errors import NotFound, ReachUnknown, StoreError
from memoryd.files import Files
from memoryd.operations import collect
from memoryd.operations.check import check
from memoryd.operations.collect import HOUR, gc
from memoryd.operations.home import Home
from memoryd.operations.ingest import Seen, bury, commit_snapshot, store_documents
from memoryd.operations.rebuild import refresh_catalog
from memoryd.records import DocumentEvent, SnapshotRecord, TombstoneRecord
from memoryd.store.merkle import FILE, TreeEntry, build
from tests.operations.conftest import configure, fill_up, opened, settle

NONE = {"history_revisions": 0, "history_days": 0, "snapshots": 1, "snapshot_days": 0, "grace_hours": 10}
START = 1_800_000_000.0
STEP = int(os.environ.get("CRASH_STEP", "20"))
"""Every so many steps are tried; CRASH_STEP=1 tries each one."""


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@contextmanager
def living(root: Path, clock: Callable[[], float], fault: Callable[[str], None] | None = None) -> Iterator[Home]:
    with opened(root, files=Files(fault) if fault else None, clock=clock) as home:
        yield home


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def home(root, clock) -> Iterator[Home]:
    configure(root, retention=NONE)
    with living(root, clock) as home:
        yield home


def put(home: Home, path: str, data: bytes | None, source: str = "docs") -> str:
    store_documents(home, [Seen(source, path.encode(), "global", "document", data)])
    return "" if data is None else address_of(data)


def snapshot(home: Home, label: str, files: dict[str, bytes], created: str = "2027-01-15T08:00:00Z") -> bytes:
    entries = [
        TreeEntry(name.encode(), FILE, False, len(data), bytes.fromhex(address_of(data)[7:]))
        for name, data in files.items()
    ]
    root, nodes = build(entries)
    with home.store_lane:
        group = home.store.group()
        for data in files.values():
            group.add(data)
        group.nodes(nodes)
        group.record("snapshot", SnapshotRecord(label, "tree", "global", root.hex(), created).to_json())
        group.commit()
    return root


def held(home: Home, address: str) -> bool:
    try:
        home.store.read(address)
    except NotFound:
        return False
    return True


def text(seed: int, size: int = 3000) -> bytes:
    return (f"{seed} ".encode() * size)[:size] + os.urandom(8).hex().encode()


def pack_files(home: Home) -> list[Path]:
    return sorted((home.root / "store" / "packs").rglob("*.pack"))


def clean(home: Home) -> None:
    found = check(home, read_data=True)
    assert found["findings"] == []


# -- the two phases


def test_case_3_added_three_times_removed_once_then_gone(home, clock):
    data = text(1)
    for _ in range(3):
        address = put(home, "a.md", data)
    put(home, "a.md", None)
    first = gc(home)
    assert held(home, address)
    assert first["condemned"]["contents"] == 1 and first["dropped"]["contents"] == 0
    clock.now += 11 * HOUR
    second = gc(home)
    assert not held(home, address)
    assert second["dropped"]["contents"] == 1 and second["ok"]
    assert all(data not in path.read_bytes() for path in pack_files(home))
    third = gc(home)
    assert (third["rewritten"], third["condemned"]["contents"]) == (0, 0)
    clean(home)


def test_what_is_current_or_in_a_snapshot_stays(home, clock):
    current, former, shot, old_shot = text(1), text(2), text(3), text(4)
    put(home, "a.md", former)
    put(home, "a.md", current)
    snapshot(home, "s", {"x": old_shot})
    snapshot(home, "s", {"x": shot})
    gc(home)
    clock.now += 11 * HOUR
    report = gc(home)
    assert [held(home, address_of(data)) for data in (current, former, shot, old_shot)] == [True, False, True, False]
    assert report["live"]["contents"] == 2 and report["live"]["nodes"] == 1
    clean(home)


def test_now_does_both_phases_at_once_and_a_second_run_does_nothing(home):
    for number in range(6):
        put(home, "a.md", text(number, 40_000))
    report = gc(home, now=True)
    assert report["expired"]["documents"] == 5 and report["dropped"]["contents"] == 5
    assert report["freed_bytes"] > 0
    files = pack_files(home)
    again = gc(home, now=True)
    assert again["rewritten"] == 0 and pack_files(home) == files
    assert again["condemned"] == {"contents": 0, "chunks": 0, "nodes": 0, "bytes": 0}
    assert again["live"] == report["live"]
    clean(home)


def test_a_dry_run_changes_nothing(home):
    put(home, "a.md", text(1))
    put(home, "a.md", text(2))
    before = [(path, path.read_bytes()) for path in pack_files(home)]
    report = gc(home, now=True, dry_run=True)
    assert report["due"]["contents"] == 1 and report["expired"]["documents"] == 1
    assert [(path, path.read_bytes()) for path in pack_files(home)] == before
    assert not (home.root / "store" / "condemned").exists()


def test_memories_and_artifacts_keep_their_whole_history(home):
    kept = [put(home, "m.md", text(number), source) for number in range(4) for source in ("vault", "artifact")]
    report = gc(home, now=True)
    assert report["expired"]["documents"] == 0
    assert all(held(home, address) for address in kept)


def test_history_shows_what_is_left_and_a_rebuild_brings_nothing_back(home):
    addresses = [put(home, "a.md", text(number)) for number in range(4)]
    gc(home, now=True)
    (row,) = home.documents.current("docs")
    assert [one.address for one in home.documents.history(row.document_id)] == [addresses[-1]]
    refresh_catalog(home, lambda: False)
    (row,) = home.documents.current("docs")
    assert [one.address for one in home.documents.history(row.document_id)] == [addresses[-1]]
    assert home.documents.addresses("sha256:", None) == [addresses[-1]]
    clean(home)


def test_tombstones_are_honoured_while_their_records_still_lie_there(home):
    first, second = put(home, "a.md", text(1)), put(home, "a.md", text(2))
    row = home.documents.by_path("docs", b"a.md")
    with home.store_lane:
        bury(home, [TombstoneRecord(None, home.documents.history(row.document_id)[0].seq, "expired")])
    for _ in range(2):
        assert [one.address for one in home.documents.history(row.document_id)] == [second]
        assert first in [record.data.get("address") for record in home.store.records()]
        refresh_catalog(home, lambda: False)
    clean(home)


def test_counts_are_those_of_a_fresh_start(root, clock):
    """Case 67: what is shown is recomputed."""
    configure(root, retention=NONE)
    with living(root, clock) as home:
        for number in range(5):
            put(home, f"{number}.md", text(number))
        put(home, "0.md", None)
        first = gc(home)
        sums = home.store.stats()
    (root / "store" / "index.db").unlink()
    with living(root, clock) as home:
        again = gc(home)
        for name in ("live", "condemned"):
            assert again[name] == first[name]
        assert home.store.stats().stored_bytes <= sums.stored_bytes + 2000


# -- reachability


def test_case_4_a_shared_chunk_stays_and_the_removed_content_is_not_found(home):
    shared = os.urandom(60_000)
    one, two = shared + os.urandom(50_000), shared + os.urandom(50_000)
    put(home, "one", one)
    put(home, "two", two)
    put(home, "one", None)
    report = gc(home, now=True)
    assert report["dropped"]["contents"] == 1
    assert not held(home, address_of(one))
    assert home.store.read(address_of(two)) == two
    clean(home)


def test_case_4_a_content_that_lives_on_as_a_piece_only_is_not_found(home):
    whole = os.urandom(60_000)
    ends = home.store._chunker.cut(whole)
    piece = whole[ends[0] : ends[1]]
    put(home, "piece", piece)
    put(home, "whole", whole)
    assert home.store.stats().chunks == len(ends), "the piece is stored once"
    put(home, "piece", None)
    gc(home, now=True)
    assert home.store.read(address_of(whole)) == whole
    assert not held(home, address_of(piece))
    clean(home)


def test_case_7_a_write_that_ended_before_its_record_is_collected(home, clock):
    data = text(1)
    with home.store_lane:
        group = home.store.group()
        address = group.add(data)
        group.commit()
    put(home, "other", text(2))
    gc(home)
    assert held(home, address)
    clock.now += 11 * HOUR
    gc(home)
    assert not held(home, address)


@pytest.mark.parametrize("what", ["footer", "manifest", "record", "lost pack", "node"])
def test_case_8_damage_on_the_way_removes_nothing(root, clock, what):
    configure(root, retention=NONE)
    with living(root, clock) as home:
        put(home, "keep", os.urandom(90_000))
        snapshot(home, "s", {"in a tree": text(5)})
        put(home, "gone", text(3))
        put(home, "gone", None)
        target = _damage(home, what)
    (root / "store" / "index.db").unlink()
    before = {path: path.read_bytes() for path in (root / "store" / "packs").rglob("*.pack")}
    with living(root, clock) as home:
        if what == "lost pack":
            target.unlink()
            before.pop(target)
        with pytest.raises(ReachUnknown) as caught:
            gc(home, now=True)
        assert caught.value.code == "reach-unknown"
        assert {path: path.read_bytes() for path in pack_files(home)} == before


def test_case_8_a_content_in_force_that_is_not_there_removes_nothing(home):
    """Its manifest may have been lost, and with it what it leads to."""
    put(home, "gone", text(3))
    put(home, "gone", None)
    lost = DocumentEvent("docs", b"lost", "global", "document", "seen", address_of(b"never stored"), 12)
    with home.store_lane:
        group = home.store.group()
        group.record("document", lost.to_json())
        group.commit()
    before = pack_files(home)
    with pytest.raises(ReachUnknown) as caught:
        gc(home, now=True, dry_run=True)
    assert caught.value.details["named"] == [address_of(b"never stored")]
    with pytest.raises(ReachUnknown):
        gc(home, now=True)
    assert set(before) <= set(pack_files(home))


def _damage(home: Home, what: str) -> Path:
    """Break one byte of that; the pack."""
    wanted = {"manifest": 2, "record": 4, "node": 3}.get(what)
    for pack in home.store.pack_ids():
        path = home.store._shelf.path(pack)
        items = home.store.items(pack)[1]
        if what == "lost pack" and any(item.kind == 2 for item in items):
            return path
        raw = bytearray(path.read_bytes())
        if what == "footer":
            raw[-60] ^= 1
        elif (item := next((one for one in items if one.kind == wanted), None)) is not None:
            raw[item.frame_off + 88 + 3] ^= 1
        else:
            continue
        path.chmod(0o600)
        path.write_bytes(raw)
        return path
    raise AssertionError(what)


# -- at the same time as others


def test_case_9_content_added_again_between_mark_and_sweep_survives(home, clock, monkeypatch):
    data, shared = text(1), os.urandom(60_000)
    put(home, "a", data)
    put(home, "b", shared)
    put(home, "a", None)
    put(home, "b", None)
    gc(home)
    clock.now += 11 * HOUR
    real = collect.sweep_packs

    def late(*arguments: object) -> None:
        put(home, "again", data)
        with home.store_lane:  # a write of several groups: its record comes later
            group = home.store.group()
            group.add(shared)
            group.commit()
        real(*arguments)

    monkeypatch.setattr(collect, "sweep_packs", late)
    gc(home)
    monkeypatch.undo()
    assert home.store.read(address_of(data)) == data
    assert home.store.read(address_of(shared)) == shared
    gc(home)
    assert held(home, address_of(shared)), "its grace begins anew"
    clean(home)


def test_case_9_a_tree_named_again_between_mark_and_sweep_survives(home, clock, monkeypatch):
    """Its record alone is written: nothing of it was looked for in the store."""
    inside = os.urandom(30_000)
    tree = snapshot(home, "s", {"x": inside})
    snapshot(home, "s", {"y": b"now"})
    gc(home)
    clock.now += 11 * HOUR
    real = collect.sweep_packs

    def late(*arguments: object) -> None:
        with home.store_lane:
            group = home.store.group()
            commit_snapshot(home, group, SnapshotRecord("other", "tree", "global", tree.hex(), "2027-01-15T08:00:00Z"))
        real(*arguments)

    monkeypatch.setattr(collect, "sweep_packs", late)
    assert gc(home)["due"]["contents"] == 1
    monkeypatch.undo()
    assert home.store.node(tree) and home.store.read(address_of(inside)) == inside
    assert gc(home)["condemned"]["contents"] == 0


def test_case_9_adding_and_collecting_at_once(home):
    """Writers re-add the same few contents while collections without grace run; what a record names is always there."""
    contents = [text(number, 20_000) for number in range(6)]
    failures: list[str] = []
    stop = threading.Event()

    def write(name: str) -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            data = contents[(turn * 7 + len(name)) % len(contents)]
            put(home, name, data)
            try:
                if home.store.read(address_of(data)) != data:
                    failures.append("wrong bytes")
            except StoreError as error:
                failures.append(error.message)
            except NotFound:
                row = home.documents.by_path("docs", name.encode())
                if row.address == address_of(data):
                    failures.append(f"{name}: not found")

    threads = [threading.Thread(target=write, args=(name,)) for name in ("x", "yy", "zzz")]
    for thread in threads:
        thread.start()
    try:
        dropped = sum(gc(home, now=True)["dropped"]["contents"] for _ in range(25))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert dropped > 0
    clean(home)


# -- failures


def story(home: Home) -> dict[str, bytes]:
    """Documents with histories, a tree, shared chunks; what must be readable ever after."""
    shared = bytes(range(256)) * 200
    kept: dict[str, bytes] = {}
    for number in range(3):
        for path in ("a", "b", "c"):
            data = shared + f"{path}{number}".encode() * 3000
            kept[path] = data
            put(home, path, data)
    snapshot(home, "s", {"old": b"old" * 2000})
    snapshot(home, "s", {"a": kept["a"], "x": b"x" * 5000})
    kept["x"] = b"x" * 5000
    put(home, "c", None)
    del kept["c"]
    return kept


def test_killed_at_any_step_nothing_needed_is_lost(tmp_path):
    nth, finished = 1, False
    while not finished:
        root, clock = tmp_path / str(nth), Clock()
        configure(root, retention=NONE)
        with living(root, clock) as home:
            kept = story(home)
        child = os.fork()
        if child == 0:
            _die_at(root, clock, nth)
        finished = not os.WIFSIGNALED(os.waitpid(child, 0)[1])
        with living(root, clock) as home:
            _check_kept(home, kept)
            clean(home)
            gc(home, now=True)
            _check_kept(home, kept)
            clean(home)
            assert gc(home, now=True)["rewritten"] == 0
            assert home.documents.live_count() == 2
        nth += STEP
    assert nth > 15


def _die_at(root: Path, clock: Clock, nth: int) -> None:
    seen = [0]
    armed = [False]

    def fault(_point: str) -> None:
        seen[0] += armed[0]
        if seen[0] == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        with living(root, clock, fault) as home:
            armed[0] = True
            gc(home, now=True)
    finally:
        os._exit(0)


def _check_kept(home: Home, kept: dict[str, bytes]) -> None:
    for data in kept.values():
        assert home.store.read(address_of(data)) == data


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("lasting", [False, True])
def test_an_error_at_any_step_loses_nothing(tmp_path, code, lasting):
    nth, finished = 1, False
    while not finished:
        root, clock = tmp_path / str(nth), Clock()
        configure(root, retention=NONE)
        count = [0]
        armed = [False]

        def fault(point: str, count: list[int] = count, armed: list[bool] = armed, nth: int = nth) -> None:
            if armed[0]:
                count[0] += 1
                if count[0] == nth or (lasting and count[0] > nth):
                    raise OSError(code, os.strerror(code), point)

        with living(root, clock, fault) as home:
            kept = story(home)
            armed[0] = True
            try:
                gc(home, now=True)
            except StoreError:
                pass
            armed[0] = False
            finished = count[0] < nth
            _check_kept(home, kept)
        with living(root, clock) as home:
            _check_kept(home, kept)
            clean(home)
            assert gc(home, now=True)["ok"]
            _check_kept(home, kept)
        nth += STEP
    assert nth > 15


def test_it_stops_when_asked_and_the_next_run_goes_on(home):
    for number in range(4):
        put(home, "a", text(number))
    calls = [0]

    def stop() -> bool:
        calls[0] += 1
        return calls[0] > 3

    assert gc(home, now=True, stop=stop)["stopped"]
    clean(home)
    assert gc(home, now=True)["dropped"]["contents"] == 3


def test_losing_the_view_only_delays(root, clock):
    configure(root, retention=NONE)
    with living(root, clock) as home:
        address = put(home, "a", text(1))
        put(home, "a", None)
        gc(home)
    (root / "store" / "condemned").write_bytes(b"torn")
    clock.now += 11 * HOUR
    with living(root, clock) as home:
        gc(home)
        assert held(home, address)
        clock.now += 11 * HOUR
        gc(home)
        assert not held(home, address)


def test_a_pack_with_next_to_nothing_dead_is_left_alone(home):
    store_documents(
        home,
        [Seen("docs", f"{n}".encode(), "global", "document", os.urandom(40_000)) for n in range(40)],
    )
    put(home, "0", None)
    report = gc(home, now=True)
    assert report["condemned"]["contents"] == 1
    assert report["rewritten"] == 0
    clean(home)


def test_numbers_are_not_given_out_again(root, clock):
    configure(root, retention=NONE)
    with living(root, clock) as home:
        for number in range(4):
            put(home, "a", text(number))
        for _ in range(3):
            gc(home, now=True)
        last = home.store.last_seq()
    (root / "store" / "index.db").unlink()
    with living(root, clock) as home:
        assert home.store.last_seq() == last
        assert home.documents.live_count() == 1


def test_readers_go_on_while_packs_are_written_again(home):
    kept = {address_of(data): data for data in (text(number, 30_000) for number in range(8))}
    for number, data in enumerate(kept.values()):
        put(home, f"kept {number}", data)
    failures: list[object] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            for address, data in kept.items():
                try:
                    if home.store.read(address) != data:
                        failures.append("wrong bytes")
                except (NotFound, StoreError) as error:
                    failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for turn in range(15):
            put(home, "passing", text(100 + turn, 20_000))
            store_documents(
                home, [Seen("docs", b"kept 0", "global", "document", next(iter(kept.values())), exec=bool(turn % 2))]
            )
            assert gc(home, now=True)["ok"]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []
    clean(home)


def test_on_a_full_disk_it_gives_room_back(small_disk, clock):
    """Filled to the last byte: reads and a collection work, then writes do again."""
    root = small_disk / "home"
    configure(root, retention=NONE)
    with living(root, clock) as home:
        kept = text(1, 50_000)
        put(home, "kept", kept)
        for _ in range(5):
            put(home, "passing", os.urandom(1 << 20))
        put(home, "passing", b"small now")
        fill_up(small_disk, "filler")
        with pytest.raises(StoreError):
            put(home, "more", os.urandom(2 << 20))
        assert home.store.read(address_of(kept)) == kept
        reports = [gc(home, now=True) for _ in range(3)]
        assert sum(report["dropped"]["bytes"] for report in reports) >= 5 << 20
        put(home, "more", os.urandom(2 << 20))
        assert home.store.read(address_of(kept)) == kept
        assert list(home.store.findings(read_data=True)) == []


def test_case_65_what_was_removed_leaves_no_vector_no_entry_no_row_and_no_chunk_behind(home, clock):
    """case 65: every view is asked by its own ids, and what stays is there in each."""
    kept, gone = b"# Dam\n\nThe dam opens at dawn.\n" * 3, b"# Weir\n\nThe weir is shut at night.\n" * 40
    put(home, "kept.md", kept)
    put(home, "gone.md", gone)
    settle(home)
    stays, goes = (home.documents.by_path("docs", path) for path in (b"kept.md", b"gone.md"))
    chunks = [digest for digest, _length in home.store.layout(goes.address)]
    passages = {one.id for one in home.passages.of_document(goes.document_id)}
    generation = home.generation
    for leg in (generation.lexical, generation.vectors):
        assert {document for document, _ in leg.ids()} == {stays.document_id, goes.document_id}
    put(home, "gone.md", None)
    settle(home)
    gc(home)
    clock.now += 11 * HOUR
    gc(home)
    for leg in (generation.lexical, generation.vectors):
        assert {document for document, _ in leg.ids()} == {stays.document_id}
    assert home.passages.get_many(passages) == {}
    assert home.store.chunk_places(chunks) == {} and not held(home, goes.address)
    assert home.store.read(stays.address) == kept
    clean(home)


def test_embeddings_of_texts_that_nobody_holds_any_more_go(home, clock):
    put(home, "a.md", b"first words")
    put(home, "b.md", b"other words")
    settle(home)
    model = home.host.identity.fingerprint
    assert home.cache.count(model) == 2
    put(home, "a.md", b"second words")
    settle(home)
    assert gc(home, dry_run=True)["ok"] and home.cache.count(model) == 3
    assert gc(home)["embeddings"] == 1
    assert home.cache.count(model) == 2 and gc(home)["embeddings"] == 0
