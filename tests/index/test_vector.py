"""Behaviour of memoryd.index.vector with the real engine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryd.errors import IndexDamaged, IndexProblem
from memoryd.index import vector as module
from memoryd.index.packed import floats
from memoryd.index.vector import VectorEntry, VectorIndex
from memoryd.records import Filter, LegHit
from tests.index.entries import DIMS, EVERYWHERE, cosine, entry, packed, sparse, unit

STATUSES = ("in_force", "superseded", "archived")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[VectorIndex]:
    made = VectorIndex.create(tmp_path / "vectors", DIMS)
    yield made
    made.close()


def write(index: VectorIndex, *entries: VectorEntry) -> None:
    index.replace(list({one.document_id for one in entries}), list(entries))


def oracle(entries: list[VectorEntry], query: bytes, wanted: Filter, limit: int) -> list[str]:
    """Passage ids by exact cosine, by the plain reading of a filter."""
    seen = [
        one
        for one in entries
        if one.scope in wanted.scopes
        and one.status in wanted.statuses
        and (not wanted.kinds or one.kind in wanted.kinds)
        and (not wanted.types or one.type in wanted.types)
        and (wanted.path_prefix is None or wanted.path_prefix in one.ancestors)
    ]
    seen.sort(key=lambda one: -cosine(one.vector, query))
    return [one.passage_id for one in seen[:limit]]


def test_an_empty_index_finds_nothing(index):
    assert (index.count(), index.search(unit(1), EVERYWHERE, 5), list(index.ids())) == (0, [], [])


def test_a_hit_names_document_passage_and_cosine(index):
    one = entry("a.md")
    write(index, one, entry("b.md"))
    (hit,) = index.search(one.vector, EVERYWHERE, 1)
    assert (hit.document_id, hit.passage_id) == (one.document_id, one.passage_id)
    assert hit.score == pytest.approx(1.0, abs=1e-5)
    assert index.search(packed([-x for x in floats(one.vector)]), EVERYWHERE, 2)[-1].score == pytest.approx(-1)


fields = st.fixed_dictionaries(
    {
        "scope": st.sampled_from(["global", "p-a-00000001", "p-a-00000002"]),
        "kind": st.sampled_from(["memory", "document", "code"]),
        "type": st.sampled_from(["", "fact", "note"]),
        "status": st.sampled_from(STATUSES),
    }
)
filters = st.builds(
    Filter,
    scopes=st.lists(st.sampled_from(["global", "p-a-00000001", "p-a-00000002", "p-none"]), max_size=3).map(tuple),
    statuses=st.lists(st.sampled_from(STATUSES), max_size=3).map(tuple),
    kinds=st.lists(st.sampled_from(["memory", "document", "code"]), max_size=2).map(tuple),
    types=st.lists(st.sampled_from(["", "fact", "note"]), max_size=2).map(tuple),
    path_prefix=st.sampled_from([None, "docs/", "docs/f1/", "docs/f1/g/", "docs/f", "other/"]),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(fields, min_size=1, max_size=40),
    wanted=st.lists(filters, min_size=1, max_size=5),
    limit=st.integers(1, 30),
)
def test_a_search_is_the_exact_filtered_ranking(index, rows, wanted, limit):
    """Against a plain loop over all entries: same entries, same order, whatever the filter."""
    entries = [entry(f"f{n % 3}/g/{n}.md", **row) for n, row in enumerate(rows)]
    index.replace([entry(f"f{n % 3}/g/{n}.md").document_id for n in range(40)], entries)
    assert (index.count(), index.drift()) == (len(entries), 0)
    for one in wanted:
        query = unit(("query", len(rows)))
        assert [hit.passage_id for hit in index.search(query, one, limit)] == oracle(entries, query, one, limit)


@pytest.mark.parametrize("nothing", [Filter(scopes=()), Filter(scopes=("global",), statuses=())])
def test_a_filter_that_allows_nothing_finds_nothing(index, nothing):
    write(index, entry("a.md"))
    assert index.search(unit(1), nothing, 5) == []


def test_a_scope_is_matched_whole(index):
    write(index, entry("a.md", scope="p-x-12345678"), entry("b.md", scope="in_force:global"))
    for scope in ("p-x", "p-x-1234567", "P-X-12345678", "p-x-12345678 ", "global", "*", ""):
        assert index.search(unit(1), Filter(scopes=(scope,)), 5) == []
    assert len(index.search(unit(1), Filter(scopes=("p-x-12345678",)), 5)) == 1


def test_equal_scores_are_ordered_by_id(index):
    same = [entry(f"{n}.md", vector=unit("same")) for n in range(12)]
    write(index, *same)
    expected = sorted((one.document_id, one.passage_id) for one in same)
    hits = index.search(unit("same"), EVERYWHERE, 5)
    assert [(hit.document_id, hit.passage_id) for hit in hits] == expected[:5]


@pytest.mark.parametrize("limit", [0, -1])
def test_no_limit_no_hits(index, limit):
    write(index, entry("a.md"))
    assert index.search(unit(1), EVERYWHERE, limit) == []


def test_replacing_keeps_what_stays_and_removes_what_went(index):
    write(index, entry("a.md", 0), entry("a.md", 1), entry("b.md"))
    write(index, entry("a.md", 1), entry("a.md", 2))
    kept = [entry("a.md", 1), entry("a.md", 2), entry("b.md")]
    assert set(index.ids()) == {(one.document_id, one.passage_id) for one in kept}
    index.replace([entry("a.md").document_id], [])
    assert [found for found, _ in index.ids()] == [entry("b.md").document_id]


def test_replacing_twice_is_replacing_once(index):
    for _ in range(2):
        write(index, entry("a.md", 0), entry("a.md", 1))
    assert (index.count(), index.drift()) == (2, 0)


def test_a_changed_status_is_seen_at_once(index):
    write(index, entry("a.md"))
    write(index, entry("a.md", status="archived"))
    assert index.search(unit(1), EVERYWHERE, 5) == []
    assert len(index.search(unit(1), Filter(scopes=("global",), statuses=("archived",)), 5)) == 1


def test_more_than_one_page_and_one_engine_call(index):
    """More points than an upsert, a deletion and a page of ids take at once."""
    many = [entry(f"{n}.md") for n in range(module.PAGE + 7)]
    write(index, *many)
    assert index.count() == len(many) == len(set(index.ids()))
    index.replace([one.document_id for one in many[: module.DELETE_DOCUMENTS + 3]], [])
    assert index.count() == len(many) - module.DELETE_DOCUMENTS - 3


NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    "bad",
    [
        packed([0.0] * DIMS),
        packed([NAN] + [0.5] * 7),
        packed([INFINITE] + [0.5] * 7),
        unit(1)[:-4],
        unit(1) + b"\0\0\0\0",
        b"",
    ],
    ids=["zero", "nan", "infinite", "short", "long", "empty"],
)
def test_a_vector_that_is_none_is_refused_before_anything_is_written(index, bad):
    write(index, entry("a.md", 0))
    with pytest.raises(IndexProblem, match="vector"):
        write(index, entry("a.md", 1), entry("a.md", 2, vector=bad))
    assert list(index.ids()) == [(entry("a.md").document_id, entry("a.md").passage_id)]
    with pytest.raises(IndexProblem):
        index.search(bad, EVERYWHERE, 5)
    index.close()
    again = VectorIndex.open(index.path, DIMS)
    assert again.count() == 1
    again.close()


def test_a_passage_id_that_is_no_uuid_is_refused_before_anything_is_written(index):
    write(index, entry("a.md", 0))
    with pytest.raises(IndexProblem):
        write(index, entry("a.md", 1), entry("a.md", 2, passage_id="../../etc"))
    assert index.count() == 1


def test_everything_is_there_after_a_reopening(index):
    entries = [entry(f"{n}.md") for n in range(20)]
    write(index, *entries)
    index.flush()
    before = index.search(unit("q"), EVERYWHERE, 20)
    index.close()
    for _ in range(3):
        again = VectorIndex.open(index.path, DIMS)
        assert again.search(unit("q"), EVERYWHERE, 20) == before
        assert (again.count(), again.drift()) == (20, 0)
        again.close()


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


def test_a_closed_index_says_so(index):
    index.close()
    index.close()
    for call in (index.count, index.flush, lambda: index.search(unit(1), EVERYWHERE, 1), lambda: list(index.ids())):
        with pytest.raises(IndexProblem, match="closed"):
            call()


def test_close_waits_for_running_searches(index):
    write(index, *[entry(f"{n}.md") for n in range(300)])
    errors: list[BaseException] = []
    searched = threading.Event()

    def search() -> None:
        try:
            while True:
                index.search(unit(1), EVERYWHERE, 100)
                searched.set()
        except IndexProblem as error:
            if "closed" not in error.message:
                errors.append(error)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    searched.wait(10)
    index.close()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert errors == []
    VectorIndex.open(index.path, DIMS).close()


def test_h21_searches_run_while_another_thread_writes(index):
    """8 threads search while one replaces: no failure, no deadlock, never a stale entry of the stable part."""
    stable = [entry(f"stable/{n}.md") for n in range(40)]
    write(index, *stable)
    wanted = Filter(scopes=("global",), path_prefix="docs/stable/")
    expected = oracle(stable, unit("q"), wanted, 40)
    stop = threading.Event()
    wrong: list[object] = []

    def search() -> None:
        while not stop.is_set():
            found = [hit.passage_id for hit in index.search(unit("q"), wanted, 40)]
            if found != expected or index.drift():
                wrong.append(found)

    threads = [threading.Thread(target=search) for _ in range(8)]
    for thread in threads:
        thread.start()
    for turn in range(15):
        write(index, *[entry(f"moving/{n}.md", turn) for n in range(60)])
        index.flush()
    stop.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert wrong == []
    assert index.count() == 100


def test_a_point_lost_behind_its_back_is_a_drift(index):
    write(index, entry("a.md"), entry("b.md"))
    index._shard.update(module.engine.UpdateOperation.delete_points([uuid.UUID(entry("a.md").passage_id)]))
    assert index.drift() == -1
    write(index, entry("c.md"))
    assert index.drift() == -1
    index.expect(index.count())
    assert index.drift() == 0


def test_h16_dropped_and_made_again_nothing_comes_back(index):
    write(index, *[entry(f"{n}.md") for n in range(3)])
    index.flush()
    index.close()
    shutil.rmtree(index.path)
    fresh = VectorIndex.create(index.path, DIMS)
    assert (fresh.count(), fresh.search(unit(("0.md", 0)), EVERYWHERE, 5)) == (0, [])
    fresh.close()
    reopened = VectorIndex.open(index.path, DIMS)
    assert (reopened.count(), list(reopened.ids())) == (0, [])
    reopened.close()


def test_h16_making_one_where_one_lies_is_refused(index):
    write(index, entry("a.md"))
    index.close()
    with pytest.raises(IndexDamaged):
        VectorIndex.create(index.path, DIMS)
    again = VectorIndex.open(index.path, DIMS)
    assert again.count() == 1
    again.close()


def test_h20_another_dimension_is_refused_also_without_points(index):
    index.close()
    with pytest.raises(IndexDamaged):
        VectorIndex.open(index.path, DIMS * 2)
    again = VectorIndex.open(index.path, DIMS)
    assert again.count() == 0
    again.close()


@pytest.mark.parametrize("missing", ["everything", "segments"])
def test_what_is_not_there_is_never_taken_for_empty(index, missing):
    """The engine itself would make a new, empty shard out of an empty directory."""
    write(index, entry("a.md"))
    index.close()
    shutil.rmtree(index.path / "segments" if missing == "segments" else index.path)
    (index.path / "segments").mkdir(parents=True)
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
        stream.seek(59 * DIMS * 4)
        stream.write(b"\xff\xff\x7f\x7f" * DIMS)
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
        LegHit(entry("3.md").document_id, entry("3.md", 4).passage_id, pytest.approx(1.0))
    ]
    index.close()


def test_h38_nothing_is_written_where_the_disk_is_nearly_full(tmp_path: Path):
    """H38: the engine's mapped files would end the process; the error comes before anything is touched."""
    from memoryd.errors import DiskFull
    from memoryd.index.vector import MIN_FREE, require_room

    require_room(tmp_path, lambda _path: MIN_FREE)
    with pytest.raises(DiskFull, match="MiB are free"):
        require_room(tmp_path, lambda _path: MIN_FREE - 1)


def test_a_vector_of_another_text_is_stale(index):
    """Only points whose expected vector is known are judged."""
    good, foreign, unknown = entry("a"), entry("b"), entry("c")
    write(index, good, entry("b", vector=unit("of another text")), unknown)
    known = {good.passage_id: good.vector, foreign.passage_id: foreign.vector}
    asked: list[str] = []

    def expected(passages):
        asked.extend(passages)
        return {one: known[one] for one in passages if one in known}

    assert list(index.stale(expected)) == [foreign.passage_id]
    assert sorted(asked) == sorted([good.passage_id, foreign.passage_id, unknown.passage_id])
    assert list(index.stale(lambda _passages: {})) == []


def test_sparse_vectors_are_searched_by_their_product_within_the_filter(tmp_path):
    index = VectorIndex.create(tmp_path / "v", DIMS, sparse=True)
    entries = [
        entry("a.md", sparse=sparse({7: 1.0, 9: 0.5})),
        entry("b.md", sparse=sparse({7: 3.0})),
        entry("c.md", sparse=sparse({8: 9.0})),
        entry("other.md", sparse=sparse({7: 9.0}), scope="p-x-00000000"),
        entry("none.md"),
    ]
    index.replace([one.document_id for one in entries], entries)
    index.flush()
    found = index.search_sparse(sparse({7: 2.0, 9: 2.0, 1000: 1.0}), EVERYWHERE, 10)
    assert [(hit.document_id, round(hit.score, 4)) for hit in found] == [
        (entries[1].document_id, 6.0),
        (entries[0].document_id, 3.0),
    ]
    assert index.search_sparse(b"", EVERYWHERE, 10) == []
    assert len(index.search(unit(1), EVERYWHERE, 10)) == 4
    index.replace([entries[1].document_id], [])
    index.close()
    again = VectorIndex.open(tmp_path / "v", DIMS, sparse=True)
    assert [hit.document_id for hit in again.search_sparse(sparse({7: 1.0}), EVERYWHERE, 10)] == [
        entries[0].document_id
    ]
    assert list(again.damaged()) == []
    again.close()


def test_an_index_without_sparse_vectors_says_so(tmp_path):
    index = VectorIndex.create(tmp_path / "v", DIMS)
    with pytest.raises(IndexProblem, match="no sparse vectors"):
        index.search_sparse(sparse({7: 1.0}), EVERYWHERE, 10)
    index.close()
    with pytest.raises(IndexDamaged):
        VectorIndex.open(tmp_path / "v", DIMS, sparse=True)
