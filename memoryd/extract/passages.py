"""Which passages does a file hold, what is each called, and what of it is embedded?

Markdown is cut on headings and paragraphs, Python on definitions, every other text on paragraphs. Each non-blank
character of the body is in exactly one passage; front matter is in none.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memoryd.digest import passage_id, sha256_hex
from memoryd.extract.blocks import MAX_CHARS, MAX_WORDS, Block, Span, block, pack, split
from memoryd.extract.markdown import front_matter, outline
from memoryd.extract.symbols import Definition, definitions
from memoryd.extract.text import Decoded, byte_offsets, char_position, decode, line_starts
from memoryd.records import IndexedPassage, Passage

PASSAGE_SCHEMA = 1
"""Changes whenever the same bytes would give other passages."""

MARKDOWN_SUFFIXES = frozenset({".md", ".markdown", ".mdown", ".mkd", ".mdx"})
PYTHON_SUFFIXES = frozenset({".py", ".pyi", ".pyw"})
_NAMELESS = frozenset({"index", "_index", "readme", "__init__", "__main__", "main", "mod"})
_LOOSE_WORDS = 6
_PART_LIMIT = 80
_PREFIX_LIMIT = 200
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


@dataclass(frozen=True, slots=True)
class Extracted:
    """What was found in one file. `passages` is empty where the bytes are no text; then `problem` says so.

    `said_title` is the title where the caller or the content gave it, '' where it is only made of the file's name.
    """

    title: str
    said_title: str
    passages: tuple[Passage, ...]
    extractor: str
    encoding: str
    problem: str | None


@dataclass(frozen=True, slots=True)
class _Piece:
    """A character range of the body on its way to a passage; a `loose` one only holds lines between definitions."""

    start: int
    end: int
    heading: tuple[str, ...] = ()
    symbol: str = ""
    loose: bool = False


def extract(path: str, data: bytes, *, body_start: int = 0, title: str = "") -> Extracted:
    """The passages of a file called `path` that holds `data`; never raises for any bytes.

    `body_start` is the byte offset where the text begins (a memory's front matter is known to the caller); 0 lets a
    Markdown file's own front matter be found here. `title`, where given, is kept; else it is that of the front
    matter, the first top heading, or the file's name.
    """
    decoded = decode(data)
    if decoded is None:
        problem = "the content is binary, not text"
        return Extracted(title or readable_name(path), title, (), "none@1", "binary", problem)
    base = char_position(decoded, data, body_start) if body_start else 0
    body = decoded.text[base:] if base else decoded.text
    starts = line_starts(body)
    suffix = _suffix(path)
    found = ""
    if suffix in MARKDOWN_SUFFIXES:
        extractor = "markdown@1"
        first_line, found = front_matter(body, starts) if not body_start else (0, "")
        structure = outline(body, starts, first_line)
        found = _clean(found) or _clean(structure.first_heading)
        pieces = _of_spans(pack(body, structure.blocks, structure.breaks))
    elif suffix in PYTHON_SUFFIXES:
        extractor, pieces = "python@1", _python_pieces(body, starts)
    else:
        extractor, pieces = "text@1", _of_spans(pack(body, _paragraphs(body, starts)))
    lines_before = len(line_starts(decoded.text[:base])) - 2 if base else 0
    passages = _passages(decoded, base, lines_before, body, starts, list(pieces))
    said = title or found
    return Extracted(said or readable_name(path), said, passages, extractor, decoded.encoding, decoded.problem)


def embed_text(title: str, heading: tuple[str, ...], text: str) -> str:
    """What is embedded for a passage: title and headings as a first line, then the text.

    A part that already stands in the text as a line of its own is not repeated, and the first line stays short.
    """
    standing = {line.strip("#=*` \t").casefold() for line in text.splitlines()}
    parts: list[str] = []
    for part in (title, *heading):
        shown = " ".join(part.split())[:_PART_LIMIT].rstrip()
        if shown and shown.casefold() not in standing:
            standing.add(shown.casefold())
            parts.append(shown)
    while len(parts) > 1 and len(" > ".join(parts)) > _PREFIX_LIMIT:
        del parts[1 if len(parts) > 2 else 0]
    return f"{' > '.join(parts)}\n{text}" if parts else text


def identify(document_id: str, said_title: str, passages: Sequence[Passage]) -> tuple[IndexedPassage, ...]:
    """Passages with their ids: the same text in the same document keeps its id wherever it moves.

    The id is made of the text alone; what is embedded also holds title and headings, but never the file's name, so
    that a moved or copied file finds its vectors in the cache.
    """
    seen: Counter[str] = Counter()
    named: list[IndexedPassage] = []
    for passage in passages:
        digest = sha256_hex(passage.text.encode("utf-8"))
        identity = passage_id(document_id, digest, seen[digest])
        seen[digest] += 1
        embedded = embed_text(said_title, passage.heading, passage.text)
        named.append(IndexedPassage(identity, document_id, passage, embedded, sha256_hex(embedded.encode("utf-8"))))
    return tuple(named)


def embedded_again(title: str, heading: tuple[str, ...], text: str, text_sha256: str) -> str:
    """The text behind a passage's `text_sha256`, for a document whose title may only be its file's name."""
    with_title = embed_text(title, heading, text)
    if sha256_hex(with_title.encode("utf-8")) == text_sha256:
        return with_title
    return embed_text("", heading, text)


def readable_name(path: str) -> str:
    """A title made of a file's name; a name that says nothing (`README`, `index`) gets its folder's name too."""
    parts = [part for part in path.split("/") if part]
    name = parts[-1] if parts else ""
    stem = name[: -len(_suffix(name))] if _suffix(name) else name
    if stem.lower() in _NAMELESS and len(parts) > 1:
        stem = f"{parts[-2]} {stem.strip('_')}"
    words = " ".join(_clean(re.sub(r"[-_]+", " ", stem)).split())
    return words[:1].upper() + words[1:] or "Untitled"


def _clean(text: str) -> str:
    return _UNPRINTABLE.sub(" ", text).strip()


def _suffix(path: str) -> str:
    name = path.rsplit("/", 1)[-1]
    dot = name.rfind(".")
    return name[dot:].lower() if dot > 0 else ""


def _of_spans(spans: Iterator[Span]) -> Iterator[_Piece]:
    return (_Piece(span.start, span.end, tuple(_clean(part) for part in span.path)) for span in spans)


def _passages(
    decoded: Decoded, base: int, lines_before: int, body: str, starts: array[int], pieces: list[_Piece]
) -> tuple[Passage, ...]:
    edges = byte_offsets(decoded, (base + edge for piece in pieces for edge in (piece.start, piece.end)))
    made: list[Passage] = []
    last_line = len(starts) - 1
    for number, piece in enumerate(pieces):
        made.append(
            Passage(
                text=body[piece.start : piece.end],
                start=edges[2 * number],
                end=edges[2 * number + 1],
                line_start=lines_before + min(bisect_right(starts, piece.start), last_line),
                line_end=lines_before + min(bisect_right(starts, piece.end - 1), last_line),
                heading=piece.heading,
                symbol=piece.symbol,
            )
        )
    return tuple(made)


def _paragraphs(text: str, starts: array[int]) -> list[Block]:
    """Runs of non-blank lines."""
    blocks: list[Block] = []
    first = -1
    for index in range(len(starts) - 1):
        if text[starts[index] : starts[index + 1]].isspace() or starts[index] == starts[index + 1]:
            if first >= 0:
                blocks.append(block(text, starts[first], starts[index]))
            first = -1
        elif first < 0:
            first = index
    if first >= 0:
        blocks.append(block(text, starts[first], len(text)))
    return blocks


def _python_pieces(text: str, starts: array[int]) -> Iterator[_Piece]:
    found = definitions(text)
    if not found:
        return _of_spans(pack(text, _paragraphs(text, starts)))
    return _Regions(text, starts, found).pieces()


class _Regions:
    """A Python file as nested ranges of lines: what stands between definitions belongs to the one around them."""

    def __init__(self, text: str, starts: array[int], found: list[Definition]) -> None:
        self.text = text
        self.starts = starts
        self.children: dict[str, list[Definition]] = {}
        self.top: list[Definition] = []
        self.inner: list[list[Definition]] = [[] for _ in found]
        self.number = {id(one): number for number, one in enumerate(found)}
        around: list[Definition] = []
        for one in found:
            while around and around[-1].line_end < one.line_start:
                around.pop()
            (self.inner[self.number[id(around[-1])]] if around else self.top).append(one)
            around.append(one)

    def pieces(self) -> Iterator[_Piece]:
        """Pieces of the whole file in order; a few words between definitions go with what stands next to them."""
        held: _Piece | None = None
        for piece in self._region(1, len(self.starts) - 1, self.top, "", ()):
            joined = self._join(held, piece) if held else piece
            if joined is None and held:
                yield held
            held = joined or piece
        if held:
            yield held

    def _join(self, held: _Piece, piece: _Piece) -> _Piece | None:
        """Both as one, named like the first (a class's first line names its first method's passage), if that fits."""
        words = len(self.text[held.start : held.end].split()), len(self.text[piece.start : piece.end].split())
        loose = (held.loose and words[0] < _LOOSE_WORDS) or (piece.loose and words[1] < _LOOSE_WORDS)
        if not loose or sum(words) > MAX_WORDS or piece.end - held.start > MAX_CHARS:
            return None
        named = held if held.symbol else piece
        return _Piece(held.start, piece.end, named.heading, named.symbol, held.loose and piece.loose)

    def _region(
        self, first: int, last: int, inside: list[Definition], symbol: str, heading: tuple[str, ...]
    ) -> Iterator[_Piece]:
        below = (*heading, symbol.rsplit(".", 1)[-1]) if symbol else heading
        at = first
        for one in inside:
            begin = self._with_comments(at, max(one.line_start, at))
            yield from self._cut(at, begin - 1, symbol, heading)
            yield from self._definition(begin, one, below)
            at = one.line_end + 1
        yield from self._cut(at, last, symbol, heading)

    def _definition(self, begin: int, one: Definition, heading: tuple[str, ...]) -> Iterator[_Piece]:
        start, end = self.starts[begin - 1], self.starts[one.line_end]
        whole = self.text[start:end].rstrip()
        inside = self.inner[self.number[id(one)]]
        if inside and (len(whole) > MAX_CHARS or len(whole.split()) > MAX_WORDS):
            yield from self._region(begin, one.line_end, inside, one.name, heading)
        else:
            yield from self._cut(begin, one.line_end, one.name, heading, one.statements)

    def _cut(
        self, first: int, last: int, symbol: str, heading: tuple[str, ...], statements: tuple[int, ...] | None = None
    ) -> Iterator[_Piece]:
        if first > last:
            return
        breaks = [self.starts[line - 1] for line in statements or ()]
        for start, end in split(self.text, self.starts[first - 1], self.starts[last], breaks):
            yield _Piece(start, end, heading, symbol, loose=statements is None)

    def _with_comments(self, first: int, line: int) -> int:
        """The first line of the comments that stand directly above a definition, or of all that lies between."""
        begin = line
        while begin > first and self._line(begin - 1).startswith("#"):
            begin -= 1
        only_comments = all(self._line(number)[:1] in {"", "#"} for number in range(first, begin))
        return first if only_comments else begin

    def _line(self, number: int) -> str:
        return self.text[self.starts[number - 1] : self.starts[number]].strip()
