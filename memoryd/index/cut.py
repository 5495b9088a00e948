"""Which hits are the best of what an engine gave, where it breaks ties by place?"""

from __future__ import annotations

from collections.abc import Sequence

from memoryd.records import LegHit


def best(found: Sequence[LegHit], limit: int) -> list[LegHit]:
    """The `limit` best of hits that come best first, those of equal scores by their ids. What only ties with the last
    one may take its place; beyond it the list may go on."""
    hits = list(found)
    start = 0
    for at in range(1, len(hits) + 1):
        if at == len(hits) or hits[at].score != hits[start].score:
            if at - start > 1:
                hits[start:at] = sorted(hits[start:at])
            if at >= limit:
                break
            start = at
    return hits[:limit]
