"""Which complete set of indexes serves, how far does it reach, and is it still whole?

`indexes/gen-N/{lexical,vectors,manifest.json,watermark.json}` and one pointer, `indexes/CURRENT`. A set made for
another identity is not opened. A watermark moves only after its leg is durable, so a crash in between means no more
than that some documents are indexed twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from memoryd.errors import DiskFull, IndexDamaged, IndexMismatch, IndexOutdated, IndexProblem, VectorServerProblem
from memoryd.files import Files
from memoryd.index.engine import VectorEngine
from memoryd.index.lexical import LexicalIndex
from memoryd.index.marks import (
    IndexIdentity,
    Watermark,
    number_of,
    read_manifest,
    read_watermark,
    write_manifest,
    write_watermark,
)
from memoryd.index.places import Places

__all__ = ["Generation", "Generations", "IndexIdentity", "Watermark"]

OWNER = "generation"
CURRENT = "CURRENT"
LEXICAL = "lexical"
VECTORS = "vectors"
Leg = TypeVar("Leg", LexicalIndex, VectorEngine)


class Generation:
    """One open set of indexes. A leg that cannot open is None and `problems` holds the reason; the other serves."""

    def __init__(self, path: Path, identity: IndexIdentity, watermark: Watermark, files: Files, places: Places) -> None:
        """Open the legs of an existing directory; use `Generations`."""
        self.path = path
        self.number = number_of(path.name) or 0
        self.identity = identity
        self.watermark = watermark
        self.problems: dict[str, IndexProblem] = {}
        self._files = files
        self._lock = threading.Lock()
        self._committing = 0
        self._closed = False
        self.lexical = self._leg(LEXICAL, lambda: LexicalIndex.open(path / LEXICAL))
        self.vectors = self._leg(VECTORS, lambda: places.open(path / VECTORS, identity))
        if self.vectors is not None:
            self.vectors.expect(watermark.vector_count)

    def _leg(self, name: str, opening: Callable[[], Leg]) -> Leg | None:
        try:
            return opening()
        except IndexProblem as problem:
            problem.details.setdefault("leg", name)
            self.problems[name] = problem
            return None

    def commit_lexical(self, seq: int, vault_commit: str) -> None:
        """Make the lexical leg's buffered writes durable and move its mark to `seq`. Raises IndexProblem, OSError."""
        if self.lexical is None:
            raise self.problems[LEXICAL]
        with self._commit():
            self._files.fault(f"{OWNER}.lexical-commit")
            self.lexical.commit()
            self._mark(lexical_seq=seq, vault_commit=vault_commit, lexical_count=self.lexical.count())

    def commit_vectors(self, seq: int) -> None:
        """Make the vectors written so far durable and move their mark to `seq`. Raises IndexProblem, OSError."""
        if self.vectors is None:
            raise self.problems[VECTORS]
        with self._commit():
            self._files.fault(f"{OWNER}.vector-flush")
            self.vectors.flush()
            count = self.vectors.count()
            self._mark(vector_seq=seq, vector_count=count)
            self.vectors.expect(count)

    def mismatches(self) -> dict[str, IndexMismatch]:
        """Legs that hold other counts than they should, right now; costs about 0.1 ms.

        What a write under way changes is no mismatch. After a crash a leg may differ until its next commit.
        A leg that fails while it is asked is entered in `problems`.
        """
        found: dict[str, IndexMismatch] = {}
        before = self._committing
        mark = self.watermark
        drifts = {
            LEXICAL: (mark.lexical_count, self._drift(LEXICAL, lambda: self._lexical_drift(mark))),
            VECTORS: (mark.vector_count, self._drift(VECTORS, self._vector_drift)),
        }
        if before % 2 or before != self._committing:
            return found
        for leg, (expected, drift) in drifts.items():
            if drift:
                message = f"The {leg} index of generation {self.number} holds {abs(drift)} entries too "
                message += "many." if drift > 0 else "few."
                found[leg] = IndexMismatch(message, leg=leg, committed=expected, drift=drift)
        return found

    def retire_vectors(self, problem: IndexProblem) -> None:
        """Let the vectors go for that reason: they must not be compared with those of a query."""
        if self.vectors is not None:
            self.vectors.close()
        self.vectors, self.problems[VECTORS] = None, problem

    def close(self) -> None:
        """Let both legs go; what was not committed is done again later. Safe to call twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if self.lexical is not None:
            self.lexical.close()
        if self.vectors is not None:
            self.vectors.close()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def _lexical_drift(self, mark: Watermark) -> int:
        return self.lexical.count() - mark.lexical_count if self.lexical is not None else 0

    def _vector_drift(self) -> int:
        return self.vectors.drift() if self.vectors is not None else 0

    def _drift(self, leg: str, look: Callable[[], int]) -> int:
        try:
            drift = look()
        except IndexProblem as problem:
            if not self._closed:
                self.problems[leg] = problem
            return 0
        if isinstance(self.problems.get(leg), VectorServerProblem):
            self.problems.pop(leg, None)  # the server is back
        return drift

    @contextmanager
    def _commit(self) -> Iterator[None]:
        with self._lock:
            self._committing += 1
            try:
                yield
            finally:
                self._committing += 1

    def _mark(self, **changes: Any) -> None:
        mark = replace(self.watermark, **changes)
        write_watermark(self.path, mark, self._files)
        self.watermark = mark


class Generations:
    """All sets of one home under `root`; one process at a time owns it."""

    def __init__(self, root: Path, files: Files, places: Places | None = None) -> None:
        """Nothing is read yet. Vectors lie in files beside the words unless `places` says otherwise."""
        self.root = root
        self.places = places or Places(files)
        self.reason: IndexProblem | None = None
        """Why the last `open_current` gave None."""
        self._files = files
        self._open: list[Generation] = []
        self._prepared: set[str] = set()

    def open_current(self, identity: IndexIdentity) -> Generation | None:
        """The serving set, or None with the cause in `reason`: none there, not readable, of another identity."""
        self.reason = None
        try:
            path = self._current_path()
            made_for = read_manifest(path)
            if made_for != identity:
                raise _outdated(path, made_for, identity)
            return self._opened(self._generation(path, identity, read_watermark(path)))
        except IndexProblem as problem:
            self.reason = problem
            return None

    def open_former(self, identity: IndexIdentity) -> Generation | None:
        """The serving set although it was made for another identity; None as `open_current`.

        Its words serve on; its vectors only where they are of the same model, so that two models never mix.
        """
        self.reason = None
        try:
            path = self._current_path()
            made_for = read_manifest(path)
            former = self._opened(self._generation(path, made_for, read_watermark(path)))
        except IndexProblem as problem:
            self.reason = problem
            return None
        if made_for.vectors != identity.vectors:
            former.retire_vectors(_outdated(path, made_for, identity))
        return former

    def create(self, identity: IndexIdentity) -> Generation:
        """A new, empty set with the next number, which serves nobody yet. Raises IndexProblem, OSError."""
        return self._adopted(self.prepare(identity), identity, Watermark())

    def adopt(self, path: Path, identity: IndexIdentity, mark: Watermark) -> Generation:
        """Open a prepared set whose legs another process filled as far as `mark` says. Raises IndexProblem, OSError."""
        write_watermark(path, mark, self._files)
        return self._adopted(path, identity, mark)

    def _adopted(self, path: Path, identity: IndexIdentity, mark: Watermark) -> Generation:
        made = self._opened(self._generation(path, identity, mark))
        self._prepared.discard(path.name)
        for problem in made.problems.values():
            made.close()
            raise problem
        return made

    def abandon(self, path: Path) -> None:
        """Give a prepared set up that was not adopted; `collect` removes it."""
        self._prepared.discard(path.name)

    def prepare(self, identity: IndexIdentity) -> Path:
        """Where a new, empty set with the next number lies, closed; `adopt` opens it. Raises IndexProblem, OSError."""
        self._files.mkdir(self.root, owner=OWNER)
        path = self.root / f"gen-{max([0, *self._numbers()]) + 1}"
        self._files.mkdir(path, owner=OWNER)
        try:
            LexicalIndex.create(path / LEXICAL).close()
            self.places.create(path / VECTORS, identity)
            write_watermark(path, Watermark(), self._files)
            write_manifest(path, identity, self._files)
        except (IndexProblem, DiskFull, OSError):
            with suppress(OSError):  # nothing of a set that could not be made stays behind
                self._files.discard_tree(path, owner=OWNER)
            raise
        self._prepared.add(path.name)
        return path

    def publish(self, generation: Generation) -> None:
        """Let `generation` be the one that the next `open_current` opens. Raises OSError."""
        for folder in sorted(entry for entry in generation.path.rglob("*") if entry.is_dir()):
            self._files.fsync_dir(folder, owner=OWNER)
        self._files.fsync_dir(generation.path, owner=OWNER)
        self._files.replace(self.root / CURRENT, f"{generation.path.name}\n".encode(), owner=OWNER)

    def collect(self) -> list[int]:
        """Remove the sets that are neither current nor open here, half-built ones too; returns their numbers.

        Where no readable CURRENT says what to keep, nothing is removed. Raises OSError.
        """
        try:
            kept = {self._current_path().name}
        except IndexProblem:
            return []
        self._open = [one for one in self._open if not one.closed]
        kept |= {one.path.name for one in self._open} | self._prepared
        gone = sorted(number for number in self._numbers() if f"gen-{number}" not in kept)
        for number in gone:
            self._files.discard_tree(self.root / f"gen-{number}", owner=OWNER)
        self.places.collect({number_of(name) or 0 for name in kept})
        return gone

    def _generation(self, path: Path, identity: IndexIdentity, mark: Watermark) -> Generation:
        return Generation(path, identity, mark, self._files, self.places)

    def _opened(self, generation: Generation) -> Generation:
        self._open = [*(one for one in self._open if not one.closed), generation]
        return generation

    def _numbers(self) -> list[int]:
        if not self.root.is_dir():
            return []
        return [number for entry in self.root.iterdir() if (number := number_of(entry.name)) is not None]

    def _current_path(self) -> Path:
        pointer = self.root / CURRENT
        try:
            name = pointer.read_text("ascii").removesuffix("\n")
        except FileNotFoundError as error:
            raise IndexProblem(f"No generation is published in {self.root}.") from error
        except (OSError, UnicodeDecodeError) as error:
            raise IndexDamaged(f"{pointer} cannot be read: {error}.", path=str(pointer)) from error
        if number_of(name) is None or not (self.root / name).is_dir():
            raise IndexDamaged(f"{pointer} names {name[:40]!r}, which is not there.", path=str(pointer))
        return self.root / name


def _outdated(path: Path, made_for: IndexIdentity, wanted: IndexIdentity) -> IndexOutdated:
    return IndexOutdated(
        f"{path.name} was made for {made_for}; now in force: {wanted}.",
        next_step="Nothing to do: a new one is built in the background; `memoryd rebuild` builds it now. Embeddings of "
        "the same model are taken from the cache.",
        found=asdict(made_for),
        wanted=asdict(wanted),
    )
