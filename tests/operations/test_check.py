"""Does a check see damage in each part, name it with a remedy, and change nothing?"""

from __future__ import annotations

import shutil
from uuid import UUID

import pytest

from memoryd.digest import address_of
from memoryd.operations import gateway
from memoryd.operations.check import check
from memoryd.operations.home import Caller
from memoryd.operations.reconcile import reconcile_vault
from memoryd.operations.repair import repair
from memoryd.operations.scan import scan_corpora
from memoryd.store import pack as packs
from tests.operations.conftest import configure, git, opened, settle
from tests.operations.test_repair import hurt_all

HERE = Caller()


@pytest.fixture
def filled(home):
    for text in ("The queue holds forty jobs.", "The release is cut on Tuesday."):
        gateway.add(home, HERE, content=text, type="fact", scope="global")
    settle(home)
    return home


def codes(home, *, read_data=False):
    answer = check(home, read_data=read_data)
    assert answer["clean"] == (not answer["findings"])
    for one in answer["findings"]:
        assert one["where"]
        assert one["message"]
        assert one["remedy"]
    return {one["code"] for one in answer["findings"]}


def test_a_whole_home_is_clean_and_progress_names_the_parts(filled):
    seen = []
    answer = check(filled, read_data=True, progress=lambda done, total, note: seen.append((done, total, note)))
    assert answer == {"clean": True, "read_data": True, "quick": False, "findings": []}
    assert [note for *_, note in seen] == ["store", "catalog", "snapshots", "vault", "state", "index", "done"]
    assert check(filled, stop=lambda: True)["findings"] == []


def test_a_flipped_bit_in_a_pack(filled, root):
    pack = sorted((root / "store" / "packs").rglob("*.pack"))[0]
    raw = bytearray(pack.read_bytes())
    raw[len(raw) // 2] ^= 1
    pack.chmod(0o600)
    pack.write_bytes(raw)
    assert codes(filled, read_data=True)


def test_a_lost_pack_is_content_that_is_missing(root):
    with opened(root) as home:
        gateway.add(home, HERE, content="One.", type="fact", scope="global")
    for pack in (root / "store" / "packs").rglob("*.pack"):
        pack.unlink()
    with opened(root) as home:
        assert "content-missing" not in codes(home), "what the vault holds was taken in again at the start"


def test_a_catalog_that_names_what_no_pack_holds(filled):
    with filled.catalog.write() as tx:
        tx.execute("UPDATE documents SET address = ? WHERE seq = 1", ("sha256:" + "0" * 64,))
    assert "content-missing" in codes(filled)


def test_a_catalog_that_is_behind(filled):
    with filled.catalog.write() as tx:
        filled.catalog.set_meta(tx, "applied_seq", "1")
    assert codes(filled) == {"catalog-behind"}


def test_a_vault_with_a_faulty_file_a_copy_and_a_lost_object(filled):
    file = next(filled.vault.path.rglob("*.md"))
    shutil.copy(file, file.with_name("copy.md"))
    file.with_name("faulty.md").write_text("---\ntitle: [unclosed\n---\nx\n")
    reconcile_vault(filled)
    settle(filled)
    assert codes(filled) == {"duplicate-id", "vault-file-invalid"}
    blob = git("rev-parse", f"HEAD:{file.relative_to(filled.vault.path)}", cwd=filled.vault.path)
    (filled.vault.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    assert codes(filled) == {"duplicate-id", "vault-file-invalid", "git-failed"}


def test_a_vault_file_that_the_catalog_does_not_know_and_one_that_is_absent(filled):
    first, second = sorted(filled.vault.path.rglob("*.md"))
    first.rename(first.with_name("other-name.md"))
    found = check(filled)["findings"]
    named = {(one["code"], one["where"].rpartition("/")[2]) for one in found}
    assert named == {("vault-differs", first.name), ("vault-differs", "other-name.md")}
    second.unlink()
    first.with_name("other-name.md").unlink()
    assert reconcile_vault(filled)["problem"], "the working tree is empty: nothing is removed"
    assert codes(filled) == {"vault-differs"}


def test_an_interrupted_write_that_nobody_settled(filled):
    filled.notices["vault/interrupted"] = "a lock is held"
    assert codes(filled) == {"write-unsettled"}


@pytest.mark.parametrize("leg", ["lexical", "vectors"])
def test_an_index_that_lost_entries(filled, leg):
    index = getattr(filled.generation, leg)
    document, _ = next(iter(index.ids()))
    index.replace([document], [])
    filled.generation.commit_lexical(2, "") if leg == "lexical" else filled.generation.commit_vectors(2)
    assert "index-mismatch" in codes(filled, read_data=True)


def test_an_index_whose_entries_belong_to_other_documents(filled):
    """The counts agree; only comparing every id shows it."""
    index = filled.generation.lexical
    (one, _), (other, _) = list(index.ids())
    from memoryd.index.lexical import LexicalEntry

    wrong = LexicalEntry(one, str(UUID(int=1)), "global", "memory", "fact", "in_force", ["vault/"], "t", "words")
    index.replace([one, other], [wrong, wrong])
    filled.generation.commit_lexical(2, "")
    assert filled.generation.mismatches() == {}
    assert codes(filled) == set()
    assert codes(filled, read_data=True) == {"index-mismatch"}


def test_no_generation_at_all(filled):
    filled.generation.close()
    filled.generation = None
    assert codes(filled) == {"index-missing"}


def corpus_of(root, tmp_path, text):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "page.md").write_text(text)
    configure(root, corpora=[{"label": "docs", "path": str(folder), "scope": "global"}])
    with opened(root) as home:
        scan_corpora(home)
        settle(home)
    return folder


def test_a_scan_in_the_next_process_heals_what_a_check_found_damaged(root, tmp_path):
    text = "A page about the dam.\n" * 40
    corpus_of(root, tmp_path, text)
    hurt_all(root, packs.CHUNK)
    with opened(root) as home:
        assert "content-damaged" in codes(home, read_data=True)
    with opened(root) as home:
        assert scan_corpora(home)["corpora"]["docs"]["unchanged"] == 0
        assert home.store.read(address_of(text.encode())) == text.encode()
    with opened(root) as home:
        assert home.store.damaged == set()
        assert scan_corpora(home)["corpora"]["docs"]["unchanged"] == 1


def test_what_reads_well_again_is_noted_as_damaged_no_longer(filled):
    row = next(iter(filled.documents.current("vault")))
    filled.store.damaged.add(row.address)
    filled.store.damaged.add("sha256:" + "0" * 64)
    check(filled, read_data=True)
    assert filled.store.damaged == set()


def test_a_lost_former_state_is_named(root, tmp_path):
    """Content that only history names is no less lost: the check says so after a repair could not bring it back."""
    former, now = "The first state.\n" * 30, "The second state.\n" * 30
    folder = corpus_of(root, tmp_path, former)
    (folder / "page.md").write_text(now)
    hurt_all(root, packs.CHUNK)
    with opened(root) as home:
        with home.catalog.write() as tx:
            tx.execute("DELETE FROM snapshots")  # only the document's history names it
        scan_corpora(home)
        repair(home, apply=True)
        found = [one for one in check(home)["findings"] if one["code"] == "history-lost"]
        assert [one["where"] for one in found] == ["docs/page.md"]
        assert found[0]["address"] == address_of(former.encode())
