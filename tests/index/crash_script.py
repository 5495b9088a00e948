"""Runs one scenario of index generations and kills itself at the n-th fault point: `crash_script.py ROOT SCENARIO N`.

With N = -1 it prints the fault points instead. The tests start it as a process of its own.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from memoryd.files import Files
from memoryd.index.generations import Generation, Generations, IndexIdentity
from tests.index.entries import DIMS, entry, words

IDENTITY = IndexIdentity(model="m" * 64, dims=DIMS, analysis=1, passages=1)


class Killer:
    """A fault hook that ends the process at its n-th point, like kill -9."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.armed = False
        self.points: list[str] = []

    def __call__(self, point: str) -> None:
        if not self.armed:
            return
        if len(self.points) == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.points.append(point)


def fill(generation: Generation, name: str, *, seq: int) -> None:
    """Index one document into both legs, as the background loop does."""
    assert generation.lexical is not None and generation.vectors is not None
    one = entry(name)
    generation.lexical.replace([one.document_id], [words(name, f"text of {name}")])
    generation.commit_lexical(seq, f"commit {seq}")
    generation.vectors.replace([one.document_id], [one])
    generation.commit_vectors(seq)


def main() -> None:
    root, scenario, at = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    killer = Killer(at)
    generations = Generations(root, Files(killer))
    if scenario == "commit":
        current = generations.open_current(IDENTITY)
        assert current is not None
        killer.armed = True
        fill(current, "new.md", seq=2)
    else:
        killer.armed = scenario == "create"
        made = generations.create(IDENTITY)
        killer.armed = False
        fill(made, "new.md", seq=2)
        killer.armed = scenario == "publish"
        generations.publish(made)
        killer.armed = True
        made.close()
        if scenario == "collect":
            generations.collect()
    print("\n".join(killer.points), flush=True)


if __name__ == "__main__":
    main()
