"""Turns of conversations and code, told by the texts themselves."""

from __future__ import annotations

import pytest

from memoryd.extract.turns import code_share, name_number, speaker_of, traits_of, whole
from memoryd.records import NO_TRAITS, Traits


@pytest.mark.parametrize(
    ("text", "speaker"),
    [
        ("Ana: Hello", "Ana"),
        ("**Ana Berg:** Hello", "Ana Berg"),
        ("user: how?", "user"),
        ("> assistant: so", "assistant"),
        ("def f(x): return x", ""),
        ("Hello there", ""),
        ("see https://host.example/x", ""),
        ("", ""),
    ],
)
def test_who_speaks_stands_before_a_colon(text, speaker):
    assert speaker_of(text) == speaker


def test_turns_of_one_conversation_differ_only_in_their_last_number():
    one = traits_of("docs", "talk/day 1/3", ["Ana: yes"])[0]
    two = traits_of("docs", "talk/day 1/4", ["Bo: no"])[0]
    other = traits_of("docs", "talk/day 2/4", ["Bo: no"])[0]
    assert one.thread == two.thread != other.thread
    assert two.number - one.number == 1
    assert one.speaker == name_number("ana") != two.speaker
    assert traits_of("logs", "talk/day 1/3", ["Ana: yes"])[0].thread != one.thread


def test_what_is_no_turn_belongs_to_no_conversation():
    assert traits_of("docs", "adr/3", ["We chose this."])[0].thread == 0
    assert traits_of("docs", "talk/last", ["Ana: yes"])[0].thread == 0
    assert traits_of("docs", "talk/3", ["Ana: yes\n\nBo: no"])[0].thread == 0
    several = traits_of("docs", "talk/3", ["Ana: yes", "Bo: no"])
    assert [one.thread for one in several] == [0, 0]
    assert [one.parts for one in several] == [2, 2]


def test_code_is_told_by_its_signs():
    assert code_share("def f(x):\n    return g(x)[0]") > 60
    assert code_share("We met (again) at the station and talked for hours about it.") < 20
    assert code_share("") == 0
    assert code_share("{[<>]}" * 50) == 100


def test_a_whole_document_has_the_mean_of_its_parts():
    found = traits_of("docs", "a.md", ["prose alone here", "f(x)[y]"], day=9)
    assert whole(found) == Traits(code=(found[0].code + found[1].code) // 2, parts=2, day=9)
    assert whole([]) == NO_TRAITS


@pytest.mark.parametrize("traits", [NO_TRAITS, Traits(100, 255, 40_000, 2**63 - 1, 10**9, 2**32 - 1)])
def test_traits_fit_into_three_numbers(traits):
    assert Traits.unpacked(*traits.packed()) == traits
    assert all(0 <= one < 2**63 for one in traits.packed())
