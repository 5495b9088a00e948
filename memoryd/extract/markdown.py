"""What does a Markdown file say about itself, and which blocks is its body made of?

Follows CommonMark where it decides what is a heading: ATX and setext headings, never inside fenced or indented code,
HTML comments or `<pre>`. One pass over the lines, each looked at once.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from memoryd.extract.blocks import Block, block

MAX_HEADING = 300
"""A longer line is text, whatever it begins with: a heading is repeated in every passage below it."""
_FRONT_LIMIT = 64 * 1024
_KEY = re.compile(r"""[ \t]*(?:[\w"'-][^:=\n]{0,200}[:=](?:\s|$)|#|-\s|\{|\}|\[)""")
_TITLE = re.compile(r"title[ \t]*[:=][ \t]*(.*)\Z", re.IGNORECASE)
_LIST_ITEM = re.compile(r"(?:[-+*]|\d{1,9}[.)])(?:\s|$)")
_TAGS = ("<!--", "<pre", "<script", "<style", "<textarea")


@dataclass(slots=True)
class Outline:
    """Blocks of a body in order, positions of list items (ascending), and the first top heading's words."""

    blocks: list[Block] = field(default_factory=list)
    breaks: array[int] = field(default_factory=lambda: array("q"))
    first_heading: str = ""


def front_matter(text: str, starts: Sequence[int]) -> tuple[int, str]:
    """(index of the first body line, title) of a leading `---` (or `+++`) block; (0, "") where there is none.

    A block that is never closed, or whose first line is no metadata, is body: nothing is swallowed.
    """
    mark = text[: starts[1]].rstrip()
    if mark not in {"---", "+++"}:
        return 0, ""
    title = ""
    plausible: bool | None = None
    for index in range(1, len(starts) - 1):
        line = text[starts[index] : starts[index + 1]].rstrip()
        if line == mark or (line == "..." and mark == "---"):
            return (0, "") if plausible is False else (index + 1, title)
        if starts[index] > _FRONT_LIMIT:
            break
        if line and plausible is None:
            plausible = _KEY.match(line) is not None
        found = None if title else _TITLE.match(line)
        title = _scalar(found[1]) if found else title
    return 0, ""


def _scalar(value: str) -> str:
    value = value.strip()
    if len(value) >= 2 and value[0] == value[-1] == '"':
        try:
            return str(json.loads(value)).strip()
        except ValueError:
            return value[1:-1].strip()
    if len(value) >= 2 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'").strip()
    value = re.split(r"\s#", value, maxsplit=1)[0].strip()
    return "" if value[:1] in {"|", ">", "&", "*", "!", "[", "{"} else value


def outline(text: str, starts: Sequence[int], first_line: int) -> Outline:
    """The blocks of all lines from index `first_line` on."""
    scanner = _Scanner(text, starts)
    for index in range(first_line, len(starts) - 1):
        scanner.line(index)
    scanner.finish(len(starts) - 1)
    return scanner.found


class _Scanner:
    """Knows which block is open; `_closer` decides which later line closes a fence or an HTML block."""

    def __init__(self, text: str, starts: Sequence[int]) -> None:
        self.text = text
        self.starts = starts
        self.found = Outline()
        self._open = -1
        self._fence = ""
        self._tag = ""
        self._in_list = False
        self._above: list[tuple[int, str]] = []
        self._path: tuple[str, ...] = ()

    def line(self, index: int) -> None:
        whole = self.text[self.starts[index] : self.starts[index + 1]]
        line = whole.strip()
        if self._fence:
            if line.startswith(self._fence) and not line.strip(self._fence[0]):
                self._close(index + 1, solid=True)
        elif self._tag:
            if self._tag in line.lower():
                self._close(index + 1)
        elif not line:
            self._close(index)
        elif line[0] in "#`~<=-+*0123456789":
            indent = len(whole) - len(whole.lstrip())
            self._special(index, line, indent, "\t" in whole[:indent])
        elif self._open < 0:
            self._text(index, whole[0].isspace())

    def finish(self, until: int) -> None:
        """Close what is open at the end of the text; an unclosed fence runs to here."""
        self._close(until, solid=bool(self._fence))

    def _special(self, index: int, line: str, indent: int, tab: bool) -> None:
        shallow = indent <= 3 and not tab
        heading = _atx(line) if shallow and line[0] == "#" else None
        if line[0] in "`~" and (shallow or self._in_list) and _opens_fence(line):
            self._close(index)
            self._open = index
            self._fence = line[: len(line) - len(line.lstrip(line[0]))]
        elif line[0] == "<" and shallow and (tag := _opens_tag(line)):
            self._close(index)
            self._open, self._tag = index, tag
            if tag in line.lower():
                self._close(index + 1)
        elif heading is not None:
            self._close(index)
            self._heading(index, index + 1, *heading)
        elif line[0] in "=-" and shallow and self._underlines(index, line):
            self._heading(self._open, index + 1, 1 if line[0] == "=" else 2, self._paragraph(index))
        else:
            if _LIST_ITEM.match(line):
                self._in_list = True
                self.found.breaks.append(self.starts[index])
            self._text(index, True)

    def _text(self, index: int, keeps_list: bool) -> None:
        """A line of a paragraph; one that begins at the margin after a blank line ends a list."""
        if self._open < 0:
            self._open = index
            self._in_list = self._in_list and keeps_list

    def _underlines(self, index: int, line: str) -> bool:
        """Whether this line makes the open paragraph a setext heading."""
        if self._open < 0 or line.strip(line[0]) or self.starts[index] - self.starts[self._open] > MAX_HEADING:
            return False
        begin = self.starts[self._open]
        if self.text[begin : begin + 4].isspace() or self.text[begin] == "\t":
            return False
        first = self._paragraph(index)
        return not _LIST_ITEM.match(first) and first[0] not in ">|"

    def _paragraph(self, until: int) -> str:
        return " ".join(self.text[self.starts[self._open] : self.starts[until]].split())

    def _heading(self, first: int, until: int, level: int, words: str) -> None:
        while self._above and self._above[-1][0] >= level:
            self._above.pop()
        if words:
            self._above.append((level, words))
        self._path = tuple(one for _, one in self._above)
        if level == 1 and not self.found.first_heading:
            self.found.first_heading = words
        self._open = first
        self._close(until, level=level)
        self._in_list = False

    def _close(self, until: int, *, level: int = 0, solid: bool = False) -> None:
        if self._open < 0:
            return
        begin, end = self.starts[self._open], self.starts[until]
        self.found.blocks.append(block(self.text, begin, end, level=level, path=self._path, solid=solid))
        self._open, self._fence, self._tag = -1, "", ""


def _atx(line: str) -> tuple[int, str] | None:
    """(level, words) of a stripped line that is an ATX heading."""
    words = line.lstrip("#")
    level = len(line) - len(words)
    if level > 6 or len(line) > MAX_HEADING or (words and words[0] not in " \t"):
        return None
    words = words.strip()
    bare = words.rstrip("#")
    closed = not bare or bare[-1] in " \t"
    return level, " ".join((bare if closed else words).split())


def _opens_fence(line: str) -> bool:
    run = len(line) - len(line.lstrip(line[0]))
    return run >= 3 and (line[0] == "~" or "`" not in line[run:])


def _opens_tag(line: str) -> str:
    """What closes the HTML block that a stripped line opens; "" where it opens none."""
    lowered = line[:16].lower()
    for tag in _TAGS:
        if lowered.startswith(tag) and (tag == "<!--" or lowered[len(tag) : len(tag) + 1] in {"", " ", "\t", ">"}):
            return "-->" if tag == "<!--" else f"</{tag[1:]}>"
    return ""
