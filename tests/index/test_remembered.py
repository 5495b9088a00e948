"""Behaviour of memoryd.index.remembered: nothing is learned that a write may have changed."""

from __future__ import annotations

from memoryd.index.remembered import Memory, Remembered
from memoryd.records import NO_TRAITS, Traits


def one(document: str = "d", **traits: int) -> Remembered:
    return Remembered(document, "p", Traits(**traits) if traits else NO_TRAITS, "in_force:global")


def test_what_was_read_is_known_until_it_is_written():
    memory = Memory()
    memory.learn({1: one("a"), 2: one("b")}, memory.moment())
    assert memory.known == {1: one("a"), 2: one("b")}
    memory.forget([1])
    assert memory.known == {2: one("b")}
    memory.written()
    memory.learn({1: one("a", code=7)}, memory.moment())
    assert memory.known[1].traits.code == 7


def test_what_was_read_before_or_while_something_was_written_is_not_learned():
    memory = Memory()
    before = memory.moment()
    memory.forget([1])
    meanwhile = memory.moment()
    memory.learn({1: one()}, before)
    memory.learn({1: one()}, meanwhile)
    memory.written()
    memory.learn({1: one()}, before)
    memory.learn({1: one()}, meanwhile)
    assert memory.known == {}


def test_it_never_holds_more_than_its_most():
    memory = Memory(most=10)
    for number in range(100):
        memory.learn({number: one(str(number))}, memory.moment())
        assert number in memory.known and len(memory.known) <= 10


def test_passages_of_one_document_share_its_id():
    memory = Memory()
    memory.learn({1: one("".join(["a", "b"])), 2: one("".join(["a", "b"]))}, memory.moment())
    assert memory.known[1].document_id is memory.known[2].document_id
