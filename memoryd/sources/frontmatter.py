"""Where does the frontmatter of a Markdown file stand, and which keys and values are typed there?

YAML is read as a stream of events: nesting costs no recursion, anchors no memory, and every scalar stays the text that
was typed. Places are character offsets, so that single values can be replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import yaml

from memoryd.errors import VaultFileInvalid

MAX_CHARACTERS = 256 * 1024
"""Characters of frontmatter that are read; more is no metadata."""
MAX_DEPTH = 1000

_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_BOM = b"\xef\xbb\xbf"
_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_FENCE = re.compile(r"---[ \t]*\Z")
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|\ufeff")
_ESCAPED = re.compile('["\\\\\x00-\x1f\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]')
_NAMED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


@dataclass(slots=True)
class Value:
    """The value of one key: text, a flat list, or something deeper; where it stands (characters of frontmatter)."""

    kind: Literal["text", "list", "other"]
    start: int
    end: int
    text: str = ""
    items: list[str] = field(default_factory=list)
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Pair:
    """A top-level key: its line in the file, where it starts and ends, its value."""

    line: int
    start: int
    end: int
    value: Value


@dataclass(frozen=True, slots=True)
class Parts:
    """A file cut at its fences: BOM, opening fence, YAML, closing fence (with one empty line after it), body."""

    bom: bytes
    opening: str
    yaml: str
    closing: str
    body: str
    newline: str

    def joined(self, yaml_text: str) -> bytes:
        """The file with other YAML."""
        return self.bom + (self.opening + yaml_text + self.closing + self.body).encode()


def invalid(line: int, key: str | None, reason: str) -> VaultFileInvalid:
    """The error for one place of a file."""
    named = f", key `{key}`" if key else ""
    return VaultFileInvalid(f"Line {line}{named}: {reason}.", line=line, **({"key": key} if key else {}))


def listed(keys: Sequence[str]) -> str:
    """Names of keys as messages show them."""
    return ", ".join(f"`{key}`" for key in keys)


def cut(data: bytes, wanted: Sequence[str] = ()) -> Parts:
    """Find the fences. Raises VaultFileInvalid for what is not UTF-8 or has no closed frontmatter.

    Where there is none at all, the error names the keys that are `wanted` in it.
    """
    bom = _BOM if data.startswith(_BOM) else b""
    try:
        text = data[len(bom) :].decode("utf-8")
    except UnicodeDecodeError as error:
        line = len(re.findall(rb"\r\n|\r|\n", data[: len(bom) + error.start])) + 1
        raise invalid(line, None, f"byte {error.start + len(bom)} is not UTF-8") from error
    opening = _line(text, 0)
    if not _FENCE.match(opening[1]):
        keys = f"; a memory needs the keys {listed(wanted)} there" if wanted else ""
        raise invalid(1, None, f"the file does not begin with frontmatter (a line `---`){keys}")
    at = opening.end()
    while at < len(text):
        line_here = _line(text, at)
        if _FENCE.match(line_here[1]):
            return _parts(bom, text, opening, line_here)
        at = line_here.end()
    raise invalid(1, None, "the frontmatter is opened but never closed by a line `---`")


def pairs_of(text: str, single: Sequence[str]) -> dict[str, Pair]:
    """Top-level keys of the YAML text; those in `single` may stand once. Raises VaultFileInvalid."""
    if len(text) > MAX_CHARACTERS:
        raise invalid(1, None, f"the frontmatter is longer than {MAX_CHARACTERS} characters")
    bad = _UNPRINTABLE.search(text)
    if bad is not None:
        raise invalid(line_at(text, bad.start()), None, f"the character U+{ord(bad[0]):04X} may not stand here")
    try:
        return _mapping(text, iter(yaml.parse(text, Loader=_LOADER)), single)
    except yaml.MarkedYAMLError as error:
        mark: Any = error.problem_mark or error.context_mark
        line = 1 if mark is None else line_at(text, mark.index)
        raise invalid(line, None, str(error.problem or error.context)) from error
    except yaml.YAMLError as error:
        raise invalid(1, None, str(error)) from error


def line_at(text: str, index: int) -> int:
    """Line in the file (the opening fence is line 1) of a place in the YAML text."""
    return len(re.findall(r"\r\n|\r|\n", text[:index])) + 2


def quoted(text: str) -> str:
    """A double-quoted YAML scalar on one line."""
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def replacement(text: str, pair: Pair, new: str) -> tuple[int, int, str]:
    """The edit (start, end, text) that gives a key a new value on the key's own line."""
    colon = text.index(":", pair.end) + 1
    end = len(text[: pair.value.end].rstrip())
    return colon, max(colon, end), " " + new


def removal(text: str, pair: Pair) -> tuple[int, int, str]:
    """The edit that takes out the lines of a key and its value."""
    end = max(pair.end, len(text[: pair.value.end].rstrip()))
    return pair.start, _line(text, end).end(), ""


def _line(text: str, at: int) -> re.Match[str]:
    found = _LINE.match(text, at)
    assert found is not None  # the pattern matches everywhere
    return found


def _parts(bom: bytes, text: str, opening: re.Match[str], closing: re.Match[str]) -> Parts:
    empty = _line(text, closing.end())
    body = closing.end() if empty[1] else empty.end()
    start, end = opening.end(), closing.start()
    return Parts(bom, text[:start], text[start:end], text[end:body], text[body:], opening[2])


def _mapping(text: str, events: Iterator[Any], single: Sequence[str]) -> dict[str, Pair]:
    pairs: dict[str, Pair] = {}
    anchors: dict[str, str] = {}
    root = next(event for event in events if not isinstance(event, (yaml.StreamStartEvent, yaml.DocumentStartEvent)))
    if isinstance(root, yaml.StreamEndEvent):
        raise invalid(1, None, "the frontmatter is empty")
    if not isinstance(root, yaml.MappingStartEvent) or root.flow_style:
        raise invalid(line_at(text, root.start_mark.index), None, "the frontmatter is no list of `key: value` lines")
    for event in events:
        if isinstance(event, yaml.MappingEndEvent):
            break
        key = _value(text, event, events, anchors)
        value = _value(text, next(events), events, anchors)
        line = line_at(text, key.start)
        if key.text in pairs and key.text in single:
            raise invalid(line, key.text, "the key stands here a second time")
        if key.kind == "text":
            pairs.setdefault(key.text, Pair(line, key.start, key.end, value))
    end, after = next(events), next(events)
    if not isinstance(end, yaml.DocumentEndEvent) or not isinstance(after, yaml.StreamEndEvent):
        raise invalid(line_at(text, after.start_mark.index), None, "the frontmatter holds more than one document")
    return pairs


def _value(text: str, first: Any, events: Iterator[Any], anchors: dict[str, str]) -> Value:
    """One node, whose first event is given; what lies deeper than a flat list is read over."""
    start, end = first.start_mark.index, first.end_mark.index
    if isinstance(first, yaml.ScalarEvent):
        if first.anchor is not None:
            anchors[str(first.anchor)] = first.value
        return Value("text", start, end, first.value, quoted=bool(first.style))
    if isinstance(first, yaml.AliasEvent):
        meant = anchors.get(str(first.anchor))
        return Value("other", start, end) if meant is None else Value("text", start, end, meant, quoted=True)
    return _collection(text, first, events)


def _collection(text: str, first: Any, events: Iterator[Any]) -> Value:
    flat = isinstance(first, yaml.SequenceStartEvent)
    value = Value("list" if flat else "other", first.start_mark.index, first.end_mark.index)
    depth = 1
    while depth:
        event = next(events)
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        if depth > MAX_DEPTH:
            line = line_at(text, event.start_mark.index)
            raise invalid(line, None, f"lists or mappings are nested deeper than {MAX_DEPTH}")
        if isinstance(event, yaml.ScalarEvent):
            value.items.append(event.value)
        elif not isinstance(event, yaml.CollectionEndEvent):
            value.kind = "other"
        if event.end_mark.index > event.start_mark.index or isinstance(event, yaml.ScalarEvent):
            value.end = event.end_mark.index
    return value


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    return _NAMED.get(char) or (f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}")
