"""What was a set of indexes made for, and up to which record does each of its legs reach?

Two small files in each generation: `manifest.json` never changes, `watermark.json` is replaced at each commit.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from memoryd.digest import canonical_json
from memoryd.errors import IndexDamaged
from memoryd.files import Files

OWNER = "generation"
MANIFEST = "manifest.json"
WATERMARK = "watermark.json"
FORMAT = 1
_NAME = re.compile(r"gen-([1-9][0-9]{0,9})\Z")


@dataclass(frozen=True, slots=True)
class IndexIdentity:
    """What two sets of indexes must share: model fingerprint, dimensions, analysers, passage schema, whether the model
    also gives sparse vectors, and where vectors lie ('' in files)."""

    model: str
    dims: int
    analysis: int
    passages: int
    sparse: bool = False
    place: str = ""

    @property
    def vectors(self) -> tuple[str, int, bool]:
        """What vectors must have in common to be compared."""
        return self.model, self.dims, self.sparse

    def __str__(self) -> str:
        model = f"model {self.model[:12]} with {self.dims} dimensions"
        where = f", vectors at {self.place}" if self.place else ""
        return f"{model}, analysers {self.analysis}, passages {self.passages}{where}"


@dataclass(frozen=True, slots=True)
class Watermark:
    """What is durably indexed: the newest record sequence a leg covers, and how many entries it holds then."""

    lexical_seq: int = 0
    vector_seq: int = 0
    vault_commit: str = ""
    lexical_count: int = 0
    vector_count: int = 0


Record = TypeVar("Record", IndexIdentity, Watermark)


def number_of(name: str) -> int | None:
    """N of `gen-N`, None for any other name."""
    found = _NAME.match(name)
    return int(found[1]) if found is not None else None


def read_manifest(path: Path) -> IndexIdentity:
    """What the set in `path` was made for. Raises IndexDamaged."""
    data = _read(path / MANIFEST)
    if data.get("number") != number_of(path.name) or not isinstance(data.get("identity"), dict):
        raise IndexDamaged(f"{path / MANIFEST} belongs to another folder.", path=str(path / MANIFEST))
    return _exact(IndexIdentity("", 0, 0, 0), {"sparse": False, "place": "", **data["identity"]}, path / MANIFEST)


def write_manifest(path: Path, identity: IndexIdentity, files: Files) -> None:
    """Say once for all what the new set in `path` is made for. Raises OSError."""
    named = {name: value for name, value in asdict(identity).items() if name != "place" or value}
    data = {"v": FORMAT, "number": number_of(path.name), "identity": named}
    files.write_new(path / MANIFEST, canonical_json(data) + b"\n", owner=OWNER)
    files.fsync_dir(path, owner=OWNER)


def read_watermark(path: Path) -> Watermark:
    """How far the set in `path` reaches. Raises IndexDamaged."""
    return _exact(Watermark(), _read(path / WATERMARK), path / WATERMARK)


def write_watermark(path: Path, mark: Watermark, files: Files) -> None:
    """Replace the mark atomically. Raises OSError."""
    files.replace(path / WATERMARK, canonical_json({"v": FORMAT, **asdict(mark)}) + b"\n", owner=OWNER)


def _exact(pattern: Record, data: dict[str, Any], path: Path) -> Record:
    """The fields of `pattern` out of `data`, each of the pattern's type; fields of a later version are ignored."""
    known = asdict(pattern)
    wrong = [name for name, value in known.items() if type(data.get(name)) is not type(value)]
    if wrong:
        raise IndexDamaged(f"{path} lacks a usable {wrong[0]}.", path=str(path))
    return type(pattern)(**{name: data[name] for name in known})


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise IndexDamaged(f"{path} cannot be read: {error}.", path=str(path)) from error
    if not isinstance(data, dict) or data.get("v") != FORMAT:
        raise IndexDamaged(f"{path} is not of format {FORMAT}.", path=str(path))
    return data
