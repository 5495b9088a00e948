"""How does a new generation come to be while the old one serves?

In steps, so that the indexing loop can go on between them: what is not embedded yet goes into the cache, two processes
fill the two legs with what the catalog holds then, what changed meanwhile is caught up here, counts and a sample are
looked at, and one pointer moves. Until then nothing serves that was not there before; given up, nothing is left of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from memoryd.errors import IndexMismatch, IndexProblem
from memoryd.index.generations import Generation
from memoryd.index.marks import Watermark
from memoryd.operations import canary
from memoryd.operations.filling import Filling, orders_for
from memoryd.operations.home import Home, index_identity
from memoryd.operations.legs import embed_documents, index_vectors, portions
from memoryd.operations.reconcile import VAULT_COMMIT
from memoryd.operations.shadow import take_over
from memoryd.operations.steps import LEGS, disagreement, step

BESIDE_FROM = 500
"""Documents from which on other processes fill the legs: starting them takes about half a second."""
EMBED_PAGE = 1000
EMBED_SECONDS = 2.0
_log = logging.getLogger(__name__)


class Build:
    """One new generation on its way; the caller holds the build lane and no other."""

    def __init__(self, home: Home) -> None:
        """Nothing happens yet."""
        self._home = home
        self._identity = index_identity(home)
        self._path: Path | None = None
        self._generation: Generation | None = None
        self._fillings: list[Filling] = []
        self._until = 0
        self._embedded = 0
        self._work: Callable[[Callable[[], bool]], bool] = self._begin
        self.served: Generation | None = None
        """The new generation, once it serves."""

    def advance(self, stop: Callable[[], bool]) -> bool:
        """Do the next bit; False when nothing can be done right now: the processes work, or all is done.

        Raises IndexProblem, StoreError and ModelError kinds, DiskFull, OSError: then `end` it.
        """
        return self._work(stop)

    def progress(self) -> tuple[int, int]:
        """(documents done, documents there are)."""
        home = self._home
        total = home.documents.live_count()
        if self._generation is not None:
            mark = self._generation.watermark
            left = home.documents.count_changed_after(min(mark.lexical_seq, mark.vector_seq))
            return max(0, total - left), total
        return min((one.done for one in self._fillings), default=0), total

    def end(self) -> None:
        """Give up what does not serve yet: processes end, files are removed. Safe to call twice."""
        for filling in self._fillings:
            filling.close()
        self._fillings = []
        if self._generation is not None and self._generation is not self.served:
            self._generation.close()
        if self._path is not None and self.served is None:
            self._home.generations.abandon(self._path)
            with suppress(OSError):  # the next start, or the next generation, tries again
                self._home.generations.collect()
        self._work = self._nothing

    def _nothing(self, _stop: Callable[[], bool]) -> bool:
        return False

    def _begin(self, stop: Callable[[], bool]) -> bool:
        home = self._home
        serving = home.generation
        if serving is not None and serving.identity.passages != self._identity.passages:
            take_over(home, stop)  # other passages: the catalog has to name them first
            if stop():
                return False
        if home.documents.live_count() >= BESIDE_FROM:
            self._work = self._embed
        else:
            self._generation = home.generations.create(self._identity)
            self._path = self._generation.path
            self._work = self._follow
        return True

    def _embed(self, stop: Callable[[], bool]) -> bool:
        """Bring what the cache lacks into it, for a while."""
        home = self._home
        until = time.monotonic() + EMBED_SECONDS

        def halt() -> bool:
            return stop() or time.monotonic() > until

        while not halt():
            page = home.passages.texts_after(self._embedded, EMBED_PAGE)
            if not page:
                self._work = self._start
                return True
            texts = [text for _, _, text in page]
            known = home.cache.get_encoded(self._identity.model, texts, sparse=self._identity.sparse)
            poisoned = home.host.poisoned()
            lacking = list(dict.fromkeys(one for _, one, text in page if text not in known and text not in poisoned))
            for part in portions(sorted(home.documents.get_many(lacking).values(), key=lambda row: row.seq)):
                if halt() or not embed_documents(home, part, halt):
                    return not stop()
            self._embedded = page[-1][0]
        return not stop()

    def _start(self, _stop: Callable[[], bool]) -> bool:
        home = self._home
        self._path = home.generations.prepare(self._identity)
        self._until = home.documents.last_seq()
        for leg in LEGS:
            self._fillings.append(Filling(orders_for(home, leg, self._path / leg, self._until), home.root))
        self._work = self._filled
        return False

    def _filled(self, _stop: Callable[[], bool]) -> bool:
        if any(one.running() for one in self._fillings):
            return False
        home = self._home
        found = {one.orders.part: one.outcome() for one in self._fillings}
        for filling in self._fillings:
            filling.close()
        self._fillings = []
        assert self._path is not None
        self._generation = home.generations.adopt(self._path, self._identity, self._mark(found))
        for told in found.values():
            home.notices |= told.get("notices", {})
        lacking = found["vectors"].get("lacking", [])
        self._work = lambda stop: self._complete(lacking, stop)
        return True

    def _mark(self, found: dict[str, dict[str, Any]]) -> Watermark:
        return Watermark(
            lexical_seq=self._until,
            vector_seq=self._until,
            vault_commit=self._home.catalog.meta(VAULT_COMMIT) or "",
            lexical_count=int(found["lexical"]["count"]),
            vector_count=int(found["vectors"]["count"]),
        )

    def _complete(self, lacking: list[str], stop: Callable[[], bool]) -> bool:
        """Documents of which the cache lacked a vector (by now it may have it, or the model cannot take it)."""
        home, generation = self._home, self._generation
        assert generation is not None
        rows = sorted(home.documents.get_many(lacking).values(), key=lambda row: row.seq)
        for part in portions([row for row in rows if row.seq <= self._until]):
            if not index_vectors(home, generation, part, stop):
                return False
        generation.commit_vectors(generation.watermark.vector_seq)
        self._work = self._follow
        return True

    def _follow(self, stop: Callable[[], bool]) -> bool:
        assert self._generation is not None
        if step(self._home, self._generation, stop):
            return True
        if stop():
            return False
        self._work = self._serve
        return True

    def _serve(self, _stop: Callable[[], bool]) -> bool:
        assert self._generation is not None
        require_whole(self._home, self._generation)
        swap(self._home, self._generation)
        self.served = self._generation
        self._work = self._nothing
        return True


def require_whole(home: Home, generation: Generation) -> None:
    """Raises IndexMismatch where its counts do not agree with itself or the catalog, IndexDamaged where a sample shows
    that it does not hold what it was made of."""
    for mismatch in generation.mismatches().values():
        raise mismatch
    for leg in LEGS:
        if (problem := disagreement(home, generation, leg)) is not None:
            raise problem
    if wrong := canary.look(home, generation):
        raise IndexMismatch(f"The new generation is not whole: {wrong}", leg="vectors")


def swap(home: Home, generation: Generation) -> None:
    """Serve `generation` from now on and remove the others; one that fails when it is closed keeps nothing back."""
    with home.index_lane:
        home.generations.publish(generation)
        old, home.generation = home.generation, generation
        home.heal.clear()
        home.settled.clear()
        home.renew, home.examined = "", home.clock()
        if old is not None:
            _close(old)
        with suppress(OSError):  # the next start, or the next generation, tries again
            home.generations.collect()
    home.work.set()


def _close(old: Generation) -> None:
    try:
        old.close()
    except (IndexProblem, OSError) as error:  # damaged ones are replaced, and their successor serves already
        _log.warning("the former generation did not close: %s", error)
