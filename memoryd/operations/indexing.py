"""How do the indexes follow the catalog, and what happens when their counts are wrong?

The backlog is derived (documents whose newest record is beyond a leg's watermark), so no job can be lost. The lexical
leg runs ahead; vectors follow as fast as the model embeds. Every step is idempotent.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from memoryd.catalog.documents import DocumentRow
from memoryd.errors import DiskFull, IndexMismatch, IndexProblem
from memoryd.index.generations import Generation
from memoryd.operations.fresh import try_drain
from memoryd.operations.home import Home
from memoryd.operations.ingest import follow_packs
from memoryd.operations.legs import index_lexical, index_vectors, portions
from memoryd.operations.reconcile import DISK_NOTICE, VAULT_COMMIT
from memoryd.operations.recover import open_generation

LEXICAL_BATCH = 500
VECTOR_ROWS = 1024
VECTOR_SECONDS = 2.0
LEGS = ("lexical", "vectors")
_log = logging.getLogger(__name__)


def catch_up(home: Home, stop: Callable[[], bool] = lambda: False) -> bool:
    """One step of background work on the serving generation; True when there was something to do."""
    home.count_recalls()
    if _follow_packs(home):
        return True
    if try_drain(home, wait=True):
        return True
    with home.index_lane:
        if home.generation is None:
            open_generation(home)
        if home.generation is None:
            return False
        if _step_lexical(home, home.generation):
            return True
        if home.heal:
            heal(home, home.heal.pop(), stop)
            return True
        if _step_vectors(home, home.generation, stop):
            return True
        if home.generation.lexical is not None:
            home.generation.lexical.rest()  # the writer's memory is not needed until the next write
    _rest(home)
    return False


def _rest(home: Home) -> None:
    """Give back what only a bulk of writes needs, unless somebody is writing just now."""
    if home.store_lane.acquire(blocking=False):
        try:
            home.store.rest()
        finally:
            home.store_lane.release()


def _follow_packs(home: Home) -> bool:
    """Take in records that the catalog had no room for; without room the rest of the work goes on."""
    try:
        return follow_packs(home) > 0
    except DiskFull as error:
        home.notices[DISK_NOTICE] = f"What is new is not taken in: {error.message} {error.next_step}"
        return False


def step(home: Home, generation: Generation, stop: Callable[[], bool]) -> bool:
    """Index one batch into `generation`, lexical first; the caller holds the index lane (or owns the generation)."""
    return _step_lexical(home, generation) or _step_vectors(home, generation, stop)


def pending(home: Home, generation: Generation | None = None) -> int:
    """Documents that at least one working leg has not taken in yet, plus memories not yet in packs."""
    generation = generation or home.generation
    if generation is None:
        return home.documents.live_count() + len(home.fresh)
    mark = generation.watermark
    reached = [mark.lexical_seq] if generation.lexical is not None else []
    reached += [mark.vector_seq] if generation.vectors is not None else []
    if not reached:
        return home.documents.live_count() + len(home.fresh)
    return home.documents.count_changed_after(min(reached)) + len(home.fresh)


def _step_lexical(home: Home, generation: Generation) -> bool:
    if generation.lexical is None:
        return False
    rows = home.documents.changed_after(generation.watermark.lexical_seq, LEXICAL_BATCH)
    if not rows:
        return False
    index_lexical(home, generation, rows)
    generation.commit_lexical(rows[-1].seq, home.catalog.meta(VAULT_COMMIT) or "")
    return True


def _step_vectors(home: Home, generation: Generation, stop: Callable[[], bool]) -> bool:
    """Embed in small slices, commit after about two seconds, sooner when something newer waits for the lexical leg.

    A document that is left in the middle is begun again later; what was embedded of it comes from the cache then.
    """
    if generation.vectors is None:
        return False
    rows = home.documents.changed_after(generation.watermark.vector_seq, VECTOR_ROWS)
    reached = 0
    until = time.monotonic() + VECTOR_SECONDS
    halt = _Halt(home, generation, stop)
    for part in portions(rows):
        if not index_vectors(home, generation, part, halt):
            break
        reached = part[-1].seq
        if time.monotonic() > until or halt():
            break
    if reached:
        generation.commit_vectors(reached)
    return bool(rows) and not stop()


class _Halt:
    """Whether embedding should give way: to `stop`, or to newer work for the lexical leg. Once true it stays so."""

    def __init__(self, home: Home, generation: Generation, stop: Callable[[], bool]) -> None:
        self._home = home
        self._generation = generation
        self._stop = stop
        self._waiting = len(home.fresh)  # what could not be drained before this step must not stop it for ever
        self._said = False

    def __call__(self) -> bool:
        self._said = self._said or self._stop() or self._newer()
        return self._said

    def _newer(self) -> bool:
        unread = self._generation.lexical is not None
        behind = unread and self._home.documents.last_seq() > self._generation.watermark.lexical_seq
        return behind or len(self._home.fresh) > self._waiting


def verify(home: Home, generation: Generation) -> list[IndexProblem]:
    """What is wrong with the legs right now; wrong counts are scheduled for repair."""
    problems = list(generation.problems.values())
    for leg, mismatch in generation.mismatches().items():
        problems.append(mismatch)
        home.heal.add(leg)
    problems += _against_catalog(home, generation)
    if home.heal:
        home.work.set()
    return problems


def _against_catalog(home: Home, generation: Generation) -> list[IndexMismatch]:
    """A leg without backlog must hold as many entries as the catalog's live passages ask for."""
    if home.heal:
        return []
    found = []
    for leg in LEGS:
        problem = disagreement(home, generation, leg)
        if problem is not None and problem.details["lacking"] != home.settled.get(leg):
            home.heal.add(leg)
            found.append(problem)
    return found


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


def heal(home: Home, leg: str, stop: Callable[[], bool] = lambda: False) -> int:
    """Bring one leg's entries back in line with the catalog; returns how many documents were written again."""
    generation = home.generation
    if generation is None:
        return 0
    index = generation.lexical if leg == "lexical" else generation.vectors
    if index is None:
        return 0
    wrong = wrong_documents(home, generation, leg)
    rows = list(home.documents.get_many(wrong).values())
    unknown = [document for document in wrong if document not in {row.document_id for row in rows}]
    if unknown:
        index.replace(unknown, [])
    done = _write_again(home, generation, leg, rows, _Halt(home, generation, stop))
    if done < len(rows):
        home.heal.add(leg)  # what was written again is right from now on, the rest follows
    else:
        # What a repair could not bring back (content that cannot be read) is lacking from now on, no news.
        lasting = disagreement(home, generation, leg)
        home.settled[leg] = 0 if lasting is None else lasting.details["lacking"]
    _log.warning("healed %s: %d of %d documents written again", leg, done + len(unknown), len(wrong))
    return done + len(unknown)


def _write_again(
    home: Home, generation: Generation, leg: str, rows: Sequence[DocumentRow], halt: Callable[[], bool]
) -> int:
    """Replace the entries of these documents and commit; how many were replaced before the halt."""
    done = 0
    mark = generation.watermark
    for part in portions(rows):
        if leg == "lexical":
            index_lexical(home, generation, part)
        elif not index_vectors(home, generation, part, halt):
            break
        done += len(part)
        if halt():
            break
    if leg == "lexical":
        generation.commit_lexical(mark.lexical_seq, mark.vault_commit)
    else:
        generation.commit_vectors(mark.vector_seq)
    return done


def wrong_documents(home: Home, generation: Generation, leg: str) -> list[str]:
    """Documents whose entries in a leg are not those that the catalog names, the backlog aside; reads every id."""
    index = generation.lexical if leg == "lexical" else generation.vectors
    present: dict[str, set[str]] = {}
    for document, passage in index.ids() if index is not None else ():
        present.setdefault(document, set()).add(passage)
    mark = generation.watermark
    reached = mark.lexical_seq if leg == "lexical" else mark.vector_seq
    expected: dict[str, set[str]] = {}
    for document, passage in home.passages.pairs(up_to_seq=reached):
        expected.setdefault(document, set()).add(passage)
    if leg == "lexical":
        for passages in expected.values():
            if len(passages) > 1:
                passages.add("")
    differing = [d for d in present.keys() | expected.keys() if present.get(d, set()) != expected.get(d, set())]
    if leg == "vectors":
        differing = _without_poisoned(home, differing, present, expected)
    # what is still in the backlog is not wrong, it is pending
    rows = home.documents.get_many(differing)
    return sorted(d for d in differing if index is not None and (d not in rows or rows[d].seq <= reached))


def _without_poisoned(
    home: Home, documents: list[str], present: dict[str, set[str]], expected: dict[str, set[str]]
) -> list[str]:
    """Those that still differ when passages that the model cannot take are not expected."""
    poisoned = home.host.poisoned()
    if not poisoned:
        return documents
    lost: dict[str, set[str]] = {}
    for document, passages in home.passages.of_documents(documents).items():
        lost[document] = {passage.id for passage in passages if passage.text_sha256 in poisoned}
    return [d for d in documents if present.get(d, set()) != expected.get(d, set()) - lost.get(d, set())]
