"""How is a thing named by its bytes?

Addresses are `sha256:<64 lower-case hex>`, what `sha256sum` prints. Identities follow docs/formats.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
import uuid
from typing import Any

from memoryd.errors import BadAddress

PREFIX = "sha256:"
MIN_PREFIX_DIGITS = 8
_HEX = re.compile(r"[0-9a-f]+\Z")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_BLANKS = re.compile(r"[ \t\u00a0\u2000-\u200a\u202f\u205f\u3000]+")


def sha256_hex(data: bytes | memoryview) -> str:
    """The 64 lower-case hex digits of the SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()


def address_of(data: bytes | memoryview) -> str:
    """The content address of whole bytes."""
    return PREFIX + sha256_hex(data)


def raw_address(text: str) -> bytes:
    """The 32 bytes of a whole address."""
    return bytes.fromhex(text.removeprefix(PREFIX))


def parse_address(text: str) -> tuple[str, bool]:
    """Lower-case hex digits of an address or address prefix, and whether they are all 64.

    Raises `BadAddress` for anything else (paths, `..`, fewer than 8 digits).
    """
    digits = text.strip().lower().removeprefix(PREFIX)
    if not MIN_PREFIX_DIGITS <= len(digits) <= 64 or not _HEX.match(digits):
        raise BadAddress(f"{text[:100]!r} is not a content address.")
    return digits, len(digits) == 64


def canonical_json(value: Any) -> bytes:
    """RFC 8785 bytes of JSON made of ASCII keys, strings, integers below 2**53, booleans, None, lists, dicts.

    For such values Python's serialiser with sorted keys gives exactly the RFC's form (checked against the
    `rfc8785` package in the tests); floats are refused because their form would differ.
    """
    _refuse_floats(value)
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def read_canonical(raw: bytes) -> Any:
    """The value whose canonical JSON these bytes are. Raises ValueError where they are no canonical JSON."""
    text = raw.decode()
    value = _DECODER.decode(text)
    if _ENCODER.encode(value) != text:
        raise ValueError("the JSON is not in its canonical form")
    return value


def _no_float(text: str) -> float:
    raise ValueError(f"canonical JSON here holds no {text}")


_DECODER = json.JSONDecoder(parse_float=_no_float, parse_constant=_no_float)
_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _refuse_floats(value: Any) -> None:
    if isinstance(value, float):
        raise TypeError("canonical JSON here holds no floats")
    if isinstance(value, dict):
        for item in value.values():
            _refuse_floats(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _refuse_floats(item)


def document_id(source: str, path: bytes) -> str:
    """64 hex digits that name a (source, path) pair, whatever content is seen there."""
    return hashlib.sha256(b"document\0" + source.encode() + b"\0" + path).hexdigest()


def passage_id(document: str, text_sha256: str, occurrence: int) -> str:
    """The UUID (as text) of the `occurrence`-th passage with this text in one document."""
    raw = bytearray(hashlib.sha256(f"passage\0{document}\0{text_sha256}\0{occurrence}".encode()).digest()[:16])
    # Version 8 (own scheme) by hand: uuid.UUID(version=8) is refused before Python 3.14.
    raw[6] = raw[6] & 0x0F | 0x80
    raw[8] = raw[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(raw)))


def memory_id(*, scope: str, type: str, key: str | None, content: str, supersedes: str | None) -> str:
    """64 hex digits that name one revision of a memory at its birth."""
    payload: dict[str, Any] = {
        "v": 1,
        "scope": scope,
        "type": type,
        "key": key,
        "content": normalise_for_identity(content),
        "supersedes": supersedes,
    }
    return sha256_hex(canonical_json(payload))


def normalise_for_identity(text: str) -> str:
    """The form of a memory's text that its id is made of; the body itself is stored as given.

    LF, outer blanks trimmed; outside code NFC and runs of blanks collapsed to one. Lines of fenced code (an unclosed
    fence runs to the end) and of indented code (four spaces or a tab, after a blank line) stay byte-exact. One
    indented line at the very beginning counts as code only where that makes a difference. A second time changes
    nothing.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    while lines and not lines[0].strip():
        del lines[0]
    if lines and _is_indented(lines[0]) and not (len(lines) > 1 and _is_indented(lines[1])):
        alone = lines[0].strip()
        if _plain(alone) == alone and not _FENCE.match(alone):
            lines[0] = alone
    out: list[str] = []
    fence = ""
    may_indent = True
    for line in lines:
        kept, fence, may_indent = _normalise_line(line, fence, may_indent)
        out.append(kept)
    return "\n".join(out).rstrip()


def _normalise_line(line: str, fence: str, may_indent: bool) -> tuple[str, str, bool]:
    if fence:
        closing = _FENCE.match(line)
        closes = closing is not None and closing[1].startswith(fence) and not line.strip().strip(fence[0])
        return line, "" if closes else fence, True
    if not line.strip():
        return "", "", True
    if may_indent and _is_indented(line):
        return line, "", True
    plain = _plain(line)
    opening = _FENCE.match(plain)  # looked for in what is kept, so that a second time sees the same
    return plain, opening[1] if opening is not None else "", opening is not None


def _is_indented(line: str) -> bool:
    return line.startswith(("    ", "\t")) and bool(line.strip())


def _plain(line: str) -> str:
    return _BLANKS.sub(" ", unicodedata.normalize("NFC", line)).strip()


def slug(text: str, *, limit: int = 48, fallback: str = "note") -> str:
    """A lower-case ASCII file-name part: letters, digits and single dashes."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:limit].rstrip("-") or fallback
