"""What does a citation say (`src/app.py#L10-L20 sha256:...`), and which file of a project does it mean?

Pure but for `read`, which reaches a file step by step from the project's root and never through a link.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass, replace

from memoryd.errors import BadCitation, InvalidInput, OutsideProject, VaultFileInvalid
from memoryd.sources.frontmatter import cut, invalid, line_at, pairs_of
from memoryd.sources.regular import opened_inner, read_regular

PATH_LIMIT = 1000
"""Characters of a path."""
FORM = "a citation is `path`, `path#L10` or `path#L10-L20`, the path from the project's root"
State = tuple[int, ...]
"""What tells whether a file is still as it was read: device, inode, mode, size, times."""

_PARTS = re.compile(
    r"(?P<path>[^\n]+?)(?:#L(?P<first>[0-9]{1,9})(?:-L?(?P<last>[0-9]{1,9}))?)?"
    r"(?: (?P<address>sha256:[0-9a-f]{64}))?\Z"
)
_CONTROL = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ROOM = 100
"""Characters of lines and address."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A file of a project, or its lines `first` to `last` (0: the whole file), and the address that they had."""

    path: str
    first: int = 0
    last: int = 0
    address: str = ""

    @property
    def at(self) -> str:
        """The place alone."""
        if not self.first:
            return self.path
        return f"{self.path}#L{self.first}" + (f"-L{self.last}" if self.last > self.first else "")

    @property
    def written(self) -> str:
        """The place and the address, as a memory's file holds it."""
        return f"{self.at} {self.address}" if self.address else self.at

    def moved(self, first: int, last: int) -> Citation:
        """The same file at other lines."""
        return replace(self, first=first, last=last)


@dataclass(frozen=True, slots=True)
class Piece:
    """A citation with its address, and the bytes that stood there."""

    citation: Citation
    data: bytes


def parse(text: str) -> Citation:
    """Read a citation, with or without an address. Raises BadCitation, OutsideProject."""
    found = _PARTS.match(text) if len(text) <= PATH_LIMIT + _ROOM else None
    if found is None or _CONTROL.search(text) or len(found["path"]) > PATH_LIMIT:
        raise _bad(text, "does not read as one")
    first = int(found["first"] or 0)
    last = int(found["last"] or first)
    if (found["first"] and not first) or last < first:
        raise _bad(text, "names no lines: they count from L1, and the first one comes first")
    return Citation(_inside(found["path"]), first, last, found["address"] or "")


def _inside(path: str) -> str:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts:
        raise OutsideProject(
            f"The citation {path[:200]!r} leads out of the project.", next_step=_step(), parameter="citations"
        )
    if ".git" in parts:
        raise OutsideProject(
            f"The citation {path[:200]!r} belongs to git, not to the project.", next_step=_step(), parameter="citations"
        )
    if not parts or path.endswith("/"):
        raise _bad(path, "names no file")
    return "/".join(parts)


def _bad(text: str, why: str) -> BadCitation:
    return BadCitation(f"The citation {text[:200]!r} {why}; {FORM}.", parameter="citations", citation=text[:200])


def _step() -> str:
    return "Nothing was written: cite a file of this session's project by its path from the project's root."


def is_elsewhere(text: str) -> bool:
    """Whether a person noted down something that lies in no project, such as a web address."""
    return _ELSEWHERE.match(text) is not None


def fault_in(data: bytes) -> str | None:
    """What is wrong with the first citation of a memory's file that does not read, beginning with its line."""
    yaml = cut(data).yaml
    pair = pairs_of(yaml, ("citations",)).get("citations")
    if pair is None:
        return None
    items = pair.value.items if pair.value.kind == "list" else [pair.value.text]
    for item in items:
        if item and (why := _fault(item)):
            at = yaml.find(item, pair.value.start)
            return invalid(pair.line if at < 0 else line_at(yaml, at), "citations", why).message
    return None


def _fault(item: str) -> str | None:
    if is_elsewhere(item):
        return None
    try:
        parse(item)
    except InvalidInput as error:
        return error.message.rstrip(".")
    return None


def faulty(citations: tuple[str, ...], data: bytes) -> str | None:
    """As `fault_in`, for a file whose citations are known: nearly always nothing has to be read again."""
    if not any(_fault(one) for one in citations):
        return None
    try:
        return fault_in(data)
    except VaultFileInvalid:
        return None


def read(root: int, path: bytes, limit: int) -> tuple[bytes, State]:
    """The bytes of a regular file below an open root, and how it looked just before.

    Raises OSError: ENOENT where it or a folder above it is gone, ELOOP for a link anywhere on the way, ENXIO for what
    is no regular file, EFBIG over `limit` bytes.
    """
    *above, name = path.split(b"/")
    folder = os.dup(root)
    try:
        for step in above:
            inner = _entered(step, folder)
            os.close(folder)
            folder = inner
        looks = state_of(os.stat(name, dir_fd=folder, follow_symlinks=False))
        return read_regular(name, folder, limit=limit), looks
    finally:
        os.close(folder)


def _entered(name: bytes, folder: int) -> int:
    try:
        return opened_inner(name, folder)
    except NotADirectoryError as error:
        about = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(about.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from error
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT)) from error


def state_of(about: os.stat_result) -> State:
    """What `read` and a later look compare."""
    return about.st_dev, about.st_ino, about.st_mode, about.st_size, about.st_mtime_ns, about.st_ctime_ns
