from __future__ import annotations

from memoryd.catalog.db import Database
from memoryd.catalog.scopes import Scopes
from memoryd.records import ScopeRecord

SHOP = ScopeRecord("p-shop-12345678", "shop", "github.com/x/shop", "/home/u/shop", 5)


def apply(db: Database, *records: ScopeRecord) -> None:
    with db.write() as tx:
        for record in records:
            Scopes(db).apply(tx, record)


def test_a_scope_is_its_newest_record_whatever_comes_last(db: Database):
    newer = ScopeRecord(SHOP.id, "Shop", None, None, 9)
    apply(db, SHOP, newer, SHOP)
    assert Scopes(db).get(SHOP.id) == newer
    apply(db, ScopeRecord(SHOP.id, "again", None, None, 9))
    assert Scopes(db).get(SHOP.id) == newer


def test_all_scopes_by_id(db: Database):
    other = ScopeRecord("p-blog-00000000", "blog", None, "/home/u/blog", 6)
    apply(db, SHOP, other)
    assert Scopes(db).all() == [other, SHOP]


def test_global_exists_without_a_record_and_others_only_with_one(db: Database):
    scopes = Scopes(db)
    assert scopes.exists("global")
    assert not scopes.exists(SHOP.id)
    apply(db, SHOP)
    assert scopes.exists(SHOP.id)
    assert not scopes.exists(SHOP.id.upper())
    assert not scopes.exists("p-shop-%")
