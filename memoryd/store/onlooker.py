"""How does a second process read the packs of a home beside the one that owns it?"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from memoryd.digest import PREFIX
from memoryd.errors import ContentDamaged, StoreError
from memoryd.store.chunkindex import ChunkIndex
from memoryd.store.keeper import IndexKeeper
from memoryd.store.reader import Reader
from memoryd.store.shelf import Shelf

Answer = TypeVar("Answer")


class _Lookups(IndexKeeper):
    """Asks the index as its owner left it, and changes nothing: a damaged one is the owner's to make anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.index = ChunkIndex(path)

    def ask(self, question: Callable[[ChunkIndex], Answer]) -> Answer:
        """Ask; once more of a newly opened index, which knows the packs that came meanwhile. Raises StoreError."""
        try:
            return question(self.index)
        except sqlite3.Error:
            self.index.close()
        try:
            self.index = ChunkIndex(self._path)
            return question(self.index)
        except sqlite3.Error as error:
            raise StoreError(f"The chunk index cannot be read: {error}.") from error

    def close(self) -> None:
        self.index.close()


class Onlooker(Reader):
    """The packs of a home that another process owns; for one thread."""

    def __init__(self, root: Path, cache_bytes: int) -> None:
        """Raises StoreError where index.db is missing or cannot be read."""
        path = root / "store" / "index.db"
        if not path.exists():
            raise StoreError(f"{path} is missing.", path=str(path))
        try:
            keeper = _Lookups(path)
        except sqlite3.Error as error:
            raise StoreError(f"The chunk index cannot be read: {error}.") from error
        super().__init__(Shelf(root / "store", cache_bytes), keeper)

    def last_seq(self) -> int:
        """The newest sequence number that any pack names."""
        return self._keeper.ask(lambda index: index.last_seq())

    def close(self) -> None:
        """Let the index go."""
        self._keeper.close()

    def _settled(self, digits: str, look: Callable[[], Answer]) -> Answer:
        """What `look` reads; once more where it was not found, as its owner may have replaced a pack under it."""
        try:
            return look()
        except ContentDamaged:
            self.damaged.discard(PREFIX + digits)
            return look()
