"""Where do the vectors of a generation lie: in files beside its words, or in a collection on a server?

On a server a generation is one collection, `<prefix>-<id of this home>-<number>`. The id is drawn at random and bound
to the home's folder, so that a copied home makes collections of its own and never touches those of the original.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from memoryd.config import VectorConfig
from memoryd.digest import canonical_json
from memoryd.errors import (
    DiskFull,
    ExtraMissing,
    IndexDamaged,
    IndexOutdated,
    IndexProblem,
    VectorServerRefused,
    install_extra,
)
from memoryd.files import Files
from memoryd.index.engine import VectorEngine
from memoryd.index.marks import IndexIdentity, number_of
from memoryd.index.vector import VectorIndex

if TYPE_CHECKING:
    from memoryd.index.qdrant import Access, Server
    from memoryd.index.remote import RemoteIndex

OWNER = "generation"
HOME_ID = "vectors.id"
COLLECTION = "collection.json"
AGAIN_SECONDS = 60.0
Result = TypeVar("Result")
_log = logging.getLogger(__name__)


class Places:
    """Makes and opens the vectors of the generations of one home, where its configuration says."""

    def __init__(self, files: Files) -> None:
        """Without a server: everything lies in files."""
        self._files = files

    @property
    def place(self) -> str:
        """What a generation's identity says of it; '' for files."""
        return ""

    def look(self) -> str:
        """Where new generations put vectors, after a look at it. Raises VectorServerProblem kinds, IndexProblem."""
        return "vectors lie in files"

    def create(self, folder: Path, identity: IndexIdentity) -> None:
        """Make what is empty and belongs to the new generation whose vectors `folder` stands for.

        Raises IndexProblem, DiskFull, OSError.
        """
        VectorIndex.create(folder, identity.dims, sparse=identity.sparse).close()

    def open(self, folder: Path, identity: IndexIdentity) -> VectorEngine:
        """The vectors of an existing generation. Raises IndexProblem kinds; IndexOutdated where they lie elsewhere."""
        if identity.place:
            raise IndexOutdated(f"The vectors of {folder.parent.name} lie at {identity.place}.", leg="vectors")
        return VectorIndex.open(folder, identity.dims, sparse=identity.sparse)

    def collect(self, kept: Collection[int], *, insist: bool = False) -> bool:  # noqa: ARG002 - files need neither
        """Let go what belongs to generations of other numbers and does not lie in their folders; whether it is gone.

        What failed a moment ago is not tried again unless you insist.
        """
        return True


class ServerPlaces(Places):
    """The same where new generations lie on a server; those that lie in files are opened until they are replaced."""

    def __init__(
        self,
        home: Path,
        files: Files,
        config: VectorConfig,
        key: Callable[[], str | None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is asked of the server yet. Raises ExtraMissing where its client is not installed."""
        super().__init__(files)
        _require_client()
        self._home = home
        self._config = config
        self._key = key
        self._clock = clock
        self._again = 0.0

    @property
    def place(self) -> str:
        """Server, prefix and layout: whatever of it changes, a new generation is built there."""
        return place_of(self._config)

    def look(self) -> str:
        """The server answers, lets us in, and is of a version that is known to work."""
        known = _known_id(self._home)
        with closing(self._server()) as server:
            server.require_fit()
            ours = [name for name in server.collections() if known and f"-{known}-" in name]
        return f"{self.place} holds {len(ours)} collections of this home"

    def create(self, folder: Path, _identity: IndexIdentity) -> None:
        """Name the collection; it is made at the first contact, so that words are searched while a server is away."""
        self._files.mkdir(folder, owner=OWNER)
        _Mark(folder / COLLECTION, self._files).begin(self._name(folder))

    def open(self, folder: Path, identity: IndexIdentity) -> VectorEngine:
        """See `Places.open`. Raises IndexDamaged where the collection is gone, of another layout or another home's."""
        if identity.place != self.place:
            return super().open(folder, identity)
        mark = _Mark(folder / COLLECTION, self._files)
        if mark.name() != _written(lambda: self._name(folder)):
            raise IndexDamaged(f"{mark.path} names a collection that is not this home's.", leg="vectors")
        found = self._index(mark, identity)
        try:
            found.meet()
        except BaseException:  # let go of what was taken, then raised on
            found.close()
            raise
        return found

    def collect(self, kept: Collection[int], *, insist: bool = False) -> bool:
        """Remove collections of this home's other generations; what cannot be done now is done a later time."""
        if self._clock() < self._again and not insist:
            return False
        ours = re.compile(re.escape(self._stem()) + r"([1-9][0-9]*)\Z")
        try:
            with closing(self._server()) as server:
                for name in server.collections():
                    found = ours.match(name)
                    if found is not None and int(found[1]) not in kept:
                        server.remove(name)
        except (IndexProblem, DiskFull, OSError) as problem:
            self._again = self._clock() + AGAIN_SECONDS
            _log.warning("collections without a generation stay for now: %s", problem)
            return False
        return True

    def _index(self, mark: _Mark, identity: IndexIdentity) -> RemoteIndex:
        from memoryd.index.remote import Plan, RemoteIndex

        plan = Plan(mark.name(), self._config.shards, self._config.replication_factor)
        return RemoteIndex(self._server(), plan, mark, identity.dims, sparse=identity.sparse)

    def _server(self) -> Server:
        from memoryd.index.qdrant import Server

        return Server(self._access())

    def _access(self) -> Access:
        from memoryd.index.qdrant import Access

        config = self._config
        return Access(config.url or "", self._key, config.timeout_seconds, direct=config.loopback)

    def _name(self, folder: Path) -> str:
        return f"{self._stem()}{number_of(folder.parent.name)}"

    def _stem(self) -> str:
        return f"{self._config.collection_prefix}-{_home_id(self._home, self._files)}-"


class _Mark:
    """`collection.json`: which collection holds a generation's vectors, and whether it was made already."""

    def __init__(self, path: Path, files: Files) -> None:
        self.path = path
        self._files = files

    def begin(self, name: str) -> None:
        self._write(name, made=False)

    def name(self) -> str:
        return str(self._read()["name"])

    def made(self) -> bool:
        return bool(self._read()["made"])

    def note_made(self) -> None:
        _written(lambda: self._write(self.name(), made=True))

    def _write(self, name: str, *, made: bool) -> None:
        self._files.replace(self.path, canonical_json({"v": 1, "name": name, "made": made}) + b"\n", owner=OWNER)

    def _read(self) -> dict[str, Any]:
        data = _json(self.path)
        if (
            not isinstance(data, dict)
            or not isinstance(data.get("name"), str)
            or not isinstance(data.get("made"), bool)
        ):
            raise IndexDamaged(f"{self.path} cannot be read.", leg="vectors", path=str(self.path))
        return data


def place_of(config: VectorConfig) -> str:
    """What the identity of a generation says of where its vectors lie; '' for files."""
    if config.url is None:
        return ""
    spread = f"{config.shards} shards, {config.replication_factor} replicas"
    return f"{config.url} ({config.collection_prefix}, {spread})"


def places_for(
    home: Path, files: Files, config: VectorConfig, key_file: Path | None, environment: Mapping[str, str]
) -> Places:
    """Where the configuration of the home in `home` wants vectors. Raises ExtraMissing."""
    if config.url is None:
        return Places(files)
    return ServerPlaces(home, files, config, lambda: _key(key_file, config.api_key_env, environment))


def _key(file: Path | None, variable: str | None, environment: Mapping[str, str]) -> str | None:
    """The key as it is now. Raises VectorServerRefused where there is none although one is configured."""
    try:
        found = environment.get(variable, "") if variable is not None else file.read_text("utf-8") if file else None
    except (OSError, UnicodeDecodeError) as error:
        raise VectorServerRefused(f"The key in {file} cannot be read: {error}.") from error
    if found is None:
        return None
    key = found.strip()
    if not key or not key.isascii() or not key.isprintable():
        where = f"the environment variable {variable}" if variable is not None else str(file)
        raise VectorServerRefused(f"There is no key in {where}.")
    return key


def _home_id(home: Path, files: Files) -> str:
    """This home's id on servers: drawn once, and anew where the folder is another one than it was drawn for."""
    if (known := _known_id(home)) is not None:
        return known
    drawn = {"v": 1, "id": secrets.token_hex(8), "folder": home.stat().st_ino}
    files.replace(home / HOME_ID, canonical_json(drawn) + b"\n", owner=OWNER)
    return str(drawn["id"])


def _known_id(home: Path) -> str | None:
    data = _json(home / HOME_ID)
    ours = isinstance(data, dict) and data.get("folder") == home.stat().st_ino and isinstance(data.get("id"), str)
    return str(data["id"]) if ours else None


def _written(write: Callable[[], Result]) -> Result:
    """Where words are searched on whatever happens, no room for a small file is a problem of the vectors alone."""
    try:
        return write()
    except (DiskFull, OSError) as error:
        raise IndexProblem(f"The collection's name cannot be written down: {error}", leg="vectors") from error


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def _require_client() -> None:
    try:
        import memoryd.index.qdrant  # noqa: F401
    except ImportError as error:
        raise ExtraMissing(
            "`vector.url` is set, but qdrant-client is not installed.",
            next_step=f"{install_extra('qdrant')}, or remove `vector.url`.",
        ) from error
