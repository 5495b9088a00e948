"""Which rules was this home written under: format version, hash, chunker, its sizes and a sample of its cuts?

The FORMAT file is text: a title line, `key value` lines and a last line with the SHA-256 of all bytes before it.
Unknown keys are ignored (a later version may add some); an unknown version, hash or chunker is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from memoryd.digest import sha256_hex
from memoryd.errors import FormatDamaged, FormatUnsupported

TITLE = "memoryd home"
VERSION = 1
HASH = "sha256"
FASTCDC2020 = "fastcdc2020"
NEEDED = ("version", "hash", "chunker", "chunk_min", "chunk_avg", "chunk_max", "sample_bytes", "sample_cuts")


@dataclass(frozen=True, slots=True)
class StoreFormat:
    """The fixed rules of one home. Sizes in bytes; `sample_cuts` are the chunk ends in the sample."""

    chunk_min: int
    chunk_avg: int
    chunk_max: int
    sample_bytes: int
    sample_cuts: tuple[int, ...]
    chunker: str = FASTCDC2020

    def render(self) -> bytes:
        """The bytes of the FORMAT file."""
        lines = [
            TITLE,
            f"version {VERSION}",
            f"hash {HASH}",
            f"chunker {self.chunker}",
            f"chunk_min {self.chunk_min}",
            f"chunk_avg {self.chunk_avg}",
            f"chunk_max {self.chunk_max}",
            f"sample_bytes {self.sample_bytes}",
            "sample_cuts " + " ".join(str(cut) for cut in self.sample_cuts),
        ]
        body = ("\n".join(lines) + "\n").encode("ascii")
        return body + f"sha256 {sha256_hex(body)}\n".encode("ascii")


def parse_format(data: bytes, name: str) -> StoreFormat:
    """Read the bytes of the FORMAT file called `name`. Raises FormatDamaged, FormatUnsupported."""
    values = _values(data, name)
    if values["version"] != str(VERSION):
        raise FormatUnsupported(f"{name} says format version {values['version'][:20]}; this memoryd reads {VERSION}.")
    if values["hash"] != HASH:
        raise FormatUnsupported(f"{name} names the hash {values['hash'][:40]!r}; this memoryd knows {HASH}.")
    try:
        return StoreFormat(
            chunk_min=int(values["chunk_min"]),
            chunk_avg=int(values["chunk_avg"]),
            chunk_max=int(values["chunk_max"]),
            sample_bytes=int(values["sample_bytes"]),
            sample_cuts=tuple(int(cut) for cut in values["sample_cuts"].split()),
            chunker=values["chunker"],
        )
    except ValueError as error:
        raise FormatDamaged(f"{name} holds a size that is no number.") from error


def _values(data: bytes, name: str) -> dict[str, str]:
    body, separator, last = data.removesuffix(b"\n").rpartition(b"\n")
    if not data.endswith(b"\n") or last != b"sha256 " + sha256_hex(body + separator).encode("ascii"):
        raise FormatDamaged(f"The last line of {name} is not the SHA-256 of the lines before it.", path=name)
    lines = body.decode("utf-8", "replace").split("\n")
    if lines[0] != TITLE:
        raise FormatDamaged(f"{name} does not start with {TITLE!r}.", path=name)
    values = dict(line.partition(" ")[::2] for line in lines[1:])
    for key in NEEDED:
        if key not in values:
            raise FormatDamaged(f"{name} lacks the line `{key}`.", path=name)
    return values
