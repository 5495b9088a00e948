"""Behaviour of memoryd.models.frames."""

from __future__ import annotations

import io
import os
import struct
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.errors import ModelUnavailable
from memoryd.models.frames import MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES, Frame, decode, encode

headers = st.dictionaries(
    st.text(max_size=8), st.one_of(st.text(max_size=20), st.integers(), st.booleans()), max_size=4
)


@given(frames=st.lists(st.tuples(headers, st.binary(max_size=300)), max_size=5), step=st.integers(1, 64))
def test_frames_come_out_as_they_went_in(frames, step):
    """Whatever pieces the pipe hands over."""
    sent = [Frame(header, payload) for header, payload in frames]
    stream = io.BytesIO(b"".join(encode(frame) for frame in sent))
    found = []
    while (frame := decode(lambda count: stream.read(min(count, step)))) is not None:
        found.append(frame)
    assert found == sent


@given(header=headers, payload=st.binary(max_size=50), data=st.data())
def test_an_end_in_the_middle_is_damage(header, payload, data):
    raw = encode(Frame(header, payload))
    cut = data.draw(st.integers(1, len(raw) - 1))
    with pytest.raises(ModelUnavailable, match="middle"):
        decode(io.BytesIO(raw[:cut]).read)


@given(raw=st.binary(min_size=1, max_size=200))
def test_noise_never_passes_the_typed_error(raw):
    try:
        decode(io.BytesIO(raw).read)
    except ModelUnavailable:
        pass


@pytest.mark.parametrize("lengths", [(MAX_HEADER_BYTES + 1, 0), (0, MAX_PAYLOAD_BYTES + 1), (2**32 - 1, 2**32 - 1)])
def test_case_55_an_impossible_length_is_refused_before_anything_is_read(lengths):
    class Source:
        asked = 0

        def read(self, count: int) -> bytes:
            self.asked += count
            return struct.pack("<II", *lengths) if self.asked == 8 else b"x" * count

    source = Source()
    with pytest.raises(ModelUnavailable, match="impossible length"):
        decode(source.read)
    assert source.asked == 8


@pytest.mark.parametrize("header", [b"{", b"[1]", b"\xff\xff", b"null"])
def test_a_header_that_is_no_object_is_damage(header):
    raw = struct.pack("<II", len(header), 0) + header
    with pytest.raises(ModelUnavailable, match="header"):
        decode(io.BytesIO(raw).read)


def test_what_is_too_large_is_not_sent():
    with pytest.raises(ModelUnavailable, match="too large"):
        encode(Frame({"x": "y" * MAX_HEADER_BYTES}))
    with pytest.raises(ModelUnavailable, match="too large"):
        encode(Frame({}, bytes(MAX_PAYLOAD_BYTES + 1)))


def test_a_frame_larger_than_the_pipe_passes():
    frame = Frame({"op": "embed"}, os.urandom(1 << 20))
    source, sink = os.pipe()
    raw = encode(frame)

    def send():
        with os.fdopen(sink, "wb") as stream:
            stream.write(raw)

    sender = threading.Thread(target=send)
    sender.start()
    with os.fdopen(source, "rb", buffering=0) as stream:
        assert decode(stream.read) == frame
        assert decode(stream.read) is None
    sender.join()
