"""Does a new generation come to be while the old one serves, whoever is killed, and does a damaged one heal?"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import threading
import time
from dataclasses import replace

import pytest
import tantivy

from memoryd.errors import IndexMismatch, IndexProblem
from memoryd.extract.passages import PASSAGE_SCHEMA
from memoryd.index.analysis import ANALYSIS_VERSION
from memoryd.index.marks import IndexIdentity
from memoryd.operations import building, canary, filling, gateway, indexing, reading, rebuild, recover, shadow, steps
from memoryd.operations.check import check
from memoryd.operations.health import status
from memoryd.operations.home import Caller
from memoryd.operations.ingest import Seen, store_documents
from tests.operations.conftest import configure, opened, settle

HERE = Caller()
ANIMALS = ("walrus", "heron", "marten", "beaver", "lynx", "otter")


@pytest.fixture
def beside(monkeypatch):
    """Other processes fill, however little there is."""
    monkeypatch.setattr(building, "BESIDE_FROM", 1)
    monkeypatch.setattr(shadow, "BESIDE_FROM", 1)


@pytest.fixture
def filled(root):
    configure(root, search={"model_wait_ms": 60_000})
    with opened(root) as home:
        store(home, ANIMALS)
        settle(home)
        yield home


def store(home, names):
    seen = (Seen("notes", f"{one}.md".encode(), "global", "document", text(one)) for one in names)
    store_documents(home, seen)


def text(name):
    return f"# About the {name}\n\nThe {name} sleeps by day, marked {name[::-1]}.\n\n## Food\n\nA {name} eats fish.\n".encode()


def found(home, query, mode="hybrid"):
    return [one["source"] for one in reading.search(home, HERE, query=query, mode=mode)["memories"]]


def everything(home):
    return [found(home, f"what does a {one} eat", mode) for one in ANIMALS for mode in ("keyword", "semantic")]


def generations(root):
    return sorted(path.name for path in (root / "indexes").glob("gen-*"))


def build_until(home, phase, seconds=30.0):
    """Advance a build until it is about to do `phase`."""
    build = building.Build(home)
    until = time.monotonic() + seconds
    while build._work.__name__ != phase:
        assert time.monotonic() < until
        build.advance(lambda: False)
    return build


def test_other_processes_fill_the_same_generation_as_this_one(filled, root, beside, monkeypatch):
    before = everything(filled)
    monkeypatch.setattr(filled.host, "embed_passages", lambda *_: pytest.fail("everything is in the cache"))
    report = rebuild.rebuild(filled)
    assert (report["generation"], report["documents"], report["passages"]) == (2, 6, filled.passages.count())
    assert everything(filled) == before
    assert generations(root) == ["gen-2"]
    assert check(filled, read_data=True)["findings"] == []


def test_what_is_not_embedded_yet_is_embedded_before_the_processes_start(root, beside):
    with opened(root) as home:
        store(home, ANIMALS)
        while home.documents.count_changed_after(home.generation.watermark.lexical_seq):
            indexing.step(home, home.generation, lambda: True)
        assert home.cache.count(home.host.identity.fingerprint) == 0
        generation = rebuild.new_generation(home, lambda *_: None, lambda: False)
        assert generation.vectors.count() == home.passages.count() == 6
        assert home.cache.count(home.host.identity.fingerprint) == 6


def test_writes_during_a_build_are_in_the_new_generation(filled, beside):
    build = build_until(filled, "_filled")
    store(filled, ["badger"])
    store_documents(filled, [Seen("notes", b"lynx.md", "global", "document", b"# Gone\n\nOnly a magpie.\n")])
    while build.served is None:
        build.advance(lambda: False)
        time.sleep(0.01)
    build.end()
    assert found(filled, "badger", "keyword") == ["notes/badger.md"]
    assert found(filled, "magpie", "keyword") == ["notes/lynx.md"]
    assert found(filled, "xnyl", "keyword") == []
    assert indexing.verify(filled, filled.generation) == []
    assert filled.generation.vectors.count() == filled.passages.count()


@pytest.mark.parametrize("part", [0, 1])
def test_a_killed_process_leaves_the_old_generation_serving(filled, root, beside, part):
    before = everything(filled)
    build = build_until(filled, "_filled")
    os.kill(build._fillings[part].pid, signal.SIGKILL)
    with pytest.raises(IndexProblem, match="did not come to its end"):
        while build.served is None:
            build.advance(lambda: False)
            time.sleep(0.01)
    build.end()
    assert generations(root) == ["gen-1"]
    assert everything(filled) == before
    assert not any(filling.running() for filling in build._fillings)


@pytest.mark.parametrize("phase", ["_filled", "_follow", "_serve"])
def test_h18_a_daemon_killed_during_a_build_leaves_the_old_generation_serving(root, phase):
    """Case H18: after kill -9 the old one answers, its counts agree, what was half built is gone and no process lives."""
    configure(root, search={"model_wait_ms": 60_000})
    with opened(root) as home:
        store(home, ANIMALS)
        settle(home)
        before = everything(home)
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            building.BESIDE_FROM = 1
            with opened(root) as home:
                build = build_until(home, phase)
                os.write(write_end, b" ".join(str(one.pid).encode() for one in build._fillings))
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(99)
    os.close(write_end)
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    workers = [int(one) for one in os.read(read_end, 100).split()]
    os.close(read_end)
    until = time.monotonic() + 10
    while any(_lives(one) for one in workers):
        assert time.monotonic() < until, "a process outlived its daemon"
        time.sleep(0.02)
    with opened(root) as home:
        assert generations(root) == ["gen-1"]
        assert everything(home) == before
        assert check(home)["findings"] == []


def _lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_two_who_ask_for_a_rebuild_together_get_one_after_the_other(filled, root):
    """Case H18: nobody overwrites the other's half-built set."""
    reports = []
    threads = [threading.Thread(target=lambda: reports.append(rebuild.rebuild(filled))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(report["generation"] for report in reports) == [2, 3]
    assert generations(root) == ["gen-3"]
    assert found(filled, "walrus", "keyword") == ["notes/walrus.md"]


@pytest.mark.parametrize("apart", [False, True], ids=["here", "beside"])
def test_h16_a_rebuild_brings_nothing_back_that_is_gone(root, apart, monkeypatch):
    """Case H16: no hit, no point, neither at once nor after a restart."""
    monkeypatch.setattr(building, "BESIDE_FROM", 0 if apart else 1000)
    monkeypatch.setattr(shadow, "BESIDE_FROM", 0 if apart else 1000)
    with opened(root) as home:
        store(home, ANIMALS)
        settle(home)
        store_documents(home, [Seen("notes", f"{one}.md".encode(), "global", "document", None) for one in ANIMALS])
        assert rebuild.rebuild(home)["passages"] == 0
        assert nothing_left(home)
    with opened(root) as home:
        settle(home)
        assert nothing_left(home)


def nothing_left(home):
    counts = (home.generation.lexical.count(), home.generation.vectors.count())
    return counts == (0, 0) and not any(found(home, one, "keyword") for one in ANIMALS)


def test_h17_an_add_while_another_process_holds_the_writer_is_stored_and_follows(filled):
    """Case H17: what is stored and not yet searchable is said to be pending, and becomes searchable by itself."""
    filled.generation.lexical.rest()
    other = tantivy.Index.open(str(filled.generation.path / "lexical")).writer(15_000_000, 1)
    added = gateway.add(filled, HERE, content="The badger digs at night.", type="fact", scope="global")
    assert added["outcome"] == "added"
    with pytest.raises(IndexProblem, match="Another process writes"):
        settle(filled)
    answer = reading.search(filled, HERE, query="badger", mode="keyword")
    assert (answer["memories"], answer["index"]["pending"]) == ([], 1)
    assert "not indexed yet" in answer["summary"]
    del other
    gc.collect()
    settle(filled)
    assert [one["id"] for one in reading.search(filled, HERE, query="badger", mode="keyword")["memories"]][0] == added[
        "id"
    ]
    assert indexing.verify(filled, filled.generation) == []


# ---- another model, other analysers


def as_if(monkeypatch, **change):
    """The daemon of a later version, or with another model."""

    def other(home):
        model = home.host.identity
        usual = IndexIdentity(model.fingerprint, model.dims, ANALYSIS_VERSION, PASSAGE_SCHEMA)
        return replace(usual, **change)

    for module in (filling, canary, building, recover, steps):
        monkeypatch.setattr(module, "index_identity", other)


def degraded(home, query="walrus", mode="hybrid"):
    answer = reading.search(home, HERE, query=query, mode=mode)
    return {(one["leg"], one["code"]): one["message"] for one in answer["index"]["degraded"]}


@pytest.fixture
def closed(root):
    """A home with a generation that is whole, not open."""
    configure(root, search={"model_wait_ms": 60_000})
    with opened(root) as home:
        store(home, ANIMALS)
        settle(home)
        return root, everything(home)


@pytest.mark.parametrize("change", [{"model": "n" * 64}, {"sparse": True}, {"analysis": 99}, {"passages": 99}], ids=str)
def test_h20_and_case_46_a_generation_made_for_something_else_serves_until_its_successor_stands(
    closed, change, monkeypatch
):
    """H20 and case 46: nothing is dropped, both are named, vectors of two models never meet, and it ends by itself."""
    root, before = closed
    as_if(monkeypatch, **change)
    with opened(root) as home:
        assert home.generation.number == 1
        assert found(home, "walrus", "keyword")[0] == "notes/walrus.md"
        told = degraded(home)
        (message,) = {
            message for (_leg, code), message in told.items() if code == "index-outdated" and "successor" in message
        }
        assert str(home.generation.identity) in message
        assert status(home, HERE)["index"]["degraded"]
        mixed = change.keys() & {"model", "sparse"}
        assert (home.generation.vectors is None) == bool(mixed)
        if mixed:
            assert found(home, "walrus", "semantic") == []
            assert told["dense", "index-outdated"]
        store(home, ["badger"])
        settle(home)
        assert home.generation.number == 2
        assert generations(root) == ["gen-2"]
        assert degraded(home) == {}
        assert indexing.verify(home, home.generation) == []
        assert [found[:1] for found in everything(home)] == [found[:1] for found in before]
        assert found(home, "badger", "keyword")[0] == "notes/badger.md"


def test_new_words_are_found_while_the_successor_is_built(closed, monkeypatch):
    root, _before = closed
    as_if(monkeypatch, analysis=99)
    monkeypatch.setattr(building, "BESIDE_FROM", 1)
    with opened(root) as home:
        assert not indexing.catch_up(home) or home.build is not None
        while home.build is None or home.build._work.__name__ != "_filled":
            indexing.catch_up(home)
        store(home, ["badger"])
        indexing.catch_up(home)
        assert home.generation.number == 1
        assert found(home, "badger", "keyword")[0] == "notes/badger.md"
        until = time.monotonic() + 30
        while home.generation.number == 1:
            assert time.monotonic() < until
            indexing.catch_up(home)
        settle(home)
        assert found(home, "badger", "keyword")[0] == "notes/badger.md"
        assert indexing.verify(home, home.generation) == []


def test_a_build_that_fails_is_told_and_tried_again_later(closed, monkeypatch):
    root, before = closed
    as_if(monkeypatch, analysis=99)
    now = [1000.0]
    with opened(root, clock=lambda: now[0]) as home:
        with monkeypatch.context() as patch:

            def refuse(*_):
                raise IndexMismatch("counts differ")

            patch.setattr(building, "require_whole", refuse)
            settle(home)
        assert (home.generation.number, home.build) == (1, None)
        assert "counts differ" in home.notices[indexing.BUILD_NOTICE]
        assert everything(home) == before
        settle(home)
        assert home.generation.number == 1, "not at once"
        now[0] += indexing.AGAIN_SECONDS
        settle(home)
        assert home.generation.number > 1
        assert indexing.BUILD_NOTICE not in home.notices


# ---- damage


def test_damage_inside_a_vector_file_is_found_by_the_sample_and_healed(closed):
    """The engine opens it without a word: vectors of other texts, all of unit length."""
    root, before = closed
    turn_vectors(root)
    with opened(root) as home:
        assert home.generation.problems == {}
        indexing.catch_up(home)
        settle(home)
        assert home.generation.number == 2
        assert everything(home) == before
        assert canary.look(home, home.generation) == ""


def turn_vectors(root):
    """Give every passage the vector of another one."""
    (file,) = (root / "indexes").glob("gen-*/vectors/segments/*/vector_storage/vectors/chunk_0.mmap")
    size = 384 * 2
    with file.open("r+b") as stream:
        held = stream.read(size * len(ANIMALS))
        stream.seek(0)
        stream.write(held[size:] + held[:size])


def test_a_sample_that_differs_is_told_in_answers_until_it_is_healed(closed):
    root, _before = closed
    turn_vectors(root)
    with opened(root) as home:
        home.renew = canary.look(home, home.generation)
        assert "vectors" in home.renew
        assert "is not whole" in degraded(home)["index", "index-damaged"]
        settle(home)
        assert degraded(home) == {}


@pytest.mark.parametrize("lost", ["", "lexical", "vectors"])
def test_a_generation_that_loses_its_files_while_it_serves_is_made_anew(filled, lost):
    """What is written then waits for the successor, not for the next start."""
    old = filled.generation
    shutil.rmtree(filled.root / "indexes" / "gen-1" / lost)
    store(filled, ["ibex"])
    settle(filled)
    assert filled.generation is not old and not filled.generation.closed and degraded(filled) == {}
    assert [one.name for one in (filled.root / "indexes").glob("gen-*")] == [f"gen-{filled.generation.number}"]
    assert found(filled, "ibex", "keyword") == ["notes/ibex.md"]
    assert "notes/ibex.md" in found(filled, "ibex", "semantic")


def test_a_leg_that_cannot_open_is_made_anew(closed):
    root, before = closed
    shutil.rmtree(root / "indexes" / "gen-1" / "vectors" / "segments")
    with opened(root) as home:
        assert ("dense", "index-damaged") in degraded(home)
        settle(home)
        assert (home.generation.number, home.generation.problems) == (2, {})
        assert everything(home) == before


def test_words_that_are_gone_are_noticed(filled):
    victim = next(iter(filled.documents.changed_after(0, 1)))
    filled.generation.lexical.replace([victim.document_id], [])
    filled.generation.lexical.commit()
    assert "own words" in canary.look(filled, filled.generation, lambda: 0.0)


def test_a_sample_passes_over_what_changed_since(filled):
    assert canary.look(filled, filled.generation) == ""
    store_documents(filled, [Seen("notes", b"lynx.md", "global", "document", b"# Gone\n\nOnly a magpie.\n")])
    assert all(canary.look(filled, filled.generation, lambda: share) == "" for share in (0.0, 0.5, 0.99))
