"""How do daemon and child tell each other one thing at a time over a pipe?

A frame is two little-endian u32 lengths, a JSON object (the header) and raw bytes (the payload). Both lengths are
bounded, so a stray byte in the pipe cannot make either side wait for gigabytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from memoryd.errors import ModelUnavailable

MAX_HEADER_BYTES = 64 * 1024
MAX_PAYLOAD_BYTES = 32 * 1024 * 1024
_LENGTHS = struct.Struct("<II")

Read = Callable[[int], bytes]
"""Reads at most n bytes, at least one; `b""` only at the end of the stream."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message."""

    header: dict[str, Any]
    payload: bytes = b""


def encode(frame: Frame) -> bytes:
    """The bytes of a frame. Raises ModelUnavailable where it is over the limits."""
    header = json.dumps(frame.header, separators=(",", ":")).encode()
    if len(header) > MAX_HEADER_BYTES or len(frame.payload) > MAX_PAYLOAD_BYTES:
        raise ModelUnavailable("A message for the model's process is too large.")
    return _LENGTHS.pack(len(header), len(frame.payload)) + header + frame.payload


def decode(read: Read) -> Frame | None:
    """The next frame, or None where the stream ends between frames. Raises ModelUnavailable for damage."""
    lengths = _exactly(read, _LENGTHS.size, may_end=True)
    if not lengths:
        return None
    header_length, payload_length = _LENGTHS.unpack(lengths)
    if header_length > MAX_HEADER_BYTES or payload_length > MAX_PAYLOAD_BYTES:
        raise ModelUnavailable("A message of the model's process is damaged: impossible length.")
    raw = _exactly(read, header_length)
    payload = _exactly(read, payload_length)
    try:
        header = json.loads(raw)
    except ValueError as error:
        raise ModelUnavailable("A message of the model's process is damaged: its header is not JSON.") from error
    if not isinstance(header, dict):
        raise ModelUnavailable("A message of the model's process is damaged: its header is no object.")
    return Frame(header, payload)


def joined(parts: Sequence[bytes]) -> tuple[list[int], bytes]:
    """Several byte strings as one payload, with the lengths that take it apart again."""
    return [len(part) for part in parts], b"".join(parts)


def parted(lengths: Sequence[int], payload: bytes) -> list[bytes]:
    """The byte strings of a payload. Raises ModelUnavailable where the lengths do not fit it."""
    places = [0, *accumulate(lengths)]
    if min([0, *lengths]) < 0 or places[-1] != len(payload):
        raise ModelUnavailable("A message of the model's process is damaged: its lengths do not fit.")
    return [payload[start:end] for start, end in pairwise(places)]


def _exactly(read: Read, count: int, *, may_end: bool = False) -> bytes:
    parts: list[bytes] = []
    missing = count
    while missing:
        part = read(missing)
        if not part:
            if may_end and missing == count:
                return b""
            raise ModelUnavailable("A message of the model's process ends in the middle.")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
