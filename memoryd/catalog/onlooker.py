"""How does a second process read the catalog beside the one that owns it?"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from memoryd.catalog.db import Database
from memoryd.catalog.schema import CATALOG
from memoryd.errors import FormatUnsupported

WAIT_SECONDS = 5.0


class Onlooker(Database):
    """catalog.db, opened for reading only: nothing is checked, made, migrated or set aside."""

    def __init__(self, path: Path) -> None:
        """Raises FormatUnsupported where it is of another version, HomeError, DatabaseDamaged."""
        super().__init__(path, CATALOG)

    def _inspect(self) -> bool:
        return False

    def _connect(self) -> sqlite3.Connection:
        uri = f"{self.path.absolute().as_uri()}?mode=ro"
        return sqlite3.connect(uri, uri=True, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False)

    def _prepare(self, connection: sqlite3.Connection, left_behind: bool) -> None:  # noqa: ARG002 - nothing is mended
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version != len(CATALOG):
            raise FormatUnsupported(f"{self.path} has version {version}, not {len(CATALOG)}.", path=str(self.path))
