"""Which text do these bytes hold, in which lines, and which bytes does a piece of that text stand in?

Bytes of a corpus come in any encoding. What is decoded here never holds a lone surrogate: a byte (or UTF-16 unit) that
means nothing becomes U+FFFD, one character for each, so that character positions still map back to bytes exactly.
"""

from __future__ import annotations

import codecs
import re
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

REPLACEMENT = "\ufffd"
_SURROGATES = re.compile("[\ud800-\udfff]")
_CONTROLS = re.compile("[\x01-\x07\x0e-\x1a\x1c-\x1f\x7f]")
_LINE_END = re.compile("\r\n?|\n")
_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
"""Half of a surrogate pair in the manner of UTF-8: never valid, but a sign that UTF-8 was meant."""
_SAMPLE = 64 * 1024
_CONTROL_SHARE = 0.05
_MAGIC = (
    b"\x89PNG",
    b"\xff\xd8\xff",
    b"GIF8",
    b"%PDF-",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"\xfd7zXZ",
    b"BZh",
    b"7z\xbc\xaf",
    b"\x7fELF",
    b"SQLite format 3",
)
"""How common formats begin that are not text even where no NUL byte stands in them."""
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@dataclass(frozen=True, slots=True)
class Decoded:
    """Text of a file: `encoding` is what `slice_text` takes, `skip` the bytes of the byte order mark before the text.

    `problem` says in one sentence what was not as it should be. `raw` is the text before replacement; it has the same
    length as `text` and is what byte offsets are counted on.
    """

    text: str
    encoding: str
    problem: str | None = None
    skip: int = 0
    raw: str = field(default="", repr=False)


def decode(data: bytes) -> Decoded | None:
    """The text in `data`, or None where the bytes are not text (NUL bytes, a known binary format, control bytes).

    UTF-8 with or without BOM, UTF-16 with BOM; what is neither is read as UTF-8 with single bytes replaced where
    most of its non-ASCII characters are sound, else as Windows-1252, else as Latin-1. Never raises.
    """
    mark = data[:2]
    if mark in _UTF16:
        return _decode_utf16(data, _UTF16[mark])
    if b"\0" in data or data.startswith(_MAGIC):
        return None
    skip = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    body = memoryview(data)[skip:]
    try:
        text = str(body, "utf-8")
    except UnicodeDecodeError:
        return _decode_damaged(body, skip)
    return None if _is_binary(text) else Decoded(text, "utf-8", None, skip, text)


def slice_text(data: bytes, start: int, end: int, encoding: str) -> str:
    """The text that stands in bytes `start` to `end`; both must be offsets that a passage of these bytes carries."""
    return _SURROGATES.sub(REPLACEMENT, raw_text(data[start:end], encoding))


def raw_text(data: bytes, encoding: str) -> str:
    """The text of a passage's bytes before replacement: as long as what `slice_text` gives, and `raw_size` of any piece
    of it is the number of its bytes."""
    return data.decode(encoding, _handler(encoding))


def raw_size(piece: str, encoding: str) -> int:
    """How many stored bytes a piece of a raw (or sound) text stands in."""
    return len(piece.encode(encoding, _handler(encoding)))


def byte_offsets(decoded: Decoded, positions: Iterable[int]) -> list[int]:
    """Offsets into the file's bytes for ascending character positions of `decoded.text`."""
    if decoded.encoding in {"cp1252", "latin-1"} or (decoded.encoding == "utf-8" and decoded.raw.isascii()):
        return [decoded.skip + position for position in positions]
    handler = _handler(decoded.encoding)
    found: list[int] = []
    at, offset = 0, decoded.skip
    for position in positions:
        offset += len(decoded.raw[at:position].encode(decoded.encoding, handler))
        at = position
        found.append(offset)
    return found


def char_position(decoded: Decoded, data: bytes, offset: int) -> int:
    """Inverse of `byte_offsets` for one offset; offsets inside the byte order mark give 0."""
    before = data[decoded.skip : max(offset, decoded.skip)]
    return len(before.decode(decoded.encoding, _handler(decoded.encoding)))


def line_starts(text: str) -> array[int]:
    """Positions where lines begin (LF, CRLF and CR end a line), then the length of the text as a sentinel.

    The text's last line may be empty; line n (1-based) spans [n - 1] to [n] of what is returned.
    """
    starts = array("q", [0])
    starts.extend(match.end() for match in _LINE_END.finditer(text))
    starts.append(len(text))
    return starts


def _handler(encoding: str) -> str:
    return "surrogatepass" if encoding.startswith("utf-16") else "surrogateescape"


def _is_binary(text: str) -> bool:
    sample = text[:_SAMPLE]
    return len(_CONTROLS.findall(sample)) > _CONTROL_SHARE * len(sample)


def _decode_utf16(data: bytes, encoding: str) -> Decoded | None:
    whole = len(data) - len(data) % 2
    raw = str(memoryview(data)[2:whole], encoding, "surrogatepass")
    text, replaced = _SURROGATES.subn(REPLACEMENT, raw)
    if "\0" in text or _is_binary(text):
        return None
    problem = f"{replaced} unpaired UTF-16 surrogates are shown as U+FFFD" if replaced else None
    if whole != len(data):
        problem = "the UTF-16 text ends with half a character"
    return Decoded(text, encoding, problem, 2, raw if replaced else text)


def _decode_damaged(body: memoryview, skip: int) -> Decoded | None:
    raw = str(body, "utf-8", "surrogateescape")
    text, replaced = _SURROGATES.subn(REPLACEMENT, raw)
    sound = len(body) - len(text.encode("ascii", "ignore")) - replaced
    half = 3 * len(_ENCODED_SURROGATE.findall(body))
    if sound + 2 * half > replaced or skip:
        if _is_binary(text):
            return None
        return Decoded(text, "utf-8", f"{replaced} bytes are not valid UTF-8 and are shown as U+FFFD", skip, raw)
    try:
        encoding, text = "cp1252", str(body, "cp1252")
    except UnicodeDecodeError:
        encoding, text = "latin-1", str(body, "latin-1")
    if _is_binary(text):
        return None
    return Decoded(text, encoding, f"not valid UTF-8, read as {encoding}", skip, text)
