"""Which way of saying whose points may be found costs the engine least?

The engine visits the points that a condition names one by one, at five times the cost of points that lie side by side.
So where most points may be found, it is told which may not, and nothing where there are none of those (ADR 0032).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

MOST_INSIDE = 0.6
"""Share of all points from which on the others are named."""


class Condition(NamedTuple):
    """A hit's scope and status must be one of `named`, or with `outside` none of them; none named: anything goes."""

    outside: bool
    named: list[str]


class Present:
    """How many points there are of each value of a field; never fewer than there are, and of none that is missing
    here."""

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self._counts = dict(counts or {})

    def with_more(self, values: Iterable[str]) -> Present:
        """With points of these scopes and states as well. What was deleted goes on counting: `Present` is made anew
        now and then."""
        return Present(Counter(self._counts) + Counter(values))

    def count(self, value: str) -> int:
        """How many points have this value, at most."""
        return self._counts.get(value, 0)

    def condition(self, allowed: Sequence[str]) -> Condition:
        """How to ask for points of which `visible` is one of `allowed`."""
        inside = sum(self._counts.get(one, 0) for one in allowed)
        if inside <= MOST_INSIDE * sum(self._counts.values()):
            return Condition(False, list(allowed))
        return Condition(True, sorted(self._counts.keys() - set(allowed)))
