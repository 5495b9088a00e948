"""Which places of the caller's project does a memory cite, and what stands there as it is written?

Refused by name, before anything is written: what leads out of the project, a link, a file or line that is not there.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memoryd.digest import address_of
from memoryd.errors import BadCitation, InvalidInput, OutsideProject
from memoryd.extract.lines import lines_of
from memoryd.operations import callers
from memoryd.operations.held import spellings
from memoryd.operations.home import Caller, Home
from memoryd.operations.lookout import FILE_BYTES, Found
from memoryd.sources.citation import Citation, Piece, parse
from memoryd.sources.projects import Project

CITATIONS_MOST = 20
WAIT_SECONDS = 5.0
"""How long a write waits for the disk that a cited file lies on."""
_REASONS = {
    errno.ENOENT: "is not there",
    errno.ELOOP: "is a link or lies behind one, and links are not followed",
    errno.ENXIO: "is no regular file",
    errno.EFBIG: f"has more than {FILE_BYTES} bytes",
    errno.ENAMETOOLONG: "is not there",
}


@dataclass(frozen=True, slots=True)
class Cited:
    """Citations as a memory's file holds them, and the bytes that stood there."""

    written: tuple[str, ...]
    pieces: tuple[Piece, ...]


def asked(given: Sequence[str] | None) -> tuple[Citation, ...] | None:
    """What a caller cites, without a look at it, each place once; None where nothing was said of it.

    Raises BadCitation, OutsideProject, InvalidInput.
    """
    if given is None:
        return None
    if len(given) > CITATIONS_MOST:
        message = f"`citations` holds {len(given)} citations; the limit is {CITATIONS_MOST}."
        raise InvalidInput(message, parameter="citations")
    return tuple(dict.fromkeys(_asked(text) for text in given))


def cited(home: Home, caller: Caller, scope: str, wanted: Sequence[Citation]) -> Cited:
    """The citations with their addresses; `scope` is the memory's. Raises BadCitation, OutsideProject."""
    if not wanted:
        return Cited((), ())
    own = _own(home, caller, scope)
    files = _files(home, Path(own.tree), [raw for one in wanted for raw in spellings(one.path)])
    pieces = [_piece(own, one, [files[raw] for raw in spellings(one.path)]) for one in wanted]
    return Cited(tuple(piece.citation.written for piece in pieces), tuple(pieces))


def unwritten(answer: dict[str, Any], wanted: Sequence[Citation] | None, held: Sequence[str]) -> dict[str, Any]:
    """The answer to words that are there already, which says so where they cite something else."""
    if answer["outcome"] != "exists" or not wanted or {one.at for one in wanted} == {place_of(text) for text in held}:
        return answer
    words = (
        "Its citations stay as they are: call memory_supersede with the same content and `citations` to change them."
    )
    return {**answer, "next": f"{answer['next']} {words}"}


def place_of(text: str) -> str:
    """A citation of a memory's file without its address."""
    return text.partition(" sha256:")[0]


def _asked(text: str) -> Citation:
    one = parse(text.strip())
    if one.address:
        raise BadCitation(
            f"The citation {text[:200]!r} brings an address; it is made from what stands there now.",
            next_step=f"Nothing was written: pass {one.at[:200]!r} alone.",
            parameter="citations",
            citation=text[:200],
        )
    return one


def _own(home: Home, caller: Caller, scope: str) -> Project:
    """The caller's project, where it is the memory's."""
    own = callers.project(home, caller)
    if own is None or own.scope != scope:
        raise OutsideProject(
            f"`citations` name files of this session's project, and this memory belongs to {scope}."
            if own is not None
            else "`citations` need a project, and this session did not start inside a git project.",
            next_step="Leave `citations` out and say in the content where it stands.",
            parameter="citations",
        )
    return own


def _files(home: Home, tree: Path, paths: list[bytes]) -> dict[bytes, Found]:
    found: dict[bytes, Found] = {}
    wanted = dict.fromkeys(paths)
    for own in home.reserved:
        inner = os.path.realpath(own)
        if any(Path(os.fsdecode(os.fsencode(tree) + b"/" + path)).is_relative_to(inner) for path in wanted):
            raise OutsideProject("What belongs to memoryd itself cannot be cited.", parameter="citations")
    try:
        while left := [path for path in wanted if path not in found]:
            found |= home.lookout.files(tree, left, WAIT_SECONDS)
    except OSError as error:
        raise BadCitation(f"The project's folder cannot be read: {error.strerror}.", parameter="citations") from error
    return found


def _piece(own: Project, one: Citation, files: list[Found]) -> Piece:
    found = next((file for file in files if file.error is None), files[0])
    if found.error is not None:
        why = _REASONS.get(found.error.errno or 0, f"cannot be read ({found.error.strerror})")
        raise _refused(one, f"{one.path[:200]} {why} in the project {own.name}")
    data = found.data
    if one.first:
        lines = lines_of(data)
        if lines is None:
            raise _refused(one, f"{one.path[:200]} is no text and has no lines")
        if one.last > lines.count:
            raise _refused(one, f"{one.path[:200]} ends at line {lines.count}")
        data = lines.piece(one.first, one.last)
    return Piece(replace(one, address=address_of(data)), data)


def _refused(one: Citation, why: str) -> BadCitation:
    return BadCitation(f"{one.at[:240]!r} cannot be cited: {why}.", parameter="citations", citation=one.at[:240])
