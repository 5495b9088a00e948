"""A damaged frame of tombstones brings nothing back that was taken back, as long as the catalog knows."""

from __future__ import annotations

import pytest

from memoryd.digest import address_of
from memoryd.operations import gateway
from memoryd.operations.burial import standing
from memoryd.operations.erasure import plan
from memoryd.operations.forget import run
from memoryd.operations.home import Caller
from memoryd.operations.ingest import Seen, bury, store_documents
from memoryd.operations.repair import repair
from memoryd.operations.scan import scan_corpora
from memoryd.records import TombstoneRecord
from memoryd.store import pack as packs
from tests.operations.conftest import configure, opened, settle
from tests.operations.test_repair import hurt_all

SECRET = "hunter2-correct-horse-battery"


@pytest.fixture
def docs(root, tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(5):
        (folder / f"n{number}.md").write_text(f"A plain page of words, number {number}.\n" * 5)
    configure(root, corpora=[{"label": "docs", "path": str(folder), "scope": "global"}])
    return folder


def drop_catalog(root):
    for path in root.glob("catalog.db*"):
        path.unlink()


def forgotten(root, docs):
    """A home in which a corpus file was forgotten; the file still lies there."""
    secret = f"The password is {SECRET}.\n"
    (docs / "secret.md").write_text(secret)
    with opened(root) as home:
        scan_corpora(home)
        settle(home)
        address = address_of(secret.encode())
        run(home, plan(home, [address], SECRET))
        assert address in standing(home)
    return address


def test_what_was_forgotten_stays_away_after_the_tombstone_was_damaged(root, docs):
    address = forgotten(root, docs)
    hurt_all(root, packs.TOMBSTONE)
    with opened(root) as home:
        done = repair(home, apply=True)
        assert done["ok"] and done["lost_records"] == 0, done
    drop_catalog(root)
    with opened(root) as home:
        assert address in standing(home)
        scan_corpora(home)
        assert home.store.size(address) is None


def test_a_tombstone_that_the_catalog_lost_too_is_told_aloud(root, docs):
    forgotten(root, docs)
    hurt_all(root, packs.TOMBSTONE)
    drop_catalog(root)
    with opened(root) as home:
        told = repair(home)
        assert not told["ok"]
        done = repair(home, apply=True)
        assert not done["ok"] and done["lost_records"] >= 1
        left = [one for one in done["left"] if one["code"] == "records-lost"]
        assert left and "forget it again" in left[0]["remedy"]


def test_single_records_that_were_taken_back_stay_away(root):
    with opened(root) as home:
        gateway.add(home, Caller(), content="The queue holds forty jobs.", type="fact", scope="global")
        for text in (b"first words\n", b"second words\n"):
            store_documents(home, [Seen("docs", b"a.md", "global", "document", text)])
        row = home.documents.by_path("docs", b"a.md")
        first, second = home.documents.history(row.document_id)
        with home.store_lane:
            bury(home, [TombstoneRecord(None, min(first.seq, second.seq), "expired")], [])
        kept = home.documents.history(row.document_id)
        assert len(kept) == 1
    hurt_all(root, packs.TOMBSTONE)
    with opened(root) as home:
        done = repair(home, apply=True)
        assert done["ok"] and done["lost_records"] == 0, done
    drop_catalog(root)
    with opened(root) as home:
        assert home.documents.history(row.document_id) == kept
