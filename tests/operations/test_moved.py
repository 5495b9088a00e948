"""Does a search stay true where what it found is rewritten, moved to another project, or replaced while it is answered?"""

from __future__ import annotations

import os
import threading

import pytest

from memoryd.operations import answers, enclosing, found, reading
from memoryd.operations.brief import recall
from memoryd.operations.home import Caller
from memoryd.operations.ingest import Seen, store_documents
from memoryd.operations.rebuild import rebuild
from tests.operations.conftest import configure, index_words, opened, settle

HERE = Caller()
PUBLIC = "# Plan\n\nThe wombat plan is public.\n"
SECRET = "# Tulip\n\nSECRET: the launch code of the wombat plan is tulip.\n"
BODY = "".join(f"## Part {n}\n\nthe wombat{n} says {'größe hier ' * 60}\n\n" for n in range(6))


def put(home, text, *, name=b"plan.md", scope="global", kind="document", encoding="utf-8"):
    store_documents(home, [Seen("t", name, scope, kind, text.encode(encoding) if isinstance(text, str) else text)])


def exact(home, hit, encoding="utf-8"):
    """Bytes and lines say where the shown words stand."""
    data = home.store.read(hit["address"])
    start, end = hit["bytes"]
    assert 0 <= start < end <= len(data)
    assert data[start:end].decode(encoding, "replace") == hit["content"]
    assert hit["lines"][0] == 1 + data[:start].count(b"\n")


@pytest.fixture
def home(root):
    configure(root, search={"model_wait_ms": 60_000})
    with opened(root) as home:
        yield home


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "semantic"])
def test_what_moved_to_another_project_is_not_shown_by_an_index_that_has_not_heard(home, mode):
    """Invariant 8: the index found it as global, the catalog knows better."""
    put(home, PUBLIC)
    put(home, "# Wombat plan of another page\n\nThe wombat plan again.\n", name=b"other.md")
    settle(home)
    put(home, SECRET, scope="p-x-00000001")
    answer = reading.search(home, HERE, query="what is the wombat plan", mode=mode, max_results=1)
    assert "tulip" not in str(answer).casefold()
    shown = reading.search(home, HERE, query="what is the wombat plan", mode=mode, explain=True)
    assert "tulip" not in str(shown["memories"]).casefold() and "p-x-00000001" not in str(shown["memories"])
    assert "changed" in shown["explain"]["left_out"].values()
    assert "tulip" not in recall(home, HERE, task="what is the wombat plan")["brief"].casefold()


def test_what_became_another_kind_is_not_shown_where_that_is_not_asked_for(home):
    put(home, PUBLIC)
    index_words(home)
    put(home, PUBLIC, kind="code")
    found_now = reading.search(home, HERE, query="wombat plan", mode="keyword", kinds=["document"])["memories"]
    assert found_now == []


@pytest.mark.parametrize(("room", "step"), [(found, "_passages"), (enclosing, "_beside")])
def test_a_file_that_is_rewritten_while_it_is_read_is_shown_as_it_was(home, monkeypatch, room, step):
    """Row, passages and what stands around them are of one moment."""
    put(home, f"# T\n\n{BODY}")
    index_words(home)
    usual, new = getattr(room, step), [f"# T\n\n{'é' * 37} intro\nmore\nmore\n\n{BODY}"]

    def racy(*given):
        if new:
            writer = threading.Thread(target=put, args=(home, new.pop()))
            writer.start()
            writer.join()
        return usual(*given)

    monkeypatch.setattr(room, step, racy)
    hit = reading.search(home, HERE, query="wombat3", mode="keyword")["memories"][0]
    assert not new and "wombat3" in hit["content"]
    exact(home, hit)


def test_a_generation_that_goes_while_it_is_asked_costs_no_leg(home, monkeypatch):
    put(home, PUBLIC)
    settle(home)
    usual, times = answers.rank, []

    def rank(*given, **more):
        times.append(1)
        if len(times) == 1:
            rebuild(home)
        return usual(*given, **more)

    monkeypatch.setattr(answers, "rank", rank)
    answer = reading.search(home, HERE, query="what is the plan of the wombat", mode="semantic")
    assert len(answer["memories"]) == 1 and answer["index"]["degraded"] == [] and len(times) == 2


@pytest.mark.parametrize("tokens", [50, 200, 1500])
def test_bytes_are_exact_where_some_mean_nothing(root, tokens):
    """A damaged byte is shown as U+FFFD and counts as one; a real U+FFFD in the file counts as three."""
    words = b"".join(
        b"gr\xc3\xb6\xc3\x9fe \xff hier \xef\xbf\xbd und da\n\n" * 20 + b"wombat%d\n\n" % n for n in range(4)
    )
    configure(root, search={"excerpt_tokens": tokens})
    with opened(root) as home:
        put(home, b"# T\n\n" + words)
        put(home, "Ann: größe \udcff say number one, numbat1.\n".encode("utf-8", "surrogateescape"), name=b"turn1.txt")
        put(home, "Bob: yes, numbat2.\n", name=b"turn2.txt")
        index_words(home)
        for query in ("wombat2", "numbat2"):
            for hit in reading.search(home, HERE, query=query, mode="keyword")["memories"]:
                exact(home, hit)
                for side in ("before", "after"):
                    if side in hit:
                        exact(home, hit[side])


def test_turns_beside_a_hit_are_whole_in_any_encoding(root):
    configure(root, search={"excerpt_tokens": 1500})
    with opened(root) as home:
        for number, words in (
            (1, "número 1 señor niño año ñandú fin"),
            (2, "sí, numbat"),
            (3, "número 3 señor ñandú fin"),
        ):
            put(home, f"Ann: {words}", name=b"turn%d.txt" % number, encoding="latin-1")
        index_words(home)
        (hit,) = reading.search(home, HERE, query="numbat", mode="keyword")["memories"]
        assert hit["before"]["content"].endswith("fin") and hit["after"]["content"].endswith("fin")


def test_a_pipe_in_place_of_a_settings_file_keeps_no_search_waiting(home):
    put(home, PUBLIC)
    index_words(home)
    for name in ("thresholds.json", "synonyms.txt"):
        os.mkfifo(home.root / name)
    assert len(reading.search(home, HERE, query="wombat plan", mode="keyword")["memories"]) == 1
    assert "it is no file" in home.notices["thresholds.json"] and "it is no file" in home.notices["synonyms.txt"]
