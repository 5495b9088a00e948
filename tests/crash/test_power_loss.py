"""Whatever the disk holds after the power went off: what was told is there, and the store is sound and goes on."""

from __future__ import annotations

import pytest

from tests.crash.power import survive
from tests.crash.scale import LONG, scaled
from tests.crash.stores import WORK

QUICK = 60
"""States examined of each work in the quick run; the long one examines all."""


@pytest.mark.parametrize("name", WORK)
def test_every_legal_state_after_a_power_loss(name, ram, count):
    examined = survive(name, ram, limit=None if LONG else QUICK)
    assert examined > 30
    count(f"power loss: states of {name}", examined)


def test_a_sample_of_the_states_of_a_long_life(ram, count):
    """All kinds of work one after the other: too many states to examine each."""
    examined = survive("life", ram, limit=scaled(QUICK, 1500), seed=scaled(1, 2))
    count("power loss: states of all kinds of work in turn (sampled)", examined)
