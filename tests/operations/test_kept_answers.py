"""Is an answer that was kept handed out only while it is what a fresh search would say?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memoryd.operations import gateway, ingest, reading
from memoryd.operations.erasure import plan
from memoryd.operations.forget import run as forget
from memoryd.operations.health import numbers, status
from memoryd.operations.home import Caller
from memoryd.operations.reconcile import reconcile_vault
from tests.operations.conftest import configure, index_words, opened

HERE = Caller()
EMU = "The emu runs at noon."


@pytest.fixture
def keyword(root):
    """A home without a semantic leg, so that words alone bring it to rest."""
    with opened(root) as home:
        home.generation.vectors.close()
        home.generation.vectors = None
        yield home


def search(home, query="emu", caller=HERE, **given):
    """What a search says, and whether it was kept; it is then what a search that is not kept says."""
    before = home.kept.hits
    answer = reading.search(home, caller, query=query, **{"mode": "keyword", **given})
    fresh = reading.search(home, caller, query=query, **{"mode": "keyword", **given}, explain=True)
    for one in fresh["memories"]:
        del one["explain"]
    del fresh["explain"]
    assert answer == fresh
    return [one["source"].rpartition("/")[2] for one in answer["memories"]], home.kept.hits > before


def add(home, content, caller=HERE, scope="global"):
    return gateway.add(home, caller, content=content, type="fact", scope=scope)


def confirmed(act, home, **plan):
    return act(home, HERE, **plan, confirm=act(home, HERE, **plan)["confirm"])


def test_the_same_question_is_answered_from_what_was_kept_and_counted(keyword):
    home = keyword
    add(home, EMU)
    index_words(home)
    (first,), kept = search(home)
    assert not kept
    assert search(home) == ([first], True)
    for other in ({"query": "emu "}, {"max_results": 7}, {"kinds": ["memory"]}, {"path_prefix": "vault"}):
        assert search(home, **other)[1] is False
        assert search(home, **other)[1] is True
    told = status(home, HERE)["search"]["answers"]
    assert told == {"kept": 5, "hits": home.kept.hits, "misses": home.kept.misses}
    assert numbers(home)["search_answers_hits"] == told["hits"] == 5
    assert home.noticed.peek(), "what is handed out is counted, kept or not"


def test_the_vector_of_a_query_is_made_once_and_counted(root):
    configure(root, search={"model_wait_ms": 60_000})
    with opened(root) as home:
        for mode in ("hybrid", "semantic", "hybrid"):
            assert reading.search(home, HERE, query="emu", mode=mode)["index"]["degraded"] == []
        told = status(home, HERE)["search"]["query_vectors"]
        assert told == {"kept": 1, "hits": 1, "misses": 1}, "the third answer was kept whole"
        assert numbers(home)["search_query_vectors_hits"] == 1


def test_whatever_is_written_is_seen_at_once(keyword, tmp_path):
    """Add, supersede, archive, a hand edit and a removal by hand: never an answer of before."""
    home = keyword
    first = add(home, EMU)
    index_words(home)
    steps = [
        lambda: add(home, "An emu sleeps at dawn."),
        lambda: confirmed(gateway.supersede, home, id=first["id"], content="The emu runs at six."),
        lambda: edit(home, add(home, "A third emu eats.")["path"], "third", "fourth"),
        lambda: confirmed(
            gateway.archive, home, id=home.memories.listed(None, ("in_force",), (), 1, 0)[0].fields.id, reason="gone"
        ),
    ]
    seen = []
    for step in steps:
        index_words(home)
        search(home)
        seen.append(search(home))
        assert seen[-1][1], "kept until something is written"
        step()
        after = search(home)
        assert not after[1] and not search(home)[1], "nothing is kept while something waits for the indexes"
        index_words(home)
        assert search(home)[1] is False
    assert len({tuple(sorted(names)) for names, _ in seen}) == len(seen)


def edit(home, path, old, new):
    file = home.vault.path / path
    file.write_text(file.read_text().replace(old, new))
    reconcile_vault(home)


def test_a_write_between_the_commit_and_the_indexes_is_not_missed(keyword):
    """A memory that only waits (committed, not in packs) lets nothing be kept and nothing kept be used."""
    home = keyword
    add(home, EMU)
    index_words(home)
    search(home)
    assert search(home)[1]
    with home.store_lane:
        fresh = add(home, "Another emu.")
        assert home.fresh, "it waits for the store"
        assert search(home)[1] is False
    assert fresh["outcome"] == "added"


def test_what_was_erased_is_in_no_answer(keyword):
    home = keyword
    first = add(home, EMU)
    add(home, "The emu sleeps at dawn.")
    index_words(home)
    search(home)
    assert search(home)[1]
    forget(home, plan(home, [f"vault/{first['path']}"], None))
    index_words(home)
    assert EMU not in str(reading.search(home, HERE, query="emu", mode="keyword")["memories"])


def test_two_scopes_never_share(keyword, project):
    home = keyword
    one, other = project("one"), project("other")
    for caller, words in ((one, "My emu."), (other, "Their emu.")):
        gateway.add(home, caller, content=words, type="fact")
    add(home, EMU)
    index_words(home)
    for _ in range(2):
        names = {caller: search(home, caller=caller)[0] for caller in (one, other, HERE)}
        assert [len(found) for found in names.values()] == [2, 2, 1]
        assert len({name for found in names.values() for name in found}) == 3


def test_a_degraded_answer_is_not_kept(home):
    home.host.close()
    add(home, EMU)
    index_words(home)
    for _ in range(3):
        answer = reading.search(home, HERE, query="emu")
        assert answer["index"]["degraded"]
    assert (len(home.kept), home.kept.hits) == (0, 0)


def test_a_commit_that_leaves_every_number_as_it_was_ends_what_was_kept(keyword):
    """A repair writes entries again under the same record sequence."""
    home = keyword
    add(home, EMU)
    index_words(home)
    search(home)
    assert search(home)[1]
    mark = home.generation.watermark
    home.generation.commit_lexical(mark.lexical_seq, mark.vault_commit)
    assert home.generation.watermark == mark
    assert search(home)[1] is False


def test_synonyms_and_a_calibration_count_at_once(keyword):
    home = keyword
    add(home, EMU)
    add(home, "A wombat digs.")
    index_words(home)
    search(home)
    found, kept = search(home)
    assert (len(found), kept) == (1, True)
    (home.root / "synonyms.txt").write_text("emu, wombat")
    found, kept = search(home)
    assert (len(found), kept, search(home)[1]) == (2, False, True)
    told = {"relevance": {home.host.identity.fingerprint: {"words": [5, 0, 0]}}}
    (home.root / "thresholds.json").write_text(json.dumps(told))
    assert search(home)[1] is False
    assert reading.search(home, HERE, query="emu", mode="keyword")["memories"][0]["relevance"] > 0.99


def test_other_settings_give_other_answers(root):
    long = "emu " * 400
    configure(root, search={"excerpt_tokens": 1000})
    with opened(root) as home:
        ingest.store_documents(home, [ingest.Seen("t", b"a", "global", "document", long.encode())])
        index_words(home)
        whole = len(reading.search(home, HERE, query="emu", mode="keyword")["memories"][0]["content"])
    configure(root, search={"excerpt_tokens": 100})
    with opened(root) as home:
        assert len(reading.search(home, HERE, query="emu", mode="keyword")["memories"][0]["content"]) < whole


def test_how_a_cited_place_stands_is_looked_at_each_time(keyword, project):
    home, caller = keyword, project("cited")
    file = Path(caller.directory) / "a.py"
    file.write_text("one = 1\n")
    gateway.add(home, caller, content=EMU, type="fact", citations=["a.py#L1"])
    index_words(home)
    states = []
    for text in ("one = 1\n", "two = 2\n"):
        file.write_text(text)
        answer = reading.search(home, caller, query="emu", mode="keyword")
        states.append(answer["memories"][0]["citations"][0]["state"])
    assert states == ["fresh", "changed"] and home.kept.hits == 1
