"""What differs between two texts, as a person reads it before saying yes?"""

from __future__ import annotations

import difflib

DIFF_LINES = 400
"""Lines of each text that are compared: the comparison grows with their product."""


def diff(before: str, after: str) -> list[str]:
    """What changes, in at most 200 lines; of long texts only the first lines of what differs are compared."""
    old, new = before.splitlines(), after.splitlines()
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    first = max(0, same - 2)
    shown = slice(first, first + DIFF_LINES)
    lines = list(difflib.unified_diff(old[shown], new[shown], "in force", "proposed", lineterm="", n=2))[:200]
    if max(len(old), len(new)) > first + DIFF_LINES:
        lines.append(f"... {len(old)} lines become {len(new)}")
    return lines
