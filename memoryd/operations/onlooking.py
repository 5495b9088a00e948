"""What of a home may a second process read beside the one that owns it?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

from memoryd.catalog.documents import Documents
from memoryd.catalog.memories import Memories
from memoryd.catalog.onlooker import Onlooker as CatalogOnlooker
from memoryd.catalog.passages import Passages
from memoryd.catalog.scopes import Scopes
from memoryd.catalog.snapshots import Snapshots
from memoryd.files import Files
from memoryd.index.onlooker import Onlooker as CacheOnlooker
from memoryd.models.identity import ModelIdentity
from memoryd.operations.home import Home
from memoryd.records import Encoded
from memoryd.store.onlooker import Onlooker as StoreOnlooker

FRAMES_BYTES = 32 << 20
"""Unpacked frames that are kept: bulk work reads the packs from end to end."""
_ABSENT = cast("Any", None)


class NoModel:
    """In place of the model's host: it knows whose vectors are wanted, and has none."""

    token_vectors = False

    def __init__(self, identity: ModelIdentity) -> None:
        self.identity = identity
        self.asked = 0
        """How many texts were to be embedded."""

    def encode_passages(self, texts: Sequence[str], _cancelled: Callable[[], bool]) -> list[Encoded | None]:
        """None for each text, as for one that the model cannot take."""
        self.asked += len(texts)
        return [None for _ in texts]

    def poisoned(self) -> frozenset[str]:
        """No text was tried."""
        return frozenset()


@contextmanager
def onlooking(root: Path, cache: Path, identity: ModelIdentity) -> Iterator[Home]:
    """Packs, catalog and embedding cache of a home that another process owns, for reading only.

    Of the `Home` there is only what indexing and a replay read; vault, state and model are not there.
    Raises StoreError kinds, HomeError kinds, IndexProblem.
    """
    with ExitStack() as parts:
        store = StoreOnlooker(root, FRAMES_BYTES)
        parts.callback(store.close)
        catalog = CatalogOnlooker(root / "catalog.db")
        parts.callback(catalog.close)
        embeddings = CacheOnlooker(cache)
        parts.callback(embeddings.close)
        yield Home(
            root=root,
            loaded=_ABSENT,
            files=Files(),
            clock=time.time,
            store=cast("Any", store),
            catalog=catalog,
            state=_ABSENT,
            vault=_ABSENT,
            host=cast("Any", NoModel(identity)),
            cache=embeddings,
            generations=_ABSENT,
            scopes=Scopes(catalog),
            documents=Documents(catalog),
            memories=Memories(catalog),
            passages=Passages(catalog),
            jobs=_ABSENT,
            opening=_ABSENT,
            snapshots=Snapshots(catalog),
        )
