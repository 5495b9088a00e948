"""Behaviour of memoryd.index.vector with the real engine, beyond the contract of all engines (`tests.contracts`)."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.errors import IndexDamaged, IndexProblem
from memoryd.index import vector
from memoryd.index import vector as module
from memoryd.index.vector import VectorEntry, VectorIndex
from memoryd.records import Filter, LegHit
from tests.index.entries import DIMS, EVERYWHERE, entry, oracle, unit


@pytest.fixture
def index(tmp_path: Path) -> Iterator[VectorIndex]:
    made = VectorIndex.create(tmp_path / "vectors", DIMS)
    yield made
    made.close()


def write(index: VectorIndex, *entries: VectorEntry) -> None:
    index.replace(list({one.document_id for one in entries}), list(entries))


def test_the_log_alone_brings_every_flushed_write_back(index, tmp_path):
    """As after a power loss that kept nothing of the other files since the last full flush."""
    write(index, *[entry(f"{n}.md") for n in range(10)])
    index._shard.flush()
    lost = tmp_path / "lost"
    subprocess.run(["cp", "-a", index.path, lost], check=True)
    write(index, *[entry(f"{n}.md", 1) for n in range(5, 30)])
    index.replace([entry("0.md").document_id], [])
    write(index, entry("1.md", status="archived"))
    index.flush()
    shutil.rmtree(lost / "wal")
    subprocess.run(["cp", "-a", index.path / "wal", lost / "wal"], check=True)
    found = VectorIndex.open(lost, DIMS)
    for wanted in (EVERYWHERE, Filter(scopes=("global",), statuses=("archived",))):
        assert found.search(unit("q"), wanted, 50) == index.search(unit("q"), wanted, 50)
    assert sorted(found.ids()) == sorted(index.ids()) and found.count() == 29
    found.close()


def test_a_full_flush_comes_after_many_points(index, monkeypatch):
    """The log must not grow without bound: what a reopening replays is limited."""
    monkeypatch.setattr(module, "FULL_FLUSH_POINTS", 30)
    held = []
    for turn in range(4):
        write(index, *[entry(f"{turn}-{n}.md") for n in range(10)])
        index.flush()
        held.append(index._unflushed)
    assert held == [20, 0, 20, 0]
    assert index.count() == 40


def test_hits_are_complete_across_a_full_flush(index, monkeypatch):
    """Then the points of each scope are counted anew."""
    monkeypatch.setattr(vector, "FULL_FLUSH_POINTS", 5)
    for turn in range(4):
        mine = [entry(f"mine/{n}.md", turn) for n in range(20)]
        write(
            index, *mine, *[entry(f"o/{turn}.md", part, scope=f"p-{turn:08}", vector=unit("q")) for part in range(40)]
        )
        index.flush()
        assert {hit.passage_id for hit in index.search(unit("q"), EVERYWHERE, 20)} == {one.passage_id for one in mine}


def test_what_comes_between_plan_and_search_takes_no_place(index, monkeypatch):
    """The engine was to be told who is left out; then others came of whom that said nothing."""
    mine = [entry(f"mine/{n}.md") for n in range(30)]
    write(index, *mine)
    usual, late = index._asked, [entry("o.md", part, scope="p-other", vector=unit("q")) for part in range(100)]

    def asked(*given):
        if late:
            write(index, *[late.pop() for _ in range(len(late))])
        return usual(*given)

    monkeypatch.setattr(index, "_asked", asked)
    assert {hit.passage_id for hit in index.search(unit("q"), EVERYWHERE, 30)} == {one.passage_id for one in mine}


@pytest.mark.parametrize("scope", ["p-other", "global"])
def test_what_goes_between_search_and_reading_takes_no_place(index, monkeypatch, scope):
    """The engine gave points that are gone when it is asked what they are."""
    mine = [entry(f"mine/{n}.md") for n in range(30)]
    write(index, *mine)
    usual, late = index._held, [entry("o.md", part, scope=scope, vector=unit("q")) for part in range(100)]
    write(index, *late)
    index._memory.known.clear()

    def held(*given):
        if late:
            late.clear()
            index.replace([entry("o.md").document_id], [])
        return usual(*given)

    monkeypatch.setattr(index, "_present", module.Present())
    monkeypatch.setattr(module.Present, "condition", lambda _self, _may: module.Condition(True, []))
    monkeypatch.setattr(index, "_held", held)
    assert {hit.passage_id for hit in index.search(unit("q"), EVERYWHERE, 30)} == {one.passage_id for one in mine}


def test_points_are_counted_by_scope_when_they_are_opened(index):
    """Else the first search of a home that is nearly all of one scope costs five times as much."""
    write(index, *[entry(f"{n}.md") for n in range(9)], entry("other.md", scope="p-other"))
    index.flush()
    index.close()
    again = VectorIndex.open(index.path, DIMS)
    assert again._present.condition(["in_force:global"]) == (True, ["in_force:p-other"])
    again.close()


def test_kinds_of_which_there_are_few_are_known(index):
    assert not index.few("memory", 3)
    write(index, entry("a.md", kind="memory"), *[entry(f"{n}.md") for n in range(9)])
    write(index, entry("b.md", kind="memory"))
    index.flush()
    index.close()
    again = VectorIndex.open(index.path, DIMS)
    assert (again.few("memory", 3), again.few("memory", 2), again.few("code", 3)) == (True, False, False)
    for _ in range(5):
        write(again, entry("b.md", kind="memory"))
    assert again.few("memory", 3), "what is written again is no more than it was"
    write(again, entry("c.md", kind="memory"))
    assert not again.few("memory", 3)
    again.close()


def test_a_point_with_damaged_traits_is_damage_and_no_crash(index):
    write(index, entry("a.md"), entry("b.md"))
    index._shard.update(
        module.engine.UpdateOperation.set_payload([module.uuid.UUID(entry("a.md").passage_id)], {"traits": [1, 2]})
    )
    with pytest.raises(IndexDamaged):
        index.search(unit(1), EVERYWHERE, 5)


def test_a_sync_that_failed_is_not_tried_again(index, monkeypatch):
    write(index, entry("a.md"))

    def fail(_fd: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(IndexDamaged, match="Input/output"):
            index.flush()
    with pytest.raises(IndexDamaged, match="opened again"):
        index.flush()
    assert len(index.search(unit(1), EVERYWHERE, 5)) == 1


def test_a_second_opening_is_refused_while_the_first_lives(index):
    with pytest.raises(IndexProblem, match="in use") as caught:
        VectorIndex.open(index.path, DIMS)
    assert not isinstance(caught.value, IndexDamaged)


def test_h16_making_one_where_one_lies_is_refused(index):
    write(index, entry("a.md"))
    index.close()
    with pytest.raises(IndexDamaged):
        VectorIndex.create(index.path, DIMS)
    again = VectorIndex.open(index.path, DIMS)
    assert again.count() == 1
    again.close()


def test_a_folder_without_segments_is_never_taken_for_empty(index):
    """The engine itself would make a new, empty shard out of it."""
    write(index, entry("a.md"))
    index.close()
    shutil.rmtree(index.path / "segments")
    (index.path / "segments").mkdir()
    with pytest.raises(IndexDamaged, match="no vector index"):
        VectorIndex.open(index.path, DIMS)


def damage(path: Path, how: str) -> None:
    if how == "delete":
        path.unlink()
    elif how == "truncate":
        os.truncate(path, path.stat().st_size // 2)
    else:
        raw = bytearray(path.read_bytes())
        raw[: min(len(raw), 65536)] = os.urandom(min(len(raw), 65536))
        path.write_bytes(raw)


@pytest.mark.parametrize("how", ["delete", "truncate", "garble"])
def test_damage_of_any_file_is_typed_or_seen_or_without_effect(tmp_path, how):
    """Each file of the shard in turn: a typed error, a count that differs, or still the whole index."""
    whole = VectorIndex.create(tmp_path / "whole", DIMS)
    entries = [entry(f"{n}.md") for n in range(30)]
    write(whole, *entries)
    whole.flush()
    whole.close()
    names: dict[tuple[str, ...], Path] = {}
    for path in sorted(whole.path.rglob("*")):
        if path.is_file() and path.stat().st_blocks and "ancestor" not in str(path):
            # the payload indexes of all fields look alike: the files of one of them, and each other file
            alike = tuple(part.rpartition("-")[2] for part in path.relative_to(whole.path).parts)
            names[alike] = path.relative_to(whole.path)
    outcomes = {"refused": 0, "whole": 0, "counted": 0}
    for name in names.values():
        copy = tmp_path / "copy"
        subprocess.run(["cp", "-a", whole.path, copy], check=True)  # keeps the holes of 130 MB of sparse files
        damage(copy / name, how)
        try:
            outcomes[_use(copy, entries)] += 1
        except IndexProblem:
            outcomes["refused"] += 1
        shutil.rmtree(copy)
    assert outcomes["refused"] > 3 and outcomes["whole"] > 3, outcomes


def _use(path: Path, entries: list[VectorEntry]) -> str:
    index = VectorIndex.open(path, DIMS)
    try:
        index.expect(len(entries))
        if index.drift():
            return "counted"
        assert set(index.ids()) == {(one.document_id, one.passage_id) for one in entries}
        found = [hit.passage_id for hit in index.search(unit("q"), EVERYWHERE, 50)]
        assert found == oracle(entries, unit("q"), EVERYWHERE, 50), path
        return "whole"
    finally:
        index.close()


def test_broken_vectors_are_found_at_open_and_by_the_full_look(index):
    """The engine has no checksums: a vector file written over loads without an error."""
    write(index, *[entry(f"{n}.md") for n in range(60)])
    index.flush()
    index.close()
    (file,) = index.path.glob("segments/*/vector_storage/vectors/chunk_0.mmap")
    with file.open("r+b") as stream:
        stream.write(os.urandom(40 * DIMS * 4))
    with pytest.raises(IndexDamaged, match="broken vectors"):
        VectorIndex.open(index.path, DIMS)


def test_a_single_broken_vector_is_found_by_the_full_look(index):
    write(index, *[entry(f"{n}.md") for n in range(60)])
    index.flush()
    assert list(index.damaged()) == []
    index.close()
    (file,) = index.path.glob("segments/*/vector_storage/vectors/chunk_0.mmap")
    with file.open("r+b") as stream:
        stream.seek(59 * DIMS * 2)
        stream.write(b"\xff\x7b" * DIMS)
    try:
        again = VectorIndex.open(index.path, DIMS)
    except IndexDamaged:
        return  # it was among those looked at when opening
    assert len(list(again.damaged())) == 1
    again.close()


KILLED = """
import sys
from pathlib import Path
from memoryd.index.vector import VectorIndex
from tests.index.entries import DIMS, entry
index = VectorIndex.create(Path(sys.argv[1]), DIMS)
for turn in range(100000):
    made = [entry(f"{turn}.md", part) for part in range(20)]
    index.replace([made[0].document_id], made)
    index.flush()
    print(turn, flush=True)
"""


def test_a_kill_leaves_every_flushed_write_and_no_half_document(tmp_path):
    path = tmp_path / "vectors"
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True, cwd=root
    ) as writer:
        done = [int(writer.stdout.readline()) for _ in range(12)]
        writer.send_signal(signal.SIGKILL)
        done += [int(line) for line in writer.stdout.read().split()]
    index = VectorIndex.open(path, DIMS)
    held: dict[str, int] = {}
    for document, _ in index.ids():
        held[document] = held.get(document, 0) + 1
    assert set(held.values()) == {20}
    assert {entry(f"{turn}.md").document_id for turn in done} <= set(held)
    assert index.search(entry("3.md", 4).vector, EVERYWHERE, 1) == [
        LegHit(entry("3.md").document_id, entry("3.md", 4).passage_id, pytest.approx(1.0, abs=1e-3))
    ]
    index.close()


def test_h38_nothing_is_written_where_the_disk_is_nearly_full(tmp_path: Path):
    """H38: the engine's mapped files would end the process; the error comes before anything is touched."""
    from memoryd.errors import DiskFull
    from memoryd.index.vector import MIN_FREE, require_room

    require_room(tmp_path, lambda _path: MIN_FREE)
    with pytest.raises(DiskFull, match="MiB are free"):
        require_room(tmp_path, lambda _path: MIN_FREE - 1)


def test_an_index_of_wider_numbers_still_opens_and_takes_more(tmp_path, monkeypatch):
    """What an earlier version wrote is read as it is, until a rebuild makes it anew."""
    usual = vector.layout
    monkeypatch.setattr(vector, "layout", lambda dims, sparse, half=True: usual(dims, sparse, half=False))
    old = VectorIndex.create(tmp_path / "old", DIMS)
    write(old, *[entry(f"{n}.md") for n in range(5)])
    old.close()
    monkeypatch.undo()
    again = VectorIndex.open(tmp_path / "old", DIMS)
    write(again, entry("new.md"))
    for name in ("3.md", "new.md"):
        assert again.search(entry(name).vector, EVERYWHERE, 1)[0].document_id == entry(name).document_id
    again.close()


def test_above_the_limit_a_graph_finds_what_an_exact_search_finds(tmp_path, monkeypatch):
    monkeypatch.setattr(vector, "GRAPH_FROM", 100)
    index = VectorIndex.create(tmp_path / "many", DIMS)
    entries = [entry(f"{n}.md") for n in range(120)]
    write(index, *entries)
    index.settle()
    assert index.count() == 120
    wanted = oracle(entries, unit("q"), EVERYWHERE, 10)
    assert len(set(wanted) & {hit.passage_id for hit in index.search(unit("q"), EVERYWHERE, 10)}) >= 9
    index.close()
    VectorIndex.open(tmp_path / "many", DIMS).close()


def test_a_few_vectors_are_compared_with_those_expected(index):
    write(index, entry("a"), entry("b", vector=unit("of another text")))
    a, b, gone = entry("a"), entry("b"), entry("c")
    expected = {one.passage_id: one.vector for one in (a, b, gone)}
    assert index.differing(expected) == [b.passage_id, gone.passage_id]


def test_a_log_file_that_is_renamed_meanwhile_is_looked_for_again(tmp_path, monkeypatch):
    """The engine prepares its next log under another name, in a thread of its own."""
    (tmp_path / "open-1").write_bytes(b"x")
    (tmp_path / "tmp-open-2").write_bytes(b"")
    synced, usual = [], os.open

    def opening(path, flags):
        name = Path(path).name
        if name == "tmp-open-2" and Path(path).exists():
            Path(path).rename(tmp_path / "open-2")
        synced.append(name)
        return usual(path, flags)

    monkeypatch.setattr(vector.os, "open", opening)
    vector._sync_log(tmp_path)
    assert synced[-3:] == ["open-1", "open-2", tmp_path.name]
