"""What is damaged is mended as far as anything of it still exists; what is lost is named; nothing is deleted."""

from __future__ import annotations

import os
import shutil

import pytest

from memoryd.digest import address_of
from memoryd.errors import ContentDamaged, NotFound, StoreError
from memoryd.index.engine import VectorEntry
from memoryd.operations import gateway, snapshots
from memoryd.operations.check import check
from memoryd.operations.home import Caller
from memoryd.operations.rebuild import rebuild
from memoryd.operations.reconcile import reconcile_vault
from memoryd.operations.repair import repair
from memoryd.operations.scan import scan_corpora
from memoryd.store import pack as packs
from tests.operations.conftest import configure, opened, settle

HERE = Caller()
WORDS = [f"Rule {number}: the queue of kind {number} holds {number * 7} jobs.\n" * 12 for number in range(25)]


@pytest.fixture
def docs(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    for number, text in enumerate(WORDS):
        (folder / f"rule-{number:02}.md").write_text(text)
    return folder


@pytest.fixture
def filled(root, docs):
    """A home with memories, a corpus and its snapshot, closed."""
    configure(root, corpora=[{"label": "docs", "path": str(docs), "scope": "global"}])
    with opened(root) as home:
        for text in ("The queue holds forty jobs.", "The release is cut on Tuesday."):
            gateway.add(home, HERE, content=text, type="fact", scope="global")
        scan_corpora(home)
        settle(home)
    return root


def frames(root, kind):
    """(path, offset of the payload, its length) of every frame of a kind."""
    found = []
    with opened(root) as home:
        for pack in home.store.pack_ids():
            with home.store._shelf.open(pack) as file:
                for entry in file.footer().entries:
                    if entry.kind == kind:
                        header = file.header(entry.offset)
                        start = entry.offset + packs.FRAME_SIZE + header.table_len
                        found.append((home.store._shelf.path(pack), start, header.stored_len))
    return found


def hurt(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 0x20
    path.write_bytes(data)


def hurt_all(root, kind, *, at=20):
    for path, start, length in frames(root, kind):
        hurt(path, start + min(at, length - 1))


def packs_on_disk(root):
    return sorted((root / "store" / "packs").rglob("*.pack"))


def clean(home):
    return check(home, read_data=True)["findings"]


def test_a_whole_home_has_nothing_to_do(filled):
    with opened(filled) as home:
        for apply in (False, True):
            answer = repair(home, apply=apply)
            assert answer["nothing_to_do"] and answer["ok"]
            assert (answer["steps"], answer["left"], answer["restored"]) == ([], [], [])


def test_case_6_damaged_contents_come_back_from_their_files(filled):
    """case 6, H37: memories heal from the vault, documents from the corpus; the second run does nothing."""
    hurt_all(filled, packs.CHUNK)
    with opened(filled) as home:
        before = packs_on_disk(filled)
        plan = repair(home)
        assert packs_on_disk(filled) == before, "a plan changes nothing"
        assert not plan["ok"] and plan["steps"]
        done = repair(home, apply=True)
        assert done["ok"], done
        assert done["lost"]["contents"] == []
        assert {one["from"].split("/")[0] for one in done["restored"]} >= {"docs"}
        again = repair(home, apply=True)
        assert again["nothing_to_do"] and again["ok"]
        for text in WORDS:
            assert home.store.read(address_of(text.encode())) == text.encode()
        assert clean(home) == []
    assert list((filled / "store" / "quarantine").glob("*.pack"))


def test_what_exists_nowhere_else_is_named_until_it_is_added_again(filled, docs):
    """case 6: documents, snapshots and lost addresses are named; a scan of the files that came back heals."""
    hurt_all(filled, packs.CHUNK)
    saved = docs.with_name("saved")
    shutil.move(docs, saved)
    with opened(filled) as home:
        done = repair(home, apply=True)
        assert done["lost"]["contents"]
        assert {one["path"] for one in done["affected"]["documents"]} <= {f"docs/rule-{n:02}.md" for n in range(25)}
        assert done["affected"]["snapshots"][0]["label"] == "docs"
        assert done["lost"]["remedy"]
        second = repair(home, apply=True)
        assert second["nothing_to_do"]
        assert second["lost"]["contents"] == done["lost"]["contents"]
        shutil.move(saved, docs)
        scan_corpora(home)
        third = repair(home, apply=True)
        assert third["lost"]["contents"] == []
        assert clean(home) == []


def test_case_8_losing_index_and_catalog_loses_no_live_content(filled):
    """case 8: rows of the chunk index are gone; repair removes nothing and makes the index from the packs."""
    with opened(filled) as home:
        home.store._keeper.index._writer.execute("DELETE FROM chunks")
        done = repair(home, apply=True)
        assert "store/index.db" in {one["where"] for one in done["steps"]}
        for text in WORDS:
            assert home.store.read(address_of(text.encode())) == text.encode()
        assert repair(home, apply=True)["nothing_to_do"]


def test_history_survives_damaged_records(filled, docs):
    """Records come back from the catalog with their numbers; a rebuild then gives the same documents."""
    (docs / "rule-00.md").write_text("Rule 0 was changed.\n" * 9)
    with opened(filled) as home:
        scan_corpora(home)
        row = home.documents.by_path("docs", b"rule-00.md")
        before = home.documents.history(row.document_id)
        labels = [record.seq for record in home.snapshots.all(None)]
        assert len(before) == 2
    hurt_all(filled, packs.DOCUMENT)
    hurt_all(filled, packs.SNAPSHOT)
    with opened(filled) as home:
        done = repair(home, apply=True)
        assert done["restored_records"] > 0 and done["lost_records"] == 0
        assert done["ok"], done
        rebuild(home)
        assert home.documents.history(row.document_id) == before
        assert [record.seq for record in home.snapshots.all(None)] == labels
        assert clean(home) == []


def test_damaged_tree_nodes_are_named_and_built_again(filled):
    """A corpus' newest tree follows from the catalog; the tree of a folder is named until it is taken again."""
    tree = filled.parent / "tree"
    tree.mkdir()
    (tree / "a.txt").write_text("words\n" * 30)
    with opened(filled) as home:
        snapshots.take(home, HERE, path=str(tree), label="mine", scope="global")
    hurt_all(filled, packs.TREE)
    with opened(filled) as home:
        plan = repair(home)
        assert "node-lost" in {one["code"] for one in plan["steps"]}
        done = repair(home, apply=True)
        assert {one["label"] for one in done["affected"]["snapshots"]} == {"docs", "mine"}
        assert done["lost"]["nodes"] == 1
        snapshots.take(home, HERE, path=str(tree), label="mine", scope="global", full=True)
        assert repair(home, apply=True)["lost"]["nodes"] == 0
        assert clean(home) == []


@pytest.mark.parametrize("damage", ["empty", "cut", "gone", "garbage"])
def test_h37_whole_packs_that_are_broken(filled, damage):
    """H37: cut to nothing, cut to half, deleted, overwritten: everything that files still hold is there again."""
    for path in packs_on_disk(filled):
        if damage == "gone":
            path.unlink()
        elif damage == "garbage":
            path.write_bytes(os.urandom(path.stat().st_size))
        else:
            os.truncate(path, 0 if damage == "empty" else path.stat().st_size // 2)
    with opened(filled) as home:
        done = repair(home, apply=True)
        assert done["lost"]["contents"] == [], done["lost"]
        for text in WORDS:
            assert home.store.read(address_of(text.encode())) == text.encode()
        assert repair(home, apply=True)["nothing_to_do"]
        scan_corpora(home)
        assert clean(home) == []


def test_a_pack_from_a_backup_heals_through_quarantine(filled, docs):
    backup = docs.with_name("backup")
    backup.mkdir()
    for path in packs_on_disk(filled):
        shutil.copy(path, backup)
        os.truncate(path, 0)
    shutil.rmtree(docs)
    with opened(filled) as home:
        assert repair(home, apply=True)["lost"]["contents"]
        for path in backup.iterdir():
            shutil.copy(path, filled / "store" / "quarantine" / f"backup-{path.name}")
        plan = repair(home)
        assert [one["where"] for one in plan["steps"]] == ["store/quarantine"]
        done = repair(home, apply=True)
        assert done["lost"]["contents"] == []
        for text in WORDS:
            assert home.store.read(address_of(text.encode())) == text.encode()


def test_a_former_memory_comes_back_from_gits_history(root):
    with opened(root) as home:
        made = gateway.add(home, HERE, content="The queue holds forty jobs.", type="fact", scope="global")
        path = next(home.vault.path.rglob("*.md"))
        first = path.read_bytes()
        path.write_bytes(first.replace(b"forty", b"fifty"))
        reconcile_vault(home)
        assert made
    hurt_all(root, packs.CHUNK)
    with opened(root) as home:
        done = repair(home, apply=True)
        assert done["lost"]["contents"] == []
        assert home.store.read(address_of(first)) == first


def test_stray_files_are_moved_aside_and_kept(filled):
    stray = filled / "store" / "packs" / "notes.txt"
    stray.write_text("mine")
    with opened(filled) as home:
        repair(home, apply=True)
        assert not stray.exists()
        assert (filled / "store" / "quarantine" / "notes.txt").read_text() == "mine"
        assert repair(home, apply=True)["nothing_to_do"]


def test_indexes_alone_are_mended(filled):
    """Missing text, missing vectors, orphan points, a foreign vector: only the documents concerned are written."""
    with opened(filled) as home:
        generation = home.generation
        rows = list(home.documents.current("docs"))
        generation.lexical.replace([rows[0].document_id], [])
        generation.commit_lexical(generation.watermark.lexical_seq, generation.watermark.vault_commit)
        generation.vectors.replace([rows[1].document_id], [])
        (one,), (other,) = (home.passages.of_document(row.document_id) for row in rows[2:4])
        vector = home.cache.get_many(home.host.identity.fingerprint, [other.text_sha256])[other.text_sha256]
        row = rows[2]
        foreign = VectorEntry(one.id, row.document_id, row.scope, row.kind, row.type, row.status, ["docs/"], vector)
        generation.vectors.replace([row.document_id], [foreign])
        generation.commit_vectors(generation.watermark.vector_seq)
        plan = repair(home)
        wheres = {one["where"] for one in plan["steps"]}
        assert wheres == {"indexes/lexical", "indexes/vectors"}
        done = repair(home, apply=True)
        assert done["ok"], done
        assert repair(home, apply=True)["nothing_to_do"]


def test_a_lost_generation_is_made_anew(filled):
    shutil.rmtree(filled / "indexes")
    with opened(filled) as home:
        home.generation.close()
        home.generation = None
        done = repair(home, apply=True)
        assert done["ok"], done
        assert home.generation.watermark.lexical_seq == home.documents.last_seq()


def test_it_can_be_stopped_at_any_point(filled):
    """Cancelled after the nth question for every n: nothing that was readable is lost, and the next run ends it."""
    hurt_all(filled, packs.CHUNK)
    with opened(filled) as home:
        there = {text for text in WORDS if readable(home, text)}
        asked, limit = [0], [0]

        def stop():
            asked[0] += 1
            return asked[0] > limit[0]

        for limit[0] in (0, 1, 2, 3, 5, 8, 13, 21, 34, 55):
            asked[0] = 0
            answer = repair(home, apply=True, stop=stop)
            assert {text for text in WORDS if readable(home, text)} >= there
            if not answer["stopped"]:
                break
        assert repair(home, apply=True)["ok"]
        assert all(readable(home, text) for text in WORDS)


def readable(home, text):
    try:
        return home.store.read(address_of(text.encode())) == text.encode()
    except (ContentDamaged, NotFound, StoreError):
        return False


def test_a_snapshot_of_a_folder_heals_from_the_folder(root, tmp_path):
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "a.bin").write_bytes(os.urandom(900))
    (tree / "b.txt").write_text("words\n" * 30)
    with opened(root) as home:
        snapshots.take(home, HERE, path=str(tree), label="before", scope="global")
    hurt_all(root, packs.CHUNK)
    with opened(root) as home:
        done = repair(home, apply=True)
        assert done["lost"]["contents"] == []
        assert done["affected"]["snapshots"][0]["label"] == "before"
        assert "sub/a.bin" in done["affected"]["snapshots"][0]["paths"]


def test_case_66_missing_embeddings_are_made_with_progress_and_may_be_cancelled(filled):
    """case 66: cancelled in the middle it leaves a home that the next run ends; a run after that does nothing."""
    with opened(filled) as home:
        generation = home.generation
        points = sorted(generation.vectors.ids())
        generation.vectors.replace(sorted({document for document, _passage in points}), [])
        generation.commit_vectors(generation.watermark.vector_seq)
        home.cache.drop({one.text_sha256 for row in rows(home) for one in home.passages.of_document(row.document_id)})
        assert generation.vectors.count() == 0 < len(points)
        told = []
        cancelled = repair(
            home, apply=True, progress=lambda *step: told.append(step), stop=lambda: told[-1:] == [(3, 4, "indexes")]
        )
        assert cancelled["stopped"] and not cancelled["ok"]
        told.clear()
        done = repair(home, apply=True, progress=lambda *step: told.append(step))
        assert done["ok"] and not done["nothing_to_do"], done
        assert [step[0] for step in told if step[1] == 4] == sorted(step[0] for step in told if step[1] == 4)
        assert (4, 4, "check") in told
        assert sorted(generation.vectors.ids()) == points
        again = repair(home, apply=True)
        assert again["nothing_to_do"] and again["ok"] and again["steps"] == []


def rows(home):
    return [row for source in home.documents.sources() for row in home.documents.current(source)]
