"""Where is the daemon, and if none runs, who of several sessions starts exactly one?

Connect; else take `start.lock`, connect again, start one and connect. Locks are the kernel's, so a killed holder
blocks nobody. Nothing here ever signals a process or removes a socket: that belongs to the holder of `daemon.lock`.
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress

from memoryd import runtime
from memproxy.host import Host, NotSent
from memproxy.lines import LineBuffer, Overlong, parse, serialise
from memproxy.spawn import START_SECONDS, start_daemon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from typing import Any

__all__ = ["Daemon", "Host", "Launcher", "NotSent"]  # what a command needs to find the daemon the same way

HELLO_SECONDS = 5.0
HELLO_LIMIT = 64 * 1024


class Daemon:
    """A connection on which both hello lines have passed."""

    __slots__ = ("buffer", "early", "instance", "pid", "read_only", "sock", "version", "wire")

    def __init__(self, sock: socket, hello: dict[str, Any]) -> None:
        self.sock = sock
        self.wire = hello.get("wire")
        self.version = str(hello.get("version", ""))
        self.instance = str(hello.get("instance", ""))
        self.pid = hello.get("pid")
        self.read_only = frozenset(hello.get("read_only") or ())
        self.buffer = LineBuffer(runtime.MAX_LINE_BYTES)
        self.early: list[bytes | Overlong] = []

    @property
    def older(self) -> bool:
        """Whether an installed newer version should take this daemon's place."""
        return version_key(self.version) < version_key(runtime.VERSION)

    def close(self) -> None:
        self.sock.close()


def version_key(version: str) -> tuple[int, ...]:
    """Numbers of a version, for comparison; what is no number counts as zero."""
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))


class Launcher:
    """Finds or starts the daemon of one home."""

    def __init__(self, paths: runtime.RuntimePaths, directory: str | None, host: Host) -> None:
        self.paths = paths
        self.directory = directory
        self.host = host

    def daemon(self) -> Daemon:
        """A connection to a daemon of our wire. Raises NotSent, HostGone."""
        found = self._connect()
        if found is not None and self._fits(found):
            return found
        return self._start(time.monotonic() + START_SECONDS)

    # -- connecting

    def _connect(self) -> Daemon | None:
        """None where nobody listens: a missing path, a refused connection, or an end before the hello."""
        until = time.monotonic() + HELLO_SECONDS
        while True:
            try:
                sock = runtime.dial(self.paths.rpc_socket, HELLO_SECONDS)
                break
            except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
                return None
            except BlockingIOError:  # the queue of connections is full: a busy or stopped daemon
                if time.monotonic() > until:
                    raise self._unanswered() from None
                self.host.sleep(0.02)
            except OSError as error:
                raise self._broken(self.paths.rpc_socket, error) from error
        try:
            hello = self._exchange(sock, {"memoryd": "hello", "directory": self.directory}, until)
        except BaseException:  # let go of what was taken, then raised on
            sock.close()
            raise
        if hello is None:
            sock.close()
            return None
        return Daemon(sock, hello)

    def _exchange(self, sock: socket, message: dict[str, Any], until: float) -> dict[str, Any] | None:
        """Send one line, read one line; None where the other side ended first."""
        said = {**message, "wire": runtime.WIRE, "version": runtime.VERSION, "pid": os.getpid()}
        buffer = LineBuffer(HELLO_LIMIT)
        try:
            sock.sendall(serialise(said))
            while True:
                if not self.host.wait(sock.fileno(), until):
                    raise self._unanswered()
                data = sock.recv(HELLO_LIMIT)
                lines = buffer.feed(data)
                if lines:
                    break
                if not data:
                    return None
            hello = parse(lines[0]) if isinstance(lines[0], bytes) else None
        except (BrokenPipeError, ConnectionResetError):
            return None
        except TimeoutError:
            raise self._unanswered() from None
        except ValueError:
            hello = None
        if not isinstance(hello, dict) or "wire" not in hello:
            raise NotSent(f"{self.paths.rpc_socket} is answered by something that is not memoryd")
        return hello

    def _fits(self, found: Daemon) -> bool:
        """False where the daemon is older and should make room. Raises NotSent where the wires differ for good."""
        if found.older:
            found.close()
            return False
        if found.wire != runtime.WIRE:
            found.close()
            raise NotSent(
                f"the running memoryd {found.version} speaks wire {found.wire}, "
                f"this memproxy {runtime.VERSION} speaks wire {runtime.WIRE}",
                code="wire-mismatch",
                next_step="Restart this session with the memproxy of the newer installation.",
            )
        return True

    def _unanswered(self) -> NotSent:
        pid, stopped = self._holder()
        who = f"the daemon at {self.paths.rpc_socket}" + (f" (process {pid})" if pid else "")
        state = "it is stopped (suspended)" if stopped else "it may be overloaded, or stopped"
        return NotSent(
            f"{who} did not answer within {HELLO_SECONDS:.0f} s: {state}; it was left alone",
            next_step=_wake(pid, stopped) if pid else f"Read {self.paths.log_file}, and call again in a moment.",
            log=self.paths.log_file,
        )

    def _holder(self) -> tuple[int, bool]:
        """The pid of the home's owner, as it wrote it down (0: none), and whether it is stopped by a signal."""
        import fcntl

        try:
            with open(self.paths.daemon_lock, encoding="ascii") as file:
                with suppress(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    return 0, False  # nobody owns the home: the pid is an old one
                pid = int(file.read(32))
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                return pid, file.read(4096).rpartition(")")[2].split()[0] in ("T", "t")
        except (OSError, ValueError, IndexError):
            return 0, False

    # -- starting

    def _start(self, deadline: float) -> Daemon:
        self._prepare_home()
        lock = os.open(self.paths.start_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            found = self._wait_for_turn(lock, deadline) or self._connect()
            if found is not None and self._fits(found):
                return found
            if found is not None:
                self._ask_to_drain()
            start_daemon(self.paths, self.host, deadline)
            found = self._connect()
        finally:
            os.close(lock)
        if found is None:
            raise NotSent("the daemon ended right after its start", log=self.paths.log_file)
        if not self._fits(found):
            raise NotSent(f"the older memoryd {found.version} did not make room", log=self.paths.log_file)
        return found

    def _prepare_home(self) -> None:
        home = self.paths.home
        try:
            os.makedirs(home, 0o700, exist_ok=True)
            owner = os.stat(home).st_uid
        except OSError as error:
            raise self._broken(home, error) from error
        if owner != os.geteuid():
            raise self._refused_home(f"the home {home} belongs to uid {owner}, not to uid {os.geteuid()}")
        if not os.access(home, os.W_OK | os.X_OK):
            raise self._refused_home(f"the home {home} is not writable")

    def _wait_for_turn(self, lock: int, deadline: float) -> Daemon | None:
        """Take the lock (None), or find the daemon that the lock's holder has started meanwhile."""
        import fcntl

        pause = 0.01
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return None
            except BlockingIOError:
                pass
            found = self._connect()
            if found is not None and not found.older:
                return found
            if found is not None:
                found.close()
            if time.monotonic() > deadline:
                raise NotSent("another session has been starting the daemon for too long", log=self.paths.log_file)
            self.host.sleep(pause)
            pause = min(pause * 1.5, 0.1)

    def _ask_to_drain(self) -> None:
        """Tell an older daemon to finish; its successor waits for the lock by itself."""
        try:
            sock = runtime.dial(self.paths.rpc_socket, HELLO_SECONDS)
        except OSError:
            return  # it went by itself
        try:
            self._exchange(sock, {"memoryd": "drain"}, time.monotonic() + HELLO_SECONDS)
        finally:
            sock.close()

    def _broken(self, path: str, error: OSError) -> NotSent:
        name = errno.errorcode.get(error.errno or 0, "")
        return self._refused_home(f"{path} cannot be used: {error.strerror or error} ({name})")

    def _refused_home(self, reason: str) -> NotSent:
        return NotSent(
            reason,
            code="home-error",
            next_step="Pass `--home DIR` or set MEMORYD_HOME to a directory that is yours and writable.",
        )


def _wake(pid: int, stopped: bool) -> str:
    """What a person does about a daemon that does not answer; `memoryd stop` would not be heard either."""
    end = f"`kill -KILL {pid}` ends it: nothing stored is lost, and the next call starts a fresh daemon."
    if stopped:
        return f"Let it go on with `kill -CONT {pid}`. If it must go, {end}"
    return f"Look at it with `ps -o pid,stat,time,args -p {pid}` and call again in a moment. If it hangs, {end}"
