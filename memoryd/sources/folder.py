"""What lies in the vault's folder, and how does a file there change atomically?

Paths are bytes relative to the folder. No symbolic link is followed, nothing outside is reached. Names that begin with
a dot (`.git`, `.obsidian`, `.trash`, files of editors) are not seen.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memoryd.digest import sha256_hex
from memoryd.errors import DiskFull, NotFound, VaultError
from memoryd.files import Files
from memoryd.records import shown_path

OWNER = "vault"


@dataclass(frozen=True, slots=True)
class FileStat:
    """Enough to notice that a file changed: size in bytes, time in nanoseconds, inode number."""

    size: int
    mtime_ns: int
    ino: int


class Folder:
    """The work tree of the vault at `root`."""

    def __init__(self, root: Path, files: Files) -> None:
        self.root = root
        self.passed: tuple[bytes, ...] = ()
        """Links and special files called `*.md` that the last listing passed over."""
        self._files = files

    def locate(self, path: bytes) -> Path:
        """The place of a path. Raises VaultError where it would leave the folder or pass a link."""
        parts = path.split(b"/")
        if not path or b"\0" in path or any(part in (b"", b".", b"..") or part.lower() == b".git" for part in parts):
            raise VaultError(f"{shown_path(path)!r} is not a path inside the vault.", path=shown_path(path))
        place = self.root
        for part in parts[:-1]:
            place = place / os.fsdecode(part)
            if place.is_symlink():
                raise VaultError(f"{place} is a symbolic link; the vault does not follow it.", path=shown_path(path))
        return place / os.fsdecode(parts[-1])

    def read(self, path: bytes) -> bytes:
        """The whole file. Raises NotFound, VaultError (no regular file, unreadable)."""
        place = self.locate(path)
        try:
            fd = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(fd, "rb") as stream:
                if stat.S_ISREG(os.fstat(fd).st_mode):
                    return stream.read()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(f"{place} does not exist.", path=shown_path(path)) from error
        except OSError as error:
            raise VaultError(f"{place} cannot be read: {error.strerror}.", path=shown_path(path)) from error
        raise VaultError(f"{place} is not a regular file.", path=shown_path(path))

    def peek(self, path: bytes) -> bytes | None:
        """As `read`, with None for a missing file."""
        try:
            return self.read(path)
        except NotFound:
            return None

    def holds(self, path: bytes, sha256: str) -> bool:
        """Whether the file is there and has exactly these bytes (their SHA-256 in hex)."""
        data = self.peek(path)
        return data is not None and sha256_hex(data) == sha256

    def exists(self, path: bytes) -> bool:
        """Whether something has this name, a dangling link included."""
        return os.path.lexists(self.locate(path))

    def listing(self) -> dict[bytes, FileStat]:
        """Every regular `*.md` file at any depth, hidden ones aside. Raises VaultError when a directory cannot be read.

        A partial answer would make the files below look deleted, so there is none.
        """
        found: dict[bytes, FileStat] = {}
        passed: list[bytes] = []
        pending = [b""]
        while pending:
            prefix = pending.pop()
            try:
                with os.scandir(os.fsencode(self.root) + b"/" + prefix) as entries:
                    for entry in entries:
                        self._take(prefix + entry.name, entry, found, pending, passed)
            except OSError as error:
                place = shown_path(os.fsencode(self.root) + b"/" + prefix)
                if prefix and isinstance(error, FileNotFoundError):
                    continue  # removed since its parent was listed
                raise VaultError(f"{place} cannot be read: {error.strerror}.", path=place) from error
        self.passed = tuple(sorted(passed))
        return found

    @staticmethod
    def _take(
        path: bytes,
        entry: os.DirEntry[bytes],
        found: dict[bytes, FileStat],
        pending: list[bytes],
        passed: list[bytes],
    ) -> None:
        if entry.name.startswith(b"."):
            return
        if entry.is_dir(follow_symlinks=False):
            pending.append(path + b"/")
        elif entry.name.endswith(b".md") and not entry.is_file(follow_symlinks=False):
            passed.append(path)
        elif entry.name.endswith(b".md"):
            try:
                about = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                return
            found[path] = FileStat(about.st_size, about.st_mtime_ns, about.st_ino)

    def put(self, path: bytes, data: bytes) -> list[Path]:
        """Give the file these bytes, atomically and durably; returns the directories made for it, outermost first.

        An existing file keeps its mode. Raises DiskFull or VaultError and leaves nothing half-written.
        """
        place = self.locate(path)
        made = self._missing_parents(place)
        try:
            self._files.mkdir(place.parent, owner=OWNER)
            mode = stat.S_IMODE(place.lstat().st_mode) if place.exists() else 0o600
            self._files.replace(place, data, owner=OWNER, mode=mode)
        except OSError as error:
            with suppress(OSError):
                self.sweep(path)
            self.drop_empty(made)
            raise explained(error, place) from error
        return made

    def remove(self, path: bytes) -> None:
        """Remove the file (missing is fine). Raises VaultError."""
        place = self.locate(path)
        try:
            self._files.unlink(place, owner=OWNER)
        except OSError as error:
            raise explained(error, place) from error

    def restore(self, path: bytes, former: bytes | None) -> None:
        """Give the file its former bytes; None removes it. Raises DiskFull, VaultError."""
        if former is None:
            self.remove(path)
        else:
            self.put(path, former)

    def sweep(self, path: bytes) -> None:
        """Remove what an interrupted `put` may have left beside the file."""
        self._files.discard(leftover(self.locate(path)), owner=OWNER)

    def drop_empty(self, made: list[Path]) -> None:
        """Remove directories that `put` made, innermost first, as far as they are empty."""
        for folder in reversed(made):
            try:
                folder.rmdir()
            except OSError:
                return

    def _missing_parents(self, place: Path) -> list[Path]:
        missing = []
        folder = place.parent
        while folder != self.root and not os.path.lexists(folder):
            missing.append(folder)
            folder = folder.parent
        return missing[::-1]


class Keeper:
    """Keeps the former bytes of a file while its replacement is not committed yet, at `home` (made when needed)."""

    def __init__(self, home: Path, files: Files) -> None:
        self._home = home
        self._files = files

    def keep(self, path: bytes, sha256: str, former: bytes) -> None:
        """Remember what stood at `path` before the bytes with this SHA-256. Raises OSError."""
        self._files.mkdir(self._home, owner=OWNER)
        self._files.replace(self._place(path, sha256), former, owner=OWNER)

    def former(self, path: bytes, sha256: str) -> bytes | None:
        """What was kept, if anything."""
        try:
            return self._place(path, sha256).read_bytes()
        except FileNotFoundError:
            return None

    def drop(self, path: bytes, sha256: str) -> None:
        """Forget it."""
        with suppress(OSError):  # it is in nobody's way
            self._files.discard(self._place(path, sha256), owner=OWNER)

    def _place(self, path: bytes, sha256: str) -> Path:
        return self._home / sha256_hex(path + b"\0" + sha256.encode())[:32]


def leftover(place: Path) -> Path:
    """The temporary name that `Files.replace` uses beside a file."""
    return place.with_name(f".{place.name}.tmp")


def explained(error: OSError, place: Path) -> VaultError | DiskFull:
    """The typed error for a failed write."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"No space is left to write {place}.", path=os.fsencode(place).decode("utf-8", "replace"))
    reason = error.strerror or type(error).__name__
    return VaultError(f"{place} cannot be written: {reason}.", path=os.fsencode(place).decode("utf-8", "replace"))
