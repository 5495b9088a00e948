"""Where does the Rabin chunker of pyrabin cut, used the one way in which it is safe?

Optional (extra `rabin`, GPL, built from source). Its sizes are global, so one lock holds for the whole process; only
its file interface works on current Pythons, so bytes go through a file in memory; an empty file would leak a descriptor
and is never handed over. Its cuts depend on whether C's `char` has a sign: FORMAT's sample tells.
Mean chunk = minimum + modulus, so the modulus is what is left of the average.
"""

from __future__ import annotations

import importlib
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from memoryd.errors import ConfigError, ExtraMissing, install_extra
from memoryd.files import write_all

RABIN = "rabin"
LEAST = 64
"""The window is 48 bytes: a smaller minimum would let cuts depend on what stands before the chunk."""
_lock = threading.Lock()


class RabinChunker:
    """Cuts byte strings by one home's sizes; safe to share between threads, one cut at a time in the process."""

    def __init__(self, chunk_min: int, chunk_avg: int, chunk_max: int) -> None:
        """Sizes in bytes. Raises ConfigError for impossible ones, ExtraMissing where pyrabin is not installed."""
        if not LEAST <= chunk_min <= chunk_avg - chunk_min <= chunk_max:
            raise ConfigError(
                f"The chunker `rabin` needs {LEAST} <= `store.chunk_min`, 2 * `store.chunk_min` <= `store.chunk_avg`"
                f" and `store.chunk_avg` <= `store.chunk_max`: {chunk_min}, {chunk_avg}, {chunk_max}."
            )
        self.chunk_min = chunk_min
        self.chunk_avg = chunk_avg
        self.chunk_max = chunk_max
        self._module = _loaded()

    def cut(self, data: bytes) -> list[int]:
        """The end offset of every chunk, in order; empty data is one chunk of length 0."""
        if len(data) <= self.chunk_min:
            return [len(data)]
        with _lock, _as_file(data) as path:
            self._module.set_max_block_size(self.chunk_max)
            self._module.set_min_block_size(self.chunk_min)
            self._module.set_average_block_size(self.chunk_avg - self.chunk_min)
            return [start + length for start, length, _fingerprint in self._module.get_file_fingerprints(path)]


def _loaded() -> Any:
    try:
        return importlib.import_module("rabin")
    except ImportError as error:
        raise ExtraMissing(
            "FORMAT or `store.chunker` names the chunker `rabin`, but pyrabin is not installed.",
            next_step=f"{install_extra('rabin')} (needs a C compiler and OpenSSL's headers).",
        ) from error


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """A path under which the bytes can be read, in memory where the system can."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("memoryd-cut", os.MFD_CLOEXEC)
        try:
            write_all(fd, data)
            yield f"/proc/self/fd/{fd}"
        finally:
            os.close(fd)
        return
    with tempfile.NamedTemporaryFile() as file:
        write_all(file.fileno(), data)
        yield file.name
