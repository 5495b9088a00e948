"""What must every engine of vectors do, and what do all of them share?

The embedded engine (`index.vector`) and the one on a server (`index.remote`) keep one contract; one suite asks both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from memoryd.records import NO_TRAITS, Filter, LegHit, Traits

DENSE, SPARSE = "", "sparse"
"""Names of the engine's vectors; the first one is its default."""
TIE_MARGIN = 16
"""Hits read beyond the limit, so that equal scores are cut by id and not by place in the index."""
SINGLE = ("visible", "kind", "type", "document_id")
"""Fields of which each point has exactly one value."""
INDEXED = (*SINGLE, "ancestors")
"""Fields that filters use."""


@dataclass(frozen=True, slots=True)
class VectorEntry:
    """One embedded passage. `passage_id` is a UUID text; `index.packed` tells the form of `vector` and `sparse`."""

    passage_id: str
    document_id: str
    scope: str
    kind: str
    type: str
    status: str
    ancestors: list[str]
    vector: bytes
    sparse: bytes = b""
    traits: Traits = NO_TRAITS


class VectorEngine(Protocol):
    """The vectors of one generation. Searches may run in any thread while one thread writes.

    Every method raises IndexDamaged where what is stored cannot be used (a new generation is then built), IndexProblem
    kinds for anything else that keeps it from working.
    """

    dims: int
    sparse: bool

    def replace(self, document_ids: Sequence[str], entries: Sequence[VectorEntry]) -> None:
        """Make `entries` the only ones of these documents; seen by searches at once, durable after `flush`.

        Raises IndexProblem for an entry that cannot be stored (nothing is written then).
        """

    def flush(self) -> None:
        """Make everything written so far as durable as the engine promises."""

    def settle(self) -> None:
        """As `flush`, and make it quick to search: after a bulk of writes."""

    def count(self) -> int:
        """Points there are, exactly."""

    def expect(self, count: int) -> None:
        """Say how many points there should be (a watermark's count); `replace` keeps the number up to date."""

    def drift(self) -> int:
        """How many points there are beyond the expected ones (negative: lost); 0 while a write is under way."""

    def few(self, kind: str, most: int) -> bool:
        """Whether there are points of this kind, but fewer than `most`; False where that cannot be told at once."""

    def search(self, vector: bytes, filter: Filter, limit: int) -> list[LegHit]:
        """The `limit` nearest passages by cosine, best first, equal scores by id."""

    def search_sparse(self, weights: bytes, filter: Filter, limit: int) -> list[LegHit]:
        """The `limit` passages with the largest product of sparse weights, best first, equal scores by id; none
        without a token in common."""

    def ids(self) -> Iterator[tuple[str, str]]:
        """(document_id, passage_id) of every point, by passage id."""

    def differing(self, expected: Mapping[str, bytes]) -> list[str]:
        """Those passages (of a few) whose stored vector is not the expected one, or which are not there."""

    def damaged(self) -> Iterator[str]:
        """Passage ids of points whose stored vector is no unit vector; reads every vector."""

    def stale(self, expected: Callable[[list[str]], Mapping[str, bytes]]) -> Iterator[str]:
        """Passage ids of points whose vector is not the expected one; reads every vector.

        `expected` gives, for passage ids, the vectors that are known; unknown ones are passed over.
        """

    def close(self) -> None:
        """Wait for running calls, then let go; safe to call twice."""


def payload(entry: VectorEntry) -> dict[str, Any]:
    """What stands beside a point's vectors."""
    fields: dict[str, Any] = {
        "visible": visible(entry.scope, entry.status),
        "kind": entry.kind,
        "type": entry.type,
        "ancestors": list(entry.ancestors),
        "document_id": entry.document_id,
    }
    if entry.traits != NO_TRAITS:
        fields["traits"] = list(entry.traits.packed())
    return fields


def conditions(filter: Filter) -> list[tuple[str, list[str]]]:
    """(field, values): each field of a hit must have one of its values. Empty where `allows_nothing`."""
    return [("visible", allowed(filter)), *narrower(filter)]


def allowed(filter: Filter) -> list[str]:
    """The values of `visible` that a hit may have."""
    return list(dict.fromkeys(visible(scope, status) for scope in filter.scopes for status in filter.statuses))


def narrower(filter: Filter) -> list[tuple[str, list[str]]]:
    """The conditions beside that on `visible`."""
    wanted: list[tuple[str, Sequence[str]]] = [("kind", filter.kinds), ("type", filter.types)]
    wanted.append(("ancestors", (filter.path_prefix,) if filter.path_prefix else ()))
    return [(name, list(dict.fromkeys(values))) for name, values in wanted if values]


def allows_nothing(filter: Filter) -> bool:
    """Whether no point at all can pass."""
    return not filter.scopes or not filter.statuses


def document_of(held: Mapping[str, Any] | None) -> str:
    """A point without its payload can only come from damage; it then belongs to no document."""
    return str((held or {}).get("document_id", ""))


def paged(records: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """The records in lists of at most `size`."""
    page: list[Any] = []
    for record in records:
        page.append(record)
        if len(page) == size:
            yield page
            page = []
    if page:
        yield page


def traits_of(held: Mapping[str, Any] | None) -> Traits:
    """What a point is beyond its vectors."""
    packed_traits = (held or {}).get("traits")
    return Traits.unpacked(*packed_traits) if packed_traits else NO_TRAITS


def visible(scope: str, status: str) -> str:
    """Scope and status in one key: both are in every filter, and one condition costs the engine half of two."""
    return f"{status}:{scope}"
