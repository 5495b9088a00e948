"""Which words does the user say mean the same?

`<home>/synonyms.txt`: one line holds words or, between commas, phrases that mean the same; `#` begins a comment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memoryd.index.analysis import query_terms

NAME = "synonyms.txt"
MOST_LINES = 10_000


@dataclass(frozen=True, slots=True)
class Synonyms:
    """Lines as analysed: each holds its phrases, a phrase its words."""

    groups: tuple[tuple[tuple[str, ...], ...], ...]

    def beside(self, words: Sequence[str]) -> dict[str, float]:
        """The words that count beside those of a query, each with the share of its phrase."""
        asked = set(words)
        found: dict[str, float] = {}
        for phrases in self.groups:
            if any(asked.issuperset(phrase) for phrase in phrases):
                for phrase in phrases:
                    for word in phrase:
                        if word not in asked:
                            found[word] = max(1 / len(phrase), found.get(word, 0.0))
        return found


def parse(text: str) -> Synonyms:
    """The lines of a file that hold two or more phrases."""
    lines = (line.partition("#")[0] for line in text.splitlines()[:MOST_LINES])
    groups = (_phrases(line.split(",") if "," in line else line.split()) for line in lines)
    return Synonyms(tuple(group for group in groups if len(group) > 1))


def _phrases(parts: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    return tuple(dict.fromkeys(words for part in parts if (words := query_terms(part).words)))
