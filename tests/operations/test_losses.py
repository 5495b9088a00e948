"""What is left when a person, a disk or an accident takes a part of the home away?"""

from __future__ import annotations

import hashlib
import shutil

import pytest

from memoryd.errors import DiskFull, VaultError, VaultNotARepository
from memoryd.operations import gateway, reading
from memoryd.operations.check import check
from memoryd.operations.ingest import behind, commit_snapshot
from memoryd.operations.losses import find
from memoryd.operations.reconcile import reconcile_vault
from memoryd.records import SnapshotRecord
from memoryd.store.merkle import DIRECTORY, FILE, TreeEntry, build
from tests.operations.conftest import commits, fill_up, git, opened, settle

TEXTS = ("The dam opens at dawn.", "The sluice is oiled weekly.", "The weir has four gates.")


def fill(home, caller) -> list[str]:
    return [gateway.add(home, caller, content=text, type="fact", scope="global")["id"] for text in TEXTS]


def found(home, caller, query: str = "dam sluice weir") -> set[str]:
    return {one["id"] for one in reading.search(home, caller, query=query, mode="keyword")["memories"]}


def test_a_lost_store_is_filled_again_from_the_vault(root, nobody):
    with opened(root) as home:
        ids = fill(home, nobody)
        settle(home)
    shutil.rmtree(root / "store")
    with opened(root) as home:
        settle(home)
        assert found(home, nobody) == set(ids)
        assert reading.get(home, nobody, id=ids[0])["content"].endswith(TEXTS[0])


def test_a_missing_vault_is_no_new_vault_even_where_the_catalog_is_lost_too(root, nobody):
    with opened(root) as home:
        fill(home, nobody)
    shutil.move(root / "vault", root / "elsewhere")
    for path in root.glob("catalog.db*"):
        path.unlink()
    with pytest.raises(VaultNotARepository), opened(root):
        pass
    shutil.move(root / "elsewhere", root / "vault")
    with opened(root) as home:
        assert home.memories.counts(None) == {"in_force": 3}


@pytest.mark.parametrize("folder", ["rebase-merge", "rebase-apply"])
def test_nothing_is_added_in_the_middle_of_a_rebase(home, nobody, folder):
    fill(home, nobody)
    (home.vault.path / ".git" / folder).mkdir()
    with pytest.raises(VaultError, match="rebase"):
        gateway.add(home, nobody, content="Lost when the rebase is aborted.", type="note", scope="global")
    assert commits(home) == 3
    assert git("status", "--porcelain", cwd=home.vault.path) == ""
    (home.vault.path / ".git" / folder).rmdir()
    assert gateway.add(home, nobody, content="Now it stays.", type="note", scope="global")["outcome"] == "added"


def test_nothing_is_added_on_a_detached_head_and_reading_goes_on(home, nobody):
    ids = fill(home, nobody)
    git("checkout", "-q", "--detach", cwd=home.vault.path)
    with pytest.raises(VaultError, match="detached") as refused:
        gateway.add(home, nobody, content="Lost at the next checkout.", type="note", scope="global")
    assert "branch" in refused.value.next_step
    assert (commits(home), home.state.intents.all()) == (3, [])
    assert git("status", "--porcelain", cwd=home.vault.path) == ""
    reconcile_vault(home)
    settle(home)
    assert found(home, nobody) == set(ids)
    git("checkout", "-q", "main", cwd=home.vault.path)
    assert gateway.add(home, nobody, content="Now it stays.", type="note", scope="global")["outcome"] == "added"


def test_a_slip_in_the_frontmatter_shows_a_memory_to_nobody_else(home, project):
    mine, other = project("mine"), project("other")
    answer = gateway.add(home, mine, content="The spillway drawing is secret.", type="note")
    file = home.vault.path / answer["path"]
    moved = home.vault.path / "sorted" / "drawing.md"
    moved.parent.mkdir()
    file.rename(moved)
    reconcile_vault(home)
    moved.write_text(moved.read_text().replace("type: ", "type: [", 1))
    reconcile_vault(home)
    settle(home)
    assert found(home, other, "spillway drawing") == set()
    assert len(found(home, mine, "spillway drawing")) == 1


def test_a_preview_of_long_texts_stays_short(home, nobody):
    old = "\n".join(f"line {number % 150}" for number in range(20_000))
    new = "\n".join(f"line {number % 149}" for number in range(20_000))
    answer = gateway.add(home, nobody, content=old, type="note", scope="global")
    preview = gateway.supersede(home, nobody, id=answer["id"], content=new)
    assert len(preview["diff"]) <= 201
    assert preview["diff"][-1] == "... 20000 lines become 20000"


def test_h38_a_home_without_room_for_an_index_opens_and_reads(root, nobody, monkeypatch):
    """H38: old data is readable throughout; the index is made once there is room."""
    from memoryd.index import vector

    with opened(root) as home:
        ids = fill(home, nobody)
    shutil.rmtree(root / "indexes")
    with monkeypatch.context() as full:
        full.setattr(vector, "MIN_FREE", 1 << 60)
        with opened(root) as home:
            settle(home)
            assert reading.get(home, nobody, id=ids[0])["content"].endswith(TEXTS[0])
            answer = reading.search(home, nobody, query="dam")
            assert answer["memories"] == [] and answer["index"]["degraded"]
            assert any("No index" in notice for notice in home.notices.values())
            full.undo()
            settle(home)
            assert found(home, nobody) == set(ids)


def test_a_home_on_a_full_disk_opens_and_reads_and_takes_writes_again_later(small_disk, nobody):
    root = small_disk / "home"
    with opened(root) as home:
        ids = fill(home, nobody)
        settle(home)
    fill_up(small_disk, "first")
    (root / "store" / "reserve").unlink()  # small writes had it
    fill_up(small_disk, "second")
    by_hand = root / "vault" / "note.md"
    by_hand.touch()  # there is no room for words in it
    with opened(root) as home:
        fill_up(small_disk, "third")
        assert found(home, nobody) == set(ids)
        assert reading.get(home, nobody, id=ids[0])["content"].endswith(TEXTS[0])
        with pytest.raises(DiskFull):
            gateway.add(home, nobody, content="No room for this.", type="note", scope="global")
        assert home.state.intents.all() == []
    fill_up(small_disk, "fourth")  # also what was given back by closing
    with opened(root) as home:
        assert found(home, nobody) == set(ids)
        for name in ("first", "second", "third", "fourth"):
            (small_disk / name).unlink()
        assert gateway.add(home, nobody, content="Room again.", type="note", scope="global")["outcome"] == "added"
        reconcile_vault(home)
        settle(home)
        assert check(home)["findings"] == []


def test_a_start_goes_on_where_the_disk_has_no_room_for_what_is_new(root, nobody, monkeypatch):
    with opened(root) as home:
        ids = fill(home, nobody)
        settle(home)
    (root / "vault" / "by-hand.md").write_text("The crane is green.\n")
    with monkeypatch.context() as full:
        full.setattr("memoryd.operations.ingest.store_group", no_room)
        full.setattr("memoryd.operations.fresh.store_group", no_room)
        with opened(root) as home:
            assert found(home, nobody) == set(ids)
            assert "No space" in home.notices["disk"]
            full.undo()
            reconcile_vault(home)
            assert home.documents.by_path("vault", b"by-hand.md") is not None
            assert "disk" not in home.notices


def no_room(*_arguments):
    raise DiskFull("No space is left.")


def test_a_catalog_that_had_no_room_for_records_follows_by_itself(home, nobody, monkeypatch):
    kept = fill(home, nobody)
    settle(home)
    with monkeypatch.context() as full:
        full.setattr(home.catalog, "write", no_room)
        added = gateway.add(home, nobody, content="The pump house floods.", type="fact", scope="global")
        assert added["outcome"] == "added"
        assert behind(home), "in a pack, but not in the catalog"
        assert {one["code"] for one in check(home)["findings"]} >= {"catalog-behind"}
    settle(home)
    assert (behind(home), check(home)["findings"]) == (0, [])
    assert found(home, nobody, "pump dam sluice weir") == {*kept, added["id"]}


def test_records_that_come_later_do_not_overtake_those_that_had_no_room(home, nobody, monkeypatch):
    """Else the watermark of the indexes would pass what was never indexed."""
    fill(home, nobody)
    settle(home)
    with monkeypatch.context() as full:
        full.setattr(home.catalog, "write", no_room)
        first = gateway.add(home, nobody, content="The pump house floods.", type="fact", scope="global")
    second = gateway.add(home, nobody, content="The pump is blue.", type="fact", scope="global")
    settle(home)
    assert found(home, nobody, "pump") == {first["id"], second["id"]}
    assert check(home)["clean"]


@pytest.mark.parametrize("depth", [3, 1500])
def test_a_loss_in_a_deep_tree_is_named_by_its_path(home, depth):
    entries = [TreeEntry(b"lost.txt", FILE, False, 5, hashlib.sha256(b"never stored").digest())]
    nodes = {}
    for _ in range(depth):
        root, made = build(entries)
        nodes |= made
        entries = [TreeEntry(b"d", DIRECTORY, False, 0, root)]
    with home.store_lane, home.store.group() as group:
        group.nodes(nodes)
        commit_snapshot(home, group, SnapshotRecord("deep", "/deep", "global", root.hex(), "2026-01-01T00:00:00Z"))
    ((record, paths),) = find(home, ()).snapshots
    assert record.label == "deep"
    assert paths == [b"d/" * (depth - 1) + b"lost.txt"]
