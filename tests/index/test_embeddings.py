"""Behaviour of memoryd.index.embeddings."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryd.digest import sha256_hex
from memoryd.errors import DiskFull, IndexProblem
from memoryd.index.embeddings import LOOKUP, EmbeddingCache
from memoryd.records import Encoded
from tests.index.entries import unit

MODEL, OTHER = "a" * 64, "b" * 64


def digest(text: object) -> str:
    return sha256_hex(str(text).encode())


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[EmbeddingCache]:
    made = EmbeddingCache(tmp_path / "embeddings.db")
    yield made
    made.close()


def test_what_was_put_is_got(cache):
    items = {digest(n): unit(n, 384) for n in range(LOOKUP * 2 + 3)}
    cache.put_many(MODEL, items)
    assert cache.get_many(MODEL, [*items, digest("unknown")]) == items
    assert cache.get_many(MODEL, []) == {} and cache.count(MODEL) == len(items)


def test_case_46_vectors_of_two_models_never_mix(cache):
    """Case 46."""
    cache.put_many(MODEL, {digest(1): unit(1)})
    assert cache.get_many(OTHER, [digest(1)]) == {} and cache.count(OTHER) == 0
    cache.put_many(OTHER, {digest(1): unit(2)})
    assert cache.get_many(MODEL, [digest(1)]) == {digest(1): unit(1)}
    assert cache.get_many(OTHER, [digest(1)]) == {digest(1): unit(2)}


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(steps=st.lists(st.dictionaries(st.integers(0, 9).map(digest), st.binary(min_size=4, max_size=40)), max_size=6))
def test_the_last_vector_of_a_text_counts(tmp_path_factory, steps):
    cache = EmbeddingCache(tmp_path_factory.mktemp("law") / "embeddings.db")
    expected: dict[str, bytes] = {}
    for step in steps:
        cache.put_many(MODEL, step)
        expected |= step
    assert cache.get_many(MODEL, [digest(n) for n in range(10)]) == expected
    cache.close()


def test_it_outlives_its_process(cache):
    cache.put_many(MODEL, {digest(1): unit(1)})
    cache.close()
    cache.close()
    again = EmbeddingCache(cache.path)
    assert again.get_many(MODEL, [digest(1)]) == {digest(1): unit(1)} and not again.recreated
    again.close()


def test_h21_any_thread_may_use_it(cache):
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(20):
                key = digest((number, turn))
                cache.put_many(MODEL, {key: unit((number, turn))})
                assert cache.get_many(MODEL, [key]) == {key: unit((number, turn))}
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == [] and cache.count(MODEL) == 160


def test_two_processes_share_one_file(cache):
    """An evaluation keeps one cache per user; several may run at once."""
    code = (
        "import sys; from pathlib import Path; from memoryd.index.embeddings import EmbeddingCache as C;"
        "from tests.index.test_embeddings import MODEL, digest; from tests.index.entries import unit;"
        "c = C(Path(sys.argv[1])); [c.put_many(MODEL, {digest(('there', n)): unit(n)}) for n in range(50)]"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(cache.path)], cwd=Path(__file__).resolve().parents[2])
    for n in range(50):
        cache.put_many(MODEL, {digest(("here", n)): unit(n)})
    assert other.wait(60) == 0
    assert cache.count(MODEL) == 100


@pytest.mark.parametrize("what", ["noise", "other", "later", "empty"])
def test_a_file_that_is_not_ours_is_set_aside(tmp_path, what):
    path = tmp_path / "embeddings.db"
    if what == "noise":
        path.write_bytes(os.urandom(20000))
    elif what == "empty":
        path.write_bytes(b"")
    else:
        with sqlite3.connect(path) as foreign:
            foreign.execute("CREATE TABLE something (else_ TEXT)")
            foreign.execute(f"PRAGMA user_version = {99 if what == 'later' else 0}")
        foreign.close()
    with sqlite3.connect(path) as foreign:
        before = path.read_bytes() if what == "noise" else foreign.execute("SELECT sql FROM sqlite_schema").fetchall()
    foreign.close()
    cache = EmbeddingCache(path)
    cache.put_many(MODEL, {digest(1): unit(1)})
    assert cache.get_many(MODEL, [digest(1)]) == {digest(1): unit(1)}
    cache.close()
    aside = tmp_path / "embeddings.db.damaged-1"
    assert cache.recreated == aside.exists() == (what != "empty")
    if what == "noise":
        assert aside.read_bytes() == before
    elif what != "empty":
        with sqlite3.connect(aside) as kept:
            assert kept.execute("SELECT sql FROM sqlite_schema").fetchall() == before
        kept.close()


def test_nothing_that_was_set_aside_is_lost_by_the_next_damage(tmp_path):
    path = tmp_path / "embeddings.db"
    for number in (1, 2, 3):
        path.write_bytes(b"noise %d" % number * 1000)
        EmbeddingCache(path).close()
        assert path.with_name(f"embeddings.db.damaged-{number}").read_bytes().startswith(b"noise %d" % number)


def test_damage_under_an_open_cache_is_survived(cache):
    cache.put_many(MODEL, {digest(n): unit(n, 384) for n in range(400)})
    cache.close()
    size = cache.path.stat().st_size
    again = EmbeddingCache(cache.path)
    with cache.path.open("r+b") as stream:
        stream.seek(4096)
        stream.write(os.urandom(size - 4096))
    assert again.get_many(MODEL, [digest(n) for n in range(400)]) == {}
    assert again.recreated
    again.put_many(MODEL, {digest(1): unit(1)})
    assert again.get_many(MODEL, [digest(1)]) == {digest(1): unit(1)}
    again.close()


def test_a_damaged_row_is_no_hit(cache):
    cache.put_many(MODEL, {digest(1): unit(1), digest(2): unit(2)})
    cache.close()
    with sqlite3.connect(cache.path) as raw:
        raw.execute("UPDATE vectors SET vector = ? WHERE text_sha256 = ?", (unit(3), bytes.fromhex(digest(1))))
    raw.close()
    again = EmbeddingCache(cache.path)
    assert again.get_many(MODEL, [digest(1), digest(2)]) == {digest(2): unit(2)}
    again.put_many(MODEL, {digest(1): unit(1)})
    assert again.get_many(MODEL, [digest(1)]) == {digest(1): unit(1)}
    again.close()


def test_a_full_disk_is_told_and_what_was_there_stays(cache):
    cache.put_many(MODEL, {digest(0): unit(0, 384)})
    pages = cache._connection.execute("PRAGMA page_count").fetchone()[0]
    cache._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(DiskFull):
        cache.put_many(MODEL, {digest(n): unit(n, 384) for n in range(1, 500)})
    assert cache.get_many(MODEL, [digest(n) for n in range(500)]) == {digest(0): unit(0, 384)}
    cache._connection.execute("PRAGMA max_page_count = 1000000")
    cache.put_many(MODEL, {digest(1): unit(1, 384)})
    assert cache.count(MODEL) == 2


def test_a_place_that_cannot_be_opened_is_told(tmp_path):
    with pytest.raises(IndexProblem):
        EmbeddingCache(tmp_path / "no such folder" / "embeddings.db")
    assert list(tmp_path.iterdir()) == []


def test_a_closed_cache_is_told(cache):
    cache.close()
    with pytest.raises(IndexProblem):
        cache.get_many(MODEL, [digest(1)])


def test_texts_that_are_dropped_leave_nothing_in_the_file(cache):
    cache.put_many(MODEL, {digest(1): unit(1), digest(2): unit(2)})
    cache.put_many(OTHER, {digest(1): unit(1)})
    assert cache.drop([digest(1), digest("unknown")]) == 2
    assert cache.get_many(MODEL, [digest(1), digest(2)]) == {digest(2): unit(2)}
    assert cache.count(OTHER) == 0
    gone = bytes.fromhex(digest(1))
    for path in cache.path.parent.iterdir():
        assert gone not in path.read_bytes()
    assert cache.drop([]) == 0


def test_all_that_a_model_makes_of_a_text_is_kept(cache):
    whole = {digest(1): Encoded(unit(1), b"sparse", b"tokens"), digest(2): Encoded(unit(2))}
    cache.put_encoded(MODEL, whole)
    known = {digest(1): Encoded(unit(1), b"sparse"), digest(2): whole[digest(2)]}
    assert cache.get_encoded(MODEL, whole, sparse=True) == known
    assert cache.get_many(MODEL, whole) == {digest(1): unit(1), digest(2): unit(2)}
    assert cache.get_tokens(MODEL, whole) == {digest(1): b"tokens"} and cache.get_tokens(OTHER, whole) == {}
    assert cache.with_tokens(MODEL, whole) == {digest(1)} and cache.with_tokens(OTHER, whole) == set()
    cache.put_tokens(MODEL, {digest(2): b"later"})
    assert cache.get_tokens(MODEL, [digest(2)]) == {digest(2): b"later"}
    assert cache.sizes(MODEL) == {"vectors": 2, "vectors_bytes": 70, "tokens": 2, "tokens_bytes": 11}
    cache.drop([digest(1)])
    assert cache.sizes(MODEL)["tokens"] == 1


def test_what_no_passage_holds_any_more_is_collected(cache):
    texts = [digest(n) for n in range(LOOKUP + 200)]
    cache.put_encoded(MODEL, {text: Encoded(unit(n, 384), b"", b"t" * 3000) for n, text in enumerate(texts)})
    cache.put_many(OTHER, {texts[0]: unit(0), texts[1]: unit(1)})
    cache.close()
    before, again = cache.path.stat().st_size, EmbeddingCache(cache.path)
    kept = {texts[1], *texts[600:]}
    assert again.retain(lambda asked: kept & set(asked)) == 2 * (len(texts) - 101) + 1
    assert set(again.get_many(MODEL, texts)) == set(again.get_tokens(MODEL, texts)) == kept
    assert again.count(OTHER) == 1
    assert again.retain(lambda asked: set(), stop=lambda: True) == 0
    again.close()
    assert cache.path.stat().st_size < before / 2


def test_a_file_of_the_first_version_is_taken_over(tmp_path):
    path = tmp_path / "embeddings.db"
    with sqlite3.connect(path) as old:
        old.execute("CREATE TABLE models (id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE)")
        old.execute(
            "CREATE TABLE vectors (model INTEGER NOT NULL REFERENCES models (id), text_sha256 BLOB NOT NULL,"
            " crc INTEGER NOT NULL, vector BLOB NOT NULL, UNIQUE (model, text_sha256))"
        )
        old.execute("INSERT INTO models VALUES (1, ?)", (MODEL,))
        row = (1, bytes.fromhex(digest(1)), zlib.crc32(unit(1)), unit(1))
        old.execute("INSERT INTO vectors VALUES (?, ?, ?, ?)", row)
        old.execute("PRAGMA user_version = 1")
    old.close()
    cache = EmbeddingCache(path)
    assert cache.get_encoded(MODEL, [digest(1)], sparse=True) == {digest(1): Encoded(unit(1))}
    assert not cache.recreated
    cache.put_encoded(MODEL, {digest(1): Encoded(unit(1), b"s", b"t")})
    assert cache.get_tokens(MODEL, [digest(1)]) == {digest(1): b"t"}
    cache.close()


def test_a_dense_vector_alone_does_not_pass_for_all_of_it(cache):
    """A comparison of memories needs no more; the index, which does, has the text encoded again."""
    cache.put_many(MODEL, {digest(1): unit(1)})
    assert cache.get_encoded(MODEL, [digest(1)], sparse=True) == {}
    assert cache.get_encoded(MODEL, [digest(1)], sparse=False) == {digest(1): Encoded(unit(1))}
    cache.put_encoded(MODEL, {digest(1): Encoded(unit(1))})
    assert cache.get_encoded(MODEL, [digest(1)], sparse=True) == {digest(1): Encoded(unit(1))}
