"""Does a check see damage in each part, name it with a remedy, and change nothing?"""

from __future__ import annotations

import shutil

import pytest

from memoryd.operations import gateway
from memoryd.operations.check import check
from memoryd.operations.home import Caller
from memoryd.operations.reconcile import reconcile_vault
from tests.operations.conftest import git, opened, settle

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

    wrong = LexicalEntry(one, "x", "global", "memory", "fact", "in_force", ["vault/"], "t", "words")
    index.replace([one, other], [wrong, wrong])
    filled.generation.commit_lexical(2, "")
    assert filled.generation.mismatches() == {}
    assert codes(filled) == set()
    assert codes(filled, read_data=True) == {"index-mismatch"}


def test_no_generation_at_all(filled):
    filled.generation.close()
    filled.generation = None
    assert codes(filled) == {"index-missing"}
