"""Is the reason told why an entry was returned, or was not?"""

from __future__ import annotations

import pytest

from memoryd.errors import InvalidInput
from memoryd.operations import gateway, reading
from memoryd.operations.home import Caller
from memoryd.operations.ingest import Seen, store_documents
from memoryd.operations.why import why
from tests.operations.conftest import configure, index_words, opened, settle

HERE = Caller()


def keep(home, **texts):
    """Documents of the source `t`, indexed by words."""
    seen = [Seen("t", name.encode(), "global", "document", text.encode()) for name, text in texts.items()]
    store_documents(home, seen)
    index_words(home)


def ask(home, query, id, caller=HERE, **given):
    return why(home, caller, query=query, id=id, **{"mode": "keyword", **given})


def reason(home, query, id, caller=HERE, **given):
    told = ask(home, query, id, caller, **given)
    assert told["returned"] is (told["reason"] == "returned")
    assert told["message"] and (told["next"] or told["returned"])
    return told["reason"]


def retire(home, id, **plan):
    act = gateway.archive if "reason" in plan else gateway.supersede
    return act(home, HERE, id=id, **plan, confirm=act(home, HERE, id=id, **plan)["confirm"])


def test_what_is_returned_has_its_place_and_ranks(home):
    keep(home, one="emu emu emu", two="The emu runs away from here.")
    told = ask(home, "emu", "t/two")
    assert (told["reason"], told["place"]) == ("returned", 2)
    assert told["legs"] == {"lexical": {"ran": True, "indexed": True, "rank": 2, "score": pytest.approx(0, abs=9)}}
    assert told["explain"]["ranks"]["lexical"] == 2 and told["depth"]["lexical"] == 200
    shown = reading.search(home, HERE, query="emu", mode="keyword", explain=True)["memories"]
    assert [one["source"] for one in shown] == ["t/one", "t/two"]
    assert shown[1]["explain"] == told["explain"]


def test_what_is_unknown_and_what_lies_outside_the_scopes_read_the_same(home, project):
    mine, other = project("mine"), project("other")
    theirs = gateway.add(home, other, content="The emu is theirs.", type="fact")
    index_words(home)
    missing = "0" * 64
    told, unknown = ask(home, "emu", theirs["id"], mine), ask(home, "emu", missing, mine)
    assert told["reason"] == "unknown"
    assert str(told).replace(theirs["id"], missing) == str(unknown)
    assert reason(home, "emu", f"vault/{theirs['path']}", mine) == "unknown"
    assert reason(home, "emu", theirs["address"] if "address" in theirs else "sha256:" + missing, mine) == "unknown"
    assert reason(home, "emu", theirs["id"], other) == "returned"
    assert reason(home, "emu", theirs["id"], mine, scope=theirs["scope"]) == "returned"


def test_filters_are_named(home):
    memory = gateway.add(home, HERE, content="The emu runs.", type="fact", scope="global")["id"]
    keep(home, one="An emu.")
    for given in ({"kinds": ["code"]}, {"types": ["lesson"]}, {"path_prefix": "t/"}):
        told = ask(home, "emu", memory, **given)
        assert (told["reason"], next(iter(given)) in told["next"]) == ("filter", True)
    assert reason(home, "emu", "t/one", types=["fact"]) == "filter"
    assert reason(home, "emu", memory, kinds=["memory"], types=["fact"], path_prefix="vault/") == "returned"


def test_retired_memories_name_their_successor_or_why(home):
    first = gateway.add(home, HERE, content="The emu runs at noon.", type="fact", scope="global")["id"]
    new = retire(home, first, content="The emu runs at six.")["id"]
    last = gateway.add(home, HERE, content="The emu sleeps at dawn.", type="fact", scope="global")["id"]
    index_words(home)
    told = ask(home, "emu", first)
    assert (told["reason"], told["successor"]["id"]) == ("superseded", new)
    retire(home, last, reason="it flew away")
    told = ask(home, "emu", last)
    assert told["reason"] == "archived" and "it flew away" in told["message"]


def test_what_changed_or_went_is_told(home):
    keep(home, one="The old emu.")
    old = home.documents.by_path("t", b"one").address
    keep(home, one="The new emu.")
    assert reason(home, "emu", old) == "former"
    store_documents(home, [Seen("t", b"one", "global", "document", None)])
    told = ask(home, "emu", "t/one")
    assert told["reason"] == "unknown" and "gone" in told["message"]


def test_no_text_and_not_indexed_yet(home):
    store_documents(
        home, [Seen("t", b"b", "global", "document", b"\0\1\2"), Seen("t", b"c", "global", "document", b"emu")]
    )
    told = ask(home, "emu", "t/b")
    assert told["reason"] == "no-text" and "binary" in told["message"]
    assert reason(home, "emu", "t/c") == "pending"
    index_words(home)
    assert reason(home, "emu", "t/c") == "returned"


def test_no_word_of_the_query(home):
    keep(home, one="The emu runs.", two="A wombat.")
    assert reason(home, "emu", "t/two") == "no-words"


def test_the_depth_of_candidates(root):
    configure(root, search={"candidates": 20})
    with opened(root) as home:
        keep(home, **{f"n{n:02}": "emu " * (40 - n) + "filler " * n for n in range(30)})
        worst = max(range(30), key=lambda n: ask(home, "emu", f"t/n{n:02}")["legs"]["lexical"]["rank"])
        told = ask(home, "emu", f"t/n{worst:02}", max_results=20)
        assert (told["reason"], told["depth"]["lexical"], told["legs"]["lexical"]["rank"]) == ("candidates", 20, 30)
        assert told["words"] == ["emu"]


def test_duplicates_and_the_number_of_results(home):
    keep(home, a="The emu runs.", b="The  emu runs.\n", c="An emu that runs, and so on and on and on.")
    first, second = sorted("ab", key=lambda name: ask(home, "emu runs", f"t/{name}")["place"])
    told = ask(home, "emu runs", f"t/{second}")
    assert (told["reason"], told["of"]) == ("duplicate", f"t/{first}")
    assert reason(home, "emu runs", "t/c", max_results=2) == "returned", "what only repeats takes no place"
    assert reason(home, "emu runs", "t/c", max_results=1) == "max-results"


def test_more_results_are_advised_only_where_so_many_can_be_asked_for(home):
    keep(home, **{f"n{n:02}": "emu " * (40 - n) + "filler " * n for n in range(22)})
    told = sorted((ask(home, "emu", f"t/n{n:02}", max_results=1) for n in range(22)), key=lambda one: one["place"])
    assert told[19]["reason"] == told[20]["reason"] == "max-results"
    assert "`max_results`" in told[19]["next"]
    assert "`max_results`" not in told[20]["next"] and "with words that stand in" in told[20]["next"]


@pytest.mark.parametrize("most", [1, 3, 8])
@pytest.mark.parametrize("query", ["emu", "emu 3", "filler words about nothing"])
def test_why_and_the_search_itself_say_the_same_of_every_document(home, most, query):
    texts = {f"n{n}": f"emu number {n % 5} " + "filler words about nothing " * (n % 4) for n in range(14)}
    keep(home, **texts)
    shown = [one["id"] for one in reading.search(home, HERE, query=query, mode="keyword", max_results=most)["memories"]]
    for name in texts:
        told = ask(home, query, f"t/{name}", max_results=most)
        assert told["returned"] is (told["id"] in shown), told
        assert (told["reason"] == "returned") is told["returned"]


def test_what_is_not_relevant_enough_is_told_with_its_relevance(root):
    configure(root, search={"model_wait_ms": 60_000})
    with opened(root) as home:
        keep(home, one="The emu runs at noon.", two="A wombat digs at night.")
        settle(home)
        query = "quantum chromodynamics on a lattice with staggered fermions"
        told = ask(home, query, "t/one", mode="hybrid")
        assert (told["reason"], told["returned"]) == ("floor", False)
        assert told["legs"]["dense"]["rank"] in (1, 2) and 0 <= told["relevance"] < 0.5
        assert "keyword" not in told["next"], "no word of the query stands in it"
        assert reading.search(home, HERE, query=query)["memories"] == []
        assert reason(home, "where does the emu run", "t/one", mode="hybrid") == "returned"


def test_a_search_without_any_leg_says_so(home):
    keep(home, one="The emu runs.")
    home.host.close()
    assert reason(home, "emu", "t/one", mode="semantic") == "degraded"
    told = ask(home, "emu", "t/one", mode="hybrid")
    assert (told["reason"], told["legs"]["dense"]["ran"]) == ("returned", False)


def test_the_questions_own_faults_are_errors(home):
    with pytest.raises(InvalidInput):
        ask(home, " ", "t/one")
    with pytest.raises(InvalidInput):
        ask(home, "emu", "t/one", path_prefix="nosource/")
