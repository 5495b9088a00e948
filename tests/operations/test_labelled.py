"""Are labelled pairs read as they are written, and is a malformed line named?"""

from __future__ import annotations

import json
from collections import Counter

import pytest

from memoryd.errors import InvalidInput
from memoryd.extract.wording import same_words
from memoryd.operations.labelled import DISTINCT, LABELS, REVISION, SAME, UNRELATED, Pair, read_pairs, shipped


def written(tmp_path, *lines):
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in lines))
    return path


def test_memoryd_brings_pairs_of_every_kind_for_both_halves():
    pairs = shipped()
    assert len(set(pairs)) == len(pairs) >= 120
    count = Counter((pair.label, pair.chooses) for pair in pairs)
    assert min(count[label, half] for label in (REVISION, DISTINCT, UNRELATED) for half in (True, False)) >= 10


def test_the_words_withhold_the_same_ones_and_no_other():
    assert [same_words(pair.a, pair.b) for pair in shipped()] == [pair.label == SAME for pair in shipped()]


@pytest.mark.parametrize(("label", "meant"), LABELS.items())
def test_labels_and_names_of_other_sets_are_known(tmp_path, label, meant):
    path = written(tmp_path, {"a": "x", "b": "y", "label": label}, "", {"old": "x", "new": "y", "label": label, "n": 1})
    assert read_pairs(path) == [Pair("x", "y", meant)] * 2


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[1]",
        {"a": "x", "label": "same"},
        {"a": "x", "b": " ", "label": "same"},
        {"a": "x", "b": "y", "label": "z"},
    ],
)
def test_a_malformed_line_is_named(tmp_path, line):
    path = written(tmp_path, {"a": "x", "b": "y", "label": "same"}, line)
    with pytest.raises(InvalidInput, match=r"pairs\.jsonl:2 "):
        read_pairs(path)


def test_a_file_without_pairs_one_that_is_missing_and_one_of_other_bytes_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="no pair"):
        read_pairs(written(tmp_path, ""))
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_pairs(tmp_path / "missing")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="UTF-8"):
        read_pairs(tmp_path / "bytes")


def test_a_pair_always_falls_on_the_same_side():
    assert Pair("a", "b", SAME).chooses == Pair("a", "b", REVISION).chooses
    assert {Pair(str(n), "b", SAME).chooses for n in range(20)} == {True, False}
