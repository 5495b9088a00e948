"""What is one step of bringing a generation up to the catalog, and when does it agree with it?

Every step is idempotent: a mark moves only when its leg is durable, and what was done twice is the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from memoryd.errors import IndexMismatch, IndexOutdated
from memoryd.index.generations import Generation
from memoryd.operations.home import Home, index_identity
from memoryd.operations.legs import index_lexical, index_vectors, portions
from memoryd.operations.reconcile import VAULT_COMMIT

LEXICAL_BATCH = 500
VECTOR_ROWS = 1024
VECTOR_SECONDS = 2.0
LEGS = ("lexical", "vectors")


def step(home: Home, generation: Generation, stop: Callable[[], bool]) -> bool:
    """Index one batch into `generation`, lexical first; the caller holds the index lane (or owns the generation)."""
    return step_lexical(home, generation) or step_vectors(home, generation, stop)


def step_lexical(home: Home, generation: Generation) -> bool:
    """Index one batch of words; False when there was none."""
    if generation.lexical is None:
        return False
    rows = home.documents.changed_after(generation.watermark.lexical_seq, LEXICAL_BATCH)
    if not rows:
        return False
    index_lexical(home, generation, rows)
    generation.commit_lexical(rows[-1].seq, home.catalog.meta(VAULT_COMMIT) or "")
    return True


def step_vectors(home: Home, generation: Generation, stop: Callable[[], bool]) -> bool:
    """Embed in small slices, commit after about two seconds, sooner when something newer waits for the lexical leg.

    A document that is left in the middle is begun again later; what was embedded of it comes from the cache then.
    """
    if generation.vectors is None:
        return False
    rows = home.documents.changed_after(generation.watermark.vector_seq, VECTOR_ROWS)
    reached = 0
    until = time.monotonic() + VECTOR_SECONDS
    halt = Halt(home, generation, stop)
    for part in portions(rows):
        if not index_vectors(home, generation, part, halt):
            break
        reached = part[-1].seq
        if time.monotonic() > until or halt():
            break
    if reached:
        generation.commit_vectors(reached)
    return bool(rows) and not stop()


class Halt:
    """Whether embedding should give way: to `stop`, or to newer work for the lexical leg. Once true it stays so."""

    def __init__(self, home: Home, generation: Generation | None, stop: Callable[[], bool]) -> None:
        self._home = home
        self._generation = generation
        self._stop = stop
        self._waiting = len(home.fresh)  # what could not be drained before this step must not stop it for ever
        self._said = False

    def __call__(self) -> bool:
        self._said = self._said or self._stop() or self._newer()
        return self._said

    def _newer(self) -> bool:
        generation = self._generation
        behind = False
        if generation is not None and generation.lexical is not None:
            behind = self._home.documents.last_seq() > generation.watermark.lexical_seq
        return behind or len(self._home.fresh) > self._waiting


def disagreement(home: Home, generation: Generation, leg: str) -> IndexMismatch | None:
    """Why a leg that has everything up to the newest record holds other counts than the catalog; None: it agrees."""
    index = generation.lexical if leg == "lexical" else generation.vectors
    mark = generation.watermark
    reached, held = (mark.lexical_seq, mark.lexical_count) if leg == "lexical" else (mark.vector_seq, mark.vector_count)
    if index is None or home.documents.last_seq() != reached:
        return None
    expected = home.passages.entries() if leg == "lexical" else embeddable(home)
    if held == expected or home.documents.last_seq() != reached:  # what was counted may have changed meanwhile
        return None
    message = f"The {leg} index of generation {generation.number} holds {held} of {expected} entries."
    return IndexMismatch(message, leg=leg, lacking=expected - held)


def embeddable(home: Home) -> int:
    """Passages that have a vector once nothing is pending: all but those the model cannot take."""
    poisoned = home.host.poisoned()
    return home.passages.count() - (home.passages.count_texts(poisoned) if poisoned else 0)


def outdated(home: Home, generation: Generation) -> IndexOutdated | None:
    """Why a generation serves only until its successor stands: it was made for other analysers, passages or vectors."""
    wanted = index_identity(home)
    if generation.identity == wanted:
        return None
    message = f"Generation {generation.number} was made for {generation.identity}; its successor is built for {wanted}."
    return IndexOutdated(message, leg="index")
