"""How does a file that belongs to no corpus, a build log or a transcript, get into the store and be found again?"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memoryd.digest import PREFIX, address_of, document_id
from memoryd.errors import BlankContent, ContentTooLarge, InvalidInput, NotFound, NotText, OutsideProject
from memoryd.extract.text import decode
from memoryd.operations import callers
from memoryd.operations.fresh import differs
from memoryd.operations.guard import redacted
from memoryd.operations.home import Caller, Home
from memoryd.operations.ingest import CITED, Seen, store_group
from memoryd.operations.inputs import checked_characters, checked_tags
from memoryd.operations.kept import place_text
from memoryd.records import ARTIFACT_SOURCE, shown_path
from memoryd.sources.regular import open_folder, read_regular

NAME_BYTES = 400


def add_given(
    home: Home,
    caller: Caller,
    *,
    text: str | None = None,
    path: str | None = None,
    name: str | None = None,
    scope: str | None = None,
    tags: Sequence[str] | None = None,
    redact: bool = False,
) -> dict[str, Any]:
    """As `add`, for a session: a text, or a regular file of the project that the session started in.

    A file's name is its path within the work tree; a text without a name is named by its address. Raises BlankContent,
    OutsideProject, NotFound and (with `redact`) NotText as well.
    """
    if (text is None) == (path is None):
        raise InvalidInput("Give exactly one of `text` and `path`.", parameter="text")
    if path is not None:
        data, own_name = _of_project(home, caller, path)
    else:
        data, own_name = _bytes_of(text or ""), None
    data, told = _without_secrets(data) if redact else (data, {})
    own_name = own_name or f"text-{address_of(data).removeprefix(PREFIX)[:8]}.txt"
    kept = add(home, caller, data=data, name=name or own_name, scope=scope, tags=tags)
    return {**kept, **told, "next": _next(kept)}


def _without_secrets(data: bytes) -> tuple[bytes, dict[str, Any]]:
    """The bytes with each secret replaced, and how many of which kind for the answer. Raises NotText."""
    decoded = decode(data)
    if decoded is None:
        raise NotText("What is no text cannot be redacted; nothing was stored.", parameter="redact")
    done = redacted(decoded.raw)
    if done.counts:
        handler = "surrogatepass" if decoded.encoding.startswith("utf-16") else "surrogateescape"
        data = data[: decoded.skip] + done.text.encode(decoded.encoding, handler)
    return data, {"redacted": {"count": sum(done.counts.values()), "kinds": done.counts}}


def _bytes_of(text: str) -> bytes:
    checked_characters("text", text)
    if not text.strip():
        raise BlankContent("`text` is blank.", next_step="Pass the text to keep; nothing was stored.", parameter="text")
    return text.encode()


def _of_project(home: Home, caller: Caller, path: str) -> tuple[bytes, str]:
    """The bytes of a file of the caller's project, and its path within it."""
    own = callers.project(home, caller)
    if own is None:
        raise OutsideProject(
            "`path` needs a project, and this session did not start inside a git project.",
            next_step="Pass what the file says as `text`, or let a person run `memoryd add FILE`.",
            parameter="path",
        )
    place = _place(home, caller, path)
    if not place.is_relative_to(own.tree) or place == Path(own.tree):
        # whether anything lies there is not said
        raise OutsideProject(f"{path[:200]!r} lies outside this session's project {own.name}.", parameter="path")
    within = place.relative_to(own.tree)
    if ".git" in within.parts:
        raise OutsideProject(f"{place_text(within)} belongs to git, not to the project.", parameter="path")
    return _read(home, Path(own.tree), within), os.fspath(within)


def _next(kept: dict[str, Any]) -> str:
    if kept["findable"]:
        return f"memory_search finds it in a moment; read it with memory_get and `source` {kept['source']}."
    return "It is stored, not searched (no text); memory_get with `metadata` shows its facts."


def add_file(
    home: Home,
    caller: Caller,
    *,
    path: str,
    name: str | None = None,
    scope: str | None = None,
    tags: Sequence[str] | None = None,
    allow_forgotten: bool = False,
    redact: bool = False,
) -> dict[str, Any]:
    """As `add`, with the bytes of a regular file; its name is the default. Raises NotFound and NotText as well."""
    place = _place(home, caller, path)
    data = _read(home, place.parent, Path(place.name))
    data, told = _without_secrets(data) if redact else (data, {})
    given = name if name is not None else Path(path).name
    kept = add(home, caller, data=data, name=given, scope=scope, tags=tags, allow_forgotten=allow_forgotten)
    return {**kept, **told}


def _place(home: Home, caller: Caller, path: str) -> Path:
    """Where a path leads from the caller's directory, links resolved. Raises InvalidInput."""
    place = Path(os.path.realpath(Path(caller.directory or "/") / path))
    for own in home.reserved:
        if place.is_relative_to(os.path.realpath(own)):
            raise InvalidInput(f"{place_text(place)} belongs to memoryd itself.", next_step="Name another file.")
    return place


def _read(home: Home, folder: Path, within: Path) -> bytes:
    """The bytes of the regular file at a path below a folder; no step of the way there may be a link by now.

    Raises NotFound, ContentTooLarge.
    """
    limit = home.config.limits.file_bytes
    above = [os.fsencode(part) for part in within.parts[:-1]]
    try:
        with open_folder(folder, above) as opened:
            return read_regular(os.fsencode(within.name), opened, limit=limit)
    except OSError as error:
        shown = place_text(folder / within)
        if error.errno == errno.EFBIG:
            raise _too_large(shown, limit) from error
        raise NotFound(f"{shown} cannot be read: {error.strerror}.", next_step="Name a readable file.") from error


def add(
    home: Home,
    caller: Caller,
    *,
    data: bytes,
    name: str,
    scope: str | None = None,
    tags: Sequence[str] | None = None,
    allow_forgotten: bool = False,
) -> dict[str, Any]:
    """Keep these bytes as an artifact under a name of its scope; the same bytes under the same name are one entry.

    What is text is found by search from then on. Other bytes under a name that is taken are its next state; the former
    one stays in its history. Where no tags are given, those that are there stay. The caller holds no lane.

    Raises InvalidInput kinds, ScopeError and StoreError kinds.
    """
    path = _path(name)
    limit = home.config.limits.file_bytes
    if len(data) > limit:
        raise _too_large(name[:NAME_BYTES], limit)
    chosen = callers.writable(home, caller, scope)
    # the scope is a part of the path: nobody moves another project's artifact by using its name
    place = f"{chosen}/".encode() + path
    given_tags = checked_tags(tags)
    with home.store_lane:
        row = home.documents.by_path(ARTIFACT_SOURCE, place)
        there = row is not None and row.address is not None
        wanted = row.tags if row is not None and tags is None else given_tags
        one = Seen(ARTIFACT_SOURCE, place, chosen, "document", data, tags=wanted, allow_forgotten=allow_forgotten)
        is_new = differs(home, row, one) or (row is not None and row.tags != wanted)
        if is_new:
            store_group(home, [one])
    home.work.set()
    stored = home.documents.by_path(ARTIFACT_SOURCE, place)
    return {
        "outcome": "exists" if not is_new else "changed" if there else "added",
        "id": document_id(ARTIFACT_SOURCE, place),
        "source": f"{ARTIFACT_SOURCE}/{shown_path(place)}",
        "address": address_of(data),
        "size": len(data),
        "scope": chosen,
        "findable": stored is not None and stored.encoding != "binary",
        "problem": stored.problem if stored is not None else None,
    }


def _path(name: str) -> bytes:
    """A name as the path of a document: relative, with folders if it likes. Raises InvalidInput."""
    path = os.fsencode(name)
    parts = path.split(b"/")
    taken = parts[0] == CITED.encode()  # what memories cite
    bad = taken or any(part in (b"", b".", b"..") for part in parts) or any(byte < 32 or byte == 127 for byte in path)
    if bad or len(path) > NAME_BYTES:
        raise InvalidInput(
            f"{name[:80]!r} is no name for an artifact.",
            next_step=f"Give a relative name such as `build/log.txt`, at most {NAME_BYTES} bytes.",
            parameter="name",
        )
    return path


def _too_large(what: str, limit: int) -> ContentTooLarge:
    return ContentTooLarge(
        f"{what} is over the limit of {limit} bytes.",
        next_step="Raise limits.file_bytes, or put the file into a directory and keep that as a snapshot.",
        limit=limit,
    )
