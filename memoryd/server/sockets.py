"""Which sockets does the owner of a home listen on, what may be in their place, and who may talk to them?

Only the holder of `daemon.lock` calls this. A refused connection is the one proof that a socket file is dead; anything
that is not a socket is named and left alone.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memoryd.errors import ConfigError, HomeBusy, HomeError
from memoryd.runtime import SUN_PATH_LIMIT, RuntimePaths, bind, connect

BACKLOG = 1024
PROBE_SECONDS = 1.0


@contextmanager
def home_sockets(paths: RuntimePaths) -> Iterator[tuple[socket.socket, socket.socket]]:
    """The bound, not yet listening sockets (rpc, http) of a home; removed at the end. Raises HomeError, HomeBusy."""
    _private_directory(Path(paths.run))
    for path in (paths.rpc_socket, paths.http_socket):
        _clear(Path(path))
    rpc = _bound(paths.rpc_socket)
    http = _bound(paths.http_socket)
    try:
        yield rpc, http
    finally:
        for path, sock in ((paths.rpc_socket, rpc), (paths.http_socket, http)):
            sock.close()
            Path(path).unlink(missing_ok=True)


def loopback_socket(listen: str) -> socket.socket:
    """A bound TCP socket for `health.listen`. Raises ConfigError."""
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, int(port)))
    except (OSError, OverflowError) as error:
        sock.close()
        raise ConfigError(f"`health.listen` {listen} cannot be used: {error}.", key="health.listen") from error
    return sock


def is_own_user(raw: socket.socket) -> bool:
    """Whether the process at the other end of a Unix socket runs as this user."""
    credentials = raw.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _pid, uid, _gid = struct.unpack("3i", credentials)
    return bool(uid == os.geteuid())


def _private_directory(path: Path) -> None:
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        info = path.stat()
        if info.st_uid != os.geteuid():
            raise HomeError(f"{path} belongs to uid {info.st_uid}.", path=str(path))
        path.chmod(0o700)
    except OSError as error:
        raise HomeError(f"{path} cannot be used: {error.strerror}.", path=str(path)) from error


def _clear(path: Path) -> None:
    """Remove the socket of a daemon that is dead for certain."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        step = f"Look at what {path} is and move it away; memoryd does not delete it."
        raise HomeError(f"{path} is in the way: it is not a socket.", path=str(path), next_step=step)
    try:
        connect(str(path), PROBE_SECONDS).close()
    except ConnectionRefusedError:
        path.unlink()
    except OSError as error:
        raise HomeBusy(f"Something holds {path} without answering: {error.strerror}.", path=str(path)) from error
    else:
        raise HomeBusy(f"Another program listens on {path}.", path=str(path))


def _bound(path: str) -> socket.socket:
    try:
        return bind(path)
    except OSError as error:
        length = len(os.fsencode(path))
        long = f" ({length} bytes, the system's limit is {SUN_PATH_LIMIT})" if length > SUN_PATH_LIMIT else ""
        name = errno.errorcode.get(error.errno or 0, "")
        raise HomeError(f"The socket {path}{long} cannot be made: {error.strerror} ({name}).", path=path) from error
