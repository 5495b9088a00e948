"""What every chunker must do on every kind of data: text, an archive, zeros, little entropy, noise."""

from __future__ import annotations

import importlib.util
import io
import random
import tarfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryd.store.chunker import Chunker, FastCdcChunker
from memoryd.store.rabin import RabinChunker
from memoryd.store.stream import Stream

MIN, AVG, MAX = 2048, 8192, 65536
HAS_RABIN = importlib.util.find_spec("rabin") is not None
RABIN = pytest.param(
    RabinChunker, marks=[pytest.mark.extras, pytest.mark.skipif(not HAS_RABIN, reason="pyrabin is not installed")]
)
pytestmark = pytest.mark.parametrize("make", [FastCdcChunker, RABIN])


def words(chance: random.Random, size: int) -> bytes:
    known = ["".join(chance.choices("etaoinshrdlu", k=chance.randint(2, 9))) for _ in range(500)]
    return " ".join(chance.choices(known, k=size // 4)).encode()[:size]


def archive(chance: random.Random, size: int) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as packed:
        for number in range(size // 6000):
            data = words(chance, chance.randint(10, 9000))
            about = tarfile.TarInfo(f"folder/file{number}.txt")
            about.size = len(data)
            packed.addfile(about, io.BytesIO(data))
    return out.getvalue()


def data_of(kind: str, seed: int, size: int = 1_000_000) -> bytes:
    chance = random.Random(seed)
    if kind == "text":
        return words(chance, size)
    if kind == "tar":
        return archive(chance, size)
    if kind == "zeros":
        return bytes(size)
    if kind == "low entropy":
        return bytes(chance.choices(b"ab", weights=(9, 1), k=size))
    return chance.randbytes(size)


KINDS = ("text", "tar", "zeros", "low entropy", "noise")


def pieces(chunker: Chunker, data: bytes) -> list[bytes]:
    ends = chunker.cut(data)
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_make_up_the_data_within_the_bounds_and_the_same_again(make, kind):
    chunker = make(MIN, AVG, MAX)
    data = data_of(kind, 1)
    found = pieces(chunker, data)
    assert b"".join(found) == data
    assert all(MIN <= len(piece) <= MAX for piece in found[:-1])
    assert 0 < len(found[-1]) <= MAX
    assert make(MIN, AVG, MAX).cut(data) == chunker.cut(data)


@pytest.mark.parametrize("kind", ["text", "tar", "noise"])
@pytest.mark.parametrize("edit", ["insert", "delete", "overwrite"])
def test_an_edit_leaves_nearly_all_bytes_reused(make, kind, edit):
    chunker = make(MIN, AVG, MAX)
    data = data_of(kind, 2)
    at = len(data) // 3
    changed = {
        "insert": data[:at] + b"7 bytes" + data[at:],
        "delete": data[:at] + data[at + 11 :],
        "overwrite": data[:at] + b"overwritten" + data[at + 11 :],
    }[edit]
    before = set(pieces(chunker, data))
    reused = sum(len(piece) for piece in pieces(chunker, changed) if piece in before)
    assert reused >= 0.9 * len(data)


@pytest.mark.parametrize("kind", ["text", "noise"])
def test_the_mean_is_near_the_average_that_was_asked_for(make, kind):
    found = pieces(make(MIN, AVG, MAX), data_of(kind, 3, 3_000_000))
    assert AVG / 2 < sum(map(len, found)) / len(found) < AVG * 2


@given(st.integers(0, 2**32), st.sampled_from(KINDS), st.integers(1, 400_000))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_read_in_windows_is_cut_like_the_whole(make, seed, kind, size):
    chunker = make(MIN, AVG, MAX)
    data = data_of(kind, seed, size)
    at = [0]

    def read(most: int) -> bytes:
        part = data[at[0] : at[0] + min(most, 50_000)]
        at[0] += len(part)
        return part

    stream = Stream(chunker, read, window=131_072)
    assert [part for window in stream.windows() for _digest, part in window] == pieces(chunker, data)
