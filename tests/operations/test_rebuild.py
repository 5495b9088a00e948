"""Are views made again without a gap in service, and does an end in the middle change nothing?"""

from __future__ import annotations

import os
import signal
import threading

import pytest

from memoryd.catalog.schema import DERIVED
from memoryd.errors import IndexMismatch
from memoryd.operations import building, gateway, ingest, reading, rebuild
from memoryd.operations.check import check
from memoryd.operations.home import Caller
from memoryd.operations.ingest import Seen, store_documents
from tests.operations.conftest import configure, opened, settle

HERE = Caller()
QUERIES = ("which jobs wait", "release day", "who owns invoices")


def fill(home):
    for text in ("The queue holds forty jobs.", "The release is cut on Tuesday.", "Billing owns the invoices."):
        gateway.add(home, HERE, content=text, type="fact", scope="global")
    settle(home)


def answers(home):
    return [reading.search(home, HERE, query=query)["memories"] for query in QUERIES]


def generations(root):
    return sorted(path.name for path in (root / "indexes").glob("gen-*"))


@pytest.fixture
def filled(root):
    configure(root, search={"model_wait_ms": 60_000})
    with opened(root) as home:
        fill(home)
        yield home


def test_answers_are_the_same_before_and_after(root):
    configure(root, search={"model_wait_ms": 60_000})
    with opened(root) as home:
        fill(home)
        before = answers(home)
        seen = []
        report = rebuild.rebuild(home, progress=lambda done, total, note: seen.append((done, total, note)))
        assert (report["documents"], report["passages"], report["generation"]) == (3, 3, 2)
        assert not report["stopped"]
        assert answers(home) == before
        assert seen[0][2] == "catalog from packs"
        assert seen[-1][:2] == (3, 3)
        assert generations(root) == ["gen-2"]
    with opened(root) as home:
        assert answers(home) == before
        assert home.generation.number == 2


@pytest.mark.parametrize("looks", [1, 2, 4])
def test_a_stop_in_the_middle_leaves_the_old_generation_serving(filled, root, looks):
    before = answers(filled)
    asked = []

    def stop():
        asked.append(None)
        return len(asked) >= looks

    assert rebuild.rebuild(filled, stop=stop)["stopped"]
    assert generations(root) == ["gen-1"], "the half-built one is gone"
    assert answers(filled) == before
    settle(filled)
    assert reading.search(filled, HERE, query="release day")["index"]["degraded"] == []
    assert ingest.applied(filled) <= filled.store.last_seq()


def test_a_failure_in_the_middle_leaves_the_old_generation_serving(filled, root, monkeypatch):
    before = answers(filled)

    def refuse(home, generation):
        raise IndexMismatch("counts differ")

    monkeypatch.setattr(building, "require_whole", refuse)
    with pytest.raises(IndexMismatch):
        rebuild.rebuild(filled)
    assert generations(root) == ["gen-1"]
    assert answers(filled) == before


def test_an_old_record_read_again_does_not_undo_newer_ones(filled):
    """While the records are read again from the beginning, answers go on from the catalog as it was."""
    old = gateway.add(filled, HERE, content="Port 8080.", type="fact", scope="global")
    plan = {"id": old["id"], "content": "Port 9090."}
    token = gateway.supersede(filled, HERE, **plan)["confirm"]
    new = gateway.supersede(filled, HERE, **plan, confirm=token)
    settle(filled)
    batch, ingest.REPLAY_BATCH = ingest.REPLAY_BATCH, 1
    try:
        left = [True] * 5

        def stop():
            return not left or not left.pop()

        rebuild.refresh_catalog(filled, stop)
    finally:
        ingest.REPLAY_BATCH = batch
    assert ingest.applied(filled) == filled.store.last_seq()
    assert not list(filled.root.glob("catalog.db.new*"))
    assert filled.memories.get(old["id"]).fields.status == "superseded"
    found = reading.search(filled, HERE, query="Port", mode="keyword")["memories"]
    assert [one["id"] for one in found] == [new["id"]]


def test_writes_go_on_while_the_catalog_is_read_again(root):
    with opened(root) as home:
        store_documents(home, (Seen("s", b"%d.md" % n, "global", "document", b"Text %d." % n) for n in range(60)))
        batch, ingest.REPLAY_BATCH = ingest.REPLAY_BATCH, 5
        try:
            with home.catalog.write() as tx:
                home.catalog.set_meta(tx, ingest.APPLIED, "0")
            thread = threading.Thread(target=ingest.replay, args=(home,))
            thread.start()
            for number in range(60, 70):
                store_documents(home, [Seen("s", b"%d.md" % number, "global", "document", b"Text %d." % number)])
            thread.join()
        finally:
            ingest.REPLAY_BATCH = batch
        ingest.replay(home)
        assert ingest.applied(home) == home.store.last_seq() == 70
        assert home.documents.live_count() == 70


def test_every_vault_file_is_looked_at_and_no_write_waits_for_that(filled, monkeypatch):
    edited = next(filled.vault.path.rglob("*.md"))
    edited.write_text(edited.read_text() + "\nAnd more.\n")
    held: dict[bytes, list[bool]] = {}
    read = filled.vault.read

    def watched(path):
        held.setdefault(path, []).append(filled.vault_lane.locked())
        return read(path)

    monkeypatch.setattr(filled.vault, "read", watched)
    assert rebuild.rebuild(filled)["vault"]["changed"] == 1
    assert len(held) == 3
    assert sorted(any(lane) for lane in held.values()) == [False, False, True], "only the edited file is read again"


def test_a_write_while_the_catalog_is_behind_takes_the_rest_in_first(root):
    """Records enter the catalog in their order, so that no mark passes one that is not there."""
    with opened(root) as home:
        store_documents(home, [Seen("s", b"%d.md" % n, "global", "document", b"Text.") for n in range(3)])
        with home.catalog.write() as tx:
            home.catalog.set_meta(tx, ingest.APPLIED, "1")
        store_documents(home, [Seen("s", b"new.md", "global", "document", b"New.")])
        assert ingest.applied(home) == home.store.last_seq() == 4
        assert ingest.replay(home) == 0


def test_packs_damaged_all_over_cost_no_memory_that_the_vault_holds(filled, root):
    before = answers(filled)
    for pack in (root / "store" / "packs").rglob("*.pack"):
        pack.chmod(0o600)
        pack.write_bytes(b"\0" * pack.stat().st_size)
    report = rebuild.rebuild(filled)
    assert report["vault"]["added"] == 3
    assert answers(filled) == before
    assert not check(filled, read_data=True)["clean"], "the damaged packs are still named"


def test_a_catalog_that_tells_other_things_than_the_packs_is_made_anew(filled, root):
    """Rows that no record made, wrong states and wrong columns at an equal sequence number: none of them stays."""
    before = (dump(filled), answers(filled))
    with filled.catalog.write() as tx:
        tx.execute("UPDATE documents SET scope = 'p-wrong-12345678', kind = 'code', tags = '[\"x\"]' WHERE seq = 1")
        tx.execute("UPDATE documents SET address = NULL, seq = 999 WHERE seq = 2")
        tx.execute("INSERT INTO scopes VALUES ('p-ghost-12345678', 'ghost', NULL, NULL, 7)")
        ghost = (
            "SELECT 500, 'ghost', source, X'67', scope, kind, type, status, address, size, exec, title, tags, 500, 500"
        )
        tx.execute(
            f"INSERT INTO documents {ghost}, extractor, encoding, problem, observed FROM documents WHERE seq = 3"
        )
        tx.execute("DELETE FROM memories WHERE document = 3")
    found = check(filled, read_data=True)["findings"]
    assert {one["code"] for one in found if one["where"].startswith("vault/")} >= {"catalog-differs"}
    assert len([one for one in found if one["code"] == "catalog-differs"]) == 3
    rebuild.rebuild(filled)
    settle(filled)
    assert (dump(filled), answers(filled)) == before
    assert filled.documents.counts()["scope"] == {"global": 3}
    assert check(filled, read_data=True)["findings"] == []


def dump(home):
    """All derived rows and the counts beside them."""
    return {
        table: home.catalog.rows(f"SELECT * FROM {table} WHERE {where} ORDER BY 1, 2")
        for table, where in {**dict.fromkeys(DERIVED, "1"), "tallies": "documents > 0", "totals": "1"}.items()
    }


def test_killed_while_the_catalog_is_made_anew(root):
    """The old rows stay, and the next start sweeps what was half made."""
    with opened(root) as home:
        gateway.add(home, HERE, content="The queue holds forty jobs.", type="fact", scope="global")
    pid = os.fork()
    if pid == 0:
        try:
            with opened(root) as home:
                home.catalog.take_over = lambda _path: os.kill(os.getpid(), signal.SIGKILL)
                rebuild.refresh_catalog(home, lambda: False)
        finally:
            os._exit(99)
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    assert (root / "catalog.db.new").exists()
    with opened(root) as home:
        assert not list(root.glob("catalog.db.new*"))
        assert home.memories.counts(None) == {"in_force": 1}
