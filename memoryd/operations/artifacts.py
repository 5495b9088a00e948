"""How does a file that belongs to no corpus, a build log or a transcript, get into the store and be found again?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memoryd.digest import address_of, document_id
from memoryd.errors import ContentTooLarge, InvalidInput, NotFound
from memoryd.operations import callers
from memoryd.operations.fresh import differs
from memoryd.operations.home import Caller, Home
from memoryd.operations.ingest import Seen, store_group
from memoryd.operations.inputs import checked_tags
from memoryd.records import ARTIFACT_SOURCE, shown_path
from memoryd.sources.regular import open_folder, read_regular

NAME_BYTES = 400


def add_file(
    home: Home,
    caller: Caller,
    *,
    path: str,
    name: str | None = None,
    scope: str | None = None,
    tags: Sequence[str] | None = None,
    allow_forgotten: bool = False,
) -> dict[str, Any]:
    """As `add`, with the bytes of a regular file; its name is the default. Raises NotFound as well."""
    place = Path(os.path.realpath(Path(caller.directory or "/") / path))
    limit = home.config.limits.file_bytes
    try:
        with open_folder(place.parent) as folder:
            data = read_regular(os.fsencode(place.name), folder, limit=limit)
    except OSError as error:
        shown = shown_path(os.fsencode(place))
        if place.exists() and place.stat().st_size > limit:
            raise _too_large(place.stat().st_size, limit) from error
        raise NotFound(f"{shown} cannot be read: {error.strerror}.", next_step="Name a readable file.") from error
    given = name if name is not None else Path(path).name
    return add(home, caller, data=data, name=given, scope=scope, tags=tags, allow_forgotten=allow_forgotten)


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
    one stays in its history. The caller holds no lane. Raises InvalidInput kinds, ScopeError and StoreError kinds.
    """
    path = _path(name)
    limit = home.config.limits.file_bytes
    if len(data) > limit:
        raise _too_large(len(data), limit)
    chosen = callers.writable(home, caller, scope)
    # the scope is a part of the path: nobody moves another project's artifact by using its name
    place = f"{chosen}/".encode() + path
    wanted = checked_tags(tags)
    one = Seen(ARTIFACT_SOURCE, place, chosen, "document", data, tags=wanted, allow_forgotten=allow_forgotten)
    with home.store_lane:
        row = home.documents.by_path(ARTIFACT_SOURCE, place)
        there = row is not None and row.address is not None
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
    bad = any(part in (b"", b".", b"..") for part in parts) or any(byte < 32 or byte == 127 for byte in path)
    if bad or len(path) > NAME_BYTES:
        raise InvalidInput(
            f"{name[:80]!r} is no name for an artifact.",
            next_step=f"Give a relative name such as `build/log.txt`, at most {NAME_BYTES} bytes.",
            parameter="name",
        )
    return path


def _too_large(size: int, limit: int) -> ContentTooLarge:
    return ContentTooLarge(
        f"{size} bytes are over the limit of {limit}.",
        next_step="Raise limits.file_bytes, or put the file into a directory and keep that as a snapshot.",
        size=size,
        limit=limit,
    )
