"""What does every engine of vectors keep count of: who is inside, how many points there should be, which are wrong?"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from memoryd.errors import IndexProblem
from memoryd.index import packed
from memoryd.index.engine import paged


class Counted(ABC):
    """The part of `VectorEngine` that does not depend on where the points lie."""

    page = 1000
    """Points that are compared together."""

    def __init__(self, name: str, dims: int, *, sparse: bool) -> None:
        """`name` is for messages."""
        self.dims = dims
        self.sparse = sparse
        self._named = name
        self._gate = threading.Condition()
        self._users = 0
        self._closed = False
        self._writing = threading.Lock()
        self._steps = 0
        self._expected = 0

    @abstractmethod
    def count(self) -> int:
        """Points there are, exactly."""

    @abstractmethod
    def _vectors(self) -> Iterator[tuple[str, object]]:
        """Passage id and stored dense vector of every point."""

    @abstractmethod
    def _vectors_of(self, passage_ids: Sequence[str]) -> Mapping[str, object]:
        """The stored dense vectors of those of these passages that are there."""

    def expect(self, count: int) -> None:
        """Say how many points there should be (a watermark's count); `replace` keeps the number up to date."""
        with self._writing:
            self._expected = count

    def drift(self) -> int:
        """How many points there are beyond the expected ones (negative: lost); 0 while a write is under way."""
        before = self._steps
        found = self.count()
        if before % 2 or before != self._steps:
            return 0
        return found - self._expected

    def differing(self, expected: Mapping[str, bytes]) -> list[str]:
        """Those passages (of a few) whose stored vector is not the expected one, or which are not there."""
        held = self._vectors_of(list(expected))
        return [one for one, vector in expected.items() if not packed.is_same(held.get(one), packed.floats(vector))]

    def damaged(self) -> Iterator[str]:
        """Passage ids of points whose stored vector is no unit vector; reads every vector."""
        return (one for one, vector in self._vectors() if not packed.is_unit(vector, self.dims))

    def stale(self, expected: Callable[[list[str]], Mapping[str, bytes]]) -> Iterator[str]:
        """Passage ids of points whose vector is not the expected one; reads every vector.

        `expected` gives, for passage ids, the vectors that are known; unknown ones are passed over.
        """
        for page in paged(self._vectors(), self.page):
            known = expected([one for one, _ in page])
            for one, vector in page:
                wanted = known.get(one)
                if wanted is not None and not packed.is_same(vector, packed.floats(wanted)):
                    yield one

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """`_leave` waits for whoever is in here. Raises IndexProblem once it was called."""
        with self._gate:
            if self._closed:
                raise IndexProblem(f"The vector index in {self._named} is closed.", leg="vectors")
            self._users += 1
        try:
            yield
        finally:
            with self._gate:
                self._users -= 1
                self._gate.notify_all()

    def _leave(self) -> bool:
        """Let nobody in any more and wait for who is inside; False where that was done before."""
        with self._gate:
            if self._closed:
                return False
            self._closed = True
            self._gate.wait_for(lambda: self._users == 0)
        return True
