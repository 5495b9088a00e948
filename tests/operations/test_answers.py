"""Does an answer say what it could not show or search, and put the next best in its place?"""

from __future__ import annotations

import pytest

from memoryd.errors import InvalidInput
from memoryd.operations import gateway, lifecycle, reading
from memoryd.operations.brief import recall
from memoryd.operations.health import status
from memoryd.operations.home import Caller
from memoryd.operations.scan import scan_corpora
from tests.operations.conftest import configure, index_words, opened

HERE = Caller()


@pytest.fixture
def folder(root, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    configure(root, corpora=[{"label": "docs", "path": str(docs)}])
    return docs


def write(folder, *numbers):
    for number in numbers:
        words = "badger " * (9 - number) + "filler " * number
        (folder / f"{number}.md").write_text(f"# Part {number}\n\n{words}\n")


def damage(root, address, places):
    """Spoil the frame of a content, so that no copy of it can be read."""
    digest = bytes.fromhex(address.removeprefix("sha256:"))
    for place in places[digest]:
        (pack,) = (root / "store" / "packs").rglob(f"{place.pack.hex()}.pack")
        raw = bytearray(pack.read_bytes())
        raw[place.frame_off + 90] ^= 255
        pack.chmod(0o600)
        pack.write_bytes(raw)


@pytest.fixture
def damaged(root, folder):
    """A home in which the best hit for `badger` cannot be read; its address and the home."""
    with opened(root) as home:
        write(folder, 0)
        scan_corpora(home)
        write(folder, 1, 2, 3, 4, 5)
        scan_corpora(home)
        index_words(home)
        first = reading.search(home, HERE, query="badger", mode="keyword")["memories"][0]
        assert first["source"] == "docs/0.md"
        digest = bytes.fromhex(first["address"].removeprefix("sha256:"))
        places = home.store.chunk_places([digest])
    damage(root, first["address"], places)
    with opened(root) as home:
        yield home, first["address"]


@pytest.mark.parametrize("wanted", [1, 3])
def test_a_damaged_hit_is_told_and_its_place_goes_to_the_next_best(damaged, wanted):
    home, address = damaged
    answer = reading.search(home, HERE, query="badger", mode="keyword", max_results=wanted)
    assert [one["source"] for one in answer["memories"]] == [f"docs/{n + 1}.md" for n in range(wanted)]
    (told,) = answer["index"]["degraded"]
    assert (told["leg"], told["code"]) == ("content", "content-damaged")
    assert address in told["message"] and "docs/0.md" in told["message"] and told["next_step"]
    assert "Not complete" in answer["summary"] and address in answer["summary"]
    assert any(address in notice for notice in status(home, HERE)["notices"])


def test_content_that_no_pack_holds_is_told_too(damaged):
    """A catalog that knows more than the packs must not cost the whole answer."""
    home, _ = damaged
    gone = "sha256:" + "ab" * 32
    with home.catalog.write() as tx:
        tx.execute("UPDATE documents SET address = ? WHERE path = ?", (gone, b"1.md"))
        tx.execute(
            "INSERT INTO passages (id, document, ordinal, start, end, line_start, line_end, heading, symbol,"
            " text_sha256) SELECT 'x', number, 0, 0, 9, 1, 1, '[]', '', '' FROM documents WHERE path = ?",
            (b"1.md",),
        )
    answer = reading.search(home, HERE, query="badger", mode="keyword")
    assert [one["source"] for one in answer["memories"]] == [f"docs/{n}.md" for n in (2, 3, 4, 5)]
    assert gone in " ".join(one["message"] for one in answer["index"]["degraded"] if one["leg"] == "content")


def test_nothing_found_names_the_gap(root, folder):
    """An empty answer of an incomplete search is no statement about what is known."""
    write(folder, 0)
    with opened(root) as home:
        plain = reading.search(home, HERE, query="walrus", mode="keyword")["summary"]
        assert plain.startswith("Nothing found. Try other words")
        scan_corpora(home)
        waiting = reading.search(home, HERE, query="badger", mode="keyword")
        assert waiting["memories"] == []
        assert "1 document is not indexed yet" in waiting["summary"] and "Try other words" not in waiting["summary"]
        home.host.close()
        semantic = reading.search(home, HERE, query="badger", mode="semantic")
        assert "dense" in semantic["summary"] and "not complete" in semantic["summary"]
        brief = recall(home, HERE, task="badger")
        assert brief["brief"] == ""
        assert "not indexed yet" in brief["next"] and "Nothing is remembered" not in brief["next"]
        index_words(home)
        brief = recall(home, HERE, task="badger")
        assert brief["for_task"] == 1 and "docs/0.md#L" in brief["brief"] and "dense" in brief["next"]


def test_a_path_prefix_of_no_known_source_is_refused_by_name(root, folder):
    write(folder, 0)
    with opened(root) as home:
        for prefix in ("docs/", "vault/", "docs/no/such/folder"):
            assert reading.search(home, HERE, query="x", mode="keyword", path_prefix=prefix)["memories"] == []
        with pytest.raises(InvalidInput) as refused:
            reading.search(home, HERE, query="x", path_prefix="dosc/guide")
        assert "'dosc'" in refused.value.message and "`docs/`" in refused.value.message
        assert "`vault/`" in refused.value.message
        scan_corpora(home)
    configure(root, corpora=[])
    with opened(root) as home:
        index_words(home)
        found = reading.search(home, HERE, query="badger", mode="keyword", path_prefix="docs")["memories"]
        assert [one["source"] for one in found] == ["docs/0.md"], "a source of the catalog is known"


@pytest.mark.parametrize("catalogued", [True, False])
def test_what_was_retired_a_moment_ago_is_shown_by_no_search_and_no_brief(home, monkeypatch, catalogued):
    old = gateway.add(home, HERE, content="The badger cache lives for 10 minutes.", type="fact", scope="global")
    gateway.add(home, HERE, content="Badgers are fed at noon.", type="fact", scope="global")
    index_words(home)
    if not catalogued:
        monkeypatch.setattr(lifecycle, "try_drain", lambda *_, **__: None)
    plan = {"id": old["id"], "reason": "the cache is gone"}
    token = gateway.archive(home, HERE, **plan)["confirm"]
    assert gateway.archive(home, HERE, **plan, confirm=token)["outcome"] == "archived"
    assert bool(home.fresh) is not catalogued
    answer = reading.search(home, HERE, query="badger cache", mode="keyword", max_results=1)
    assert [one["title"] for one in answer["memories"]] == ["Badgers are fed at noon."]
    assert "cache" not in recall(home, HERE, task="badger cache")["brief"].partition("## Changed")[0]
