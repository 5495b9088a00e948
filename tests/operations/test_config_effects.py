"""Does every configuration key change what memoryd does? One test a key; a new key without one fails here."""

from __future__ import annotations

import ast
import hashlib
import json
import logging
import re
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from memoryd.config import known_keys, parse_config
from memoryd.errors import ConfigError, ContentTooLarge, ExtraMissing, GitTimeout, MemorydError, RemoteFailed
from memoryd.operations import artifacts, gateway, health, reading, review, vaultcare
from memoryd.operations.brief import recall
from memoryd.operations.collect import COLLECTED, gc
from memoryd.operations.home import Caller, open_home, timestamp
from memoryd.operations.ingest import Seen, commit_snapshot, store_documents
from memoryd.operations.kept import listed
from memoryd.operations.recover import open_generation
from memoryd.operations.scan import scan_corpora
from memoryd.records import SnapshotRecord
from memoryd.runtime import RuntimePaths
from memoryd.server.lanes import JobDesk
from memoryd.server.tools import MemoryToolbox
from memoryd.store.format import parse_format
from memoryd.store.merkle import build
from tests.operations.conftest import configure, git, opened, settle

HERE = Caller()
SECTIONS = {
    "corpora",
    "search",
    "model",
    "vector",
    "health",
    "vault",
    "store",
    "retention",
    "gc",
    "review",
    "scopes",
    "limits",
}


def add(home, text, **other):
    return gateway.add(home, HERE, content=text, type="fact", scope="global", **other)


def wait_for(condition, seconds=30.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


def docs(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_md", ".md").replace("_py", ".py").replace("_txt", ".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def found(home, query="aardvark", **other):
    other.setdefault("mode", "keyword")
    return [one["source"] for one in reading.search(home, HERE, query=query, **other)["memories"]]


def scanned(root, corpus, caller=HERE, query="aardvark", **settings):
    configure(root, corpora=[corpus], **settings)
    with opened(root) as home:
        report = scan_corpora(home)["corpora"][corpus["label"]]
        settle(home)
        hits = reading.search(home, caller, query=query, mode="keyword")["memories"]
        return report, sorted(one["source"] for one in hits)


# -- corpora


def test_corpora_label_and_path(root, tmp_path):
    """corpora.label, corpora.path"""
    one, two = docs(tmp_path / "one", a_md="aardvark one"), docs(tmp_path / "two", b_md="aardvark two")
    assert scanned(root, {"label": "first", "path": str(one)})[1] == ["first/a.md"]
    with opened(root) as home:
        assert "first/a.md" in found(home)
    assert scanned(root, {"label": "second", "path": str(two)})[1][-1] == "second/b.md"


def test_corpora_include_and_exclude(root, tmp_path):
    """corpora.include, corpora.exclude"""
    folder = docs(tmp_path / "d", a_md="aardvark", b_txt="aardvark text", drafts__c_md="aardvark draft")
    assert scanned(root, {"label": "d", "path": str(folder)})[1] == ["d/a.md", "d/drafts/c.md"]
    chosen = {"label": "d", "path": str(folder), "include": ["**/*.txt"]}
    assert scanned(root, chosen)[1] == ["d/b.txt"]
    chosen = {"label": "d", "path": str(folder), "exclude": ["drafts/**"]}
    assert scanned(root, chosen)[1] == ["d/a.md"]


def test_corpora_code(root, tmp_path):
    """corpora.code"""
    folder = docs(tmp_path / "d", a_md="aardvark", b_py="def aardvark():\n    return 1\n")
    assert scanned(root, {"label": "d", "path": str(folder)})[1] == ["d/a.md"]
    assert scanned(root, {"label": "d", "path": str(folder), "code": True})[1] == ["d/a.md", "d/b.py"]


def test_corpora_scope(root, tmp_path, project):
    """corpora.scope"""
    folder = docs(tmp_path / "d", a_md="aardvark")
    caller = project("app")
    with opened(root) as home:
        scope = gateway.add(home, caller, content="A first memory.", type="fact")["scope"]
    corpus = {"label": "d", "path": str(folder), "scope": scope}
    assert scanned(root, corpus)[1] == []
    with opened(root) as home:
        hits = reading.search(home, caller, query="aardvark", mode="keyword")["memories"]
        assert [one["source"] for one in hits] == ["d/a.md"]


# -- search


def test_search_model_wait_ms(root):
    """search.model_wait_ms: 0 does not wait for a cold model, a minute does."""
    configure(root, search={"model_wait_ms": 0})
    with opened(root) as home:
        add(home, "The aardvark sleeps.")
        settle(home)
        (told,) = reading.search(home, HERE, query="what does the animal do at night")["index"]["degraded"]
        assert (told["leg"], told["code"]) == ("dense", "model-unavailable")
    configure(root, search={"model_wait_ms": 60_000})
    with opened(root) as home:
        answer = reading.search(home, HERE, query="what does the animal do at night")
        assert answer["index"]["degraded"] == []
        assert len(answer["memories"]) == 1


def test_search_candidates_and_excerpt_tokens(root, tmp_path):
    """search.candidates, search.excerpt_tokens"""
    texts = {f"n{number}_md": f"# Note {number}\n\n" + "The aardvark digs on. " * 40 for number in range(30)}
    corpus = {"label": "d", "path": str(docs(tmp_path / "d", **texts))}
    seen = {}
    for candidates, tokens in ((20, 50), (1000, 8000)):
        configure(root, corpora=[corpus], search={"candidates": candidates, "excerpt_tokens": tokens})
        with opened(root) as home:
            scan_corpora(home)
            settle(home)
            answer = reading.search(home, HERE, query="aardvark", mode="keyword", explain=True)
            size = sum(len(one["content"].encode()) for one in answer["memories"])
            seen[candidates] = answer["explain"]["candidates"]["lexical"], size
    assert seen[20][0] == 20
    assert seen[1000][0] > 20
    assert seen[20][1] <= 50 * 4 < seen[1000][1]


def test_search_dense_candidates(root, tmp_path):
    """search.dense_candidates: beside words that find no turns of a conversation"""
    notes = {f"n{number}_md": f"The aardvark digs hole {number}." for number in range(40)}
    turns = {f"chat_{number:02}_md": f"Ann: the wombat sleeps in hole {number}." for number in range(40)}
    corpus = {"label": "d", "path": str(docs(tmp_path / "d", **notes, **turns))}
    waits = {"model_wait_ms": 60_000}
    for asked in (20, 30):
        configure(root, corpora=[corpus], search={"candidates": 35, "dense_candidates": asked, **waits})
        with opened(root) as home:
            scan_corpora(home)
            settle(home)

            def found(query, mode, home=home):
                answer = reading.search(home, HERE, query=query, mode=mode, explain=True)
                return answer["explain"]["candidates"]["dense"]

            assert found("where does the aardvark dig?", "hybrid") == asked
            assert found("where does the wombat sleep?", "hybrid") == 35, "a turn counts by those around it, too"
            assert found("where does the aardvark dig?", "semantic") == 35


# -- model


def test_model_threads_and_idle_seconds(root):
    """model.threads: of the child; model.idle_seconds: it ends when nobody asks."""
    configure(root, model={"threads": 3, "idle_seconds": 1})
    with opened(root) as home:
        home.host.embed_query("hello", 60)
        three = psutil.Process(home.host.status()["pid"]).num_threads()
        until = time.monotonic() + 30
        while home.host.status()["pid"] is not None:
            assert time.monotonic() < until
            time.sleep(0.05)
    configure(root, model={"threads": 1})
    with opened(root) as home:
        home.host.embed_query("hello", 60)
        assert psutil.Process(home.host.status()["pid"]).num_threads() == three - 2
        time.sleep(1.5)
        assert home.host.status()["pid"] is not None


# -- health


def test_health_listen(root):
    """health.listen: what the daemon's toolbox hands to the server."""
    for listen in ("127.0.0.1:7341", None):
        configure(root, health={"listen": listen})
        with Toolbox(root) as box:
            assert box.listen == listen


# -- vault


@pytest.mark.parametrize("relative", [False, True])
def test_vault_path(root, tmp_path, relative):
    """vault.path: absolute, or relative to the configuration file."""
    path, place = ("mine", root / "mine") if relative else (str(tmp_path / "memories"), tmp_path / "memories")
    configure(root, vault={"path": path})
    with opened(root) as home:
        shown = add(home, f"Kept in {path}.")
        assert (place / shown["path"]).is_file()
    assert not (root / "vault").exists()


def test_vault_network_timeout_seconds(root, tmp_path):
    """vault.network_timeout_seconds: how long a sync waits for a silent remote."""
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nsleep 60\n")
    silent.chmod(0o755)
    configure(root, vault={"network_timeout_seconds": 1, "git_timeout_seconds": 30})
    with opened(root) as home:
        add(home, "One.")
        git("config", "core.sshCommand", silent, cwd=home.vault.path)
        git("remote", "add", "origin", "ssh://host.invalid/vault.git", cwd=home.vault.path)
        began = time.monotonic()
        with pytest.raises(RemoteFailed, match="within 1 s"):
            vaultcare.sync(home)
        assert time.monotonic() - began < 25


def test_vault_git_timeout_seconds(root):
    """vault.git_timeout_seconds: a slow hook is cut off, or waited for."""
    for seconds in (1, 30):
        configure(root, vault={"git_timeout_seconds": seconds})
        with opened(root) as home:
            hook = home.vault.path / ".git" / "hooks" / "pre-commit"
            hook.parent.mkdir(exist_ok=True)
            hook.write_text("#!/bin/sh\nsleep 2\n")
            hook.chmod(0o755)
            if seconds == 1:
                with pytest.raises(GitTimeout):
                    add(home, "Slow.")
            else:
                assert add(home, "Slow.")["outcome"] == "added"


@pytest.mark.parametrize(("seconds", "seen"), [(0.1, True), (3600.0, False)])
def test_vault_poll_seconds(root, seconds, seen):
    """vault.poll_seconds: how soon the daemon's duty sees an edit by hand."""
    configure(root, vault={"poll_seconds": seconds})
    with Toolbox(root) as box:
        (duty,) = (duty for duty in box.duties() if duty.name == "vault")
        stopping = threading.Event()
        looks: list[float] = []
        watched = replace(duty, body=lambda stop: looks.append(0.0) or duty.body(stop))
        thread = threading.Thread(target=watched.keep, args=(stopping,))
        thread.start()
        try:
            wait_for(lambda: looks)
            time.sleep(0.2)
            (box.home.vault.path / "n.md").write_text("By hand.")
            if seen:
                wait_for(lambda: box.home.documents.live_count("vault"))
            else:
                time.sleep(0.8)
                assert (len(looks), box.home.documents.live_count("vault")) == (1, 0)
        finally:
            stopping.set()
            watched.wake.set()
            thread.join()


# -- store, limits, log


def test_store_chunk_sizes(root):
    """store.chunk_min, store.chunk_avg, store.chunk_max: of a new store."""
    configure(root, store={"chunk_min": 256, "chunk_avg": 1024, "chunk_max": 4096})
    with opened(root) as home:
        shape = parse_format((root / "FORMAT").read_bytes(), "FORMAT")
        assert (shape.chunk_min, shape.chunk_avg, shape.chunk_max) == (256, 1024, 4096)
        with home.store_lane:
            group = home.store.group()
            group.add(hashlib.shake_128(b"x").digest(1 << 16))
            group.commit()
        assert home.store.stats().chunks > 16


def test_store_chunker(root, monkeypatch):
    """store.chunker: of a new store; `rabin` needs its extra."""
    configure(root, store={"chunker": "rabin"})
    monkeypatch.setitem(sys.modules, "rabin", None)
    with pytest.raises(ExtraMissing, match="pyrabin"), opened(root):
        pass
    configure(root, store={"chunker": "fastcdc2020"})
    with opened(root):
        assert parse_format((root / "FORMAT").read_bytes(), "FORMAT").chunker == "fastcdc2020"


def left_of_history(root, days_between: float, **retention) -> tuple[int, int]:
    """(states of one document, snapshots of one label) that a collection leaves of six, taken so many days apart."""
    now = [1_800_000_000.0]
    configure(root, retention=retention)
    with opened(root, clock=lambda: now[0]) as home:
        tree, nodes = build([])
        for number in range(6):
            store_documents(home, [Seen("docs", b"a.md", "global", "document", f"state {number}".encode())])
            with home.store_lane:
                group = home.store.group()
                group.nodes(nodes)
                commit_snapshot(home, group, SnapshotRecord("label", "docs", "global", tree.hex(), timestamp(home)))
            now[0] += days_between * 86_400
        gc(home)
        (row,) = home.documents.current("docs")
        return len(home.documents.history(row.document_id)), len(home.snapshots.all(None))


@pytest.mark.parametrize(
    ("retention", "left"),
    [
        ({"history_revisions": 0, "history_days": 0, "snapshots": 1, "snapshot_days": 0}, (1, 1)),
        ({"history_revisions": 2, "history_days": 0, "snapshots": 4, "snapshot_days": 0}, (3, 4)),
        ({"history_revisions": 0, "history_days": 15, "snapshots": 1, "snapshot_days": 35}, (2, 3)),
        ({"history_revisions": 9, "history_days": 0, "snapshots": 9, "snapshot_days": 0}, (6, 6)),
    ],
)
def test_retention(root, retention, left):
    """retention.history_revisions, retention.history_days, retention.snapshots, retention.snapshot_days"""
    assert left_of_history(root, 10, **retention) == left


@pytest.mark.parametrize(("hours", "gone"), [(5, True), (50, False)])
def test_retention_grace_hours(root, hours, gone):
    """retention.grace_hours: what nothing needs lies that long before its bytes go."""
    now = [1_800_000_000.0]
    configure(root, retention={"history_revisions": 0, "history_days": 0, "grace_hours": hours})
    with opened(root, clock=lambda: now[0]) as home:
        for words in (b"first", b"second"):
            store_documents(home, [Seen("docs", b"a.md", "global", "document", words)])
        gc(home)
        now[0] += 20 * 3600
        assert gc(home)["dropped"]["contents"] == (1 if gone else 0)


@pytest.mark.parametrize("hours", [0, 1])
def test_gc_every_hours(root, hours):
    """gc.every_hours: the daemon collects by itself, as a job; 0 never."""
    configure(root, gc={"every_hours": hours})
    with Toolbox(root) as box:
        kinds, store = box.jobs()
        desk = JobDesk(kinds, store)
        box.desk = desk
        duties = [duty for duty in box.duties() if duty.name == "gc"]
        assert len(duties) == (1 if hours else 0)
        if duties:
            duties[0].body(lambda: False)
            assert desk.open == 0, "the hour begins with the first start"
            with box.home.catalog.write() as tx:
                box.home.catalog.set_meta(tx, COLLECTED, str(time.time() - 3700))
            duties[0].body(lambda: False)
            assert [job["kind"] for job in desk.listed()] == ["gc"]


@pytest.mark.parametrize(("days", "shown"), [(9, 1), (11, 0)])
def test_review_stale_days(root, days, shown):
    """review.stale_days"""
    now = [1_800_000_000.0]
    configure(root, review={"stale_days": days})
    with opened(root, clock=lambda: now[0]) as home:
        reading.get(home, HERE, id=add(home, "The aardvark sleeps.")["id"])
        now[0] += 10 * 86_400
        assert review.review(home, HERE)["sections"]["stale"]["count"] == shown


@pytest.mark.parametrize(("days", "shown"), [(9, 1), (11, 0)])
def test_review_unrecalled_days(root, days, shown):
    """review.unrecalled_days"""
    now = [1_800_000_000.0]
    configure(root, review={"unrecalled_days": days})
    with opened(root, clock=lambda: now[0]) as home:
        home.state.counting_since(now[0])
        add(home, "The aardvark sleeps.")
        now[0] += 10 * 86_400
        assert review.review(home, HERE)["sections"]["never_recalled"]["count"] == shown


@pytest.mark.parametrize(("words", "shown"), [(20, 1), (30, 0)])
def test_review_verbose_words(root, words, shown):
    """review.verbose_words"""
    configure(root, review={"verbose_words": words})
    with opened(root) as home:
        add(home, "aardvark " * 25)
        assert review.review(home, HERE)["sections"]["verbose"]["count"] == shown


def test_limits(root, tmp_path):
    """limits.memory_bytes, limits.file_bytes"""
    folder = docs(tmp_path / "d", small_md="aardvark", large_md="aardvark " * 300)
    corpus = {"label": "d", "path": str(folder)}
    report, sources = scanned(root, corpus, limits={"memory_bytes": 1024, "file_bytes": 1024})
    assert sources == ["d/small.md"]
    assert [one["code"] for one in report["problems"]] == ["corpus-too-large"]
    with opened(root) as home, pytest.raises(ContentTooLarge):
        add(home, "x" * 1025)
    assert scanned(root, corpus)[1] == ["d/large.md", "d/small.md"]
    with opened(root) as home:
        assert add(home, "x" * 1025)["outcome"] == "added"


@pytest.mark.parametrize("private", [[], ["{scope}"], ["*"], ["p-another-00000000"]])
def test_scopes_private(root, project, private):
    """scopes.private: a named scope of another project is then like one that does not exist, for reads and writes."""
    inside = project("inside")
    with opened(root) as home:
        scope = gateway.add(home, inside, content="The aardvark is private.", type="fact")["scope"]
        settle(home)
    private = [one.format(scope=scope) for one in private]
    configure(root, scopes={"private": private})
    calls = (
        lambda home, who, name: reading.search(home, who, query="aardvark", mode="keyword", scope=name),
        lambda home, who, name: recall(home, who, task="aardvark", scope=name),
        lambda home, who, name: reading.get(home, who, source="vault/none", scope=name),
        lambda home, who, name: gateway.add(home, who, content="Mine.", type="note", scope=name),
        lambda home, who, name: artifacts.add_given(home, who, text="log", scope=name),
        lambda home, who, name: listed(home, who, scope=name),
        lambda home, who, name: review.review(home, who, scope=name),
    )
    with opened(root) as home:
        is_closed = bool({scope, "*"} & set(private))
        for call in calls:
            for stranger in (HERE, project(f"stranger-{calls.index(call)}")):
                answers = [answered(call, home, stranger, name) for name in (scope, "p-inside-00000000")]
                assert (answers[0] == answers[1].replace("p-inside-00000000", scope)) is is_closed
                assert "does not exist" in answers[1]
        assert found(home, scope="global") == []
        assert len(reading.search(home, inside, query="aardvark", mode="keyword")["memories"]) == 1
        assert len(reading.search(home, inside, query="aardvark", mode="keyword", scope=scope)["memories"]) == 1


def answered(call, home, who, name):
    try:
        return str(call(home, who, name))
    except MemorydError as error:
        return str(error.to_dict())


def test_log_level(root):
    """log_level: of the daemon's log."""
    logger = logging.getLogger()
    before = logger.level
    try:
        for level in ("DEBUG", "ERROR"):
            configure(root, log_level=level)
            with Toolbox(root):
                assert logger.level == getattr(logging, level)
    finally:
        logger.setLevel(before)


def test_vector_url_needs_its_extra(root, monkeypatch):
    """vector.url: with it vectors lie on a server, which an optional part of memoryd asks."""
    configure(root, vector={"url": "http://127.0.0.1:1"})
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    monkeypatch.delitem(sys.modules, "memoryd.index.qdrant", raising=False)
    with pytest.raises(ExtraMissing, match="qdrant-client"), opened(root):
        pass


@pytest.fixture
def standin():
    pytest.importorskip("qdrant_client")  # Reason: an optional part
    from tests.standin import StandIn

    server = StandIn()
    yield server
    server.stop()


def collections(standin):
    return [one.name for one in standin.client.get_collections().collections]


@pytest.mark.extras
def test_vector_collections(root, standin):
    """vector.collection_prefix, vector.shards, vector.replication_factor: of the collections that are made."""
    configure(root, vector={"url": standin.url, "collection_prefix": "team", "shards": 4, "replication_factor": 3})
    with opened(root) as home:
        assert home.generation.vectors.count() == 0
    (name,) = collections(standin)
    assert name.startswith("team-") and name.endswith("-1")
    made = standin.made[name]
    assert (made["shard_number"], made["replication_factor"], made["write_consistency_factor"]) == (4, 3, 2)


@pytest.mark.extras
@pytest.mark.parametrize("named", ["api_key_file", "api_key_env"])
def test_vector_keys(root, standin, monkeypatch, named):
    """vector.api_key_file (relative to the configuration), vector.api_key_env: where the server's key is."""
    standin.key = "the key"
    configure(root, vector={"url": standin.url, named: "HERE"})
    with opened(root) as home:
        home.generation.mismatches()
        assert home.generation.problems["vectors"].code == "vector-server-refused"
        assert "HERE" in home.generation.problems["vectors"].message
    if named == "api_key_file":
        (root / "HERE").write_text("the key\n")
    environment = {"HERE": "the key"} if named == "api_key_env" else {}
    home = open_home(root, environment=environment)
    try:
        open_generation(home)
        assert home.generation.mismatches() == {} == home.generation.problems
        shown = f"{health.status(home, HERE)} {home.config} {home.loaded.config.model_dump_json()}"
        assert "the key" not in shown
    finally:
        home.close()


def test_vector_api_key_in_clear():
    """vector.api_key_in_clear: without it a key goes only through TLS or stays on this machine."""
    for url in ("https://q.example", "http://127.0.0.1:6333", "http://[::1]:6333", "http://localhost:6333"):
        parse_config(json.dumps({"vector": {"url": url, "api_key_env": "KEY"}}).encode(), "c")
    for url in (
        "http://q.example",
        "http://10.0.0.1:6333",
        "http://127.0.0.1.example:6333",
        "http://localhost.example",
    ):
        settings = {"url": url, "api_key_env": "KEY"}
        with pytest.raises(ConfigError, match="in the clear"):
            parse_config(json.dumps({"vector": settings}).encode(), "c")
        parse_config(json.dumps({"vector": {"url": url}}).encode(), "c")
        parse_config(json.dumps({"vector": settings | {"api_key_in_clear": True}}).encode(), "c")


@pytest.mark.extras
def test_vector_timeout(root, standin):
    """vector.timeout_seconds: a server that says nothing is waited for so long."""
    done = threading.Event()
    standin.trouble = lambda *_: done.wait(30) and None
    configure(root, vector={"url": standin.url, "timeout_seconds": 1})
    try:
        with opened(root) as home:
            home.generation.mismatches()
            assert home.generation.problems["vectors"].code == "vector-server-away"
            assert "timed out" in home.generation.problems["vectors"].message
    finally:
        done.set()


class Toolbox:
    """The daemon's toolbox over one home, opened and closed as the daemon does."""

    def __init__(self, root):
        self.box = MemoryToolbox(RuntimePaths(str(root)))

    def __enter__(self):
        self.box.open()
        return self.box

    def __exit__(self, *_):
        self.box.close()


def test_model_warm_up(root):
    """model.warm_up"""
    configure(root, model={"warm_up": True})
    with Toolbox(root) as box:
        wait_for(lambda: box.home.host.status()["state"] == "ready")


ELSEWHERE = ("test_reordering.py", "test_reranking.py", "test_weights.py")
"""Tests of keys that need what stands there: a model of its own, a reranker."""


def test_every_key_has_a_test():
    told = [value.__doc__ for name, value in globals().items() if name.startswith("test_")]
    for name in ELSEWHERE:
        tree = ast.parse((Path(__file__).parent / name).read_text())
        told += [ast.get_docstring(one) for one in tree.body if isinstance(one, ast.FunctionDef)]
    words = {word for text in told for word in re.findall(r"[a-z_]+(?:\.[a-z_]+)?", text or "")}
    missing = set(known_keys()) - SECTIONS - words
    assert not missing
