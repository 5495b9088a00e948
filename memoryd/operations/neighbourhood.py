"""How near is the nearest neighbour of each memory in force, and is a memory caught that is written once more?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from memoryd.errors import NotFound, StoreError
from memoryd.extract.wording import same_words
from memoryd.operations.comparing import is_long, neighbours
from memoryd.operations.home import Home
from memoryd.operations.known import body_of
from memoryd.operations.nearness import Cuts
from memoryd.operations.readds import CHANGES, readds
from memoryd.operations.separation import reached
from memoryd.records import MemoryFields

SAMPLE = 500
"""Memories that are measured: the first by id, which says nothing of what they are."""
MODEL_SECONDS = 60.0
NAMED_MOST = 10
QUANTILES = (0.5, 0.9, 0.99, 1.0)


@dataclass(slots=True)
class Neighbourhood:
    """What a sample of the memories in force says."""

    in_force: int
    measured: int = 0
    unchecked: int = 0
    """Compared without the model's say about all of it."""
    nearest: list[float] = field(default_factory=list)
    """The likeness of each one's nearest neighbour that is no revision of it and says other words."""
    long: list[float] = field(default_factory=list)
    """Those of them of some length: likeness alone may propose a revision."""
    revised: int = 0
    """Memories that say something else about what another one in force says, by their grammar or key."""
    same_words: list[tuple[str, str]] = field(default_factory=list)
    made: Counter[str] = field(default_factory=Counter)
    caught: Counter[str] = field(default_factory=Counter)
    missed: list[tuple[str, str]] = field(default_factory=list)

    def told(self, cuts: Cuts) -> dict[str, Any]:
        """As JSON, with what the cuts would do here."""
        ranked = sorted(self.nearest)
        return {
            "in_force": self.in_force,
            "measured": self.measured,
            "unchecked": self.unchecked,
            "neighbours": {f"p{share * 100:g}": _quantile(ranked, share) for share in QUANTILES},
            "flagged": round(reached(self.nearest, cuts.similar), 3),
            "proposed": round(reached(self.long, cuts.revision), 3),
            "revised": self.revised,
            "same_words": [list(pair) for pair in self.same_words[:NAMED_MOST]],
            "readds": {name: {"made": self.made[name], "caught": self.caught[name]} for name in CHANGES},
            "missed": [{"id": identity, "changed": name} for identity, name in self.missed[:NAMED_MOST]],
        }


def _quantile(ranked: list[float], share: float) -> float | None:
    return round(ranked[min(len(ranked) - 1, int(share * len(ranked)))], 3) if ranked else None


def survey(home: Home, progress: Callable[[int, int, str], None], stop: Callable[[], bool]) -> Neighbourhood:
    """Compare each memory of the sample with those in force in its scope, as adding it would."""
    rows = home.memories.listed(None, ("in_force",), (), -1, 0)
    found = Neighbourhood(len(rows))
    sample = sorted(rows, key=lambda row: row.fields.id)[:SAMPLE]
    for at, row in enumerate(sample):
        if stop():
            break
        progress(at, len(sample), "memories")
        try:
            memory = replace(row.fields, body=body_of(home, row))
        except (NotFound, StoreError):
            continue  # it cannot be read; `check` says so
        found.measured += 1
        _look(home, memory, found)
        _write_again(memory, found)
    return found


def _look(home: Home, memory: MemoryFields, found: Neighbourhood) -> None:
    beside, checked = neighbours(home, memory, wait=MODEL_SECONDS, whole=True)
    found.unchecked += not checked
    twins = [near.row.fields.id for near in beside if near.variant and near.row.fields.id > memory.id]
    found.same_words += [(memory.id, other) for other in twins]
    known = [near for near in beside if near.cosine is not None and not near.variant]
    distinct = [near for near in known if near.revision is None]
    found.revised += len(distinct) < len(known)
    if distinct:
        found.nearest.append(max(near.likeness for near in distinct))
    if long := [near.likeness for near in distinct if is_long(memory.body, near.body)]:
        found.long.append(max(long))


def _write_again(memory: MemoryFields, found: Neighbourhood) -> None:
    for name, other in readds(memory.body).items():
        found.made[name] += 1
        if same_words(memory.body, other):
            found.caught[name] += 1
        else:
            found.missed.append((memory.id, name))
