"""Writing to the host takes what fits and never waits, whatever its end of the line is."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable

import pytest

from memproxy.out import PIECE, Out

DATA = bytes(range(256)) * 1024


def gather(read: Callable[[], bytes], got: list[bytes]) -> threading.Thread:
    """A thread that reads until the end, while the test writes."""

    def reader() -> None:
        while piece := read():
            got.append(piece)

    thread = threading.Thread(target=reader)
    thread.start()
    return thread


def test_an_empty_pipe_takes_a_long_line_at_once_and_a_full_one_nothing():
    reads, writes = os.pipe()
    out = Out(writes)
    first = out.write(bytearray(DATA))
    assert first == 65536
    total = first
    while count := out.write(bytearray(DATA)):
        total += count
    assert out.write(bytearray(DATA)) == 0
    os.read(reads, 3 * PIECE)
    assert 0 < out.write(bytearray(DATA)) <= 3 * PIECE
    assert total >= 65536
    os.close(reads)
    with pytest.raises(BrokenPipeError):
        out.write(bytearray(b"x"))
    os.close(writes)


def test_a_socket_takes_what_fits_and_stays_blocking_for_others():
    ours, theirs = socket.socketpair()
    out = Out(ours.fileno())
    total = 0
    while count := out.write(bytearray(DATA)):
        total += count
    assert total > PIECE
    assert os.get_blocking(ours.fileno())
    theirs.close()
    with pytest.raises(OSError, match=r"Broken pipe|reset"):
        out.write(bytearray(b"x"))
    ours.close()


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_everything_arrives_in_order(kind):
    if kind == "pipe":
        reads, writes = os.pipe()
        ends = None
    else:
        ends = socket.socketpair()
        reads, writes = ends[1].fileno(), ends[0].fileno()
    got: list[bytes] = []
    thread = gather(lambda: os.read(reads, 5000), got)
    out, left = Out(writes), bytearray(DATA * 4)
    while left:
        del left[: out.write(left)]
    if ends is None:
        os.close(writes)
    else:
        ends[0].shutdown(socket.SHUT_WR)
    thread.join(20)
    assert b"".join(got) == DATA * 4
    for one in ends or ():
        one.close()
    if ends is None:
        os.close(reads)
