"""Manifests: golden bytes, refusal of unsound forms, and the window of a byte range."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.errors import PackDamaged
from memoryd.store.manifest import Manifest, parse_manifest, whole
from tests.store import vectors


def of_lengths(lengths: list[int]) -> Manifest:
    chunks = tuple((hashlib.sha256(b"%d" % n).digest(), length) for n, length in enumerate(lengths))
    return Manifest(b"a" * 32, sum(lengths), chunks)


def test_golden_manifest(golden):
    committed = bytes.fromhex(json.loads((golden / "vectors.json").read_text())["manifest"])
    assert vectors.manifest().encode() == committed
    assert parse_manifest(committed) == vectors.manifest()


@given(st.lists(st.integers(0, 2**32 - 1), max_size=20))
def test_what_is_encoded_is_parsed(lengths):
    manifest = of_lengths(lengths)
    assert parse_manifest(manifest.encode()) == manifest


def test_unsound_manifests_are_refused():
    good = of_lengths([3, 4]).encode()
    longer = good[:8] + (8).to_bytes(8, "little") + good[16:]
    for wrong in [good[:end] for end in range(len(good))] + [good + b"x", b"\x02" + good[1:], longer]:
        with pytest.raises(PackDamaged):
            parse_manifest(wrong)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.data())
def test_a_window_holds_exactly_the_chunks_of_its_range(lengths, data):
    manifest = of_lengths(lengths)
    bytes_of = [n for n, length in enumerate(lengths) for _ in range(length)]
    if not bytes_of:
        return
    start = data.draw(st.integers(0, len(bytes_of) - 1))
    end = data.draw(st.integers(start + 1, len(bytes_of)))
    base, chunks = manifest.window(start, end)
    assert base <= start
    assert base + sum(length for _digest, length in chunks) >= end
    needed = {manifest.chunks[n] for n in bytes_of[start:end]}
    assert {chunk for chunk in chunks if chunk[1]} == {chunk for chunk in needed if chunk[1]}


def test_a_whole_content_is_one_chunk():
    assert whole(b"a" * 32, 5) == Manifest(b"a" * 32, 5, ((b"a" * 32, 5),))
