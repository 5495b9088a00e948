"""The lexical index from outside: what is found, what a filter hides, what survives."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import uuid
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryd.digest import sha256_hex
from memoryd.errors import IndexDamaged, IndexProblem
from memoryd.index.lexical import LexicalEntry, LexicalIndex
from memoryd.records import NO_TRAITS, Filter, Traits

GLOBAL = Filter(scopes=("global",))
ROOT = Path(__file__).resolve().parents[2]


NAMES = {"": ""}
"""What the tests call the documents and passages whose ids stand in the index."""


def document(name: str) -> str:
    """The id of a document of this name."""
    NAMES[sha256_hex(name.encode())] = name
    return sha256_hex(name.encode())


def passage(name: str) -> str:
    """The id of a passage of this name; none for ''."""
    made = str(uuid.uuid5(uuid.NAMESPACE_OID, name)) if name else ""
    NAMES[made] = name
    return made


def named(ids: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(NAMES.get(one, one), NAMES.get(other, other)) for one, other in ids]


def entry(document_id: str, text: str, *, passage_id: str = "", title: str = "", **facts) -> LexicalEntry:
    values = {"scope": "global", "kind": "document", "type": "", "status": "in_force", "ancestors": ["notes/"]}
    ids = {"document_id": document(document_id), "passage_id": passage(passage_id)}
    return LexicalEntry(**ids, title=title, text=text, **(values | facts))


def fill(index: LexicalIndex, *entries: LexicalEntry) -> None:
    index.replace(sorted({one.document_id for one in entries}), entries)
    index.commit()


def found(index: LexicalIndex, query: str, filter: Filter = GLOBAL, limit: int = 20) -> list[str]:
    return list(dict.fromkeys(NAMES[hit.document_id] for hit in index.search(query, filter, limit)))


@pytest.fixture
def index(tmp_path):
    made = LexicalIndex.create(tmp_path / "lexical")
    yield made
    made.close()


LITERALS = {
    "C++": "Templates in C++ need headers",
    "C#": "The C# service logs to disk",
    "--flag": "Start it with --flag and wait",
    "-flag": "The short form is -flag here",
    "--dry-run": "Pass --dry-run first",
    "foo_bar.baz()": "We call foo_bar.baz() twice",
    "task-6": "See task-6 for the plan",
    "1.0.21": "Released as 1.0.21 in May",
    "foo/bar.py": "Edit foo/bar.py by hand",
    "std::vector": "Prefer std::vector over arrays",
    "error: x": "The tool printed error: x and stopped",
    "see:http://host.example/x": "see:http://host.example/x for more",
    "y+(y+3)": "Simplify y+(y+3) to a sum",
    'say "hello': 'They say "hello" to it',
    "title:": "A title: stands above",
}


@pytest.fixture(scope="module")
def literals(tmp_path_factory):
    made = LexicalIndex.create(tmp_path_factory.mktemp("literals") / "lexical")
    fill(made, *(entry(literal, text) for literal, text in LITERALS.items()), entry("other", "Nothing of the kind"))
    yield made
    made.close()


@pytest.mark.parametrize("literal", LITERALS)
def test_case_41_h24_a_literal_finds_the_entry_that_holds_it(literals, literal):
    """H24: text that looks like query syntax is data, and finds what contains it first."""
    assert found(literals, literal)[0] == literal


@pytest.mark.parametrize(
    "query",
    ["", "   ", "\n\t", "*", "[", "\\", '"', ">>>", "+ 2", "a AND", "NOT", "OR", "title:", "()", "-", "--", "\x00\x01"]
    + ["the of and", "to be or not to be", "🚀", "😀😀", "\ud800", "a\u0301\u0301", "abc " * 2500, "x" * 10_000]
    + ["*" * 10_000, " ".join(f"word{n}" for n in range(300)), "a/b." * 2500, "数" * 10_000],
)
def test_case_41_h24_no_query_is_an_error(literals, query):
    """H24: every string gets hits or none."""
    assert isinstance(literals.search(query, GLOBAL, 20), list)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=80))
def test_any_text_is_a_query(literals, query):
    hits = literals.search(query, GLOBAL, 5)
    assert len(hits) <= 5
    assert all(hit.score > 0 for hit in hits)


def test_case_41_stop_words_alone_find_what_holds_them(index):
    fill(index, entry("hamlet", "to be or not to be"), entry("other", "Redis keeps lists"))
    assert found(index, "to be or not to be") == ["hamlet"]


def test_case_41_a_query_of_300_words_finds_its_source(index):
    words = [f"term{n % 170}" for n in range(300)]
    fill(
        index,
        entry("abstract", " ".join(words)),
        entry("revision", " ".join(["changed"] * 20 + words[20:])),
        entry("short", " ".join(words[:9])),
        entry("none", "else"),
    )
    ranked = found(index, " ".join(words))
    assert ranked[0] == "abstract"
    assert ranked[1] == "revision"
    assert "none" not in ranked


def test_case_42_words_that_look_like_a_path_are_words(index):
    fill(
        index,
        entry("plan", "The delivery backlog has twelve tasks left", ancestors=["notes/"]),
        entry("path", "Unrelated", ancestors=["notes/", "notes/delivery/", "notes/delivery/backlog/"]),
    )
    assert found(index, "delivery backlog tasks") == ["plan"]


def test_h25_text_without_spaces_is_found_by_a_part(index):
    """H25: a middle part of a Chinese or Japanese clause, or mixed with Latin, finds it by keyword alone."""
    fill(
        index,
        entry("zh", "分布式数据库需要一致性协议"),
        entry("ja", "設定ファイルを読み込んでから起動する"),
        entry("mixed", "请使用Redis缓存会话"),
        entry("ko", "데이터베이스를 설정합니다"),
    )
    assert found(index, "数据库需")[0] == "zh"
    assert found(index, "ファイル")[0] == "ja"
    assert found(index, "読み込んで")[0] == "ja"
    assert found(index, "Redis 缓存")[0] == "mixed"
    assert found(index, "redis")[0] == "mixed"
    assert found(index, "데이터")[0] == "ko"
    assert found(index, "库") == ["zh"]
    assert found(index, "议") == ["zh"]


def test_case_47_every_script_has_lexical_hits(index):
    texts = {
        "cyrillic": ("Ёжик настраивает сервер", "ежик"),
        "arabic": ("قَاعِدَة البيانات", "قاعدة"),
        "thai": ("ตั้งค่าฐานข้อมูลก่อน", "ฐานข้อมูล"),
        "combining": ("Re\u0301sume\u0301 du projet", "résumé"),
        "composed": ("Ångström units", "A\u030angstro\u0308m"),
        "greek": ("ΟΔΥΣΣΕΥΣ", "Οδυσσευς"),
        "hindi": ("डेटाबेस की सेटिंग", "सेटिंग"),
        "fullwidth": ("ＡＰＩ鍵", "api"),
    }
    fill(index, *(entry(name, text) for name, (text, _) in texts.items()))
    for name, (_, query) in texts.items():
        assert found(index, query)[:1] == [name], name


def test_case_43_a_small_scope_is_not_crowded_out(index):
    crowd = [entry(f"big{n}", "cache cache cache eviction", scope="p-big-00000001") for n in range(300)]
    fill(index, *crowd, entry("small", "one word about the cache among many others here", scope="p-small-00000002"))
    assert found(index, "cache", Filter(scopes=("p-small-00000002",)), limit=3) == ["small"]
    assert found(index, "cac", Filter(scopes=("p-small-00000002",)), limit=3) == ["small"]


def test_case_44_filters_apply_before_the_cut(index):
    best = [entry(f"doc{n}", "release notes release", kind="document") for n in range(50)]
    fill(
        index,
        *best,
        entry("memory", "a longer text that mentions the release once only", kind="memory", type="fact"),
        entry("old", "release release", status="superseded"),
        entry("code", "release()", kind="code", ancestors=["repo/", "repo/src/"]),
    )
    assert found(index, "release", Filter(("global",), kinds=("memory",)), 1) == ["memory"]
    assert found(index, "release", Filter(("global",), types=("fact", "lesson")), 1) == ["memory"]
    assert found(index, "release", Filter(("global",), statuses=("superseded",)), 1) == ["old"]
    assert found(index, "release", Filter(("global",), path_prefix="repo/src/"), 1) == ["code"]
    assert found(index, "release", Filter(("global",), kinds=("memory", "code")), 2) == ["code", "memory"]
    assert found(index, "release", Filter(("global",), path_prefix="repo/sr"), 1) == []


def test_scope_is_compared_whole(index):
    fill(index, entry("a", "shared words", scope="p-app-00000001"), entry("b", "shared words", scope="p-app-0000000"))
    assert found(index, "shared", Filter(scopes=("p-app-0000000",))) == ["b"]
    assert found(index, "shared", Filter(scopes=("p-app",))) == []
    assert found(index, "shared", Filter(scopes=())) == []
    assert found(index, "shared", Filter(scopes=("\ud800", "p-app-0000000"))) == ["b"]


def test_a_filter_does_not_change_scores(index):
    fill(index, entry("a", "alpha beta"), entry("b", "alpha gamma", kind="memory"))
    plain = {NAMES[hit.document_id]: hit.score for hit in index.search("alpha gamma", GLOBAL, 5)}
    wide = Filter(("global", "p-x-00000001"), kinds=("document", "memory"), path_prefix="notes/")
    assert {NAMES[hit.document_id]: hit.score for hit in index.search("alpha gamma", wide, 5)} == plain


def test_passages_and_their_document_are_separate_hits(index):
    fill(
        index,
        entry("doc", "Apples grow on trees in autumn", passage_id="p1"),
        entry("doc", "Bananas are berries from the south", passage_id="p2"),
        entry("doc", "Apples grow on trees in autumn\n\nBananas are berries from the south"),
    )
    hits = index.search("bananas south", GLOBAL, 10)
    assert {NAMES[hit.passage_id] for hit in hits} == {"p2", ""}
    assert hits[0].score >= hits[1].score
    # Only the whole document holds both.
    assert {NAMES[hit.passage_id] for hit in index.search("autumn", GLOBAL, 10)} == {"p1", ""}


def test_a_whole_document_counts_the_same_whether_its_parts_are_given_or_not(tmp_path):
    scores = []
    for name, joiner in (("joined", "\n\n"), ("other", "\n \n")):
        made = LexicalIndex.create(tmp_path / name)
        parts = ["Apples grow on trees", "Bananas are berries"]
        fill(
            made,
            *(entry("doc", text, passage_id=f"p{n}", title="Fruit") for n, text in enumerate(parts)),
            entry("doc", joiner.join(parts), title="Fruit"),
        )
        scores.append(
            sorted((NAMES[hit.passage_id], hit.score) for hit in made.search("apples berries fruit", GLOBAL, 9))
        )
        made.close()
    assert scores[0] == scores[1]


def test_a_title_lifts_its_document(index):
    text = "It says how keys are evicted when memory runs out and what to set"
    fill(index, entry("titled", text, title="Eviction policies"), entry("plain", text + " eviction policies"))
    assert found(index, "eviction policies")[0] == "titled"


def test_words_side_by_side_count_more_than_the_same_words_apart(index):
    fill(
        index,
        entry("apart", "rate of the network and a limit for every user there"),
        entry("together", "the rate limit for every user of a network and there"),
    )
    assert found(index, "rate limit")[0] == "together"


def test_word_forms_meet_and_identifiers_are_exact(index):
    fill(index, entry("run", "The server was running"), entry("ident", "parse_headers(request)"))
    assert found(index, "servers run") == ["run"]
    assert found(index, "headers") == ["ident"]
    assert found(index, "parse_headers") == ["ident"]


def test_the_last_token_is_also_a_prefix(index):
    fill(index, entry("quantization", "Scalar quantization of vectors"), entry("other", "Cosine of vectors"))
    assert found(index, "qu") == ["quantization"]
    assert found(index, "vectors quantiz")[0] == "quantization"
    assert found(index, "scala.") == []
    assert found(index, "q") == []


def test_an_exact_word_beats_longer_words_that_begin_with_it(index):
    longer = [entry(f"longer{n}", f"comm{n}it committee commission") for n in range(5)]
    fill(index, *longer, entry("exact", "how to commit a change with a longer text around the word"))
    assert found(index, "commit")[0] == "exact"


def test_equal_scores_are_ordered_and_cut_by_id(index):
    names = [f"doc{n:02}" for n in range(30)]
    for name in reversed(names):
        fill(index, entry(name, "the very same words"))
    hits = index.search("same words", GLOBAL, 5)
    assert [hit.document_id for hit in hits] == sorted(map(document, names))[:5]
    assert len({hit.score for hit in hits}) == 1


def test_limits_below_one_find_nothing(index):
    fill(index, entry("a", "text"))
    assert index.search("text", GLOBAL, 0) == []


def test_replace_is_idempotent_and_takes_old_entries_out(index):
    for _ in range(3):
        fill(index, entry("a", "first", passage_id="p1"), entry("a", "second", passage_id="p2"), entry("b", "first"))
    assert index.count() == 3
    fill(index, entry("a", "third", passage_id="p3"))
    assert sorted(named(index.ids())) == [("a", "p3"), ("b", "")]
    assert found(index, "first") == ["b"]
    index.replace([document("a"), document("unknown")], [])
    index.commit()
    assert index.count() == 1
    assert found(index, "third") == []


def test_buffered_entries_are_seen_only_after_commit(index):
    index.replace([document("a")], [entry("a", "pending words")])
    assert index.count() == 0
    assert found(index, "pending") == []
    index.commit()
    assert index.count() == 1
    assert found(index, "pending") == ["a"]


def test_what_was_committed_is_there_after_opening_again(tmp_path):
    first = LexicalIndex.create(tmp_path / "lexical")
    fill(first, entry("a", "kept words", title="Größe"))
    expected = first.search("kept grosse", GLOBAL, 5)
    first.replace([document("b")], [entry("b", "lost words")])
    first.close()
    again = LexicalIndex.open(tmp_path / "lexical")
    assert list(named(again.ids())) == [("a", "")]
    assert again.search("kept grosse", GLOBAL, 5) == expected
    fill(again, entry("c", "more words"))
    assert again.count() == 2
    again.close()


def test_rest_lets_the_writer_go_and_writing_goes_on(tmp_path):
    one, other = (LexicalIndex.create(tmp_path / "lexical"), LexicalIndex.open(tmp_path / "lexical"))
    fill(one, entry("a", "first"))
    with pytest.raises(IndexProblem, match="writes"):
        other.replace([document("b")], [entry("b", "second")])
    one.replace([document("x")], [entry("x", "not committed")])
    one.rest()
    one.rest()
    fill(other, entry("b", "second"))
    other.rest()
    fill(one, entry("c", "third"))
    assert sorted(document for document, _ in named(one.ids())) == ["a", "b", "c"]
    one.close()


def test_ids_pages_through_many_entries(index):
    fill(index, *(entry(f"doc{n}", "text", passage_id=f"p{n}") for n in range(9000)))
    assert set(named(index.ids())) == {(f"doc{n}", f"p{n}") for n in range(9000)}
    assert index.count() == 9000


def test_searches_run_while_a_thread_writes(index):
    fill(index, *(entry(f"doc{n}", "steady words") for n in range(20)))
    done = threading.Event()
    counts: list[int] = []
    failures: list[BaseException] = []

    def search() -> None:
        try:
            while not done.is_set():
                counts.append(len(index.search("steady", GLOBAL, 100)))
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=search) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(15):
        fill(index, *(entry(f"doc{n}", "steady words") for n in range(20)))
    done.set()
    for reader in readers:
        reader.join()
    assert not failures
    assert set(counts) == {20}


def test_a_killed_writer_loses_only_what_was_not_committed(tmp_path):
    script = """
        import os, signal, sys
        from pathlib import Path
        from tests.index.test_lexical import document, entry, fill
        from memoryd.index.lexical import LexicalIndex
        index = LexicalIndex.create(Path(sys.argv[1]))
        fill(index, entry("kept", "acknowledged words"))
        index.replace([document("kept"), document("lost")], [entry("lost", "never acknowledged")])
        os.kill(os.getpid(), signal.SIGKILL)
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "lexical")]
    assert subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode < 0
    index = LexicalIndex.open(tmp_path / "lexical")
    assert list(index.ids()) == [(document("kept"), "")]
    fill(index, entry("more", "written after the crash"))
    assert index.count() == 2
    index.close()


def damaged(tmp_path: Path) -> Path:
    path = tmp_path / "lexical"
    made = LexicalIndex.create(path)
    fill(made, *(entry(f"doc{n}", f"words number {n}", passage_id=f"p{n}") for n in range(50)))
    made.close()
    return path


def test_a_missing_index_is_damaged(tmp_path):
    with pytest.raises(IndexDamaged) as error:
        LexicalIndex.open(tmp_path / "nowhere")
    assert error.value.details["leg"] == "lexical"


@pytest.mark.parametrize("bytes_left", [b"", b"{}", b"not json", b'{"segments": [], "schema": 7}'])
def test_a_broken_list_of_segments_is_damaged(tmp_path, bytes_left):
    path = damaged(tmp_path)
    (path / "meta.json").write_bytes(bytes_left)
    with pytest.raises(IndexDamaged):
        LexicalIndex.open(path)


@pytest.mark.parametrize("suffix", ["store", "idx", "term", "fieldnorm"])
@pytest.mark.parametrize("how", ["gone", "empty", "half"])
def test_a_broken_segment_is_damaged(tmp_path, suffix, how):
    path = damaged(tmp_path)
    for file in path.glob(f"*.{suffix}"):
        data = file.read_bytes()
        file.unlink()
        if how != "gone":
            file.write_bytes(data[: len(data) // 2] if how == "half" else b"")
    with pytest.raises(IndexDamaged):
        opened = LexicalIndex.open(path)
        opened.search("words number 7", GLOBAL, 50)
        list(named(opened.ids()))


def test_what_was_asked_for_is_told(index):
    fill(index, entry("a", "The heron sleeps"), entry("b", "The heron eats"), entry("c", "Nothing here"))
    known = index.ask("heron", GLOBAL, 5)
    assert known.unknown == 0.0 and 0 < known.weight
    half = index.ask("heron zygote", GLOBAL, 5)
    assert 0.5 < half.unknown < 1 and half.weight > known.weight
    assert index.ask("", GLOBAL, 5).hits == []


def test_words_that_mean_the_same_count_less_than_those_of_the_query(index):
    fill(index, entry("a", "The heron sleeps"), entry("b", "The bird sleeps"), entry("c", "Nothing here"))
    hits = index.ask("heron", GLOBAL, 5, alike={"bird": 1.0}).hits
    assert [NAMES[hit.document_id] for hit in hits] == ["a", "b"]


def test_typos_are_looked_for_only_where_nothing_is_found(index):
    fill(index, entry("a", "The connection broke"), entry("b", "A heron"), entry("c", "We have a cat"))
    found = index.ask("conection", GLOBAL, 5, typos=True)
    assert found.corrected and [NAMES[hit.document_id] for hit in found.hits] == ["a"]
    assert index.ask("conection", GLOBAL, 5).hits == []
    found = index.ask("conection heron", GLOBAL, 5, typos=True)
    assert not found.corrected and [NAMES[hit.document_id] for hit in found.hits] == ["b"]
    assert index.ask("cot", GLOBAL, 5, typos=True).hits == []  # too short to guess
    assert index.ask("conection", Filter(scopes=("elsewhere",)), 5, typos=True).hits == []


def test_names_are_exact_and_filtered(index):
    fill(
        index,
        entry("a", "text", names=("src/app/foo.py", "foo.py"), passage_id="p"),
        entry("b", "foo py", names=("Foo.bar", "bar"), scope="other"),
    )
    assert [NAMES[hit.passage_id] for hit in index.named(["foo.py"], GLOBAL, 5)] == ["p"]
    assert index.named(["foo"], GLOBAL, 5) == index.named(["foo.bar"], GLOBAL, 5) == index.named([], GLOBAL, 5) == []
    assert len(index.named(["foo.bar"], Filter(scopes=("other",)), 5)) == 1


def test_traits_come_back_with_the_hits(index):
    traits = Traits(code=40, parts=3, day=19_500, thread=2**62, number=7, speaker=2**32 - 1)
    fill(index, entry("a", "heron", passage_id="p", traits=traits), entry("b", "heron heron"))
    assert {NAMES[hit.document_id]: hit.traits for hit in index.search("heron", GLOBAL, 5)} == {
        "a": traits,
        "b": NO_TRAITS,
    }
