"""Do the places that a memory cites still say what they said when it was written?

A file is read only where it does not look as it did at the last look, never through a link, and never for long. What
cannot be told is `unknown`, which is no word against the memory. Lines of another project's files are never shown.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memoryd.errors import InvalidInput
from memoryd.operations import callers, evidence
from memoryd.operations.drift import drifted
from memoryd.operations.held import spellings
from memoryd.operations.home import Caller, Home
from memoryd.operations.lookout import FILE_BYTES, Found, Standing
from memoryd.records import GLOBAL_SCOPE
from memoryd.sources.citation import Citation, is_elsewhere, parse
from memoryd.sources.projects import Project

SECONDS = 0.25
"""How long an answer waits for all its citations together."""
SHOWN_MOST = 5
"""Citations that a hit shows; a whole entry shows all."""
ORDER = ("changed", "missing", "unknown", "fresh")
LATE = Standing("unknown", "the disk did not answer in time; ask again")
_GONE = (errno.ENOENT, errno.ENOTDIR)


@dataclass(frozen=True, slots=True)
class _Root:
    """Where a scope's files lie, and whether it is the caller's own; without a folder, what is said instead."""

    folder: Path | None
    own: bool = False
    instead: Standing = LATE


def mark(home: Home, caller: Caller, entries: Iterable[dict[str, Any]], *, whole: bool = False) -> None:
    """In each entry that has `citations` as its file holds them, put how each stands (with `whole` also addresses)."""
    waiting: dict[str, list[dict[str, Any]]] = {}
    for one in entries:
        if one.get("citations"):
            waiting.setdefault(str(one["scope"]), []).append(one)
    if not waiting:
        return
    until = time.monotonic() + SECONDS
    own = callers.project(home, caller)
    for scope, group in waiting.items():
        root = _root(home, own, scope, until)
        texts = list(dict.fromkeys(text for one in group for text in one["citations"]))
        standings = standings_of(home, scope, root, texts, until)
        for one in group:
            _put(one, standings, root.own, whole=whole)


def _put(entry: dict[str, Any], standings: dict[str, Standing], own: bool, *, whole: bool) -> None:
    texts: Sequence[str] = entry["citations"]
    if not whole and len(texts) > SHOWN_MOST:
        entry["citations_more"] = len(texts) - SHOWN_MOST
        texts = sorted(texts, key=lambda text: ORDER.index(standings[text].state))[:SHOWN_MOST]
    entry["citations"] = [_told(text, standings[text], own, whole=whole) for text in texts]


def _told(text: str, standing: Standing, own: bool, *, whole: bool) -> dict[str, Any]:
    read = _read(text)
    told: dict[str, Any] = {"at": text[:200] if isinstance(read, Standing) else read.at, "state": standing.state}
    if whole and isinstance(read, Citation) and read.address:
        told["address"] = read.address
    if standing.hint:
        told["hint"] = standing.hint
    if standing.diff and own:
        told["diff"] = list(standing.diff)
    if standing.now:
        told["now"] = standing.now
    return told


def _read(text: str) -> Citation | Standing:
    if is_elsewhere(text):
        return Standing("unknown", "no file of the project; it is not looked at")
    try:
        return parse(text)
    except InvalidInput as error:
        return Standing("unknown", f"the line of the memory's file has to be mended by hand: {error.message}")


def _root(home: Home, own: Project | None, scope: str, until: float) -> _Root:
    if own is not None and own.scope == scope:
        return _Root(Path(own.tree), own=True)
    record = None if scope == GLOBAL_SCOPE else home.scopes.get(scope)
    if record is None or record.root is None:
        return _Root(None, instead=Standing("unknown", "nobody knows in which folder this project lies"))
    root = os.fsdecode(spellings(record.root)[-1])
    try:
        home.lookout.run(root, lambda: os.stat(root), until - time.monotonic())  # noqa: PTH116 - bytes of any kind
        home.lookout.run(root, lambda: home.projects.find(root, {}), until - time.monotonic())
    except OSError as error:
        return _Root(None, instead=_folder_lost(error))
    found = callers.project(home, Caller(root))
    if found is None or found.scope != scope:
        return _Root(None, instead=Standing("unknown", "the folder that this project was last seen in is not it now"))
    return _Root(Path(found.tree))


def _folder_lost(error: OSError) -> Standing:
    if isinstance(error, TimeoutError):
        return LATE
    if error.errno in _GONE:
        return Standing("missing", "the project's folder is gone")
    return Standing("unknown", f"the project's folder cannot be read: {error.strerror}")


def standings_of(home: Home, scope: str, root: _Root, texts: list[str], until: float) -> dict[str, Standing]:
    """How these citations of a scope's memories stand."""
    if root.folder is None:
        return {text: told if isinstance(told := _read(text), Standing) else root.instead for text in texts}
    try:
        found = home.lookout.still(root.folder, texts, until - time.monotonic())
    except OSError:
        return dict.fromkeys(texts, LATE)
    rest: dict[str, Citation] = {}
    for text in texts:
        if text not in found:
            read = _read(text)
            if isinstance(read, Standing):
                found[text] = read
            else:
                rest[text] = read
    return found | _looked(home, scope, root.folder, rest, until) if rest else found


def _looked(home: Home, scope: str, root: Path, rest: dict[str, Citation], until: float) -> dict[str, Standing]:
    """Read what has to be read, as many files at a time as one look takes."""
    standings: dict[str, Standing] = {}
    while left := {text: one for text, one in rest.items() if text not in standings}:
        paths = list(dict.fromkeys(raw for one in left.values() for raw in spellings(one.path)))
        try:
            files = home.lookout.files(root, paths, until - time.monotonic())
        except OSError as error:
            return standings | dict.fromkeys(left, _folder_lost(error))
        done = {text: one for text, one in left.items() if all(raw in files for raw in spellings(one.path))}
        for text, one in done.items():
            standings[text] = _judged(home, scope, root, text, one, files)
            if time.monotonic() > until:
                break  # what was judged is remembered: the next answer comes further
        if not done or time.monotonic() > until:
            return dict.fromkeys(rest, LATE) | standings
    return standings


def _judged(home: Home, scope: str, root: Path, text: str, one: Citation, files: dict[bytes, Found]) -> Standing:
    raw = next((raw for raw in spellings(one.path) if files[raw].error is None), spellings(one.path)[0])
    found = files[raw]
    if found.error is not None:
        return _unread(one, found.error)
    if not one.address:
        standing = Standing("unknown", "it was noted down by hand, without an address to compare with")
    else:
        standing = drifted(one, found.data, lambda: evidence.kept(home, scope, one.address))
    home.lookout.remember(root, text, raw, found.looks, standing)
    return standing


def _unread(one: Citation, error: OSError) -> Standing:
    if error.errno in (*_GONE, errno.ENAMETOOLONG):
        return Standing("missing", "the file is gone")
    if error.errno == errno.ENXIO:
        return Standing("missing", "what stands there now is no regular file")
    if error.errno == errno.EFBIG:
        return Standing("unknown" if one.first else "changed", f"the file has more than {FILE_BYTES} bytes now")
    if error.errno == errno.ELOOP:
        return Standing("unknown", "a link stands there now, and links are not followed")
    return Standing("unknown", f"it cannot be read: {error.strerror}")
