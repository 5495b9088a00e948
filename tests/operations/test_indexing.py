"""Do the indexes follow the catalog, whatever interrupts them, and is a wrong count noticed in either leg?"""

from __future__ import annotations

import pytest

from memoryd.index.generations import Generations
from memoryd.operations import gateway, indexing, legs, reading
from memoryd.operations.home import Caller, index_identity
from memoryd.operations.scan import scan_corpora
from tests.operations.conftest import configure, opened, settle

HERE = Caller()
SECTIONS = 2500


@pytest.fixture
def folder(root, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    configure(root, corpora=[{"label": "docs", "path": str(docs)}])
    return docs


def words_only(home):
    """The keyword side of the background work."""
    while home.documents.count_changed_after(home.generation.watermark.lexical_seq):
        indexing.step(home, home.generation, lambda: True)


def sections(count):
    return "\n\n".join(f"## Section {n}\n\nWhat section {n} says." for n in range(count))


def cached(home):
    return home.cache.count(home.host.identity.fingerprint)


@pytest.fixture
def short_slices(monkeypatch):
    """The model is slow and a slice is long: a short one shows the same."""
    monkeypatch.setattr(legs, "EMBED_SLICE", 4)


def test_a_new_memory_overtakes_a_large_document_that_is_being_embedded(root, folder, short_slices):
    """The step ends in the middle of the document, keeps what it embedded, and the next one indexes the memory."""
    (folder / "large.md").write_text(sections(SECTIONS))
    with opened(root) as home:
        scan_corpora(home)
        words_only(home)
        assert home.passages.count() > 2 * legs.EMBED_SLICE
        added = []

        def stop():
            if cached(home) >= legs.EMBED_SLICE and not added:
                added.append(gateway.add(home, HERE, content="The walrus has arrived.", type="fact", scope="global"))
            return False

        assert indexing.catch_up(home, stop), "there is more to do"
        held = cached(home)
        assert added and legs.EMBED_SLICE <= held < home.passages.count()
        assert home.generation.watermark.vector_seq == 0, "no document is in the vector leg by halves"
        assert indexing.catch_up(home, stop)
        found = reading.search(home, HERE, query="walrus", mode="keyword")
        assert [one["id"] for one in found["memories"]] == [added[0]["id"]]
        assert found["index"]["pending"] == 2
        assert cached(home) == held, "nothing was embedded in between"


def test_what_was_embedded_before_a_stop_is_kept(root, folder, short_slices):
    """A second try takes it from the cache; a document counts only when all of it is there."""
    (folder / "large.md").write_text(sections(150))
    with opened(root) as home:
        scan_corpora(home)
        words_only(home)
        asked = []

        def stop():
            asked.extend([1] * (home.host.status()["state"] == "ready"))
            return len(asked) > 6

        indexing.catch_up(home, stop)
        held = cached(home)
        assert 0 < held < home.passages.count()
        assert home.generation.vectors.count() == 0
        settle(home)
        assert home.generation.vectors.count() == cached(home) == home.passages.count()
        assert indexing.verify(home, home.generation) == []


def test_a_memory_that_the_store_refuses_does_not_stop_embedding(root, folder):
    """What waits for the store since before a step is no reason to end every step."""
    (folder / "a.md").write_text("# One\n\nWords.\n")
    with opened(root) as home:
        scan_corpora(home)
        words_only(home)
        home.fresh.append(object())
        try:
            assert indexing.step(home, home.generation, lambda: False)
            assert home.generation.watermark.vector_seq == home.documents.last_seq()
        finally:
            home.fresh.clear()


def test_small_documents_go_together_and_a_large_one_alone(home, folder):
    def row(size):
        return type("Row", (), {"size": size})()

    rows = [row(10) for _ in range(20)] + [row(legs.SLICE_BYTES * 3), row(10)]
    parts = list(legs.portions(rows))
    assert [len(part) for part in parts] == [16, 4, 1, 1]
    assert [one for part in parts for one in part] == rows
    assert list(legs.portions([])) == []


def test_the_keyword_side_is_compared_with_the_catalog(root, folder):
    """Entries that are missing although their marks say otherwise are told, and come back."""
    (folder / "long.md").write_text(sections(60))
    (folder / "short.md").write_text("# Short\n\nOnly the walrus.\n")
    with opened(root) as home:
        scan_corpora(home)
        words_only(home)
        generation = home.generation
        assert generation.lexical.count() == home.passages.entries() > home.passages.count()
        assert indexing.verify(home, generation) == []
        victim = reading.search(home, HERE, query="walrus", mode="keyword")["memories"][0]["id"]
        generation.lexical.replace([victim], [])
        generation.commit_lexical(generation.watermark.lexical_seq, "")
        assert generation.mismatches() == {}, "the leg agrees with its own mark"
        answer = reading.search(home, HERE, query="walrus", mode="keyword")
        assert answer["memories"] == []
        assert [(one["leg"], one["code"]) for one in answer["index"]["degraded"]] == [("lexical", "index-mismatch")]
        assert home.heal == {"lexical"}
        indexing.heal(home, home.heal.pop())
        answer = reading.search(home, HERE, query="walrus", mode="keyword")
        assert [one["id"] for one in answer["memories"]] == [victim]
        assert answer["index"]["degraded"] == []
        assert not home.heal


def test_a_backlog_is_no_mismatch(root, folder):
    (folder / "long.md").write_text(sections(60))
    with opened(root) as home:
        scan_corpora(home)
        assert indexing.verify(home, home.generation) == []
        assert not home.heal
        words_only(home)
        (folder / "long.md").unlink()
        (folder / "other.md").write_text("# Other\n\nWords.\n")
        scan_corpora(home)
        assert indexing.verify(home, home.generation) == []
        words_only(home)
        assert home.generation.lexical.count() == home.passages.entries() == 1
        assert indexing.verify(home, home.generation) == []


def test_a_halted_repair_goes_on_later(root, folder):
    for number in range(40):
        (folder / f"{number}.md").write_text(f"# Part {number}\n\nWords.\n")
    with opened(root) as home:
        scan_corpora(home)
        settle(home)
        identity, files = index_identity(home), home.files
    other = Generations(root / "indexes", files).open_current(identity)
    other.vectors.replace([document for document, _ in other.vectors.ids()], [])
    other.commit_vectors(other.watermark.vector_seq)
    other.close()
    with opened(root) as home:
        assert [one.details["leg"] for one in indexing.verify(home, home.generation)] == ["vectors"]
        asked = []
        written = indexing.heal(home, home.heal.pop(), lambda: bool(asked.append(1) or len(asked) > 1))
        assert 0 < written < 40
        assert home.heal == {"vectors"}
        settle(home)
        assert home.generation.vectors.count() == 40
        assert indexing.verify(home, home.generation) == []
