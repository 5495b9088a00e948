"""Where does a home keep what runs, and how do proxy and daemon find each other?

Light on purpose (os and socket, strings for paths): `memproxy` imports this file and nothing else of memoryd.
"""

from __future__ import annotations

import os

try:
    import _socket as sockets  # the C half of `socket`, whose import (with `enum`) would double the proxy's start
except ImportError:
    import socket as sockets  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:  # a plain name instead of typing's, which would cost start-up time
    import socket
    from collections.abc import Callable, Mapping

WIRE = 1
VERSION = "0.1.0"
HOME_VARIABLE = "MEMORYD_HOME"
MAX_LINE_BYTES = 16 * 1024 * 1024
"""The one limit of a JSON-RPC line, newline included, in either direction; documented in the README."""
SUN_PATH_LIMIT = 107
"""Longest Unix socket path in bytes that Linux takes (sun_path is 108 with its NUL)."""


def home_directory(option: str | None, environment: Mapping[str, str]) -> str:
    """`--home`, else MEMORYD_HOME, else ~/.memoryd; absolute, links kept."""
    chosen = option or environment.get(HOME_VARIABLE) or "~/.memoryd"
    return os.path.abspath(os.path.expanduser(chosen))


class RuntimePaths:
    """The files under `<home>` that belong to running processes; names only, nothing is created."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.run = home + "/run"
        self.rpc_socket = self.run + "/rpc.sock"
        self.http_socket = self.run + "/http.sock"
        self.start_lock = home + "/start.lock"
        self.daemon_lock = home + "/daemon.lock"
        self.log_file = home + "/log/memoryd.log"


def dial(path: str, timeout: float) -> sockets.socket:
    """A connected stream socket; paths over 107 bytes go through the directory's descriptor.

    Raises FileNotFoundError, ConnectionRefusedError (the one proof that nobody listens), BlockingIOError (its queue
    is full), TimeoutError, OSError.
    """
    sock = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        sock.settimeout(timeout)
        with_short_path(path, sock.connect)
    except BaseException:  # let go of what was taken, then raised on
        sock.close()
        raise
    return sock


def connect(path: str, timeout: float) -> socket.socket:
    """As `dial`, with all that the standard library's socket object can do."""
    import socket

    connected = socket.socket(fileno=dial(path, timeout).detach())
    connected.settimeout(timeout)
    return connected


def bind(path: str) -> socket.socket:
    """A bound (not yet listening) stream socket of mode 0600; the caller owns the directory and holds the lock."""
    import socket  # the daemon's side only

    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with_short_path(path, sock.bind)
    except BaseException:  # let go of what was taken, then raised on
        sock.close()
        raise
    finally:
        os.umask(before)
    return sock


def with_short_path(path: str, use: Callable[[str], object]) -> None:
    """Call `use(address)` with an address that fits `sun_path`."""
    if len(os.fsencode(path)) <= SUN_PATH_LIMIT:
        use(path)
        return
    folder, name = os.path.split(path)
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        use(f"/proc/self/fd/{directory}/{name}")
    finally:
        os.close(directory)
