"""Which bytes of a file are its lines 10 to 20?

Counted as hits of a search count them: LF, CRLF and CR end a line. A byte order mark belongs to the first line, a line
end to the line that it ends, so that all pieces together are the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memoryd.extract.text import byte_offsets, decode, line_starts


@dataclass(frozen=True, slots=True)
class Lines:
    """A text file cut at its lines; `at` holds where each begins, and the end."""

    data: bytes
    at: Sequence[int]

    @property
    def count(self) -> int:
        """How many there are; what ends with a line end has none after it."""
        return len(self.at) - 1

    def piece(self, first: int, last: int) -> bytes:
        """The bytes of some lines (1-based, both included) that are there."""
        return self.data[self.at[first - 1] : self.at[last]]

    def words(self) -> list[bytes]:
        """Each line without its line end."""
        return [self.data[a:b].rstrip(b"\r\n") for a, b in zip(self.at, self.at[1:], strict=False)]


def lines_of(data: bytes) -> Lines | None:
    """The lines of these bytes; None where they are no text."""
    decoded = decode(data)
    if decoded is None:
        return None
    starts = line_starts(decoded.text)
    at = byte_offsets(decoded, starts)
    if starts[-2] == starts[-1]:
        at.pop()
    at[0], at[-1] = 0, len(data) if len(at) > 1 else 0
    return Lines(data, at)
