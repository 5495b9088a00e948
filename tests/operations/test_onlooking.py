"""Can a second process read a home beside its owner, and change nothing of it?"""

from __future__ import annotations

import sqlite3

import pytest

from memoryd.catalog.onlooker import Onlooker as CatalogOnlooker
from memoryd.errors import FormatUnsupported, HomeError, IndexProblem, StoreError
from memoryd.index.onlooker import Onlooker as CacheOnlooker
from memoryd.operations.ingest import Seen, store_documents
from memoryd.operations.onlooking import onlooking
from memoryd.store.onlooker import Onlooker as StoreOnlooker


def store(home, name, text):
    store_documents(home, [Seen("notes", name.encode(), "global", "document", text.encode())])


def test_what_the_owner_writes_is_seen_and_nothing_can_be_written(home, root):
    store(home, "a.md", "First.")
    home.cache.put_many(home.host.identity.fingerprint, {"0" * 64: bytes(4 * 384)})
    with onlooking(root, home.cache.path, home.host.identity) as other:
        assert [row.path for row in other.documents.current("notes")] == [b"a.md"]
        store(home, "b.md", "Second.")  # a pack that was not there when the other one opened
        (row,) = [row for row in other.documents.current("notes") if row.path == b"b.md"]
        assert other.store.read(row.address) == b"Second."
        assert other.store.last_seq() == home.store.last_seq()
        assert list(other.cache.get_many(home.host.identity.fingerprint, ["0" * 64])) == ["0" * 64]
        with pytest.raises(HomeError), other.catalog.write() as tx:
            other.catalog.set_meta(tx, "any", "thing")
        with pytest.raises(IndexProblem):
            other.cache.put_many(home.host.identity.fingerprint, {"1" * 64: bytes(4 * 384)})
    store(home, "c.md", "The owner goes on.")
    assert home.documents.live_count() == 3


def test_files_that_are_not_there_or_not_whole_are_told_and_left_alone(tmp_path):
    with pytest.raises(StoreError, match="missing"):
        StoreOnlooker(tmp_path, 1 << 20)
    broken = tmp_path / "embeddings.db"
    broken.write_bytes(b"no database" * 1000)
    with pytest.raises(IndexProblem):
        CacheOnlooker(broken)
    assert [path.name for path in tmp_path.iterdir()] == ["embeddings.db"]


def test_a_catalog_of_another_version_is_refused(tmp_path):
    path = tmp_path / "catalog.db"
    with sqlite3.connect(path) as made:
        made.execute("PRAGMA user_version = 99")
    made.close()
    with pytest.raises(FormatUnsupported, match="99"):
        CatalogOnlooker(path)
