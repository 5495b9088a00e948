"""Builds the golden vectors that lie in golden/; run as a program it writes them anew (only for a new format)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from memoryd.digest import canonical_json
from memoryd.records import DocumentEvent, ScopeRecord, SnapshotRecord, TombstoneRecord
from memoryd.store import pack as packs
from memoryd.store.manifest import Manifest
from memoryd.store.merkle import DIRECTORY, FILE, SYMLINK, TreeEntry, build
from memoryd.store.pack import PackWriter, encode_frame

PACK = bytes.fromhex("a1b2c3d4e5f64788990aabbccddeeff0")
REPLACED = [bytes([n]) * 16 for n in (1, 2)]


def digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def chunks() -> list[bytes]:
    return [b"one small content\n", b"", b"\x93MDF looks like a frame"]


def pieces() -> list[bytes]:
    return [b"first piece, ", b"second piece."]


def manifest() -> Manifest:
    content = b"".join(pieces())
    return Manifest(digest(content), len(content), tuple((digest(piece), len(piece)) for piece in pieces()))


def tree() -> bytes:
    entries = [
        TreeEntry(b"run.sh", FILE, True, 18, digest(chunks()[0])),
        TreeEntry(b"caf\xe9.txt", FILE, False, 0, digest(b"")),
        TreeEntry(b"link", SYMLINK, False, 6, digest(b"run.sh")),
        TreeEntry(b"docs", DIRECTORY, False, 0, digest(b"another node")),
    ]
    root, nodes = build(entries)
    return nodes[root]


def records() -> list[tuple[str, dict[str, Any]]]:
    """Kind and data (with seq) of the golden records: seq 7 to 11."""
    address = "sha256:" + digest(chunks()[0]).hex()
    at = "2026-01-02T03:04:05Z"
    seen = DocumentEvent(
        "notes", b"a/\xc3\xa9.md", "global", "document", "seen", address, 18, tags=("x", "y"), observed=at
    )
    gone = DocumentEvent("notes", b"bad-\xff", "global", "document", "gone", None, 0, observed=at)
    made: list[tuple[str, dict[str, Any]]] = [
        ("document", seen.to_json()),
        ("document", gone.to_json()),
        ("snapshot", SnapshotRecord("before", "notes", "global", digest(tree()).hex(), at).to_json()),
        ("scope", ScopeRecord("p-tool-0a1b2c3d", "tool", "example.org/tool", None).to_json()),
        ("tombstone", TombstoneRecord(address, None, "forgotten by a person").to_json()),
    ]
    return [(kind, {**data, "seq": seq}) for seq, (kind, data) in enumerate(made, 7)]


def raw_frames() -> list[bytes]:
    """Every kind of frame; each is too short or too random to be compressed, so its bytes are fixed."""
    encoded = manifest().encode()
    return [
        encode_frame(packs.CHUNK, chunks(), [digest(c) for c in chunks()], seq=6, flags=packs.FLAG_WHOLE),
        encode_frame(packs.CHUNK, pieces(), [digest(p) for p in pieces()], seq=6),
        encode_frame(packs.MANIFEST, [encoded], [digest(encoded)], seq=6),
        encode_frame(packs.TREE, [tree()], [digest(tree())], seq=6),
        encode_frame(200, [b"a kind of later times"], [digest(b"a kind of later times")], seq=6),
    ]


def record_frames() -> list[bytes]:
    """The two documents in one frame, then one frame each; compressed where zstd makes it shorter."""
    made = [(kind, canonical_json(data), data["seq"]) for kind, data in records()]
    frames = [
        encode_frame(packs.DOCUMENT, [made[0][1], made[1][1]], [digest(made[0][1]), digest(made[1][1])], seq=7),
    ]
    frames += [encode_frame(packs.RECORD_KINDS[kind], [raw], [digest(raw)], seq=seq) for kind, raw, seq in made[2:]]
    return frames


def assemble(frames: list[bytes]) -> bytes:
    writer = PackWriter(PACK)
    for frame in frames:
        writer.append(frame)
    return b"".join(writer.finish(REPLACED))


if __name__ == "__main__":
    golden = Path(__file__).parent / "golden"
    (golden / "pack-v1.pack").write_bytes(assemble(raw_frames() + record_frames()))
    shown = {
        "manifest": manifest().encode().hex(),
        "tree": tree().hex(),
        "records": [[kind, canonical_json(data).decode()] for kind, data in records()],
    }
    (golden / "vectors.json").write_text(json.dumps(shown, indent=1) + "\n")
