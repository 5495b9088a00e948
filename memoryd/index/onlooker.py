"""How does a second process read the embedding cache beside the one that owns it?"""

from __future__ import annotations

import sqlite3

from memoryd.errors import IndexProblem
from memoryd.index.embeddings import BUSY_SECONDS, EmbeddingCache


class Onlooker(EmbeddingCache):
    """embeddings.db, opened for reading only; a damaged one stays where it is. Raises IndexProblem."""

    def _open(self) -> sqlite3.Connection:
        uri = f"{self.path.absolute().as_uri()}?mode=ro"
        try:
            connection = sqlite3.connect(
                uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            connection.execute("SELECT 1 FROM vectors LIMIT 1").fetchall()
        except sqlite3.Error as error:
            raise IndexProblem(f"{self.path} cannot be read: {error}.", path=str(self.path)) from error
        return connection

    def _set_aside(self) -> None:
        raise IndexProblem(f"{self.path} is damaged.", path=str(self.path))
