"""A content that arrives in windows is cut, stored and read back as the whole would be."""

from __future__ import annotations

import hashlib
import io
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.config import StoreConfig
from memoryd.digest import address_of
from memoryd.errors import ContentDamaged, NotFound
from memoryd.files import Files
from memoryd.store.chunker import FastCdcChunker
from memoryd.store.chunkstore import ChunkStore
from memoryd.store.manifest import Manifest
from memoryd.store.stream import Stream

CHUNKER = FastCdcChunker(256, 1024, 4096)


def made(kind: str, size: int) -> bytes:
    """Bytes of very different nature: noise, zeros, a short period, text."""
    source = random.Random(size)
    if kind == "noise":
        return source.randbytes(size)
    if kind == "text":
        return b" ".join(source.choice([b"pump", b"sluice", b"weir", b"dam"]) for _ in range(size // 5 + 1))[:size]
    return (b"\0" if kind == "zeros" else b"ab")[: max(1, size)] * size


class Dripping:
    """A source that gives what it likes, as a pipe does."""

    def __init__(self, data: bytes, most: int) -> None:
        self._stream = io.BytesIO(data)
        self._most = most

    def read(self, amount: int) -> bytes:
        return self._stream.read(min(amount, self._most))


@given(
    st.sampled_from(["noise", "zeros", "period", "text"]),
    st.integers(0, 60_000),
    st.integers(8192, 20_000),
    st.sampled_from([1, 100, 1 << 20]),
)
@settings(max_examples=150, deadline=None)
def test_windows_cut_as_the_whole_is_cut(kind, size, window, most):
    data = made(kind, size)
    stream = Stream(CHUNKER, Dripping(data, max(most, size // 500)).read, window=window)
    parts = [part for taken in stream.windows() for _digest, part in taken]
    ends = CHUNKER.cut(data)
    lengths = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    assert b"".join(parts) == data
    assert [len(part) for part in parts] == lengths
    chunks = tuple((hashlib.sha256(part).digest(), len(part)) for part in parts)
    assert stream.manifest() == Manifest(hashlib.sha256(data).digest(), len(data), chunks)


@pytest.fixture
def store(tmp_path: Path):
    opened = ChunkStore.open(tmp_path, files=Files(), sizes=StoreConfig())
    yield opened
    opened.close()


def put(store: ChunkStore, data: bytes) -> str:
    """Each window a group of its own, as for a file that is larger than memory."""
    stream = store.stream(io.BytesIO(data).read)
    for chunks in stream.windows():
        with store.group() as group:
            group.chunks(chunks)
            group.commit()
    with store.group() as group:
        address = group.manifest(stream.manifest())
        group.commit()
    return address


@pytest.mark.parametrize("size", [0, 10, 30_000_000])
def test_a_streamed_content_is_the_same_content(store, size):
    data = random.Random(5).randbytes(size)
    assert put(store, data) == address_of(data)
    assert store.read(address_of(data)) == data
    assert b"".join(store.pieces(address_of(data))) == data
    assert max((len(piece) for piece in store.pieces(address_of(data))), default=0) <= 4 << 20
    before = store.stats()
    with store.group() as group:
        group.add(data)
        group.commit()
    assert store.stats().chunks == before.chunks, "the content whole has the chunks that the stream left"
    assert list(store.findings(read_data=True)) == []


def test_chunks_that_are_there_are_not_stored_again(store):
    data = random.Random(5).randbytes(1_000_000)
    with store.group() as group:
        group.add(data)
        group.commit()
    before = store.stats()
    put(store, data)
    assert store.stats().raw_bytes == before.raw_bytes


def test_contents_are_held_when_every_chunk_is_there(store, tmp_path):
    small, large = b"small", random.Random(1).randbytes(300_000)
    with store.group() as group:
        group.add(small)
        group.add(large)
        group.commit()
    digests = [hashlib.sha256(data).digest() for data in (small, large, b"unknown")]
    assert store.held(digests) == set(digests[:2])
    stream = store.stream(io.BytesIO(random.Random(2).randbytes(300_000)).read)
    chunks = [chunk for taken in stream.windows() for chunk in taken]
    with store.group() as group:
        group.chunks(chunks[1:])
        group.manifest(stream.manifest())
        group.commit()
    assert store.held([stream.manifest().address]) == set()


def test_a_content_whose_chunks_do_not_make_it_up_is_damage_at_its_end(store):
    part = b"x" * 100
    digest = hashlib.sha256(part).digest()
    with store.group() as group:
        group.chunks([(digest, part)])
        address = group.manifest(Manifest(hashlib.sha256(b"another").digest(), 200, ((digest, 100), (digest, 100))))
        group.commit()
    with pytest.raises(ContentDamaged):
        list(store.pieces(address))
    with pytest.raises(NotFound):
        list(store.pieces(address_of(b"nothing")))
    with pytest.raises(NotFound):
        store.layout(address_of(b"nothing"))
