"""A moment is what people and ISO 8601 mean by it, or nothing."""

from __future__ import annotations

import pytest

from memoryd.operations.moments import SECOND, moment, told

NOW = 1_795_985_600 * SECOND + 123_456
"""2026-11-29T20:53:20.123456Z."""


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-11-28", "2026-11-28T00:00:00Z"),
        ("2026-11-28T10:00", "2026-11-28T10:00:00Z"),
        ("2026-11-28T10:00:00+02:00", "2026-11-28T08:00:00Z"),
        ("2026-11-28t10:00:00.5z", "2026-11-28T10:00:00Z"),
        ("today", "2026-11-29T00:00:00Z"),
        ("Yesterday", "2026-11-28T00:00:00Z"),
        ("now", "2026-11-29T20:53:20Z"),
        ("2 days ago", "2026-11-27T20:53:20Z"),
        (" 1  week ago ", "2026-11-22T20:53:20Z"),
        ("an hour ago", "2026-11-29T19:53:20Z"),
        ("90 minutes ago", "2026-11-29T19:23:20Z"),
    ],
)
def test_what_is_a_moment(text, instant):
    found = moment(text, NOW)
    assert found is not None
    assert told(found) == instant


@pytest.mark.parametrize(
    "text",
    ["", "2026", "20261128", "docs", "2026-13-01", "2026-11-31", "-2 days ago", "2 days", "2 months ago", "@1", "12"],
)
def test_what_is_none(text):
    assert moment(text, NOW) is None
