from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryd.catalog.db import Database, open_catalog
from memoryd.catalog.documents import DocumentRow, Documents, HistoryRow
from memoryd.catalog.passages import Passages
from memoryd.digest import document_id
from memoryd.records import DocumentEvent
from tests.catalog.make import A, B, C, apply, event, memory, passages


def test_a_document_as_it_was_told(db: Database):
    seen = event(7, A, scope="p-x-00000000", kind="code", tags=("one", "two"), exec=True)
    apply(db, seen, title="A title", type="", extractor="python@1", encoding="latin-1", problem="two bytes replaced")
    row = Documents(db).get(document_id("docs", b"a.md"))
    assert row == DocumentRow(
        document_id=document_id("docs", b"a.md"),
        source="docs",
        path=b"a.md",
        scope="p-x-00000000",
        kind="code",
        type="",
        status="in_force",
        address=A,
        size=10,
        title="A title",
        tags=("one", "two"),
        seq=7,
        extractor="python@1",
        encoding="latin-1",
        problem="two bytes replaced",
        observed="at 7",
        exec=True,
    )
    assert Documents(db).by_path("docs", b"a.md") == row
    assert Documents(db).by_path("docs", b"A.md") is None
    assert Documents(db).get("unknown") is None


def test_case_02_the_same_bytes_at_two_places_are_two_documents(db: Database):
    """case 2: each has its own tags, and one that goes leaves the other."""
    documents = Documents(db)
    apply(
        db,
        event(1, A, source="one", path=b"__init__.py", tags=("first",)),
        event(2, A, source="one", path=b"sub/__init__.py", tags=("second",)),
        event(3, A, source="two", path=b"__init__.py", scope="p-x-00000000"),
    )
    found = documents.by_address(A, None)
    assert [(row.source, row.path, row.tags) for row in found] == [
        ("one", b"__init__.py", ("first",)),
        ("one", b"sub/__init__.py", ("second",)),
        ("two", b"__init__.py", ()),
    ]
    apply(db, event(4, None, source="one", path=b"__init__.py"))
    assert documents.by_address(A, None) == found[1:]
    assert documents.live_count() == 2


def test_case_20_there_and_back_is_three_history_rows(db: Database):
    """case 20: A -> B -> A at one path; A is current."""
    documents = Documents(db)
    apply(db, event(1, A), event(2, B), event(5, A))
    id = document_id("docs", b"a.md")
    assert documents.history(id) == [
        HistoryRow(1, "seen", A, 10, "at 1"),
        HistoryRow(2, "seen", B, 10, "at 2"),
        HistoryRow(5, "seen", A, 10, "at 5"),
    ]
    row = documents.get(id)
    assert row is not None
    assert (row.address, row.seq) == (A, 5)
    assert documents.by_address(B, None) == []
    assert documents.live_count() == 1


def test_the_same_record_twice_changes_nothing(db: Database):
    """One document, one history row, and the passages stay."""
    documents, rooms = Documents(db), Passages(db)
    apply(db, event(3, A))
    id = document_id("docs", b"a.md")
    with db.write() as tx:
        rooms.replace(tx, id, passages(id, "text"))
    before = (documents.get(id), documents.history(id), rooms.of_document(id), documents.counts())
    apply(db, event(3, A))
    apply(db, event(3, A, tags=("other",), scope="p-x-00000000"))
    apply(db, event(3, None))
    assert (documents.get(id), documents.history(id), rooms.of_document(id), documents.counts()) == before


def test_the_same_record_again_takes_anew_what_is_derived_from_its_bytes(db: Database):
    """A later version reads the same bytes better; nothing else of the document moves."""
    documents = Documents(db)
    apply(db, event(3, A), title="Old", problem="not understood")
    id = document_id("docs", b"a.md")
    with db.write() as tx:
        Passages(db).replace(tx, id, passages(id, "text"))
    apply(db, event(3, A), title="New", extractor="text@2", problem=None)
    row = documents.get(id)
    assert row is not None
    assert (row.title, row.extractor, row.problem, row.seq, row.address) == ("New", "text@2", None, 3, A)
    assert Passages(db).count() == 1
    assert len(documents.history(id)) == 1


def test_applying_tells_whether_the_record_is_current(db: Database):
    def newest(record) -> bool:
        with db.write() as tx:
            return Documents(db).apply(
                tx, record, title="", type="", status="in_force", extractor="", encoding="", problem=None
            )

    assert newest(event(5, A))
    assert newest(event(5, A))
    assert not newest(event(2, B))
    assert not newest(event(4, None))
    assert newest(event(6, None))
    assert not newest(event(5, A))


def test_documents_with_problems_of_one_source(db: Database):
    documents = Documents(db)
    apply(db, event(1, A, path=b"b.md"), event(2, A, path=b"a.md"), problem="line 3: no colon")
    apply(db, event(3, A, source="other"), problem="binary")
    apply(db, event(4, A, path=b"fine.md"))
    assert [(row.path, row.problem) for row in documents.with_problems("docs")] == [
        (b"a.md", "line 3: no colon"),
        (b"b.md", "line 3: no colon"),
    ]
    apply(db, event(5, None, path=b"a.md"), event(6, B, path=b"b.md"))
    assert documents.with_problems("docs") == []


def test_gone_keeps_the_row_and_its_history(db: Database):
    documents = Documents(db)
    apply(db, event(1, A, tags=("t",)), title="Kept", extractor="text@1")
    apply(db, event(2, None), title="", extractor="", encoding="")
    id = document_id("docs", b"a.md")
    row = documents.get(id)
    assert row is not None
    assert (row.address, row.size, row.title, row.extractor, row.seq) == (None, 0, "Kept", "text@1", 2)
    assert [(item.event, item.address) for item in documents.history(id)] == [("seen", A), ("gone", None)]
    assert list(documents.current("docs")) == []
    assert documents.by_address(A, None) == []
    assert documents.live_count() == 0
    apply(db, event(3, B))
    assert [item.event for item in documents.history(id)] == ["seen", "gone", "seen"]
    assert documents.live_count() == 1


def test_a_document_that_was_only_ever_seen_to_go(db: Database):
    apply(db, event(4, None))
    row = Documents(db).by_path("docs", b"a.md")
    assert row is not None
    assert row.address is None
    assert Documents(db).live_count() == 0


def test_an_older_record_that_arrives_late_is_history_only(db: Database):
    documents = Documents(db)
    apply(db, event(5, B))
    apply(db, event(2, A), event(3, None))
    id = document_id("docs", b"a.md")
    row = documents.get(id)
    assert row is not None
    assert (row.address, row.seq) == (B, 5)
    assert [item.seq for item in documents.history(id)] == [2, 3, 5]


def test_a_record_without_its_number_is_refused(db: Database):
    with pytest.raises(ValueError, match="seq"):
        apply(db, event(0, A))


def test_new_content_drops_the_passages_and_the_memory_of_the_old(db: Database):
    """Offsets into other bytes would be lies."""
    id = memory(db, 1, "m1", path="a.md")
    with db.write() as tx:
        Passages(db).replace(tx, id, passages(id, "one", "two"))
    assert Passages(db).count() == 2
    apply(db, event(2, B, source="vault", path=b"a.md"))
    assert Passages(db).of_document(id) == []
    assert Passages(db).count() == 0
    assert db.rows("SELECT count(*) FROM memories") == [(0,)]


def test_by_address_looks_only_into_the_given_scopes(db: Database):
    apply(db, event(1, A, path=b"g.md"), event(2, A, path=b"x.md", scope="p-x-00000000"))

    def paths(scopes):
        return [row.path for row in Documents(db).by_address(A, scopes)]

    assert paths(None) == [b"g.md", b"x.md"]
    assert paths(["global"]) == [b"g.md"]
    assert paths(["p-x-00000000", "p-y-00000000"]) == [b"x.md"]
    assert paths(["p-x"]) == []
    assert paths([]) == []


def test_past_content_is_found_within_the_scopes_of_then_and_now(db: Database):
    documents = Documents(db)
    apply(db, event(1, A), event(2, B), event(3, None))
    assert [row.path for row in documents.ever_at(A, ["global"])] == [b"a.md"]
    assert [row.path for row in documents.ever_at(B, None)] == [b"a.md"]
    assert documents.ever_at(C, None) == []
    apply(db, event(4, C, scope="p-x-00000000"))
    assert documents.ever_at(A, ["global"]) == []
    assert documents.ever_at(A, ["p-x-00000000"]) == []
    assert len(documents.ever_at(A, ["global", "p-x-00000000"])) == 1
    assert len(documents.ever_at(C, ["p-x-00000000"])) == 1
    assert documents.ever_at(C, []) == []


def test_current_pages_through_a_large_source_in_path_order(db: Database):
    names = [f"{number:05d}.md".encode() for number in range(2500)]
    shuffled = random.Random(1).sample(names, len(names))
    apply(db, *[event(seq, A, path=path) for seq, path in enumerate(shuffled, 1)])
    apply(db, event(9000, A, source="other", path=b"00000.md"), event(9001, None, path=names[1000]))
    found = [row.path for row in Documents(db).current("docs")]
    assert found == [name for name in names if name != names[1000]]
    assert list(Documents(db).current("nothing")) == []


def test_a_slow_consumer_of_current_does_not_hold_the_log(db: Database):
    apply(db, *[event(seq, A, path=f"{seq}.md".encode()) for seq in range(1, 1500)])
    listing = Documents(db).current("docs")
    next(listing)
    apply(db, event(5000, A, path=b"new.md"))
    assert db.checkpoint(wait_ms=1)


def test_what_changed_after_a_record(db: Database):
    documents = Documents(db)
    apply(db, event(1, A, path=b"1"), event(2, A, path=b"2"), event(3, A, path=b"3"), event(7, None, path=b"1"))
    assert [(row.seq, row.path, row.address) for row in documents.changed_after(0, 10)] == [
        (2, b"2", A),
        (3, b"3", A),
        (7, b"1", None),
    ]
    assert [row.seq for row in documents.changed_after(2, 1)] == [3]
    assert documents.count_changed_after(0) == 3
    assert documents.count_changed_after(2) == 2
    assert documents.count_changed_after(7) == 0
    assert documents.last_seq() == 7


def test_an_empty_catalog(db: Database):
    documents = Documents(db)
    assert documents.last_seq() == 0
    assert documents.live_count() == 0
    assert documents.sources() == []
    assert documents.counts() == {"kind": {}, "scope": {}, "source": {}}
    assert documents.changed_after(0, 10) == []
    assert documents.get_many([]) == {}


def test_many_at_once(db: Database):
    apply(db, *[event(seq, A, path=f"{seq}".encode()) for seq in range(1, 1201)])
    ids = [document_id("docs", f"{seq}".encode()) for seq in range(1, 1301)]
    found = Documents(db).get_many(ids)
    assert set(found) == set(ids[:1200])
    assert all(found[id].document_id == id for id in found)


def test_sources_and_counts_follow_what_is_there(db: Database):
    documents = Documents(db)
    apply(
        db,
        event(1, A, source="one", path=b"1"),
        event(2, A, source="one", path=b"2", kind="code", scope="p-x-00000000"),
        event(3, A, source="two", path=b"1", kind="memory"),
    )
    assert documents.sources() == ["one", "two"]
    assert documents.counts() == {
        "kind": {"document": 1, "code": 1, "memory": 1},
        "scope": {"global": 2, "p-x-00000000": 1},
        "source": {"one": 2, "two": 1},
    }
    assert (documents.live_count("one"), documents.live_count("two"), documents.live_count("no")) == (2, 1, 0)
    apply(db, event(4, A, source="one", path=b"2", kind="document"), event(5, None, source="two", path=b"1"))
    assert documents.sources() == ["one"]
    assert documents.counts() == {"kind": {"document": 2}, "scope": {"global": 2}, "source": {"one": 2}}


def test_paths_and_titles_of_any_bytes(db: Database):
    """A name that is no UTF-8, a title with NUL, an emoji and half a surrogate pair."""
    path = b"caf\xe9/\xff\x00 name\n.md"
    apply(db, event(1, A, path=path), title="a\x00b \U0001f600 \ud83d")
    row = Documents(db).by_path("docs", path)
    assert row is not None
    assert row.path == path
    assert row.title == "a\x00b \U0001f600 ?"
    assert [item.path for item in Documents(db).current("docs")] == [path]


def test_case_67_counts_after_a_restart_equal_those_before(tmp_path: Path):
    """case 67: nothing is counted anew, nothing is reset."""

    def numbers(db: Database):
        documents = Documents(db)
        return (
            documents.counts(),
            documents.live_count(),
            Passages(db).count(),
            documents.last_seq(),
            documents.sources(),
            documents.count_changed_after(3),
        )

    db = open_catalog(tmp_path / "catalog.db")
    apply(db, *[event(seq, A, path=f"{seq}".encode(), source=f"s{seq % 3}") for seq in range(1, 51)])
    apply(db, event(60, None, path=b"7", source="s1"))
    id = document_id("s2", b"8")
    with db.write() as tx:
        Passages(db).replace(tx, id, passages(id, "a", "b", "c"))
    before = numbers(db)
    assert before[1:3] == (49, 3)
    db.close()
    for _ in range(2):
        db = open_catalog(tmp_path / "catalog.db")
        assert numbers(db) == before
        db.close()


# --- the law: whatever order records come in, and how often, the newest by seq is current

_PLACES = st.tuples(st.sampled_from(["one", "two"]), st.sampled_from([b"a", b"b/c", b"\xff"]))
_FACTS = st.tuples(
    _PLACES,
    st.sampled_from([A, B, C, None]),
    st.sampled_from(["global", "p-x-00000000"]),
    st.sampled_from(["document", "code"]),
)


@st.composite
def histories(draw) -> tuple[list[DocumentEvent], list[list[DocumentEvent]]]:
    """Records in order, and the transactions they arrive in: shuffled, some of them twice."""
    facts = draw(st.lists(_FACTS, max_size=25))
    records = [
        event(seq, address, source=source, path=path, scope=scope, kind=kind)
        for seq, ((source, path), address, scope, kind) in enumerate(facts, 1)
    ]
    twice = draw(st.lists(st.sampled_from(records), max_size=10)) if records else []
    arrival = draw(st.permutations(records + twice))
    size = draw(st.integers(1, 10))
    return records, [arrival[start : start + size] for start in range(0, len(arrival), size)]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories())
def test_any_order_of_records_gives_the_state_of_the_model(tmp_path: Path, drawn):
    records, transactions = drawn
    model: dict[str, list[DocumentEvent]] = {}
    for record in records:
        model.setdefault(document_id(record.source, record.path), []).append(record)
    path = tmp_path / "catalog.db"
    for old in tmp_path.glob("catalog.db*"):
        old.unlink()
    db = open_catalog(path)
    try:
        for batch in transactions:
            apply(db, *batch)
        documents = Documents(db)
        assert {row.document_id for row in documents.changed_after(0, 1000)} == set(model)
        for id, told in model.items():
            row, last = documents.get(id), told[-1]
            assert row is not None
            assert (row.address, row.scope, row.kind, row.seq) == (last.address, last.scope, last.kind, last.seq)
            assert [(item.seq, item.address) for item in documents.history(id)] == [(e.seq, e.address) for e in told]
        live = [told[-1] for told in model.values() if told[-1].address is not None]
        assert documents.live_count() == len(live)
        assert documents.sources() == sorted({e.source for e in live})
        for group, attribute in (("kind", "kind"), ("scope", "scope"), ("source", "source")):
            names = [getattr(e, attribute) for e in live]
            assert documents.counts()[group] == {name: names.count(name) for name in names}
        for address in (A, B, C):
            assert {row.document_id for row in documents.by_address(address, ["global"])} == {
                document_id(e.source, e.path) for e in live if e.address == address and e.scope == "global"
            }
            first = [row.document_id for row in documents.by_address(address, None)]
            assert first == sorted(first, key=lambda id: model[id][0].seq)
    finally:
        db.close()


def told(db: Database) -> list[tuple[int, str | None]]:
    return [(row.seq, row.address) for row in Documents(db).history(document_id("docs", b"a.md"))]


def bury(db: Database, *seqs: int) -> None:
    with db.write() as tx:
        Documents(db).bury(tx, seqs)


def test_a_record_that_was_taken_back_leaves_the_history(db: Database):
    apply(db, event(1, A), event(2, B), event(3, C))
    bury(db, 2, 99)
    assert told(db) == [(1, A), (3, C)]
    assert Documents(db).by_address(C, None)[0].seq == 3
    bury(db, 1)
    assert Documents(db).ever_at(A, None) == []


def test_a_document_whose_newest_record_was_taken_back_is_gone(db: Database):
    apply(db, event(1, A), event(2, B))
    bury(db, 2)
    row = Documents(db).by_path("docs", b"a.md")
    assert row is not None and row.address is None
    assert Documents(db).live_count() == 0 and told(db) == [(1, A)]


def test_a_document_without_any_record_is_not_known(db: Database):
    apply(db, event(1, A), event(2, B), event(3, A, path=b"other.md"))
    with db.write() as tx:
        Passages(db).replace(tx, document_id("docs", b"a.md"), passages(document_id("docs", b"a.md"), "text"))
    bury(db, 1, 2)
    assert Documents(db).by_path("docs", b"a.md") is None
    assert (Documents(db).live_count(), Passages(db).count()) == (1, 0)
    assert Documents(db).by_path("docs", b"other.md") is not None


def test_a_content_is_taken_back_up_to_a_record(db: Database):
    apply(db, event(1, A), event(2, B), event(3, A, path=b"other.md"), event(4, None, path=b"other.md"), title="Secret")
    apply(db, event(7, A, path=b"again.md"), title="Allowed")
    with db.write() as tx:
        Documents(db).bury_content(tx, A, 5)
    assert told(db) == [(2, B)]
    assert [row.path for row in Documents(db).ever_at(A, None)] == [b"again.md"]
    other = Documents(db).by_path("docs", b"other.md")
    assert other is not None and (other.title, other.address) == ("", None)
    row = Documents(db).by_path("docs", b"a.md")
    assert row is not None and row.title == "Secret", "what is there keeps its own title"
    assert Documents(db).seen_after(A, 5) and not Documents(db).seen_after(A, 7)
