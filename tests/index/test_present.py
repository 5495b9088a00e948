"""Behaviour of memoryd.index.present: a condition admits exactly what is allowed, whichever way it is said."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memoryd.index.present import Condition, Present

VALUES = [f"in_force:p-{n}" for n in range(6)]


def admits(condition: Condition, value: str) -> bool:
    return value not in condition.named if condition.outside else value in condition.named


@given(
    st.dictionaries(st.sampled_from(VALUES), st.integers(1, 50)),
    st.lists(st.sampled_from(VALUES)),
    st.lists(st.sampled_from([*VALUES, "in_force:p-none"]), min_size=1),
)
def test_of_what_there_is_a_condition_admits_what_is_allowed_and_no_more(counts, more, allowed):
    there = Present(counts).with_more(more)
    condition = there.condition(allowed)
    for value in {*counts, *more}:
        assert admits(condition, value) is (value in allowed)


def test_the_few_are_named():
    many = Present({"in_force:global": 90, "archived:global": 10})
    assert many.condition(["in_force:global"]) == Condition(True, ["archived:global"])
    assert many.condition(["archived:global"]) == Condition(False, ["archived:global"])
    assert many.condition(["in_force:global", "archived:global"]) == Condition(True, [])
    assert many.with_more(["archived:global"] * 90).condition(["in_force:global"]) == Condition(
        False, ["in_force:global"]
    )


def test_where_nothing_is_known_the_allowed_ones_are_named():
    assert Present().condition(["in_force:global"]) == Condition(False, ["in_force:global"])


def test_of_what_was_written_since_the_counting_only_counting_tells_how_much_there_is():
    there = Present({"memory": 4, "code": 50}).with_more(["memory"] * 5)
    assert there.few("memory", 10) and not there.doubtful("memory", 10)
    assert not there.few("memory", 9) and there.doubtful("memory", 9), "nine at most, four at least"
    assert not there.few("memory", 4) and not there.doubtful("memory", 4)
    assert not there.few("document", 9) and not there.doubtful("document", 9)
