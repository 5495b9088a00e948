"""Which words differ between two texts, on one line?"""

from __future__ import annotations

import difflib

WORDS_MOST = 400
"""Words of each text that are compared: the comparison grows with their product."""
AROUND = 3
"""Words shown before and after what differs."""
CHARACTERS_MOST = 600


def word_difference(before: str, after: str) -> str:
    """`the port is [-8080-] {+9090+} since ...`: words that went and that came, with a few around; '' for none."""
    old, new = before.split(), after.split()
    cut = max(len(old), len(new)) > WORDS_MOST
    old, new = old[:WORDS_MOST], new[:WORDS_MOST]
    parts: list[str] = []
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for at, (kind, left, right, start, end) in enumerate(codes):
        if kind == "equal":
            parts += _elided(old[left:right], first=at == 0, last=at == len(codes) - 1)
            continue
        if left < right:
            parts.append(f"[-{' '.join(old[left:right])}-]")
        if start < end:
            parts.append(f"{{+{' '.join(new[start:end])}+}}")
    if all(kind == "equal" for kind, *_ in codes):
        return ""
    line = " ".join([*parts, "..."] if cut else parts)
    return line if len(line) <= CHARACTERS_MOST else f"{line[:CHARACTERS_MOST]} ..."


def _elided(same: list[str], *, first: bool, last: bool) -> list[str]:
    """A run of words that both have: only those beside a difference."""
    head, tail = 0 if first else AROUND, 0 if last else AROUND
    if len(same) <= head + tail:
        return same
    return [*same[:head], "...", *(same[-tail:] if tail else [])]
