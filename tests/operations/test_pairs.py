"""Is a memory looked at once, and again once it changed?"""

from __future__ import annotations

from memoryd.operations.pairs import Pairs

BASIS = ("model", 0.6)
DOCUMENTS = {"a": "1", "b": "1", "c": "1"}


def looked() -> Pairs:
    pairs = Pairs()
    assert pairs.waiting(BASIS, DOCUMENTS) == ["a", "b", "c"]
    pairs.looked("b", "1", {"a": 0.9})
    pairs.looked("a", "1", {"b": 0.9})
    pairs.looked("c", "1", {})
    assert pairs.alike() == {("a", "b"): 0.9}
    return pairs


def test_only_what_changed_is_looked_at_again():
    pairs = looked()
    assert pairs.waiting(BASIS, DOCUMENTS) == []
    assert pairs.waiting(BASIS, {**DOCUMENTS, "c": "2", "d": "1"}) == ["c", "d"]
    assert pairs.alike() == {("a", "b"): 0.9}
    assert pairs.waiting(BASIS, {**DOCUMENTS, "b": "2"}) == ["b", "c"]
    assert pairs.alike() == {}, "its words changed"


def test_what_is_gone_is_let_go():
    pairs = looked()
    assert pairs.waiting(BASIS, {"a": "1", "c": "1"}) == []
    assert (pairs.alike(), pairs.known()) == ({}, 2)


def test_another_model_or_cut_begins_anew():
    pairs = looked()
    assert pairs.waiting(("other", 0.6), DOCUMENTS) == ["a", "b", "c"]
    assert (pairs.alike(), pairs.known()) == ({}, 0)
    pairs.looked("a", "1", {})
    assert pairs.waiting(("other", 0.7), DOCUMENTS) == ["a", "b", "c"]
