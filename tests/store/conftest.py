"""Stores to try things on: real files, real SQLite."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memoryd.config import StoreConfig
from memoryd.files import Files
from memoryd.store.chunkstore import ChunkStore

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def golden() -> Path:
    return GOLDEN


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., ChunkStore]]:
    """opened(home=..., files=..., sizes=...) -> a store that is closed at the end of the test."""
    stores: list[ChunkStore] = []

    def make(
        home: Path = tmp_path / "home", files: Files | None = None, sizes: StoreConfig | None = None
    ) -> ChunkStore:
        store = ChunkStore.open(home, files=files or Files(), sizes=sizes or StoreConfig())
        stores.append(store)
        return store

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def store(opened: Callable[..., ChunkStore]) -> ChunkStore:
    return opened()


@pytest.fixture
def put() -> Callable[..., list[str]]:
    """put(store, *contents) -> addresses, committed as one group."""

    def run(store: ChunkStore, *contents: bytes) -> list[str]:
        with store.group() as group:
            addresses = [group.add(content) for content in contents]
            group.commit()
        return addresses

    return run


@pytest.fixture
def noise() -> Callable[[int, int], bytes]:
    """noise(size, seed) -> bytes that do not compress."""
    return lambda size, seed=0: random.Random(seed).randbytes(size)


@pytest.fixture
def prose() -> Callable[..., bytes]:
    """prose(size, seed) -> text that compresses like a document."""

    def make(size: int, seed: int = 0) -> bytes:
        source = random.Random(seed)
        words = ["".join(source.choices("etaoinshrdlu", k=source.randint(2, 9))) for _ in range(400)]
        text = bytearray()
        while len(text) < size:
            text += (" ".join(source.choices(words, k=12)) + ".\n").encode()
        return bytes(text[:size])

    return make
