"""Is a set asked as its files say, is a malformed one named with its line, and are several told apart?"""

from __future__ import annotations

import json

import pytest

from memoryd.errors import InvalidInput
from memoryd.operations.beir import read_set
from memoryd.operations.evaluate import evaluate, evaluate_all, sets_in
from memoryd.operations.scoring import MEASURES


def write(folder, documents, queries, judgements):
    folder.mkdir(exist_ok=True)
    for name, items in (("corpus.jsonl", documents), ("queries.jsonl", queries)):
        (folder / name).write_text("\n".join(json.dumps(item) for item in items))
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "\n".join("\t".join(one) for one in judgements))
    return folder


def test_scopes_restrict_and_self_is_left_out(tmp_path):
    documents = [
        {"_id": "a1", "title": "A", "text": "The aardvark digs.", "metadata": {"scope": "A"}},
        {"_id": "b1", "text": "The aardvark digs deep.", "metadata": {"scope": "B/ü"}},
        {"_id": "b2", "text": "An aardvark that digs.", "metadata": {"scope": "B/ü", "more": 1}},
        {"_id": "g1", "text": "Global words on digging.", "metadata": {}},
    ]
    queries = [
        {"_id": "q1", "text": "aardvark digs", "metadata": {"scope": "A", "category": "when"}},
        {
            "_id": "q2",
            "text": "aardvark digs",
            "metadata": {"scope": "B/ü", "self": "b1", "category": "when"},
        },
        {"_id": "q3", "text": "global words", "metadata": None},
        {"_id": "unjudged", "text": "x"},
    ]
    judged = [("q1", "a1", "1"), ("q2", "b2", "1"), ("q3", "g1", "2"), ("q3", "a1", "0")]
    cache = tmp_path / "cache" / "embeddings.db"
    seen = []
    report = evaluate(
        write(tmp_path / "set", documents, queries, judged),
        cache_path=cache,
        progress=lambda done, total, note: seen.append((note, done, total)),
    )
    assert report["queries"] == 3
    perfect = dict.fromkeys(MEASURES, 1.0) | {"precision@5": 0.2}
    assert report["arms"] == dict.fromkeys(("lexical", "dense", "rrf", "hybrid"), perfect)
    assert report["hybrid_minus_best"] == {"mean": 0.0, "low": 0.0, "high": 0.0}
    assert report["per_query"]["hybrid"] == [1000, 1000, 1000]
    assert report["categories"]["when"] == {"queries": 2, "arms": report["arms"]}
    assert (report["documents"], report["passages"]) == (4, 4)
    assert report["latency_ms"]["p50"] <= report["latency_ms"]["p99"]
    assert ("asking", 3, 3) in seen
    assert cache.exists()


def test_a_folder_of_sets_gives_one_report_whose_digests_tell_other_files_apart(tmp_path):
    one = ([{"_id": "d", "text": "The pump is blue."}], [{"_id": "q", "text": "blue pump"}], [("q", "d", "1")])
    for name in ("b", "a"):
        write(tmp_path / name, *one)
    (tmp_path / "notes").mkdir()
    assert [place.name for place in sets_in(tmp_path)] == ["a", "b"]
    assert sets_in(tmp_path / "a") == [tmp_path / "a"]
    with pytest.raises(InvalidInput, match="holds no set"):
        sets_in(tmp_path / "notes")
    (tmp_path / "b" / "corpus.jsonl").write_text('{"_id": "d", "text": "The pump is red."}')
    notes = []
    report = evaluate_all(tmp_path, cache_path=tmp_path / "cache.db", progress=lambda _d, _t, note: notes.append(note))
    assert list(report["sets"]) == ["a", "b"]
    assert report["sets"]["a"]["digest"] != report["sets"]["b"]["digest"]
    assert len(report["model"]["fingerprint"]) == 64
    assert {"a: asking", "b: asking"} <= set(notes)


GOOD = '{"_id": "d", "text": "x"}'


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("corpus.jsonl", "{", "corpus.jsonl:1"),
        ("corpus.jsonl", f"{GOOD}\n\n[]", "corpus.jsonl:3"),
        ("corpus.jsonl", '{"_id": 7, "text": "x"}', "corpus.jsonl:1"),
        ("corpus.jsonl", '{"_id": "d"}', "corpus.jsonl:1"),
        ("corpus.jsonl", '{"_id": "d", "text": "x", "metadata": []}', None),
        ("corpus.jsonl", '{"_id": "d", "text": "x", "metadata": {"scope": 1}}', "corpus.jsonl:1"),
        ("corpus.jsonl", f"{GOOD}\n{GOOD}", "corpus.jsonl:2"),
        ("corpus.jsonl", "", "holds no document"),
        ("queries.jsonl", '{"_id": "q"}', "queries.jsonl:1"),
        ("queries.jsonl", "", "no query has a judgement"),
        ("qrels.tsv", "q\td", "qrels.tsv:1"),
        ("qrels.tsv", "q\td\thigh", "qrels.tsv:1"),
        ("qrels.tsv", "q\td\t0", "no query has a judgement"),
        ("qrels.tsv", "q\tother\t1", "no judgement names a document"),
        ("qrels.tsv", None, "cannot be read"),
    ],
)
def test_a_malformed_set_is_named(tmp_path, name, text, said):
    write(tmp_path, [{"_id": "d", "text": "x"}], [{"_id": "q", "text": "x"}], [("q", "d", "1")])
    assert len(read_set(tmp_path).queries) == 1
    (tmp_path / name).unlink()
    if text is not None:
        (tmp_path / name).write_text(text)
    if said is None:
        assert read_set(tmp_path)
        return
    with pytest.raises(InvalidInput) as caught:
        read_set(tmp_path)
    assert said in caught.value.message


def test_other_forms_of_judgements_and_text_are_read(tmp_path):
    write(tmp_path, [{"_id": "d", "text": "a\u2028b \ud800"}], [{"_id": "q", "text": "x"}], [])
    (tmp_path / "qrels.tsv").write_bytes(b"q\t0\td\t1\r\nq\t0\te\t2\r\n")
    found = read_set(tmp_path)
    assert found.judgements == {"q": {"d": 1, "e": 2}}
    assert found.documents[0].text == "a\u2028b ?"
    (tmp_path / "corpus.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="UTF-8"):
        read_set(tmp_path)
