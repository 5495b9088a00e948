"""What do the turns around a turn of a conversation, its whole conversation and its speaker say for it?"""

from __future__ import annotations

import re
from collections.abc import Mapping

from memoryd.extract.turns import name_number
from memoryd.records import Traits

_WORD = re.compile(r"\w+")


def shared(
    shares: Mapping[str, Mapping[int, float]], given: Mapping[str, Mapping[str, float]], traits: Mapping[str, Traits]
) -> dict[str, float]:
    """What each turn has of the turns around it: of what a leg gave the one so many places away (-1: the one before
    it), that leg's share, whether the leg found the turn itself or not."""
    turns = {(its.thread, its.number): document for document, its in traits.items() if its.thread}
    found: dict[str, float] = {}
    for name, places in shares.items():
        leg = given.get(name, {})
        for (thread, number), document in turns.items() if leg else ():
            for away, share in places.items():
                other = turns.get((thread, number + away))
                if other is not None and other in leg:
                    found[document] = found.get(document, 0.0) + share * leg[other]
    return found


def with_thread(scores: Mapping[str, float], threads: Mapping[str, int], share: float) -> dict[str, float]:
    """Each document's score drawn by `share` towards the mean of the best two of its conversation."""
    best: dict[int, list[float]] = {}
    for document, thread in threads.items():
        best.setdefault(thread, []).append(scores[document])
    means = {thread: sum(sorted(found)[-2:]) / 2 for thread, found in best.items()}
    return {
        document: (score + share * means[threads[document]]) / (1 + share) if document in threads else score
        for document, score in scores.items()
    }


def of_speaker(query: str, traits: Mapping[str, Traits]) -> list[str]:
    """The turns of the one speaker whom the query names; none where it names none or several."""
    speakers = {its.speaker for its in traits.values()} - {0}
    named = speakers & {name_number(word) for word in _WORD.findall(query)} if speakers else set()
    return [document for document, its in traits.items() if its.speaker in named] if len(named) == 1 else []
