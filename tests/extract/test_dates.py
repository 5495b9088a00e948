"""Dates in texts and stretches of days in questions."""

from __future__ import annotations

from datetime import date

import pytest

from memoryd.extract.dates import day_of, first_day, meant


def day(year: int, month: int, number: int) -> int:
    return (date(year, month, number) - date(1970, 1, 1)).days


TODAY = day(2026, 3, 18)


@pytest.mark.parametrize(
    "text",
    [
        "1:56 pm on 8 May, 2023",
        "May 8, 2023",
        "on May 8th 2023",
        "2023-05-08 standup",
        "notes/2023-05-08.md",
        "8th of May 2023",
    ],
)
def test_a_date_is_read_however_it_is_written(text):
    assert first_day(text) == day(2023, 5, 8)


@pytest.mark.parametrize("text", ["", "May I?", "3.14", "2023", "31 February 2023", "2023-13-01", "12023-05-08"])
def test_what_is_no_date_is_none(text):
    assert first_day(text) == 0


def test_the_first_of_several_counts():
    assert first_day("from 2023-05-08 to 1 January 2020") == day(2023, 5, 8)


def test_a_timestamp_has_its_day():
    assert day_of("2026-03-18T10:00:00.000000Z") == TODAY
    assert day_of("") == 0


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("What did we find on 3 March 2023?", day(2023, 3, 3), day(2023, 3, 3)),
        ("What was decided in May 2023?", day(2023, 5, 1), day(2023, 5, 31)),
        ("decisions in 2024", day(2024, 1, 1), day(2024, 12, 31)),
        ("what changed yesterday", TODAY - 1, TODAY - 1),
        ("what changed this week", TODAY - 7, TODAY),
        ("what changed last week", TODAY - 14, TODAY),
        ("the outage two weeks ago", TODAY - 17, TODAY - 11),
    ],
)
def test_a_question_means_days(question, first, last):
    span = meant(question, TODAY)
    assert span is not None
    assert (span.first, span.last) == (first, last)
    assert span.holds(first) and span.holds(last) and not span.holds(first - 1) and not span.holds(last + 1)
    assert span.holds(last + 7, later=7)


def test_a_month_alone_is_that_of_any_year():
    span = meant("When did she go camping in June?", TODAY)
    assert span is not None
    assert span.holds(day(2021, 6, 30)) and span.holds(day(2023, 6, 1)) and not span.holds(day(2023, 7, 1))


@pytest.mark.parametrize(
    "question",
    ["", "may we march on?", "in May 2023 or in June 2024?", "the last week of the sprint plan in 99", "last"],
)
def test_no_days_or_several_are_none(question):
    found = meant(question, 0)
    assert found is None


def test_without_a_clock_nothing_is_said_from_today():
    assert meant("yesterday", 0) is None
