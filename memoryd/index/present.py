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

    def __init__(self, counted: Mapping[str, int] | None = None, written: Mapping[str, int] | None = None) -> None:
        """`counted` were there when they were counted; so many were `written` since, some perhaps again."""
        self._counted, self._written = Counter(counted or {}), Counter(written or {})
        self._most = self._counted + self._written

    def with_more(self, values: Iterable[str]) -> Present:
        """With points of these values as well. What was deleted goes on counting: `Present` is made anew now and
        then."""
        return Present(self._counted, self._written + Counter(values))

    def few(self, value: str, most: int) -> bool:
        """Whether there are points of this value, but fewer than `most`; False also where `doubtful`."""
        return 0 < self._most[value] < most

    def doubtful(self, value: str, most: int) -> bool:
        """Whether only counting anew tells if there are fewer than `most`."""
        return self._counted[value] < most <= self._most[value]

    def condition(self, allowed: Sequence[str]) -> Condition:
        """How to ask for points of which `visible` is one of `allowed`."""
        inside = sum(self._most[one] for one in allowed)
        if inside <= MOST_INSIDE * self._most.total():
            return Condition(False, list(allowed))
        return Condition(True, sorted(self._most.keys() - set(allowed)))
