"""Do searches and briefs keep what they promise: filters, bounds, honest gaps, suggestions that bring something new?"""

from __future__ import annotations

import shutil

import pytest

from memoryd.errors import InvalidInput, ModelFilesWrong
from memoryd.index.generations import Generations
from memoryd.models.host import ModelHost
from memoryd.models.identity import ModelFiles, locate
from memoryd.operations import gateway, reading
from memoryd.operations.brief import recall
from memoryd.operations.health import numbers, ready, status
from memoryd.operations.home import Caller, index_identity
from memoryd.operations.indexing import catch_up
from memoryd.operations.rebuild import rebuild
from memoryd.operations.scan import scan_corpora
from tests.operations.conftest import configure, opened, settle

HERE = Caller()
ANIMALS = ("aardvark", "badger", "chameleon", "dormouse", "echidna", "ferret", "gecko", "heron", "ibis", "jackal")


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    """A home with memories of several types and a corpus of text and code, fully indexed."""
    folder = tmp_path_factory.mktemp("zoo")
    docs = folder / "docs"
    (docs / "deep" / "er").mkdir(parents=True)
    for animal in ANIMALS:
        (docs / f"{animal}.md").write_text(f"# The {animal}\n\nHow to feed a {animal} at the zoo.\n")
    (docs / "deep" / "er" / "note.md").write_text("# Deep\n\nThe zoo opens at nine.\n")
    (docs / "feed.py").write_text("def feed_the_animals():\n    '''Feed all of the zoo.'''\n    return 9\n")
    root = folder / "home"
    configure(root, corpora=[{"label": "d", "path": str(docs), "code": True}], search={"model_wait_ms": 60_000})
    with opened(root) as home:
        scan_corpora(home)
        for type in ("fact", "decision", "lesson", "preference", "note"):
            gateway.add(home, HERE, content=f"A {type} about the zoo.", type=type, scope="global")
        settle(home)
        yield home


def search(home, query="zoo", **given):
    return reading.search(home, HERE, query=query, **given)


def sources(answer):
    return [one["source"] for one in answer["memories"]]


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "semantic"])
def test_filters_hold_in_every_mode(zoo, mode):
    for kinds in (["memory"], ["document"], ["code"], ["memory", "code"]):
        found = search(zoo, mode=mode, kinds=kinds, max_results=20)["memories"]
        assert found
        assert {one["kind"] for one in found} <= set(kinds)
    found = search(zoo, mode=mode, types=["lesson", "fact"], max_results=20)["memories"]
    assert {one["type"] for one in found} == {"lesson", "fact"}
    assert sources(search(zoo, mode=mode, path_prefix="d/deep/")) == ["d/deep/er/note.md"]
    for prefix in ("d/deep", "/d/deep/er/", " d/deep/er "):
        assert sources(search(zoo, mode=mode, path_prefix=prefix)) == ["d/deep/er/note.md"]
    assert sources(search(zoo, mode=mode, path_prefix="d/dee")) == [], "a prefix is made of whole names"
    assert len(search(zoo, mode=mode, path_prefix=" / ", max_results=20)["memories"]) > 10


@pytest.mark.parametrize("wanted", [1, 3, 20])
def test_max_results_bounds_the_answer_and_order_is_kept(zoo, wanted):
    answer = search(zoo, max_results=wanted)
    assert len(answer["memories"]) == min(wanted, 17)
    relevance = [one["relevance"] for one in answer["memories"]]
    assert relevance == sorted(relevance, reverse=True)
    assert all(0 < one <= 1 for one in relevance)
    ids = [one["id"] for one in answer["memories"]]
    assert len(set(ids)) == len(ids)
    assert ids == [one["id"] for one in search(zoo, max_results=20)["memories"]][:wanted]


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "semantic"])
@pytest.mark.parametrize("wanted", [1, 2, 5, 8])
def test_every_suggestion_brings_something_new(zoo, mode, wanted):
    for query in ("zoo", "how to feed a badger", "the gecko at the zoo"):
        answer = search(zoo, query, mode=mode, max_results=wanted)
        shown = {one["id"] for one in answer["memories"]}
        for text in answer["suggestions"]:
            again = search(zoo, text, mode=mode, max_results=wanted)
            assert {one["id"] for one in again["memories"]} - shown


def test_suggestions_are_made_at_all(zoo):
    assert search(zoo, "how to feed a badger", mode="keyword", max_results=2)["suggestions"]
    assert search(zoo, "how to feed a badger", max_results=20)["suggestions"] == []


def test_explain_tells_legs_filters_and_times(zoo):
    answer = search(zoo, explain=True)
    told = answer["explain"]
    filters = {"statuses": ["in_force"], "kinds": [], "types": [], "path_prefix": None}
    assert told["filter"] == {"scopes": ["global"], **filters}
    assert set(told["candidates"]) == {"lexical", "dense"}
    assert {"lexical", "dense", "embed", "fusion", "excerpts", "suggestions", "total"} <= set(told["milliseconds"])
    first = answer["memories"][0]["explain"]
    assert first["fused"] > answer["memories"][1]["explain"]["fused"]
    assert first["lifts"] == {}
    assert set(first["scores"]) == set(first["ranks"])
    assert "explain" not in search(zoo)


def test_a_query_is_data_and_never_a_syntax_error(zoo):
    for query in ('"', "AND OR NOT", "title:zoo^9 (", "[a TO b]", "-zoo +", "*", "\\", "zoo~", "🎉", "x" * 50_000):
        search(zoo, query)
    for blank in ("", " \n\t"):
        with pytest.raises(InvalidInput):
            search(zoo, blank)


def test_what_was_handed_out_is_counted(home):
    added = gateway.add(home, HERE, content="The zoo opens at nine.", type="fact", scope="global")
    settle(home)
    search(home, mode="keyword")
    recall(home, HERE, task="zoo")
    settle(home)
    assert home.state.recalls.of([added["fact"]])[added["fact"]].amount == 2


# -- honest gaps


@pytest.fixture
def patient(root):
    """A home whose searches wait for a cold model."""
    configure(root, search={"model_wait_ms": 60_000})
    return root


def fill(home):
    for animal in ANIMALS[:4]:
        gateway.add(home, HERE, content=f"The {animal} sleeps all day.", type="fact", scope="global")
    settle(home)


def test_a_missing_model_is_told_and_words_still_find(root, tmp_path):
    with opened(root) as home:
        files = locate()
        shutil.copy(files.tokenizer, tmp_path / "tokenizer.json")
        home.host.close()
        broken = ModelFiles(tmp_path / "none.onnx", tmp_path / "tokenizer.json")
        home.host = ModelHost(threads=1, idle_seconds=60, log=None, files=broken)
        gateway.add(home, HERE, content="The badger sleeps.", type="fact", scope="global")
        with pytest.raises(ModelFilesWrong):
            while catch_up(home):
                pass
        answer = search(home, "badger")
        assert [one["title"] for one in answer["memories"]] == ["The badger sleeps."]
        (told,) = answer["index"]["degraded"]
        assert (told["leg"], told["code"]) == ("dense", "model-files-wrong")
        assert told["next_step"]
        assert answer["index"]["pending"] == 1
        only = search(home, "badger", mode="semantic")
        assert only["memories"] == []
        assert only["index"]["degraded"], "no silent emptiness"
        assert any("not indexed" in reason for reason in ready(home))


@pytest.mark.parametrize(("leg", "said"), [("lexical", "lexical"), ("vectors", "dense")])
def test_a_leg_that_cannot_open_is_told_and_the_other_serves(patient, leg, said):
    root = patient
    with opened(root) as home:
        fill(home)
        path = home.generation.path / leg
    for file in path.rglob("*"):
        if file.is_file():
            file.write_bytes(b"damage")
    with opened(root) as home:
        answer = search(home, "badger sleeps")
        assert [one["leg"] for one in answer["index"]["degraded"]] == [said]
        assert len(answer["memories"]) >= 1
        assert [one["leg"] for one in status(home, HERE)["index"]["degraded"]] == [leg]
        assert numbers(home)["index_degraded"] == 1
        assert any(reason.startswith(leg) for reason in ready(home))
        rebuild(home)
        assert search(home, "badger sleeps")["index"]["degraded"] == []
        assert ready(home) == []


@pytest.mark.parametrize("leg", ["vectors", "lexical"])
def test_entries_deleted_behind_its_back_are_told_by_the_next_search_and_healed(patient, leg):
    """Invariant 7: a count that differs is an error with its remedy, and repairs itself."""
    with opened(patient) as home:
        fill(home)
        before = search(home, "which animal sleeps")["memories"]
        identity, files = index_identity(home), home.files
    other = Generations(patient / "indexes", files).open_current(identity)
    index = getattr(other, leg)
    document, _passage = next(iter(index.ids()))
    index.replace([document], [])
    index.flush() if leg == "vectors" else index.commit()
    other.close()
    with opened(patient) as home:
        first = search(home, "which animal sleeps")
        assert [one["code"] for one in first["index"]["degraded"]] == ["index-mismatch"]
        assert any("repaired" in reason for reason in ready(home))
        settle(home)
        after = search(home, "which animal sleeps")
        assert after["index"]["degraded"] == []
        assert [one["id"] for one in after["memories"]] == [one["id"] for one in before]
        assert ready(home) == []


def test_damaged_content_is_left_out_told_and_not_repaired_for_ever(patient):
    """What cannot be read is named, and its missing vectors do not make every later answer degraded."""
    with opened(patient) as home:
        fill(home)
        victim = search(home, "badger", mode="keyword")["memories"][0]
        digits = bytes.fromhex(victim["address"].removeprefix("sha256:"))
        ((place, *_),) = home.store.chunk_places([digits]).values()
    (pack,) = (patient / "store" / "packs").rglob(f"{place.pack.hex()}.pack")
    raw = bytearray(pack.read_bytes())
    for at in range(place.frame_off + 80, place.frame_off + 120):
        raw[at] ^= 0x55
    pack.chmod(0o600)
    pack.write_bytes(raw)
    for view in ("indexes", "embeddings.db"):
        path = patient / view
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with opened(patient) as home:
        settle(home)
        first = search(home, "which animal sleeps")
        assert {one["code"] for one in first["index"]["degraded"]} == {"index-mismatch"}
        assert victim["id"] not in {one["id"] for one in first["memories"]}
        assert any(victim["address"] in notice for notice in status(home, HERE)["notices"])
        settle(home)
        for _ in range(2):
            answer = search(home, "which animal sleeps")
            assert answer["index"]["degraded"] == []
            assert len(answer["memories"]) == 3
            assert not home.heal
