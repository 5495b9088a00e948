from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.catalog.db import Database
from memoryd.catalog.memories import Memories, instant
from memoryd.digest import document_id
from tests.catalog.make import apply, event, memory


def ids(rows) -> list[str]:
    return [row.fields.id for row in rows]


def test_a_memory_as_its_file_says(db: Database):
    document = memory(
        db,
        1,
        "0012",
        fact="f1",
        seq=3,
        type="decision",
        title="no",
        scope="p-x-00000000",
        status="archived",
        created="2026-06-03",
        updated="1e3",
        tags=("yes", "1.10"),
        key="database",
        supersedes="0011",
        superseded_by=None,
        archive_reason="old",
        citations=("src/a.py:1-3", "https://example.org"),
        body="The words themselves.",
    )
    row = Memories(db).get("0012")
    assert row is not None
    assert row.fields.body == ""
    assert (row.document_id, row.path) == (document, b"0012.md")
    assert row.address.startswith("sha256:")
    fields = row.fields
    assert (fields.fact, fields.seq, fields.type, fields.title) == ("f1", 3, "decision", "no")
    assert (fields.created, fields.updated, fields.tags) == ("2026-06-03", "1e3", ("yes", "1.10"))
    assert (fields.key, fields.supersedes, fields.superseded_by) == ("database", "0011", None)
    assert (fields.archive_reason, fields.citations) == ("old", ("src/a.py:1-3", "https://example.org"))
    assert (fields.scope, fields.status) == ("p-x-00000000", "archived")
    assert Memories(db).by_document(document) == row
    assert Memories(db).by_document("unknown") is None
    assert Memories(db).of_documents([document, "unknown"]) == {document: row}


def test_an_edit_replaces_what_was_known_of_the_file(db: Database):
    memory(db, 1, "m1", path="a.md", tags=("old",))
    memory(db, 2, "m2", path="a.md")
    memories = Memories(db)
    assert memories.get("m1") is None
    row = memories.get("m2")
    assert row is not None
    assert row.fields.tags == ()
    assert memories.counts(None) == {"in_force": 1}


def test_a_file_that_goes_or_no_longer_parses_takes_its_memory_along(db: Database):
    memory(db, 1, "m1", path="a.md")
    document = memory(db, 2, "m2", path="b.md")
    apply(db, event(3, None, source="vault", path=b"a.md"))
    assert Memories(db).get("m1") is None
    with db.write() as tx:
        Memories(db).remove(tx, document)
        Memories(db).remove(tx, "unknown")
    assert Memories(db).counts(None) == {}


def test_a_memory_without_its_document_is_refused(db: Database):
    memory(db, 1, "m1", path="a.md")
    fields = Memories(db).get("m1").fields
    apply(db, event(2, None, source="vault", path=b"a.md"))
    for document in (document_id("vault", b"a.md"), "unknown"):
        with pytest.raises(ValueError, match="unknown or gone"), db.write() as tx:
            Memories(db).apply(tx, document, fields, address="sha256:0", path=b"a.md")


# --- several files of one id


def test_of_copied_files_the_one_in_force_stands_then_the_one_seen_first(db: Database):
    memories = Memories(db)
    memory(db, 5, "m1", path="z-first.md", status="archived")
    memory(db, 6, "m1", path="a-copy.md")
    memory(db, 7, "m1", path="b-copy.md")
    assert memories.get("m1").path == b"a-copy.md"
    assert memories.duplicates() == ["m1"]
    assert ids(memories.listed(None, [], [], 10, 0)) == ["m1"]
    assert memories.listed(None, ["archived"], [], 10, 0) == []
    assert memories.counts(None) == {"in_force": 1}
    apply(db, event(8, None, source="vault", path=b"a-copy.md"))
    assert memories.get("m1").path == b"b-copy.md"
    apply(db, event(9, None, source="vault", path=b"b-copy.md"))
    assert memories.get("m1").path == b"z-first.md"
    assert memories.duplicates() == []
    assert memories.counts(None) == {"archived": 1}


def test_a_copy_that_the_caller_may_not_see_does_not_hide_the_file_it_may_see(db: Database):
    memory(db, 1, "m1", path="copy.md", scope="p-x-00000000")
    memory(db, 2, "m1", path="mine.md", status="archived")
    memories = Memories(db)
    assert memories.get("m1").path == b"copy.md"
    assert memories.get("m1", ["global"]).path == b"mine.md"
    assert memories.get("m1", ["p-y-00000000"]) is None
    assert memories.get("m1", []) is None
    assert [row.path for row in memories.listed(["global"], [], [], 10, 0)] == [b"mine.md"]
    assert memories.counts(["global"]) == {"archived": 1}
    assert memories.counts([]) == {}


# --- looking up


def test_find_by_the_beginning_of_an_id(db: Database):
    for seq, id in enumerate(["aa10", "aa11", "ab00", "b000"], 1):
        memory(db, seq, id)
    memories = Memories(db)
    assert ids(memories.find("aa")) == ["aa10", "aa11"]
    assert ids(memories.find("aa11")) == ["aa11"]
    assert memories.find("a%") == []
    assert memories.find("aa", ["p-x-00000000"]) == []


def test_the_successor_of_each_revision(db: Database):
    memory(db, 3, "m3", fact="m1", seq=3)
    memory(db, 1, "m1", fact="m1", seq=1, status="superseded", superseded_by="m2")
    memory(db, 2, "m2", fact="m1", seq=2, status="superseded", superseded_by="m3")
    memory(db, 4, "other")
    memories = Memories(db)
    assert memories.successor("m1").fields.id == "m3"
    assert memories.successor("m2").fields.id == "m3"
    assert memories.successor("m3") is None
    assert memories.successor("none") is None


def test_a_successor_that_is_archived_or_missing(db: Database):
    memories = Memories(db)
    memory(db, 1, "m1", status="superseded", superseded_by="m2")
    assert memories.successor("m1") is None
    memory(db, 2, "m2", status="superseded", superseded_by="lost")
    assert memories.successor("m1").fields.id == "m2"
    memory(db, 3, "lost", status="archived")
    assert memories.successor("m1").fields.id == "lost"


def test_a_circle_of_successors_ends(db: Database):
    memory(db, 1, "m1", status="superseded", superseded_by="m2")
    memory(db, 2, "m2", status="superseded", superseded_by="m3")
    memory(db, 3, "m3", status="superseded", superseded_by="m2")
    memory(db, 4, "self", status="superseded", superseded_by="self")
    memories = Memories(db)
    assert memories.successor("m1").fields.id == "m3"
    assert memories.successor("self") is None


# --- listing


def test_case_44_filters_apply_before_paging_and_totals_are_right(db: Database):
    """case 44: a page is never thinned out afterwards."""
    for seq in range(1, 61):
        memory(
            db,
            seq,
            f"m{seq:02d}",
            scope=["global", "p-x-00000000", "p-y-00000000"][seq % 3],
            status=["in_force", "archived"][seq % 2],
            type=["fact", "lesson", "note", "decision"][seq % 4],
            created=f"2026-01-01T00:{seq % 60:02d}:00Z",
        )
    memories = Memories(db)
    scopes, statuses, types = ["global", "p-x-00000000"], ["in_force"], ["fact", "note"]
    expected = [
        f"m{seq:02d}"
        for seq in sorted(range(1, 61), key=lambda seq: -(seq % 60))
        if seq % 3 != 2 and seq % 2 == 0 and seq % 4 in (0, 2)
    ]
    assert len(expected) == 20
    pages = [memories.listed(scopes, statuses, types, 7, offset) for offset in (0, 7, 14, 21)]
    assert [len(page) for page in pages] == [7, 7, 6, 0]
    assert [id for page in pages for id in ids(page)] == expected
    assert memories.counts(scopes) == {"in_force": 20, "archived": 20}
    assert memories.listed([], [], [], 7, 0) == []


def test_h26_the_newest_first_across_zones_and_forms_of_time(db: Database):
    """H26: aware and naive times compare as instants; what is no time comes last and breaks nothing."""
    forms = {
        "tokyo": "2026-06-03T09:00:00+09:00",  # 00:00 UTC
        "date": "2026-06-02",  # midnight UTC
        "naive": "2026-06-03T00:00:01",
        "utc": "2026-06-03T00:00:02Z",
        "new-york": "2026-06-02T23:00:00-04:00",  # 03:00 UTC on the 3rd
        "fraction": "2026-06-03T00:00:01.5Z",
        "lower": "2026-06-03t00:00:03z",
        "spaced": "2026-06-03 00:00:04",
        "word": "yesterday",
        "empty": "",
    }
    for seq, (id, created) in enumerate(forms.items(), 1):
        memory(db, seq, id, created=created)
    found = Memories(db).listed(None, [], [], 20, 0)
    assert ids(found) == [
        "new-york", "spaced", "lower", "utc", "fraction", "naive", "tokyo", "date", "empty", "word",
    ]  # fmt: skip
    assert {row.fields.id: row.fields.created for row in found} == forms


@given(
    st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)),
    st.integers(-23 * 60, 23 * 60),
)
def test_h26_an_instant_is_the_same_in_every_zone(moment: datetime, minutes: int):
    """H26: the sort key tells when, not where."""
    utc = moment.replace(tzinfo=UTC)
    try:
        local = utc.astimezone(timezone(timedelta(minutes=minutes)))
    except OverflowError:
        return
    assert instant(local.isoformat()) == instant(utc.isoformat()) == instant(moment.isoformat())


@given(st.text(max_size=40))
def test_h26_no_text_breaks_the_sort_key(text: str):
    """H26: whatever stands in `created`, it is an integer that fits or nothing."""
    found = instant(text)
    assert found is None or -(2**63) <= found < 2**63


def test_h26_the_edges_of_time():
    """H26: the first and the last moment, in zones that lie beyond them."""
    assert instant("0001-01-01T00:00:00+14:00") < instant("0001-01-01T00:00:00Z")
    assert instant("9999-12-31T23:59:59-12:00") > instant("9999-12-31T23:59:59Z")
    assert instant("1970-01-01T00:00:00.000001Z") == 1
    assert instant("1969-12-31T23:59:59.999999Z") == -1
    assert instant("2026-13-01") is None


def test_the_newest_revisions_of_a_fact_oldest_first(db: Database):
    for number in (2, 1, 3):
        memory(db, number, f"m{number}", fact="m1", seq=number)
    memory(db, 4, "m4", fact="m1", seq=4, scope="p-x-00000000")
    memory(db, 5, "m5", fact="m5", seq=1)
    memories = Memories(db)
    assert ids(memories.revisions("m1", ["global"], 10)) == ["m1", "m2", "m3"]
    assert ids(memories.revisions("m1", None, 2)) == ["m3", "m4"]
    assert ids(memories.revisions("m1", [], 10)) == []
