"""Cuts: bounded, stable, the same in every implementation, and local."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyfastcdc.py import FastCDC as PureFastCDC

from memoryd.config import StoreConfig
from memoryd.errors import ConfigError, FormatUnsupported
from memoryd.store.chunker import FastCdcChunker, chunker_of, new_format, sample

SMALL = (256, 512, 1024)


def pieces(chunker: FastCdcChunker, data: bytes) -> list[bytes]:
    ends = chunker.cut(data)
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def golden_inputs() -> dict[str, bytes]:
    text = b"".join(b"line %d: the quick brown fox jumps over the lazy dog\n" % n for n in range(3000))
    return {
        "noise": hashlib.shake_128(b"golden cuts").digest(200_000),
        "text": text,
        "zeros": bytes(150_000),
        "high-bytes": bytes(0x80 | (n * n % 127) for n in range(100_000)),
    }


def test_golden_cuts(golden):
    """The same cuts on every platform and with every build of the chunker."""
    committed = json.loads((golden / "cuts.json").read_text())
    chunker = FastCdcChunker(2048, 8192, 65536)
    assert {name: chunker.cut(data) for name, data in golden_inputs().items()} == committed


@given(
    st.binary(max_size=6000) | st.builds(lambda b, n: b * n, st.binary(min_size=1, max_size=40), st.integers(1, 400))
)
@settings(max_examples=60, deadline=None)
def test_chunks_make_up_the_data_within_the_bounds(data):
    chunker = FastCdcChunker(*SMALL)
    found = pieces(chunker, data)
    assert b"".join(found) == data
    assert all(SMALL[0] <= len(piece) <= SMALL[2] for piece in found[:-1])
    assert len(found[-1]) <= SMALL[2]
    assert found[-1] or not data
    assert chunker.cut(data) == chunker.cut(bytes(bytearray(data)))


@given(st.binary(max_size=4000))
@settings(max_examples=30, deadline=None)
def test_the_pure_python_fallback_cuts_at_the_same_places(data):
    pure = PureFastCDC(avg_size=512, min_size=256, max_size=1024)
    expected = [chunk.offset + chunk.length for chunk in pure.cut_buf(data)] or [0]
    assert FastCdcChunker(*SMALL).cut(data) == expected


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 1023, 1024, 1025])
def test_h39_sizes_around_the_bounds(size):
    """H39: data of 0, 1, min-1, min, max and max+1 bytes is cut within the stated bounds."""
    data = random.Random(size).randbytes(size)
    ends = FastCdcChunker(*SMALL).cut(data)
    assert ends[-1] == size
    assert len(ends) == 1 or size > 256


def test_case_1_seven_bytes_at_the_start_leave_the_other_chunks_as_they_were():
    """case 1: insert 7 bytes at the start of a 10 MB ASCII file: at least 95 % of the bytes are reused."""
    source = random.Random(1)
    data = bytes(b"abcdefghij klmnop qrstu\n tuvwxyz"[value & 31] for value in source.randbytes(10_000_000))
    chunker = FastCdcChunker(2048, 8192, 65536)
    before = set(pieces(chunker, data))
    after = pieces(chunker, b"7 bytes" + data)
    reused = sum(len(piece) for piece in after if piece in before)
    assert reused >= 0.95 * len(data)


@pytest.mark.parametrize("sizes", [(1024, 512, 2048), (256, 4096, 2048)])
def test_sizes_out_of_order_are_a_configuration_error(sizes):
    with pytest.raises(ConfigError, match="chunk_min"):
        new_format(StoreConfig(chunk_min=sizes[0], chunk_avg=sizes[1], chunk_max=sizes[2]))


def test_sizes_that_the_chunker_refuses_are_a_configuration_error():
    with pytest.raises(ConfigError, match="refuses"):
        FastCdcChunker(1, 2, 3)


def test_the_sample_holds_every_byte_value_and_is_stable():
    data = sample(4096)
    assert set(data) == set(range(256))
    assert sample(100) == data[:100]


def test_a_chunker_that_cuts_elsewhere_is_refused():
    rules = new_format(StoreConfig())
    moved = dataclasses.replace(rules, sample_cuts=(rules.sample_cuts[0] + 1, *rules.sample_cuts[1:]))
    with pytest.raises(FormatUnsupported, match="sample"):
        chunker_of(moved)


def test_an_unknown_chunker_is_refused():
    rules = dataclasses.replace(new_format(StoreConfig()), chunker="buzhash")
    with pytest.raises(FormatUnsupported, match="buzhash"):
        chunker_of(rules)


def test_impossible_sizes_in_format_are_refused():
    rules = dataclasses.replace(new_format(StoreConfig()), chunk_min=1 << 30)
    with pytest.raises(FormatUnsupported, match="impossible"):
        chunker_of(rules)


def test_sizes_come_from_the_configuration():
    rules = new_format(StoreConfig(chunk_min=256, chunk_avg=512, chunk_max=1024))
    chunker = chunker_of(rules)
    assert (chunker.chunk_min, chunker.chunk_avg, chunker.chunk_max) == (256, 512, 1024)
    assert max(len(piece) for piece in pieces(chunker, sample(50_000))) <= 1024
