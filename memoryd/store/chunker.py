"""Where is a byte string cut, so that an edit moves few cuts?

`fastcdc2020` (pyfastcdc) is the default, `rabin` (pyrabin) an extra. Cuts depend only on the bytes and on the three
sizes in FORMAT; every chunk but the last is at least the minimum long, none is longer than the maximum. pyfastcdc
falls back to a slow pure-Python loop with the same cuts where its extension is missing.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import Protocol

from pyfastcdc import FastCDC

from memoryd.config import StoreConfig
from memoryd.errors import ConfigError, ExtraMissing, FormatUnsupported
from memoryd.store.format import FASTCDC2020, StoreFormat
from memoryd.store.rabin import RABIN, RabinChunker

SAMPLE_SEED = b"memoryd chunker sample"
SAMPLE_LEAST = 256 * 1024


class Chunker(Protocol):
    """Cuts byte strings by one home's sizes; safe to share between threads. Nothing before a cut moves a later one."""

    @property
    def chunk_min(self) -> int: ...

    @property
    def chunk_max(self) -> int: ...

    def cut(self, data: bytes) -> list[int]: ...


class FastCdcChunker:
    """FastCDC (Xia and others, 2020) as pyfastcdc has it."""

    def __init__(self, chunk_min: int, chunk_avg: int, chunk_max: int) -> None:
        """Sizes in bytes. Raises ConfigError where they are not in order or out of the chunker's range."""
        if not chunk_min <= chunk_avg <= chunk_max:
            raise ConfigError(
                f"`store.chunk_min` <= `store.chunk_avg` <= `store.chunk_max` does not hold: "
                f"{chunk_min}, {chunk_avg}, {chunk_max}."
            )
        self.chunk_min = chunk_min
        self.chunk_avg = chunk_avg
        self.chunk_max = chunk_max
        self._lock = threading.Lock()
        try:
            self._cutter = FastCDC(avg_size=chunk_avg, min_size=chunk_min, max_size=chunk_max)
        except ValueError as error:
            raise ConfigError(f"The chunker refuses the sizes of `store`: {error}.") from error

    def cut(self, data: bytes) -> list[int]:
        """The end offset of every chunk, in order; empty data is one chunk of length 0."""
        if len(data) <= self.chunk_min:
            return [len(data)]
        with self._lock:
            return [chunk.offset + chunk.length for chunk in self._cutter.cut_buf(data)]


def sample(size: int) -> bytes:
    """The fixed pseudo-random bytes (all byte values) whose cuts FORMAT keeps."""
    return hashlib.shake_128(SAMPLE_SEED).digest(size)


KINDS: dict[str, Callable[[int, int, int], Chunker]] = {FASTCDC2020: FastCdcChunker, RABIN: RabinChunker}


def new_format(sizes: StoreConfig) -> StoreFormat:
    """The FORMAT of a new home, its sample freshly cut. Raises ConfigError, ExtraMissing."""
    chunker = KINDS[sizes.chunker](sizes.chunk_min, sizes.chunk_avg, sizes.chunk_max)
    size = max(SAMPLE_LEAST, 8 * sizes.chunk_avg)
    cuts = tuple(chunker.cut(sample(size)))
    return StoreFormat(sizes.chunk_min, sizes.chunk_avg, sizes.chunk_max, size, cuts, sizes.chunker)


def chunker_of(rules: StoreFormat) -> Chunker:
    """The chunker that FORMAT names. Raises FormatUnsupported where it is unknown or cuts the sample elsewhere,
    ExtraMissing where it is not installed."""
    if rules.chunker not in KINDS:
        known = ", ".join(sorted(KINDS))
        raise FormatUnsupported(f"FORMAT names the chunker {rules.chunker[:40]!r}; this memoryd knows {known}.")
    try:
        chunker = KINDS[rules.chunker](rules.chunk_min, rules.chunk_avg, rules.chunk_max)
    except ExtraMissing:
        raise
    except ConfigError as error:
        raise FormatUnsupported(f"FORMAT holds impossible chunk sizes: {error.message}") from error
    if tuple(chunker.cut(sample(rules.sample_bytes))) != rules.sample_cuts:
        raise FormatUnsupported(
            "The installed chunker cuts the sample in FORMAT at other places, so nothing new would be shared with "
            "what is stored; nothing was opened for writing."
        )
    return chunker
