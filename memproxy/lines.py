"""What does one line of JSON-RPC say, as far as a relay has to know?

The C half of `json` is taken directly: importing `json` itself (with `re` and `enum`) doubles the proxy's start.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # a plain name instead of typing's, which would cost start-up time
    from typing import Any

HEAD_BYTES = 64 * 1024
TAIL_BYTES = 4 * 1024


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


class _Settings:
    """What the scanner reads: strict JSON, plain Python values."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(_refuse_constant)


_scan: Any
_encode: Any
try:
    from _json import encode_basestring_ascii, make_encoder, make_scanner

    _scan = make_scanner(_Settings())  # type: ignore[arg-type]
    _encode = make_encoder(None, repr, encode_basestring_ascii, None, ":", ",", False, False, False)
except ImportError:  # an interpreter without the C halves
    import json

    _scan = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode

    def _encode(value: Any, _indent: int) -> str:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)


def parse(line: bytes) -> Any:
    """The value of one line. Raises ValueError (not UTF-8, not JSON), RecursionError (nested too deeply)."""
    text = line.decode("utf-8").strip(" \t\r\n")
    try:
        value, end = _value(text, 0)
    except StopIteration:
        raise ValueError("not JSON") from None
    if end != len(text):
        raise ValueError("something follows the JSON value")
    return value


def _value(text: str, position: int) -> tuple[Any, int]:
    """The value at a position and where it ends. Raises StopIteration, ValueError, RecursionError."""
    try:
        found: tuple[Any, int] = _scan(text, position)
    except SystemError:  # before Python 3.12 the scanner knows its own error class only once this is loaded
        import json.decoder  # noqa: F401 - loading it is the point

        found = _scan(text, position)
    return found


def serialise(message: dict[str, Any]) -> bytes:
    """One line of ASCII JSON, newline included; for the few messages that the proxy writes itself."""
    return "".join(_encode(message, 0)).encode() + b"\n"


def error_line(request_id: str | int | float, code: int, message: str, data: dict[str, Any]) -> bytes:
    """An error answer as one line."""
    error = {"code": code, "message": message, "data": data}
    return serialise({"jsonrpc": "2.0", "id": request_id, "error": error})


def is_id(value: object) -> bool:
    """Whether a value may stand as a JSON-RPC id that can be answered (never null)."""
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


def rescue_id(head: bytes, tail: bytes) -> str | int | float | None:
    """The id of a request whose line cannot be parsed whole: damaged, or longer than the limit.

    `head` and `tail` are the line's two ends (both the whole line where it is short). None where no id can be
    told for certain, or where the line is an answer.
    """
    found, keys = _members_of_head(head.decode("utf-8", "replace"))
    if "result" in keys or "error" in keys:
        return None
    return found if found is not None else _id_of_tail(tail.decode("utf-8", "replace"))


def _members_of_head(text: str) -> tuple[str | int | float | None, set[str]]:
    """The top-level id, where it stands before the damage, and the top-level keys seen on the way."""
    keys: set[str] = set()
    position = _after(text, 0, "{")
    try:
        while position > 0:
            key, position = _value(text, _blank(text, position))
            keys.add(str(key))
            value, position = _value(text, _blank(text, _after(text, position, ":")))
            if key == "id" and is_id(value):
                return value, keys
            position = _after(text, position, ",")
    except (StopIteration, ValueError, RecursionError):
        pass
    return None, keys


def _id_of_tail(text: str) -> str | int | float | None:
    """The id among the last members: only where `{` and the rest of the line make one whole object."""
    position = len(text)
    for _ in range(8):
        position = text.rfind('"id"', 0, position)
        if position < 0:
            return None
        if text[:position].rstrip(" \t\r\n")[-1:] not in {",", "{"}:
            continue
        try:
            members = parse(b"{" + text[position:].encode())
        except (ValueError, RecursionError):
            continue
        if isinstance(members, dict) and is_id(members.get("id")):
            found: str | int | float = members["id"]
            return found
    return None


def _blank(text: str, position: int) -> int:
    while text[position : position + 1] in {" ", "\t", "\r", "\n"}:
        position += 1
    return position


def _after(text: str, position: int, mark: str) -> int:
    """The position behind `mark`, or one that no value can start at."""
    position = _blank(text, position)
    return position + 1 if text[position : position + 1] == mark else len(text) + 1


class Overlong:
    """A line over the limit: its two ends and its length so far in bytes."""

    __slots__ = ("head", "size", "tail")

    def __init__(self, head: bytes) -> None:
        self.head = head[:HEAD_BYTES]
        self.tail = b""
        self.size = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        self.tail = (self.tail + data[-TAIL_BYTES:])[-TAIL_BYTES:]


class LineBuffer:
    """Cuts a byte stream into lines; holds at most `limit` bytes (newline included) of an unfinished one."""

    __slots__ = ("_limit", "_overlong", "_parts", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._overlong: Overlong | None = None

    def feed(self, data: bytes) -> list[bytes | Overlong]:
        """The lines that `data` finishes, without their newline."""
        lines: list[bytes | Overlong] = []
        pieces = data.split(b"\n")
        for piece in pieces[:-1]:
            self._add(piece)
            lines.append(self._finish())
        self._add(pieces[-1])
        return lines

    def _add(self, piece: bytes) -> None:
        if self._overlong is None:
            self._parts.append(piece)
            self._size += len(piece)
            if self._size < self._limit:
                return
            piece = b"".join(self._parts)
            self._overlong = Overlong(piece)
            self._parts = []
        self._overlong.add(piece)

    def _finish(self) -> bytes | Overlong:
        line: bytes | Overlong = self._overlong if self._overlong is not None else b"".join(self._parts)
        self._overlong, self._parts, self._size = None, [], 0
        return line
