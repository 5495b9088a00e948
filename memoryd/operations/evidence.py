"""What did the cited lines say when they were cited?

Their bytes are kept as an artifact of the memory's scope, `.cited/<address>`: readable by their address, in force as
long as nobody erases them, never indexed. Where they look like a secret, are no text or are long, only the address is
kept, in the memory.
"""

from __future__ import annotations

from collections.abc import Iterable

from memoryd.digest import PREFIX
from memoryd.errors import NotFound, StoreError
from memoryd.extract.text import decode
from memoryd.operations import burial
from memoryd.operations.guard import redacted
from memoryd.operations.home import Home
from memoryd.operations.ingest import CITED, Seen, store_group
from memoryd.records import ARTIFACT_SOURCE
from memoryd.sources.citation import Piece

KEPT_BYTES = 256_000
"""Longer ones are not kept."""


def place(scope: str, address: str) -> bytes:
    """The path of the cited bytes among the artifacts."""
    return f"{scope}/{CITED}/{address.removeprefix(PREFIX)}".encode()


def kept(home: Home, scope: str, address: str) -> bytes | None:
    """The bytes of this address as they were cited; None where they are not kept or cannot be read."""
    row = home.documents.by_path(ARTIFACT_SOURCE, place(scope, address))
    if row is None or row.address != address or row.scope != scope:
        return None
    try:
        return home.store.read(address)
    except (NotFound, StoreError):
        return None


def announce(home: Home, scope: str, pieces: Iterable[Piece]) -> None:
    """What a commit cites follows into packs with its memory; until then it waits."""
    home.cited.extend((scope, one) for one in pieces if _is_good(one.data))


def keep_waiting(home: Home) -> None:
    """Keep what waits, but what is kept already or was erased. The caller holds the store lane.

    Raises StoreError kinds; then all of it waits on.
    """
    waiting = list(home.cited)
    erased = burial.standing(home) if waiting else set()
    missing = {place(scope, one.citation.address): (scope, one) for scope, one in waiting}
    batch = [
        Seen(ARTIFACT_SOURCE, path, scope, "document", one.data, title=one.citation.at)
        for path, (scope, one) in missing.items()
        if one.citation.address not in erased and kept(home, scope, one.citation.address) is None
    ]
    if batch:
        store_group(home, batch)
    for _ in waiting:  # others only append
        home.cited.popleft()


def _is_good(data: bytes) -> bool:
    decoded = decode(data) if 0 < len(data) <= KEPT_BYTES else None
    return decoded is not None and not redacted(decoded.text).counts
