"""Does a search find the one among many, within its scope and filters, and say when it cannot yet?"""

from __future__ import annotations

import shutil

import pytest

from memoryd.operations import ingest, reading
from memoryd.operations.callers import readable
from memoryd.operations.home import Caller
from memoryd.operations.why import why
from memoryd.records import ScopeRecord
from tests.operations.conftest import index_words, opened, settle

HERE = Caller()
BIG, SMALL = "p-big-00000001", "p-small-00000002"
MANY = 1000


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """A thousand files of one scope that all hold the word, five of another one, and one word that one file holds."""
    root = tmp_path_factory.mktemp("crowd") / "home"
    with opened(root) as home:
        for scope in (BIG, SMALL):
            ingest.register_scope(home, ScopeRecord(id=scope, name=scope, remote=None, root=None))
        seen = [file(BIG, n, f"emu emu emu {n} {'axolotl' if n == 500 else ''}") for n in range(MANY)]
        seen += [file(SMALL, n, f"{'Much is said here before an emu comes. ' * 3}{n}") for n in range(5)]
        ingest.store_documents(home, seen)
        index_words(home)
        yield home


def file(scope, n, text, kind="document"):
    kind = "code" if n % 50 == 7 else kind
    return ingest.Seen("t", f"{scope[2:5]}/{n % 10}/{n:04}.txt".encode(), scope, kind, text.encode())


def ask(home, query, scope, **given):
    return reading.search(home, HERE, query=query, mode="keyword", scope=scope, **given)


def test_a_literal_word_in_file_500_of_1000_is_found(crowd):
    """Case 38."""
    (hit,) = ask(crowd, "axolotl", BIG)["memories"]
    assert hit["source"] == "t/big/0/0500.txt" and "axolotl" in hit["content"]


def test_a_huge_collection_does_not_crowd_out_a_small_one(crowd):
    """Case 43: the scope is inside the query, so five worse hits are found beside a thousand better ones."""
    hits = ask(crowd, "emu", SMALL)["memories"]
    assert len(hits) == 5 and {one["scope"] for one in hits} == {SMALL}
    told = why(crowd, HERE, query="emu", id="t/sma/0/0000.txt", mode="keyword", scope=SMALL)
    assert told["returned"]


@pytest.mark.parametrize("most", [1, 8, 20])
def test_filters_apply_before_anything_is_cut(crowd, most):
    """Case 44: kind and folder narrow what is ranked, not what was ranked; the total is of what is left."""
    assert len(ask(crowd, "emu", BIG, kinds=["code"], max_results=most)["memories"]) == min(most, 20)
    answer = ask(crowd, "emu", BIG, path_prefix="t/big/3/", kinds=["document"], max_results=most)
    assert all(one["source"].startswith("t/big/3/") for one in answer["memories"])
    assert f"{most} of " in answer["summary"]
    both = ask(crowd, "emu", BIG, path_prefix="t/big/7/", kinds=["code"], max_results=20)
    assert {one["kind"] for one in both["memories"]} == {"code"} and len(both["memories"]) == 20
    assert "20 of 20 candidates" in both["summary"]
    assert ask(crowd, "emu", BIG, path_prefix="t/sma/", max_results=most)["memories"] == []
    assert readable(crowd, HERE, BIG) == (BIG,)


def test_the_first_query_after_a_start_is_right_or_says_that_it_is_not(tmp_path):
    """Case 45: never an empty success, whether the model is cold or the indexes are gone."""
    root = tmp_path / "home"
    with opened(root) as home:
        ingest.store_documents(home, [file("global", 1, "The emu runs."), file("global", 2, "A wombat digs.")])
        settle(home)
    with opened(root) as home:
        home.loaded.config = home.config.model_copy(
            update={"search": home.config.search.model_copy(update={"model_wait_ms": 0})}
        )
        first = reading.search(home, HERE, query="emu")
        assert [one["source"] for one in first["memories"]] == ["t/oba/1/0001.txt"]
        assert [one["leg"] for one in first["index"]["degraded"]] == ["dense"], "the model could not answer yet"
        only = reading.search(home, HERE, query="large flightless bird", mode="semantic")
        assert only["memories"] == [] and "not complete" in only["summary"]
    shutil.rmtree(root / "indexes")
    with opened(root) as home:
        empty = reading.search(home, HERE, query="emu", mode="keyword")
        assert empty["memories"] == [] and empty["index"]["pending"] == 2
        assert "not complete" in empty["summary"] and "not indexed yet" in empty["summary"]
        settle(home)
        whole = reading.search(home, HERE, query="emu", mode="keyword")
        assert (len(whole["memories"]), whole["index"]["pending"]) == (1, 0)
