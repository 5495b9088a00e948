from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryd.catalog.db import Database, open_catalog
from memoryd.catalog.passages import PassageRow, Passages
from memoryd.catalog.schema import CATALOG
from memoryd.digest import document_id, sha256_hex
from tests.catalog.make import A, B, apply, event, passages

ONE, TWO = document_id("docs", b"1"), document_id("docs", b"2")


def held(db: Database) -> list[str]:
    """Every passage id, sorted."""
    return [row[0] for row in db.rows("SELECT id FROM passages ORDER BY id")]


@pytest.fixture
def two(db: Database) -> Passages:
    """Two documents, no passages yet."""
    apply(db, event(1, A, path=b"1"), event(2, A, path=b"2"))
    return Passages(db)


def replace(db: Database, id: str, *texts: str) -> list[str]:
    made = passages(id, *texts)
    with db.write() as tx:
        Passages(db).replace(tx, id, made)
    return [item.id for item in made]


def test_a_passage_as_it_was_extracted(db: Database, two: Passages):
    ids = replace(db, ONE, "x", "y")
    assert two.of_document(ONE)[1] == PassageRow(
        id=ids[1],
        document_id=ONE,
        ordinal=1,
        start=10,
        end=20,
        line_start=2,
        line_end=2,
        heading=("Top", "Part 1"),
        symbol="f",
        text_sha256=sha256_hex(b"y"),
    )


def test_passages_keep_their_order_and_are_replaced_as_a_whole(db: Database, two: Passages):
    first = replace(db, ONE, *"abcdefghijkl")
    assert [row.id for row in two.of_document(ONE)] == first
    second = replace(db, ONE, "l", "a", "a")
    assert [row.id for row in two.of_document(ONE)] == second
    assert len(set(second)) == 3
    assert two.count() == 3


def test_passages_of_several_documents(db: Database, two: Passages):
    first, second = replace(db, ONE, "a", "b"), replace(db, TWO, "a")
    found = two.of_documents([TWO, ONE, "unknown"])
    assert {id: [row.id for row in rows] for id, rows in found.items()} == {ONE: first, TWO: second, "unknown": []}
    assert two.of_documents([]) == {}
    assert set(two.get_many([*first, "unknown"])) == set(first)
    assert two.get_many(second)[second[0]].document_id == TWO
    assert held(db) == sorted(first + second)


def test_entries_count_each_passage_and_each_document_with_several(db: Database, two: Passages):
    for texts, expected in (("ab", 3), ("a", 1), ("abc", 4), ("", 0), ("ab", 3)):
        replace(db, ONE, *texts)
        assert two.entries() == expected
    replace(db, TWO, *"ab")
    assert two.entries() == 6
    apply(db, event(3, None, path=b"1"))
    assert two.entries() == 3


def test_entries_of_a_file_that_an_earlier_version_wrote(tmp_path: Path):
    """The second step counts what is there already."""
    old = Database(tmp_path / "catalog.db", CATALOG[:1])
    apply(old, event(1, A, path=b"1"), event(2, A, path=b"2"))
    replace(old, ONE, "a", "b", "c")
    replace(old, TWO, "a")
    old.close()
    new = open_catalog(tmp_path / "catalog.db")
    assert not new.recreated
    assert Passages(new).entries() == 5
    new.close()


def test_first_passages(db: Database, two: Passages):
    first = replace(db, ONE, "a", "b")
    assert {id: row.id for id, row in two.firsts([ONE, TWO, "unknown"]).items()} == {ONE: first[0]}
    assert two.firsts([]) == {}


def test_pairs_leave_out_what_changed_later(db: Database, two: Passages):
    first, second = replace(db, ONE, "a", "b"), replace(db, TWO, "a")
    assert sorted(two.pairs(2)) == sorted([*((ONE, id) for id in first), (TWO, second[0])])
    assert sorted(two.pairs(1)) == sorted((ONE, id) for id in first)
    assert list(two.pairs(0)) == []


def test_passages_go_with_their_document(db: Database, two: Passages):
    replace(db, ONE, "a", "b")
    kept = replace(db, TWO, "a")
    apply(db, event(3, None, path=b"1"))
    assert two.of_document(ONE) == []
    assert held(db) == kept
    assert two.count() == 1


def test_passages_can_be_removed_alone(db: Database, two: Passages):
    replace(db, ONE, "a", "b")
    with db.write() as tx:
        two.remove(tx, ONE)
        two.remove(tx, TWO)
        two.remove(tx, "unknown")
    assert two.count() == 0
    assert two.of_document(ONE) == []


@pytest.mark.parametrize("id", ["unknown", TWO])
def test_passages_of_an_unknown_or_gone_document_are_refused(db: Database, two: Passages, id: str):
    apply(db, event(3, None, path=b"2"))
    with pytest.raises(ValueError, match="unknown or gone"):
        replace(db, id, "a")
    assert two.count() == 0


def test_a_rolled_back_transaction_counts_nothing(db: Database, two: Passages):
    replace(db, ONE, "a")
    with pytest.raises(ZeroDivisionError), db.write() as tx:
        two.replace(tx, ONE, passages(ONE, "b", "c"))
        raise ZeroDivisionError
    assert two.count() == 1


_STEPS = st.lists(
    st.tuples(
        st.sampled_from([b"1", b"2", b"3"]), st.sampled_from(["seen", "gone", "replace", "remove"]), st.integers(0, 4)
    ),
    max_size=25,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_STEPS)
def test_the_kept_count_is_the_true_one(tmp_path: Path, steps):
    for old in tmp_path.glob("catalog.db*"):
        old.unlink()
    db = open_catalog(tmp_path / "catalog.db")
    model: dict[bytes, int | None] = dict.fromkeys((b"1", b"2", b"3"))
    try:
        for seq, (path, step, size) in enumerate(steps, 1):
            id = document_id("docs", path)
            if step == "seen":
                apply(db, event(seq, A if size % 2 else B, path=path))
                known = db.rows(
                    "SELECT count(*) FROM passages p JOIN documents d ON d.number = p.document WHERE d.document_id = ?",
                    (id,),
                )
                model[path] = known[0][0]
            elif step == "gone":
                apply(db, event(seq, None, path=path))
                model[path] = None
            elif step == "remove" and model[path] is not None:
                with db.write() as tx:
                    Passages(db).remove(tx, id)
                model[path] = 0
            elif step == "replace" and model[path] is not None:
                replace(db, id, *[str(number) for number in range(size)])
                model[path] = size
        assert Passages(db).count() == sum(size or 0 for size in model.values())
        assert Passages(db).count() == len(held(db))
    finally:
        db.close()


def test_what_stands_around_a_passage(db: Database, two: Passages):
    """Neighbours within reach, and earlier passages of the definitions around it; nothing of another document."""
    ids = replace(db, ONE, *"abcdefgh")
    replace(db, TWO, "x", "y")
    symbols = ["", "Top", "Topping", "", "Top.a_b", "", "", "Top.a_b.c"]
    with db.write() as tx:
        for id, symbol in zip(ids, symbols, strict=True):
            tx.execute("UPDATE passages SET symbol = ? WHERE id = ?", (symbol, id))
    found = two.around([ids[0], ids[7], "unknown"], 1)
    assert [row.ordinal for row in found[ids[0]]] == [0, 1]
    assert [row.ordinal for row in found[ids[7]]] == [1, 4, 6, 7]
    assert found["unknown"] == []
