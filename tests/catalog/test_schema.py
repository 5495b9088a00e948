from __future__ import annotations

import sqlite3

import pytest

from memoryd.catalog.db import Database
from memoryd.catalog.documents import Documents
from memoryd.catalog.jobs import Jobs
from memoryd.catalog.memories import Memories
from memoryd.catalog.passages import Passages
from memoryd.catalog.schema import CATALOG, STATE, expected_shape, migrate, shape
from memoryd.catalog.scopes import Scopes
from memoryd.catalog.snapshots import Snapshots
from tests.catalog.make import A, memory

LOOKUPS = {
    "meta": lambda db: db.meta("x"),
    "scope": lambda db: Scopes(db).get("p-x-00000000"),
    "document": lambda db: Documents(db).get("x"),
    "documents": lambda db: Documents(db).get_many(["x", "y"]),
    "by_path": lambda db: Documents(db).by_path("docs", b"a"),
    "by_address": lambda db: Documents(db).by_address(A, ["global"]),
    "ever_at": lambda db: Documents(db).ever_at(A, ["global"]),
    "history": lambda db: Documents(db).history("x"),
    "current": lambda db: list(Documents(db).current("docs")),
    "changed_after": lambda db: Documents(db).changed_after(3, 100),
    "count_changed_after": lambda db: Documents(db).count_changed_after(3),
    "with_problems": lambda db: Documents(db).with_problems("vault"),
    "live_count": lambda db: Documents(db).live_count(),
    "live_count of a source": lambda db: Documents(db).live_count("docs"),
    "counts": lambda db: Documents(db).counts(),
    "sources": lambda db: Documents(db).sources(),
    "last_seq": lambda db: Documents(db).last_seq(),
    "of_document": lambda db: Passages(db).of_document("x"),
    "of_documents": lambda db: Passages(db).of_documents(["x", "y"]),
    "passages": lambda db: Passages(db).get_many(["x", "y"]),
    "passage count": lambda db: Passages(db).count(),
    "entries": lambda db: Passages(db).entries(),
    "first passages": lambda db: Passages(db).firsts(["x", "y"]),
    "memories of documents": lambda db: Memories(db).of_documents(["x", "y"]),
    "memory": lambda db: Memories(db).get("x"),
    "memory in scopes": lambda db: Memories(db).get("x", ["global"]),
    "memories by id": lambda db: Memories(db).get_many(["x", "y"]),
    "find": lambda db: Memories(db).find("x"),
    "by_document": lambda db: Memories(db).by_document("x"),
    "successor": lambda db: Memories(db).successor("m1"),
    "snapshots of a label": lambda db: Snapshots(db).labelled("x", ["global"]),
    "snapshot by number": lambda db: Snapshots(db).numbered(3, ["global"]),
    "snapshots of a root": lambda db: Snapshots(db).rooted("ab", ["global"]),
    "last snapshot": lambda db: Snapshots(db).last_of("x"),
    "job": lambda db: Jobs(db).get("job-1"),
}


@pytest.mark.parametrize("name", LOOKUPS)
def test_no_lookup_reads_a_whole_table(db: Database, name: str):
    """What a search asks must not slow down with the size of the catalog."""
    memory(db, 1, "m1", superseded_by="m2", status="superseded")
    asked: list[str] = []
    db.read().set_trace_callback(asked.append)
    LOOKUPS[name](db)
    db.read().set_trace_callback(None)
    assert asked
    for sql in asked:
        plan = [row[3] for row in db.rows(f"EXPLAIN QUERY PLAN {sql}")]
        assert plan
        for step in plan:
            words = step.split()
            scanned = words[1] if words[0] == "SCAN" else ""
            assert scanned in {"", "tallies", "json_each", "CONSTANT"}, f"{sql}\n{plan}"
            assert "TEMP B-TREE FOR ORDER BY" not in step or name in {
                "by_address",
                "ever_at",
                "of_documents",
            }


def test_each_schema_is_made_by_its_steps_alone():
    for steps in (CATALOG, STATE):
        connection = sqlite3.connect(":memory:", isolation_level=None)
        migrate(connection, steps, 0)
        assert shape(connection) == expected_shape(steps)
        assert connection.execute("PRAGMA user_version").fetchone() == (len(steps),)
        connection.close()


def test_each_step_says_what_it_makes():
    for steps in (CATALOG, STATE):
        for number, step in enumerate(steps, 1):
            assert step.lstrip().startswith(f"-- Step {number}: ")
    described = CATALOG[0].split("CREATE TABLE")[0]
    tables = {row[1] for row in expected_shape(CATALOG[:1]) if row[0] == "table" and not row[1].startswith("sqlite_")}
    assert all(table in described for table in tables)
