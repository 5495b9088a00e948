"""One contract for every engine of vectors (`memoryd.index.engine.VectorEngine`), asked of each of them.

The embedded engine; the one on a server through qdrant-client's local mode, and over a connection to the stand-in of
`tests.standin`; and the same on a real server where QDRANT_URL (and QDRANT_API_KEY) names one.
"""

from __future__ import annotations

import os
import shutil
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryd.errors import IndexDamaged, IndexProblem
from memoryd.index.engine import VectorEngine, VectorEntry
from memoryd.index.packed import floats
from memoryd.index.vector import VectorIndex, engine
from memoryd.records import Filter, Traits
from tests.index.entries import DIMS, EVERYWHERE, entry, oracle, packed, sparse, unit

STATUSES = ("in_force", "superseded", "archived")


class Embedded:
    """Makes, opens and harms indexes of the embedded engine."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "vectors"

    def make(self, dims: int = DIMS, *, sparse: bool = False) -> VectorEngine:
        return VectorIndex.create(self.path, dims, sparse=sparse)

    def open(self, dims: int = DIMS, *, sparse: bool = False) -> VectorEngine:
        return VectorIndex.open(self.path, dims, sparse=sparse)

    def lose_point(self, index: VectorEngine, passage: str) -> None:
        assert isinstance(index, VectorIndex)
        index._shard.update(engine.UpdateOperation.delete_points([uuid.UUID(passage)]))

    def lose_all(self) -> None:
        shutil.rmtree(self.path)

    def end(self) -> None:
        pass


class Made:
    """Whether a collection was made, as a generation's folder remembers it."""

    def __init__(self) -> None:
        self.is_made = False

    def made(self) -> bool:
        return self.is_made

    def note_made(self) -> None:
        self.is_made = True


class Remote:
    """The same for an engine on a server that `connect` reaches."""

    def __init__(self, url: str, connect: Callable | None = None, end: Callable[[], None] = lambda: None) -> None:
        from memoryd.index.qdrant import Access

        self.access = Access(url, lambda: os.environ.get("QDRANT_API_KEY"), 30, direct=False)
        self.connect = connect
        self.name = f"memoryd-test-{uuid.uuid4().hex[:12]}-1"
        self.mark = Made()
        self._end = end

    def server(self):
        from memoryd.index.qdrant import Server

        return Server(self.access, connect=self.connect)

    def make(self, dims: int = DIMS, *, sparse: bool = False) -> VectorEngine:
        self.mark = Made()
        return self.open(dims, sparse=sparse)

    def open(self, dims: int = DIMS, *, sparse: bool = False) -> VectorEngine:
        from memoryd.index.remote import Plan, RemoteIndex

        index = RemoteIndex(self.server(), Plan(self.name, 1, 1), self.mark, dims, sparse=sparse)
        try:
            index.meet()
        except IndexProblem:
            index.close()
            raise
        index.expect(index.count())
        return index

    def lose_point(self, index: VectorEngine, passage: str) -> None:
        from qdrant_client import models

        chosen = models.PointIdsList(points=[passage])
        self.server()._write(lambda client: client.delete(self.name, chosen, wait=True))

    def lose_all(self) -> None:
        self.server().remove(self.name)

    def end(self) -> None:
        self.lose_all()
        self._end()


class OneAtATime:
    """The client's local mode, which does not bear a write during a search, and whose end would be the end of all."""

    def __init__(self) -> None:
        from qdrant_client import QdrantClient

        self._client = QdrantClient(":memory:")
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Callable:
        method = getattr(self._client, name)

        def call(*args, **more):
            with self._lock:
                return method(*args, **more)

        return call

    def close(self) -> None:
        pass


def local() -> Remote:
    client = OneAtATime()
    return Remote("local mode", lambda _access: client)


def over_a_connection() -> Remote:
    from tests.standin import StandIn

    server = StandIn()
    return Remote(server.url, end=server.stop)


@pytest.fixture(
    params=[
        "embedded",
        pytest.param("local", marks=pytest.mark.extras),
        pytest.param("connection", marks=pytest.mark.extras),
        # Reason: no package brings a server that could be started here, so it is asked for only where one is named.
        *([pytest.param("server", marks=pytest.mark.extras)] if "QDRANT_URL" in os.environ else []),
    ]
)
def kind(request, tmp_path) -> Iterator[Embedded | Remote]:
    if request.param == "embedded":
        yield Embedded(tmp_path)
        return
    pytest.importorskip("qdrant_client")  # Reason: an optional part
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the local mode says that it keeps no payload indexes
        made = {"local": local, "connection": over_a_connection, "server": lambda: Remote(os.environ["QDRANT_URL"])}
        found = made[request.param]()
        yield found
        found.end()


@pytest.fixture
def index(kind) -> Iterator[VectorEngine]:
    made = kind.make()
    yield made
    made.close()


def write(index: VectorEngine, *entries: VectorEntry) -> None:
    index.replace(list({one.document_id for one in entries}), list(entries))


def test_an_empty_index_finds_nothing(index):
    assert (index.count(), index.search(unit(1), EVERYWHERE, 5), list(index.ids())) == (0, [], [])


def test_a_hit_names_document_passage_traits_and_cosine(index):
    one = entry("a.md", traits=Traits(code=7, day=20_000, thread=1 << 62, number=3, speaker=9))
    write(index, one, entry("b.md"))
    (hit,) = index.search(one.vector, EVERYWHERE, 1)
    assert (hit.document_id, hit.passage_id, hit.traits) == (one.document_id, one.passage_id, one.traits)
    assert hit.score == pytest.approx(1.0, abs=1e-3), "numbers may have 16 bits"
    assert index.search(packed([-x for x in floats(one.vector)]), EVERYWHERE, 2)[-1].score == pytest.approx(
        -1, abs=1e-3
    )


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


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


def test_more_than_one_page_and_one_request(index):
    """More points than an upsert, a deletion and a page of ids take at once; ids come in their order."""
    many = [entry(f"{n}.md") for n in range(1007)]
    write(index, *many)
    assert index.count() == len(many) == len(set(index.ids()))
    assert [passage for _, passage in index.ids()] == sorted(one.passage_id for one in many)
    index.replace([one.document_id for one in many[:503]], [])
    assert index.count() == len(many) - 503


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
def test_a_vector_that_is_none_is_refused_before_anything_is_written(index, kind, bad):
    write(index, entry("a.md", 0))
    with pytest.raises(IndexProblem, match="vector"):
        write(index, entry("a.md", 1), entry("a.md", 2, vector=bad))
    assert list(index.ids()) == [(entry("a.md").document_id, entry("a.md").passage_id)]
    with pytest.raises(IndexProblem):
        index.search(bad, EVERYWHERE, 5)
    index.close()
    again = kind.open()
    assert again.count() == 1
    again.close()


def test_a_passage_id_that_is_no_uuid_is_refused_before_anything_is_written(index):
    write(index, entry("a.md", 0))
    with pytest.raises(IndexProblem):
        write(index, entry("a.md", 1), entry("a.md", 2, passage_id="../../etc"))
    assert index.count() == 1


def test_everything_is_there_after_a_reopening(index, kind):
    entries = [entry(f"{n}.md") for n in range(20)]
    write(index, *entries)
    index.flush()
    before = index.search(unit("q"), EVERYWHERE, 20)
    index.settle()
    index.close()
    for _ in range(2):
        again = kind.open()
        hits = again.search(unit("q"), EVERYWHERE, 20)
        assert [hit[:2] for hit in hits] == [hit[:2] for hit in before]
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in before], abs=1e-6)
        assert (again.count(), again.drift()) == (20, 0)
        again.close()


def test_a_closed_index_says_so(index):
    index.close()
    index.close()
    for call in (index.count, index.flush, lambda: index.search(unit(1), EVERYWHERE, 1), lambda: list(index.ids())):
        with pytest.raises(IndexProblem, match="closed"):
            call()


def test_close_waits_for_running_searches(index, kind):
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
    kind.open().close()


def test_h21_searches_run_while_another_thread_writes(index):
    """4 threads search while one replaces: no failure, no deadlock, never a stale entry of the stable part."""
    stable = [entry(f"stable/{n}.md") for n in range(40)]
    write(index, *stable)
    wanted = Filter(scopes=("global",), path_prefix="docs/stable/")
    expected = oracle(stable, unit("q"), wanted, 40)
    stop = threading.Event()
    wrong: list[object] = []

    def search() -> None:
        while not stop.is_set():
            try:
                found = [hit.passage_id for hit in index.search(unit("q"), wanted, 40)]
                drift = index.drift()
            except IndexProblem as error:
                wrong.append(error)
                return
            if found != expected or drift:
                wrong.append((found, drift))

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for turn in range(8):
        write(index, *[entry(f"moving/{n}.md", turn) for n in range(60)])
        index.flush()
    stop.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert wrong == []
    assert index.count() == 100


def test_what_comes_into_other_scopes_meanwhile_is_never_found(index):
    """Nearly all is of the scope that is asked for, so that the engine may be told who is to be left out instead; what
    comes lies right at the query, and takes no place of what may be seen."""
    mine = [entry(f"mine/{n}.md") for n in range(60)]
    write(index, *mine, entry("retired.md", status="archived"))
    allowed = {one.passage_id for one in mine}
    stop = threading.Event()
    wrong: list[object] = []

    def search() -> None:
        while not stop.is_set():
            found = {hit.passage_id for hit in index.search(unit("q"), EVERYWHERE, 60)}
            if found != allowed:
                wrong.append((found - allowed, len(found)))

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for turn in range(30):
        new = [entry(f"o/{turn}.md", part, scope=f"p-new-{turn:08}", vector=unit("q")) for part in range(40)]
        write(index, *new)
        index.replace([new[0].document_id], [])
    stop.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert wrong == []


def test_hits_are_complete_after_a_reopening_and_writes_of_others(index, kind):
    """Whatever the engine counted of scopes before: others come, become many, and go."""
    mine = [entry(f"mine/{n}.md") for n in range(30)]
    write(index, *mine, entry("other.md", scope="p-other"))
    index.flush()
    index.close()
    again = kind.open()
    allowed = {one.passage_id for one in mine}

    def found() -> set[str]:
        return {hit.passage_id for hit in again.search(unit("q"), EVERYWHERE, 30)}

    assert found() == allowed
    for count in (1, 50, 200):
        others = [entry("other.md", part, scope=f"p-other-{count}", vector=unit("q")) for part in range(count)]
        write(again, *others)
        assert found() == allowed
        hits = again.search(unit("q"), Filter(scopes=(f"p-other-{count}",)), 300)
        assert {hit.passage_id for hit in hits} == {one.passage_id for one in others}
    again.close()


def test_traits_that_changed_are_seen_at_once(index):
    write(index, entry("a.md", traits=Traits(code=10)))
    assert index.search(unit(1), EVERYWHERE, 5)[0].traits == Traits(code=10)
    write(index, entry("a.md", traits=Traits(code=20, parts=2)))
    assert index.search(unit(1), EVERYWHERE, 5)[0].traits == Traits(code=20, parts=2)


def test_a_point_lost_behind_its_back_is_a_drift(index, kind):
    write(index, entry("a.md"), entry("b.md"))
    kind.lose_point(index, entry("a.md").passage_id)
    assert index.drift() == -1
    write(index, entry("c.md"))
    assert index.drift() == -1
    index.expect(index.count())
    assert index.drift() == 0


def test_h16_dropped_and_made_again_nothing_comes_back(index, kind):
    write(index, *[entry(f"{n}.md") for n in range(3)])
    index.flush()
    index.close()
    kind.lose_all()
    fresh = kind.make()
    assert (fresh.count(), fresh.search(unit(("0.md", 0)), EVERYWHERE, 5)) == (0, [])
    fresh.close()
    reopened = kind.open()
    assert (reopened.count(), list(reopened.ids())) == (0, [])
    reopened.close()


def test_h20_another_dimension_is_refused_also_without_points(index, kind):
    index.close()
    with pytest.raises(IndexDamaged):
        kind.open(DIMS * 2)
    again = kind.open()
    assert again.count() == 0
    again.close()


def test_what_is_not_there_is_never_taken_for_empty(index, kind):
    write(index, entry("a.md"))
    index.close()
    kind.lose_all()
    with pytest.raises(IndexDamaged):
        kind.open()


def test_vectors_that_differ_from_the_expected_ones_are_found(index):
    """Only points whose expected vector is known are judged; what is not there differs."""
    good, foreign, unknown, absent = entry("a"), entry("b"), entry("c"), entry("d")
    write(index, good, entry("b", vector=unit("of another text")), unknown)
    known = {good.passage_id: good.vector, foreign.passage_id: foreign.vector}
    asked: list[str] = []

    def expected(passages):
        asked.extend(passages)
        return {one: known[one] for one in passages if one in known}

    assert list(index.stale(expected)) == [foreign.passage_id]
    assert sorted(asked) == sorted([good.passage_id, foreign.passage_id, unknown.passage_id])
    assert list(index.stale(lambda _passages: {})) == []
    assert index.differing(known | {absent.passage_id: absent.vector}) == [foreign.passage_id, absent.passage_id]
    assert list(index.damaged()) == []


def test_sparse_vectors_are_searched_by_their_product_within_the_filter(kind):
    index = kind.make(sparse=True)
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
    again = kind.open(sparse=True)
    assert [hit.document_id for hit in again.search_sparse(sparse({7: 1.0}), EVERYWHERE, 10)] == [
        entries[0].document_id
    ]
    assert list(again.damaged()) == []
    with pytest.raises(IndexProblem, match="sparse"):
        again.search_sparse(b"\0" * 5, EVERYWHERE, 10)
    again.close()


def test_an_index_without_sparse_vectors_says_so(index, kind):
    with pytest.raises(IndexProblem, match="no sparse vectors"):
        index.search_sparse(sparse({7: 1.0}), EVERYWHERE, 10)
    index.close()
    with pytest.raises(IndexDamaged):
        kind.open(sparse=True)
