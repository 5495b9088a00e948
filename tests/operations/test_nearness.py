"""Which cuts are in force, and whose?"""

from __future__ import annotations

import json
import struct

import pytest

from memoryd.operations.nearness import (
    DEFAULT,
    DEFAULT_WORDS,
    NOTICE,
    PLAIN,
    THRESHOLDS,
    Cuts,
    cosine,
    cuts,
    keep_cuts,
    likeness,
    read_cuts,
)


def vector(*numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)


def test_cuts_are_those_of_the_active_model_and_never_of_another(home):
    assert (cuts(home), cuts(home, vectors=False)) == (DEFAULT, DEFAULT_WORDS)
    keep_cuts(home, {"another": Cuts(0.1, 0.2)})
    assert cuts(home) == DEFAULT
    mine, plain = Cuts(0.3, 0.4, gap=False), Cuts(0.5, 0.6)
    keep_cuts(home, {home.host.identity.fingerprint: mine, PLAIN: plain})
    assert (cuts(home), cuts(home, vectors=False)) == (mine, plain)
    assert read_cuts(home)["another"] == Cuts(0.1, 0.2), "what is known of other models stays"


@pytest.mark.parametrize("told", ["{", "[]", '{"models": {"m": {"similar": 1}}}', '{"models": 3}', "[" * 100_000])
def test_an_unreadable_file_counts_as_never_measured_and_is_told_of(home, told):
    path = home.root / THRESHOLDS
    path.write_text(told)
    assert cuts(home) == DEFAULT
    assert "memoryd calibrate" in home.notices[NOTICE]
    keep_cuts(home, {"m": Cuts(0.1, 0.2)})
    assert NOTICE not in home.notices
    assert json.loads(path.read_text())["models"] == {"m": {"similar": 0.1, "revision": 0.2, "gap": True}}


def test_a_field_that_a_later_version_adds_is_passed_over(home):
    (home.root / THRESHOLDS).write_text('{"v": 2, "models": {"m": {"similar": 0.1, "revision": 0.2, "new": 3}}}')
    assert read_cuts(home) == {"m": Cuts(0.1, 0.2)}


def test_a_text_that_is_a_part_of_another_is_as_near_as_that_part():
    east, north = vector(1, 0), vector(0, 1)
    assert cosine([east], [north, east]) == cosine([north, east], [east]) == pytest.approx(1)
    assert cosine([east, north], [north, north]) == pytest.approx(1), "every passage there is found here"
    assert cosine([east], [north]) == pytest.approx(0)
    assert cosine([], [east]) is None


def test_likeness_is_words_alone_where_there_is_no_vector():
    assert (likeness(0.4, None), likeness(0.4, 0.8), likeness(0.4, -0.5)) == (0.4, pytest.approx(0.6), 0.2)
