"""How do the indexes follow the catalog, and what happens when their counts are wrong?

The backlog is derived (documents whose newest record is beyond a leg's watermark), so no job can be lost. The lexical
leg runs ahead; vectors follow as fast as the model embeds. Every step is idempotent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from memoryd.catalog.documents import DocumentRow
from memoryd.errors import (
    DiskFull,
    IndexDamaged,
    IndexMismatch,
    IndexProblem,
    MemorydError,
    ModelError,
    StoreError,
)
from memoryd.index.generations import Generation
from memoryd.operations import canary
from memoryd.operations.building import Build
from memoryd.operations.fresh import try_drain
from memoryd.operations.home import Home
from memoryd.operations.ingest import follow_packs
from memoryd.operations.legs import index_lexical, index_vectors, portions
from memoryd.operations.reconcile import DISK_NOTICE
from memoryd.operations.recover import open_generation
from memoryd.operations.steps import (
    LEGS,
    Halt,
    disagreement,
    embeddable,
    outdated,
    step,
    step_lexical,
    step_vectors,
)

__all__ = ["LEGS", "catch_up", "disagreement", "embeddable", "heal", "pending", "step", "verify", "wrong_documents"]

EXAMINE_SECONDS = 300.0
"""How often a sample is compared with what it was made of, at rest."""
AGAIN_SECONDS = 60.0
BUILD_NOTICE = "generation"
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
        if _step(home, lambda generation: step_lexical(home, generation)):
            return True
        if home.heal:
            heal(home, home.heal.pop(), stop)
            return True
        # what is damaged takes nothing more in: its successor is built below
        vectors = not _is_damaged(home.generation, "vectors")
        if vectors and _step(home, lambda generation: step_vectors(home, generation, stop)):
            return True
        if home.generation.lexical is not None:
            home.generation.lexical.rest()  # the writer's memory is not needed until the next write
    if _build(home, stop):
        return True
    _rest(home)
    return False


def _step(home: Home, take_in: Callable[[Generation], bool]) -> bool:
    """A step of one leg; one that shows damage is no step but the reason for a successor."""
    assert home.generation is not None
    try:
        return take_in(home.generation)
    except IndexDamaged as error:
        if not home.renew:
            _log.warning("%s", error.message)
        home.renew = home.renew or error.message
        return False


def _build(home: Home, stop: Callable[[], bool]) -> bool:
    """A bit of work on a new generation where the serving one needs a successor; True when there is more to do now."""
    if home.build is None and not _needs_successor(home):
        return False
    if not home.build_lane.acquire(blocking=False):
        return False  # a rebuild is under way
    try:
        if home.build is None:
            home.build = Build(home)
        busy = home.build.advance(stop)
        if home.build.served is not None:
            home.build = None
            home.notices.pop(BUILD_NOTICE, None)
        return busy
    except (IndexProblem, StoreError, DiskFull, ModelError, OSError) as error:
        message = error.message if isinstance(error, MemorydError) else str(error)
        home.notices[BUILD_NOTICE] = f"A new generation could not be built: {message} It is tried again."
        home.renew_after = home.clock() + AGAIN_SECONDS
        if home.build is not None:
            home.build.end()
            home.build = None
        return False
    finally:
        home.build_lane.release()


def _needs_successor(home: Home) -> bool:
    """Whether the serving generation is outdated, damaged, or shows in a sample that it is not what it should be."""
    generation = home.generation
    if generation is None or home.clock() < home.renew_after:
        return False
    if home.clock() - home.examined >= EXAMINE_SECONDS:
        home.examined = home.clock()
        home.renew = home.renew or canary.look(home, generation)
    damaged = any(_is_damaged(generation, leg) for leg in LEGS)
    return bool(home.renew) or damaged or outdated(home, generation) is not None


def _is_damaged(generation: Generation, leg: str) -> bool:
    return isinstance(generation.problems.get(leg), IndexDamaged)


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


def pending(home: Home) -> int:
    """Documents that at least one working leg has not taken in yet, plus memories not yet in packs."""
    generation = home.generation
    if generation is None:
        return home.documents.live_count() + len(home.fresh)
    mark = generation.watermark
    reached = [mark.lexical_seq] if generation.lexical is not None else []
    reached += [mark.vector_seq] if generation.vectors is not None else []
    if not reached:
        return home.documents.live_count() + len(home.fresh)
    return home.documents.count_changed_after(min(reached)) + len(home.fresh)


def verify(home: Home, generation: Generation) -> list[IndexProblem]:
    """What is wrong with the legs right now; wrong counts are scheduled for repair."""
    mismatches = generation.mismatches()  # this look may find a leg that fails, or one that is back
    problems = list(generation.problems.values())
    problems += doubts(home, generation)
    for leg, mismatch in mismatches.items():
        problems.append(mismatch)
        home.heal.add(leg)
    problems += _against_catalog(home, generation)
    if home.heal:
        home.work.set()
    return problems


def doubts(home: Home, generation: Generation) -> list[IndexProblem]:
    """Why a generation that answers is about to be replaced: what it was made for, or what a sample of it showed."""
    found: list[IndexProblem] = []
    if (problem := outdated(home, generation)) is not None:
        found.append(problem)
    if home.renew:
        message = f"Generation {generation.number} is not whole, its successor is built: {home.renew}"
        found.append(IndexDamaged(message, next_step="Nothing to do: it is replaced soon.", leg="index"))
    return found


def _against_catalog(home: Home, generation: Generation) -> list[IndexMismatch]:
    """A leg without backlog must hold as many entries as the catalog's live passages ask for."""
    if home.heal or outdated(home, generation) is not None:
        return []
    found = []
    for leg in LEGS:
        problem = disagreement(home, generation, leg)
        if problem is not None and problem.details["lacking"] != home.settled.get(leg):
            home.heal.add(leg)
            found.append(problem)
    return found


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
    done = _write_again(home, generation, leg, rows, Halt(home, generation, stop))
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
