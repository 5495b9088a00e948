"""What do HEAD and a fresh commit hold, read straight from git's files instead of by one more process?

Everything here may answer "cannot tell" (packed objects, another reference format); the caller then asks git.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_OID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_MAX_OBJECT = 16 << 20


class CannotTell(Exception):
    """These files do not say it; git knows."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where a repository keeps its parts: `own` is this work tree's git directory, `common` the shared one.

    `hash` is git's name of the object hash: sha1 or sha256.
    """

    own: Path
    common: Path
    hash: str


@dataclass(slots=True)
class Walked:
    """Blob ids of the asked paths in a commit (None: no regular file there) and every object on the way to them."""

    entries: dict[bytes, str | None] = field(default_factory=dict)
    objects: set[str] = field(default_factory=set)


def blob_id(data: bytes, hash_name: str) -> str:
    """The id that git gives these bytes as a blob."""
    return hashlib.new(hash_name, b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def branch_of(places: Places) -> str | None:
    """The full name of the branch that HEAD stands on; None when it is detached."""
    text = _ref_text(places, "HEAD") or ""
    return text.removeprefix("ref: ") if text.startswith("ref: ") else None


def stands_on_branch(places: Places) -> bool:
    """Whether HEAD's own file names a branch; where not (another reference format, a link), git knows."""
    name = branch_of(places) or ""
    return name.startswith("refs/heads/") and not name.endswith("/.invalid")


def head_of(places: Places) -> str | None:
    """The commit that HEAD names; None on a branch without commits. Raises CannotTell."""
    name = "HEAD"
    for _ in range(5):
        text = _ref_text(places, name)
        if text is None and name != "HEAD":
            return None
        if text is not None and _OID.match(text):
            return text
        if text is None or not text.startswith("ref: refs/") or text.endswith("/.invalid"):
            break
        name = text.removeprefix("ref: ")
    raise CannotTell


def walk_commit(places: Places, commit: str, paths: Sequence[bytes]) -> Walked:
    """Follow each path from the commit's root tree through loose objects. Raises CannotTell where one is packed."""
    header = _loose(places, commit, b"commit")
    root = header[5 : header.index(b"\n")].decode("ascii")
    walked = Walked(objects={commit, root})
    for path in paths:
        walked.entries[path] = _follow(places, root, path.split(b"/"), walked.objects)
    return walked


def index_holds(places: Places, path: bytes) -> bool:
    """Whether the index has an unconflicted entry for this path. Raises CannotTell for other formats than 2."""
    try:
        data = (places.own / "index").read_bytes()
    except FileNotFoundError:
        return False
    if data[:8] != b"DIRC\0\0\0\2" or any(places.own.glob("sharedindex.*")):
        raise CannotTell
    at = data.find(path + b"\0")
    while at >= 0:
        flags = int.from_bytes(data[at - 2 : at])
        if flags & 0x0FFF == min(len(path), 0x0FFF):  # else the tail of a longer path
            if flags & 0x3000:
                raise CannotTell
            return True
        at = data.find(path + b"\0", at + 1)
    return False


def _follow(places: Places, tree: str, parts: list[bytes], seen: set[str]) -> str | None:
    for position, part in enumerate(parts):
        entry = _tree_entry(_loose(places, tree, b"tree"), part, len(tree) // 2)
        if entry is None:
            return None
        mode, oid = entry
        seen.add(oid)
        if position == len(parts) - 1:
            return oid if mode.startswith(b"100") else None
        if mode != b"40000":
            return None
        tree = oid
    return None


def _tree_entry(tree: bytes, name: bytes, size: int) -> tuple[bytes, str] | None:
    at = 0
    while at < len(tree):
        end = tree.index(b"\0", at)
        mode, _, found = tree[at:end].partition(b" ")
        if found == name:
            return mode, tree[end + 1 : end + 1 + size].hex()
        at = end + 1 + size
    return None


def _loose(places: Places, oid: str, kind: bytes) -> bytes:
    path = places.common / "objects" / oid[:2] / oid[2:]
    try:
        inflate = zlib.decompressobj()
        data = inflate.decompress(path.read_bytes(), _MAX_OBJECT)
    except (OSError, zlib.error) as error:
        raise CannotTell from error
    head, separator, body = data.partition(b"\0")
    if not separator or head.split(b" ")[0] != kind or head.split(b" ")[-1] != b"%d" % len(body):
        raise CannotTell
    return body


def _ref_text(places: Places, name: str) -> str | None:
    """What a reference file holds, or its line in packed-refs; None where the reference does not exist."""
    base = places.own if name == "HEAD" else places.common
    try:
        return (base / name).read_text("utf-8").strip()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        pass
    try:
        packed = (places.common / "packed-refs").read_text("utf-8")
    except FileNotFoundError:
        return None
    match = re.search(rf"^([0-9a-f]{{40,64}}) {re.escape(name)}$", packed, re.MULTILINE)
    return match[1] if match else None
