"""What would somebody write who writes a memory once more, with nothing new in it?

Blanks, punctuation or the order of sentences are changed; fenced code stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count

from memoryd.extract.wording import FENCE

_BLANK = re.compile(r"(?<=\S)[ \t]+(?=\S)")
_MARK = re.compile(r"[.,;:!?]+(?=\s|\Z)")
_SENTENCE = re.compile(r"(?<=[.!?])[ \t]+(?=\S)|\n+(?=\S)")
BREAK_EVERY = 5
"""So many blanks become a line break, where a letter follows."""


def readds(text: str) -> dict[str, str]:
    """The text in other forms by what was changed; a form that is no other is left out."""
    made = {name: _outside_code(text, change) for name, change in CHANGES.items()}
    return {name: one for name, one in made.items() if one != text}


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    parts: list[str] = []
    at = 0
    for fence in FENCE.finditer(text):
        parts += [change(text[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*parts, change(text[at:])])


def _blanks(prose: str) -> str:
    numbers = count(1)

    def other(match: re.Match[str]) -> str:
        breaks = next(numbers) % BREAK_EVERY == 0 and prose[match.end()].isalpha()
        return "\n" if breaks else match[0] + " "

    return _BLANK.sub(other, prose)


def _punctuation(prose: str) -> str:
    return _MARK.sub("", prose)


def _order(prose: str) -> str:
    body = prose.strip()
    parts = [part for part in _SENTENCE.split(body) if part]
    if len(parts) < 2:
        return prose
    lines = "\n" in body
    return prose.replace(body, ("\n" if lines else " ").join(reversed(parts)), 1)


CHANGES: dict[str, Callable[[str], str]] = {"blanks": _blanks, "punctuation": _punctuation, "order": _order}
