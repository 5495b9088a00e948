"""How well does one number tell two classes apart, and where does the cut between them lie?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FALSE_ALARMS = 0.01
"""The share of distinct ones that may lie above a cut where the classes overlap."""


@dataclass(frozen=True, slots=True)
class Cut:
    """From `value` on something counts as related; `gap` is False where the classes overlap."""

    value: float
    gap: bool


def between(related: Sequence[float], other: Sequence[float], allowed: float = FALSE_ALARMS) -> Cut:
    """The middle of the gap between two classes; where there is none, the lowest cut that so few of `other` reach.

    Neither may be empty.
    """
    lowest, highest = min(related), max(other)
    if lowest > highest:
        return Cut((lowest + highest) / 2, gap=True)
    outside = sorted(other, reverse=True)[int(allowed * len(other))]
    above = [value for value in (*related, *other) if value > outside]
    return Cut((outside + min(above, default=outside + FALSE_ALARMS)) / 2, gap=False)


def auc(related: Sequence[float], other: Sequence[float]) -> float:
    """How often one of the related ranks above one of the others; ties count half."""
    ranked = sorted([(value, 0) for value in other] + [(value, 1) for value in related])
    below, wins, at = 0, 0.0, 0
    while at < len(ranked):
        end = at
        while end < len(ranked) and ranked[end][0] == ranked[at][0]:
            end += 1
        mine = sum(kind for _, kind in ranked[at:end])
        theirs = end - at - mine
        wins += mine * (below + theirs / 2)
        below += theirs
        at = end
    return wins / (len(related) * len(other))


def reached(values: Sequence[float], cut: float) -> float:
    """The share of values from a cut on; 0 of none."""
    return sum(value >= cut for value in values) / len(values) if values else 0.0
