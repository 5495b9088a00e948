"""How does a tombstone become durable, and how does the catalog follow it?

A tombstone takes back one record (`target`), or every record of a content (`address`) that is older than itself. The
catalog is a view: a replay meets the tombstones in their order and ends with the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from sqlite3 import Connection
from typing import cast

from memoryd.operations.home import Home
from memoryd.records import TombstoneRecord

FORGOTTEN = "forgotten"
"""Catalog meta: JSON {address: seq of its newest tombstone}."""


MARKER = "forget.json"
"""Lies in the home while an erasure is under way: which contents, and whether it was begun by words (`by_text`)."""


def interrupted(home: Home) -> list[str]:
    """Addresses of an erasure that did not come to its end."""
    try:
        return [str(one) for one in json.loads((home.root / MARKER).read_bytes())["addresses"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def interrupted_by_text(home: Home) -> bool:
    """Whether only the words tell what of it is left, in logs and elsewhere."""
    try:
        return bool(json.loads((home.root / MARKER).read_bytes()).get("by_text"))
    except (OSError, ValueError, AttributeError):
        return False


def marker(addresses: set[str], by_text: bool) -> bytes:
    """What the marker says."""
    return json.dumps({"addresses": sorted(addresses), "by_text": by_text}).encode()


def forgotten(home: Home) -> dict[str, int]:
    """The contents that were erased on purpose, with the number of the tombstone that says so."""
    return cast("dict[str, int]", json.loads(home.catalog.meta(FORGOTTEN) or "{}"))


def standing(home: Home) -> set[str]:
    """Erased contents that no person has let in again since."""
    return {address for address, seq in forgotten(home).items() if not home.documents.seen_after(address, seq)}


def apply_stones(home: Home, tx: Connection, stones: Sequence[TombstoneRecord]) -> None:
    """Let the catalog follow, inside the caller's transaction."""
    targets = [stone.target for stone in stones if stone.target is not None]
    home.documents.bury(tx, targets)
    for target in targets:
        home.snapshots.remove(tx, target)
    contents = [stone for stone in stones if stone.address is not None]
    if contents:
        found = tx.execute("SELECT value FROM meta WHERE key = ?", (FORGOTTEN,)).fetchone()
        known = json.loads(found[0]) if found else {}
        for stone in contents:
            home.documents.bury_content(tx, str(stone.address), stone.seq)
            known[stone.address] = max(stone.seq, known.get(stone.address, 0))
        home.catalog.set_meta(tx, FORGOTTEN, json.dumps(known))


def numbered(stones: Sequence[TombstoneRecord], seqs: Sequence[int]) -> list[TombstoneRecord]:
    """The tombstones with the numbers that their commit gave them."""
    return [replace(stone, seq=seq) for stone, seq in zip(stones, seqs, strict=True)]
