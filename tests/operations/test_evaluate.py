"""Are the measures the textbook's, and is a malformed set named with its line?"""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.errors import InvalidInput
from memoryd.operations.beir import read_set
from memoryd.operations.evaluate import evaluate, mean, measures, paired_bootstrap, percentile

LOG = math.log2


def test_measures_against_numbers_worked_out_by_hand():
    """Ranking b, x, a, y, c with grades a=2, b=1, c=1: gains 1, 0, 2, 0, 1."""
    found = measures(["b", "x", "a", "y", "c"], {"a": 2, "b": 1, "c": 1})
    dcg = 1 / LOG(2) + 2 / LOG(4) + 1 / LOG(6)
    ideal = 2 / LOG(2) + 1 / LOG(3) + 1 / LOG(4)
    assert found["ndcg@10"] == pytest.approx(dcg / ideal)
    assert found["precision@5"] == pytest.approx(3 / 5)
    assert found["recall@5"] == found["recall@10"] == pytest.approx(1.0)
    assert found["mrr"] == 1.0


def test_measures_at_their_cut_offs():
    ranked = [f"x{n}" for n in range(5)] + ["a"] + [f"y{n}" for n in range(4)] + ["b"]
    found = measures(ranked, {"a": 1, "b": 1, "never": 1})
    assert found["precision@5"] == found["recall@5"] == 0.0
    assert found["recall@10"] == pytest.approx(1 / 3)
    assert found["mrr"] == pytest.approx(1 / 6)
    assert found["ndcg@10"] == pytest.approx((1 / LOG(7)) / (1 / LOG(2) + 1 / LOG(3) + 1 / LOG(4)))
    assert measures([], {"a": 1}) == dict.fromkeys(found, 0.0)


@given(
    st.lists(st.sampled_from("abcdefghij"), unique=True),
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 3), min_size=1),
)
def test_measures_are_shares_and_the_ideal_order_is_perfect(ranked, relevant):
    assert all(0.0 <= value <= 1.0 + 1e-12 for value in measures(ranked, relevant).values())
    ideal = sorted(relevant, key=lambda name: -relevant[name])
    assert measures(ideal, relevant)["ndcg@10"] == pytest.approx(1.0)


def test_intervals_means_and_percentiles():
    low, high = paired_bootstrap([0.1] * 50)
    assert low == pytest.approx(0.1) == high
    low, high = paired_bootstrap([0.0, 0.2] * 100)
    assert low < 0.1 < high
    assert paired_bootstrap([0.0, 0.2] * 100) == (low, high), "the same numbers give the same interval"
    assert paired_bootstrap([]) == (0.0, 0.0)
    assert mean([]) == 0.0
    assert percentile([], 0.5) == 0.0
    assert [percentile(range(1, 101), share) for share in (0.5, 0.95, 0.99, 1.0)] == [50, 95, 99, 100]


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
        {"_id": "q1", "text": "aardvark digs", "metadata": {"scope": "A"}},
        {"_id": "q2", "text": "aardvark digs", "metadata": {"scope": "B/ü", "self": "b1"}},
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
    for leg in ("lexical", "dense", "hybrid"):
        assert report["legs"][leg] == {
            "ndcg@10": 1.0,
            "precision@5": 0.2,
            "recall@5": 1.0,
            "recall@10": 1.0,
            "mrr": 1.0,
        }, leg
    assert report["hybrid_minus_best"] == {"ndcg@10": 0.0, "low": 0.0, "high": 0.0}
    assert report["latency_ms"]["p50"] <= report["latency_ms"]["p99"]
    assert ("asking", 3, 3) in seen
    assert cache.exists()


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
