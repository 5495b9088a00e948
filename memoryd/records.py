"""What is said between the rooms: plain, immutable data without behaviour of any room.

Record shapes that lie in packs are documented in docs/formats.md; here they are typed for Python.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple

GLOBAL_SCOPE = "global"
VAULT_SOURCE = "vault"
ARTIFACT_SOURCE = "artifact"

Kind = Literal["memory", "document", "code"]
Status = Literal["in_force", "superseded", "archived"]
SEARCH_MODES = ("hybrid", "keyword", "semantic")
DOCUMENT_KINDS = ("memory", "document", "code")
MEMORY_TYPES = ("fact", "decision", "lesson", "preference", "note")
REVIEW_SECTIONS = ("feedback", "conflicting", "citations", "near_duplicates", "stale", "never_recalled", "verbose")
"""What a review looks for, in the order in which a person wants to hear of it."""


@dataclass(frozen=True, slots=True)
class DocumentEvent:
    """One `document` record: content seen at, or gone from, a (source, path). `seq` is 0 before commit."""

    source: str
    path: bytes
    scope: str
    kind: Kind
    event: Literal["seen", "gone"]
    address: str | None
    size: int
    exec: bool = False
    tags: tuple[str, ...] = ()
    observed: str = ""
    title: str = ""
    seq: int = 0

    def to_json(self) -> dict[str, Any]:
        """Canonical-JSON-ready form (without seq, which the store assigns)."""
        shown: dict[str, Any] = {
            "v": 1,
            "source": self.source,
            "path": encode_path(self.path),
            "scope": self.scope,
            "kind": self.kind,
            "event": self.event,
            "address": self.address,
            "size": self.size,
            "exec": self.exec,
            "tags": list(self.tags),
            "observed": self.observed,
        }
        if self.title:
            shown["title"] = self.title
        return shown

    @staticmethod
    def from_json(data: dict[str, Any], seq: int) -> DocumentEvent:
        """Read a record back; unknown fields are ignored (a later version may add some)."""
        return DocumentEvent(
            source=data["source"],
            path=decode_path(data["path"]),
            scope=data["scope"],
            kind=data["kind"],
            event=data["event"],
            address=data["address"],
            size=data["size"],
            exec=data["exec"],
            tags=tuple(data["tags"]),
            observed=data["observed"],
            title=data.get("title", ""),
            seq=seq,
        )


@dataclass(frozen=True, slots=True)
class ScopeRecord:
    """One `scope` record: a project that was seen, with the name and place people know it by."""

    id: str
    name: str
    remote: str | None
    root: str | None
    seq: int = 0

    def to_json(self) -> dict[str, Any]:
        """Canonical-JSON-ready form (without seq)."""
        return {"v": 1, "id": self.id, "name": self.name, "remote": self.remote, "root": self.root}

    @staticmethod
    def from_json(data: dict[str, Any], seq: int) -> ScopeRecord:
        """Read a record back."""
        return ScopeRecord(id=data["id"], name=data["name"], remote=data["remote"], root=data["root"], seq=seq)


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """One `snapshot` record: the Merkle root (64 hex digits) of a directory or corpus state at `created`.

    `source` is the corpus label or the directory's path, as text. `files` and `size` count the files and their bytes;
    `left_out` counts what was there and could not be read, so that nobody takes its absence for a deletion.
    """

    label: str
    source: str
    scope: str
    root: str
    created: str
    seq: int = 0
    files: int = 0
    size: int = 0
    left_out: int = 0

    def to_json(self) -> dict[str, Any]:
        """Canonical-JSON-ready form (without seq)."""
        shown = {"label": self.label, "source": self.source, "scope": self.scope, "root": self.root}
        counts = {"files": self.files, "size": self.size, "left_out": self.left_out}
        return {"v": 1, **shown, "created": self.created, **{name: n for name, n in counts.items() if n}}

    @staticmethod
    def from_json(data: dict[str, Any], seq: int) -> SnapshotRecord:
        """Read a record back; unknown fields are ignored."""
        counts = [int(data.get(name, 0)) for name in ("files", "size", "left_out")]
        return SnapshotRecord(data["label"], data["source"], data["scope"], data["root"], data["created"], seq, *counts)


@dataclass(frozen=True, slots=True)
class TombstoneRecord:
    """One `tombstone` record: a content (`address`) or a record (`target`, its seq) that never returns."""

    address: str | None
    target: int | None
    reason: str
    seq: int = 0

    def to_json(self) -> dict[str, Any]:
        """Canonical-JSON-ready form (without seq); exactly one of `address` and `target` is there."""
        named = {"target": self.target} if self.address is None else {"address": self.address}
        return {"v": 1, **named, "reason": self.reason}

    @staticmethod
    def from_json(data: dict[str, Any], seq: int) -> TombstoneRecord:
        """Read a record back; unknown fields are ignored."""
        return TombstoneRecord(data.get("address"), data.get("target"), data["reason"], seq)


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of one document that is embedded and ranked.

    `start`/`end` are byte offsets into the stored bytes, `line_start`/`line_end` 1-based and inclusive, `text` is
    what stands there (decoded), `heading` the path of headings (or the enclosing definitions) above it.
    """

    text: str
    start: int
    end: int
    line_start: int
    line_end: int
    heading: tuple[str, ...] = ()
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class IndexedPassage:
    """A passage as catalog and indexes know it: `id` is a UUID text, `text_sha256` names `embed_text`."""

    id: str
    document_id: str
    passage: Passage
    embed_text: str
    text_sha256: str


@dataclass(frozen=True, slots=True)
class MemoryFields:
    """The frontmatter of one memory file, plus its body."""

    id: str
    fact: str
    seq: int
    type: str
    title: str
    scope: str
    status: Status
    created: str
    updated: str
    tags: tuple[str, ...] = ()
    key: str | None = None
    supersedes: str | None = None
    superseded_by: str | None = None
    archive_reason: str | None = None
    citations: tuple[str, ...] = ()
    body: str = ""


@dataclass(frozen=True, slots=True)
class Filter:
    """What a search may see; applied inside each index query. Empty tuples of kinds/types mean no restriction.

    `path_prefix` is `label/` or `label/folder/` (ends with a slash) and matches a document's ancestor list.
    """

    scopes: tuple[str, ...]
    statuses: tuple[str, ...] = ("in_force",)
    kinds: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    path_prefix: str | None = None


class Traits(NamedTuple):
    """What an indexed entry is beyond its words, for ranking alone; 0 always means unknown or none.

    `code`: how much it looks like code, 1 to 100. `parts`: how many passages its document has, at most 255. `day`: the
    day it speaks of or was made, counted from 1970-01-01. `thread`: the conversation it belongs to (63 bits), `number`
    its place there, `speaker` who speaks (32 bits).
    """

    code: int = 0
    parts: int = 0
    day: int = 0
    thread: int = 0
    number: int = 0
    speaker: int = 0

    def packed(self) -> tuple[int, int, int]:
        """Three numbers of at most 63 bits."""
        return self.thread, self.number << 32 | self.speaker, self.day << 16 | self.parts << 8 | self.code

    @staticmethod
    @lru_cache(8192)  # most entries of a corpus have the same few, and a search looks at hundreds
    def unpacked(thread: int, place: int, nature: int) -> Traits:
        """Inverse of `packed`."""
        parts = nature >> 8 & 255
        return Traits(nature & 255, parts, nature >> 16, thread, place >> 32, place & 0xFFFF_FFFF)


NO_TRAITS = Traits()


class LegHit(NamedTuple):
    """One passage (or whole document, then `passage_id` is empty) found by one leg, best first in its list."""

    document_id: str
    passage_id: str
    score: float
    traits: Traits = NO_TRAITS


class Encoded(NamedTuple):
    """What a model makes of one text, as bytes (see `index.packed`).

    `dense` is a unit vector; `sparse` holds weights of tokens ('' where the model has none); `tokens` one vector of
    signed bytes for each token ('' where not asked for), of which only the directions count.
    """

    dense: bytes
    sparse: bytes = b""
    tokens: bytes = b""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check found: `where` is a path or address, `remedy` the user's next step."""

    code: str
    where: str
    message: str
    remedy: str
    details: dict[str, Any] = field(default_factory=dict)


def encode_path(path: bytes) -> str | dict[str, str]:
    """A path in a record: its text where it is UTF-8, else `{"base64": ...}`."""
    try:
        return path.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(path).decode("ascii")}


def decode_path(value: str | dict[str, str]) -> bytes:
    """Inverse of `encode_path`."""
    return value.encode("utf-8") if isinstance(value, str) else base64.b64decode(value["base64"], validate=True)


def shown_path(path: bytes) -> str:
    """A path for people and JSON: valid UTF-8 whatever the bytes are."""
    return path.decode("utf-8", "backslashreplace")


def ancestors(source: str, path: bytes) -> list[str]:
    """[`label/`, `label/a/`, ...]: the folders above a document, for exact-match prefix filters."""
    parts = shown_path(path).split("/")[:-1]
    found = [f"{source}/"]
    for part in parts:
        found.append(f"{found[-1]}{part}/")
    return found
