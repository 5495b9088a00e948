"""Which memories were compared with their neighbours already, and which pairs were found alike?

A view in memory: a look at ten thousand memories takes most of a minute, a look at the few that changed since does not.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping


class Pairs:
    """What was found by one model at one cut; anything else begins anew. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._basis: tuple[str, float] | None = None
        self._looked: dict[str, str] = {}
        self._alike: dict[tuple[str, str], float] = {}

    def waiting(self, basis: tuple[str, float], documents: Mapping[str, str]) -> list[str]:
        """Of these documents (with the addresses of what they hold) those that were not looked at as they are now.

        What is known of any other document is let go.
        """
        with self._lock:
            if basis != self._basis:
                self._basis, self._looked, self._alike = basis, {}, {}
            self._looked = {one: at for one, at in self._looked.items() if documents.get(one) == at}
            self._alike = {pair: how for pair, how in self._alike.items() if self._known(pair)}
            return [one for one in documents if one not in self._looked]

    def looked(self, document: str, address: str, alike: Mapping[str, float]) -> None:
        """One document was looked at, and these others are like it."""
        with self._lock:
            self._looked[document] = address
            for other, how in alike.items():
                first, second = sorted((document, other))
                self._alike[first, second] = how

    def alike(self) -> dict[tuple[str, str], float]:
        """The pairs that were found, each in the order of its ids."""
        with self._lock:
            return dict(self._alike)

    def known(self) -> int:
        """How many documents were looked at."""
        with self._lock:
            return len(self._looked)

    def _known(self, pair: Collection[str]) -> bool:
        # the one that found the pair has to be as it was; the other one is looked at again where it is not
        return all(one in self._looked for one in pair)
