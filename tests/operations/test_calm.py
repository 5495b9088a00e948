"""The collector's rate is slowed for bulk work, by all who work at once, and is the old one afterwards."""

from __future__ import annotations

import gc

import pytest

from memoryd.operations.calm import NEW_OBJECTS, rarely_collected


def test_the_rate_comes_back_when_the_last_one_ends():
    before = gc.get_threshold()
    first, second = rarely_collected(), rarely_collected()
    first.__enter__()
    second.__enter__()
    assert gc.get_threshold()[0] == NEW_OBJECTS
    first.__exit__(None, None, None)
    assert gc.get_threshold()[0] == NEW_OBJECTS
    second.__exit__(None, None, None)
    assert gc.get_threshold() == before


def test_the_rate_comes_back_after_an_error():
    before = gc.get_threshold()
    with pytest.raises(KeyError), rarely_collected():
        raise KeyError
    assert gc.get_threshold() == before
