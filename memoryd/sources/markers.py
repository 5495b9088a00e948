"""Did a merge leave its marks in a Markdown file, and on which line?"""

from __future__ import annotations

import re

_LINES = re.compile(rb"\r\n|\r|\n")
_FENCE = re.compile(rb" {0,3}(`{3,}|~{3,})")
_BEGIN, _MIDDLE, _END = (re.compile(mark + rb"( .*)?\Z") for mark in (b"<{7}", b"={7}", b">{7}"))


def conflict_line(data: bytes) -> int | None:
    """The line of the first `<<<<<<<` that a `=======` and a `>>>>>>>` follow; None without any.

    Fenced code may speak of such marks and is passed over.
    """
    if b"<<<<<<<" not in data:
        return None
    began, parted, fence = 0, False, b""
    for number, line in enumerate(_LINES.split(data), 1):
        mark = _FENCE.match(line)
        if mark is not None and not began:
            fence = mark[1] if not fence else b"" if _closes(mark[1], fence) else fence
        elif _BEGIN.match(line) and not fence:
            began, parted = number, False
        elif began and _MIDDLE.match(line):
            parted = True
        elif parted and _END.match(line):
            return began
    return None


def _closes(mark: bytes, fence: bytes) -> bool:
    return mark[:1] == fence[:1] and len(mark) >= len(fence)
