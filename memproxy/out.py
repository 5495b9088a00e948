"""How much may be written to the host's end right now without ever waiting for it to read?

Its end is shared with other processes, so it must not be made non-blocking: sockets are asked call by call, pipes by
how full they are.
"""

from __future__ import annotations

import _socket
import fcntl
import os
import select
import stat
import termios

PIECE = 4096
"""What anything that polls writable takes without blocking (PIPE_BUF)."""
_GET_PIPE_SIZE = 1032
"""F_GETPIPE_SZ, which the module names from Python 3.10 on only where the C library did."""


class Out:
    """The descriptor that the host reads from: a pipe, a socket or anything else."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._writable = select.poll()
        self._writable.register(fd, select.POLLOUT)
        mode = os.fstat(fd).st_mode
        self._socket = _socket.socket(fileno=os.dup(fd)) if stat.S_ISSOCK(mode) else None
        self._capacity = _pipe_size(fd) if stat.S_ISFIFO(mode) else 0

    def write(self, data: bytearray) -> int:
        """Write the beginning of `data` (not empty); how many bytes went, 0 where none would go at once.

        Raises OSError once the host is gone.
        """
        if self._socket is not None:
            try:
                return self._socket.send(data, _socket.MSG_DONTWAIT)
            except BlockingIOError:
                return 0
        if not self._writable.poll(0):
            return 0
        return os.write(self.fd, data[: self._room()])

    def _room(self) -> int:
        """An empty pipe takes all its capacity; of a fuller one only a page is certain."""
        if self._capacity <= PIECE or fcntl.ioctl(self.fd, termios.FIONREAD, b"\0\0\0\0") != b"\0\0\0\0":
            return PIECE
        return self._capacity


def _pipe_size(fd: int) -> int:
    try:
        return fcntl.fcntl(fd, _GET_PIPE_SIZE)
    except OSError:
        return 0
