"""What belongs to one opened home, and in which order is it opened and closed?

The composition root: daemon, CLI, evaluation and tests all work on a `Home`. The caller owns the home's lock
(`operations.owner`) before it opens one.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from memoryd.catalog.db import Database, open_catalog
from memoryd.catalog.documents import Documents
from memoryd.catalog.jobs import Jobs
from memoryd.catalog.memories import Memories
from memoryd.catalog.passages import Passages
from memoryd.catalog.scopes import Scopes
from memoryd.catalog.snapshots import Snapshots
from memoryd.catalog.state import State
from memoryd.config import Config, LoadedConfig, config_path, load_config
from memoryd.errors import HomeError, StoreError
from memoryd.extract.passages import PASSAGE_SCHEMA
from memoryd.files import Files
from memoryd.index.analysis import ANALYSIS_VERSION
from memoryd.index.embeddings import EmbeddingCache
from memoryd.index.generations import Generation, Generations, IndexIdentity
from memoryd.index.places import places_for
from memoryd.models.choice import MAXSIM, choose, reranker_for
from memoryd.models.host import ModelHost
from memoryd.models.identity import ModelSpec
from memoryd.operations.lookout import Lookout
from memoryd.operations.noticed import Noticed
from memoryd.operations.pairs import Pairs
from memoryd.operations.tuning import Tuning
from memoryd.records import VAULT_SOURCE, MemoryFields
from memoryd.search.kept import Kept
from memoryd.sources import corpora
from memoryd.sources.citation import Piece
from memoryd.sources.git import Git
from memoryd.sources.projects import ProjectFinder
from memoryd.sources.vault import Vault
from memoryd.store.chunkstore import ChunkStore
from memoryd.store.noted import Noted
from memoryd.store.reserve import Reserve, room_to_open

MARKS = {"FORMAT", "config.json", "catalog.db", "state.db", "store"}
"""One of these makes a folder a home."""
BEGUN = {"daemon.lock", "start.lock", "run", "log", "seal.key", "vault", "indexes", "thresholds.json", "synonyms.txt"}
BEGUN |= {"models"}
"""What may lie in a home that was never opened: left by the launcher, or put there by its person."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the directory a session started in (decides its project) and the client's name."""

    directory: str | None = None
    name: str = ""

    @property
    def session(self) -> tuple[str, str | None]:
        """What two calls of one session have in common (of the command line: of one directory)."""
        return self.name, self.directory


@dataclass(frozen=True, slots=True)
class Fresh:
    """A vault file that was committed and still waits for its place in packs and catalog."""

    path: bytes
    fields: MemoryFields
    commit: str


class Underway(Protocol):
    """A new generation that is being built."""

    served: Generation | None

    def advance(self, stop: Callable[[], bool]) -> bool: ...
    def end(self) -> None: ...


@dataclass
class Home:
    """Everything open. The two lanes order writes: nobody waits for one while holding the other."""

    root: Path
    loaded: LoadedConfig
    files: Files
    clock: Callable[[], float]
    store: ChunkStore
    catalog: Database
    state: State
    vault: Vault
    host: ModelHost
    cache: EmbeddingCache
    generations: Generations
    scopes: Scopes
    documents: Documents
    memories: Memories
    passages: Passages
    jobs: Jobs
    opening: Reserve
    """Space that the next start can count on, however full the disk is."""
    snapshots: Snapshots
    generation: Generation | None = None
    vault_lane: threading.Lock = field(default_factory=threading.Lock)
    store_lane: threading.Lock = field(default_factory=threading.Lock)
    index_lane: threading.Lock = field(default_factory=threading.Lock)
    build_lane: threading.Lock = field(default_factory=threading.Lock)
    """Held by whoever works on a new generation; taken before the index lane."""
    build: Underway | None = None
    """The new generation that the indexing loop builds in the background."""
    renew: str = ""
    """Why the serving generation has to be replaced by a new one ('' for no reason)."""
    renew_after: float = 0.0
    """When it is tried again after a failure."""
    examined: float = 0.0
    """When a sample of the serving generation was last compared with what it was made of."""
    projects: ProjectFinder = field(default_factory=ProjectFinder)
    lookout: Lookout = field(default_factory=Lookout)
    """Looks at the files that memories cite."""
    cited: deque[tuple[str, Piece]] = field(default_factory=deque)
    """What was cited a moment ago (with its scope) and still waits for its place in packs."""
    fresh: deque[Fresh] = field(default_factory=deque)
    work: threading.Event = field(default_factory=threading.Event)
    notices: dict[str, str] = field(default_factory=dict)
    """What a person should know and no call reports (by topic): a view set aside, a root that could not be read."""
    vault_seen: dict[bytes, object] = field(default_factory=dict)
    noticed: Noticed = field(default_factory=Noticed)
    """Facts that answers handed out and that still wait to be counted; counting never delays an answer."""
    pairs: Pairs = field(default_factory=Pairs)
    """Memories that were found to say nearly the same; a view in memory."""
    kept: Kept = field(default_factory=Kept)
    """Answers of searches that may be asked again."""
    tuning: Tuning = field(default_factory=Tuning)
    """Synonyms and calibrations as last read."""
    lengths: dict[str, int] = field(default_factory=dict)
    """Words of memories by address, as the last review counted them."""
    reviewed: dict[tuple[str, ...], tuple[float, int, dict[str, int]]] = field(default_factory=dict)
    """By scopes: when a review was counted last (and up to which record), and what was counted."""
    catalog_inode: int | None = None
    """Inode of the open catalog.db, to notice that somebody removed it (a new reader would make an empty one)."""
    heal: set[str] = field(default_factory=set)
    """Legs (`lexical`, `vectors`) whose counts were found wrong and that wait for their repair."""
    settled: dict[str, int] = field(default_factory=dict)
    """How many entries a leg lacked after its last repair, where content that cannot be read left some out."""

    @property
    def config(self) -> Config:
        """The settings this home was opened with."""
        return self.loaded.config

    def lost_views(self) -> list[str]:
        """Views that somebody removed or replaced under us: what is open here is no longer what lies on disk."""
        lost = [] if inode_of(self.root / "catalog.db") == self.catalog_inode else ["catalog.db"]
        if inode_of(self.root / "store" / "index.db") is None:
            lost.append("store/index.db")
        if self.generation is not None and not (self.root / "indexes" / "CURRENT").exists():
            lost.append("indexes")
        return lost

    @property
    def reserved(self) -> tuple[Path, ...]:
        """Folders that no corpus may read: what lies there has another way in, or is nobody's business."""
        return self.root, self.vault.path

    def count_recalls(self) -> None:
        """Write the waiting counts down, and since when there are any; where state.db takes none (a full disk), they
        wait on."""
        recalls, fetches = self.noticed.take()
        try:
            self.state.counting_since(self.clock())
            if recalls:
                self.state.recalls.add(recalls)
                recalls = {}
            if fetches:
                self.state.fetches.add(fetches)
        except (HomeError, StoreError):
            self.noticed.give_back(recalls, fetches)

    def close(self) -> None:
        """Close everything in reverse order of opening; safe to call once, whatever failed before."""
        with ExitStack() as parts:  # each is closed, last first, even where another one fails
            parts.callback(self.opening.hold)
            for part in (self.store, self.catalog, self.state, self.cache):
                parts.callback(part.close)
            if self.generation is not None:
                parts.callback(self.generation.close)
            if self.build is not None:
                parts.callback(self.build.end)
            parts.callback(self.count_recalls)
            parts.callback(self.host.close)


def open_home(
    root: Path,
    *,
    environment: Mapping[str, str],
    files: Files | None = None,
    clock: Callable[[], float] = time.time,
    cache_path: Path | None = None,
) -> Home:
    """Open every room of a home; nothing is recovered yet (`operations.recover.recover`).

    `cache_path` places the embedding cache elsewhere (evaluation keeps one per user).
    Raises ConfigError, HomeError, StoreError, VaultError and their kinds.
    """
    refuse_foreign(root)
    files = files or Files()
    loaded = load_config(config_path(root, environment))
    config = loaded.config
    vault_path = loaded.vault_folder(root)
    corpora.validate(config.corpora, base=loaded.path.parent, reserved=[root, vault_path])
    make_directories(root, files)
    opening = room_to_open(root / "store", files)
    store = ChunkStore.open(root, files=files, sizes=config.store, clock=clock)
    store.damaged = Noted(root / "store" / "damaged", files)
    git = Git(vault_path, timeout=config.vault.git_timeout_seconds, files=files, clock=clock)
    vault = Vault(vault_path, git, files)
    catalog = open_catalog(root / "catalog.db")
    documents = Documents(catalog)
    if documents.last_seq() > store.last_seq():
        catalog = _set_catalog_aside(root, catalog)  # it tells of records that no pack holds: the store was lost
        documents = Documents(catalog)
    vault.ensure(known=documents.live_count(VAULT_SOURCE) > 0 or _vault_in_packs(store, documents))
    state = State(root / "state.db")
    spec = chosen_model(loaded, root)
    host = ModelHost(
        threads=config.model.threads,
        idle_seconds=config.model.idle_seconds,
        log=root / "log" / "model.log",
        clock=time.monotonic,
        spec=spec,
        token_vectors=reranker_for(config.search.reranker, spec.identity) == MAXSIM,
    )
    home = Home(
        root=root,
        loaded=loaded,
        files=files,
        clock=clock,
        store=store,
        catalog=catalog,
        state=state,
        vault=vault,
        host=host,
        cache=EmbeddingCache(cache_path or root / "embeddings.db"),
        generations=Generations(
            root / "indexes", files, places_for(root, files, config.vector, loaded.key_file(), environment)
        ),
        scopes=Scopes(catalog),
        documents=documents,
        memories=Memories(catalog),
        passages=Passages(catalog),
        jobs=Jobs(catalog),
        snapshots=Snapshots(catalog),
        opening=opening,
    )
    home.catalog_inode = inode_of(root / "catalog.db")
    if catalog.recreated:
        home.notices["catalog"] = "catalog.db was damaged: it was set aside and is being rebuilt from the packs."
    return home


def refuse_foreign(root: Path) -> None:
    """A folder full of somebody's files is not taken for a home by a mistyped option. Raises HomeError."""
    names = {entry.name for entry in root.iterdir()} if root.is_dir() else set()
    if names & MARKS or names <= BEGUN:
        return
    raise HomeError(
        f"{root} is not a memoryd home and not empty.",
        next_step="Check --home and MEMORYD_HOME, or name an empty or new folder.",
        path=str(root),
    )


def _set_catalog_aside(root: Path, catalog: Database) -> Database:
    """A new catalog in place of one whose records are gone; the old file is kept beside it."""
    catalog.close()
    for suffix in ("", "-wal", "-shm"):
        part = root / f"catalog.db{suffix}"
        if part.exists():
            part.rename(root / f"catalog.db.orphaned{suffix}")
    made = open_catalog(root / "catalog.db")
    made.recreated = True
    return made


def _vault_in_packs(store: ChunkStore, documents: Documents) -> bool:
    """Whether packs tell of vault files that a fresh catalog does not know yet: then a missing vault is not new."""
    if documents.last_seq():
        return False
    events = {}
    try:
        for record in store.records():
            if record.kind == "document" and record.data["source"] == VAULT_SOURCE:
                events[str(record.data["path"])] = record.data["event"]
    except StoreError:
        return True  # nobody can tell: a vault that is missing must not be taken for a new one
    return "seen" in events.values()


def inode_of(path: Path) -> int | None:
    """The inode of a file, None where there is none."""
    try:
        return path.stat().st_ino
    except OSError:
        return None


def make_directories(root: Path, files: Files) -> None:
    """The home's own folders, for this user only. Raises HomeError where that cannot be."""
    try:
        for folder in (root, root / "run", root / "log", root / "indexes"):
            files.mkdir(folder, owner="home")
            folder.chmod(0o700)
    except OSError as error:
        raise HomeError(f"{root} cannot be used as a home: {error.strerror}.", path=str(root)) from error


def index_identity(home: Home) -> IndexIdentity:
    """What makes two indexes the same: model, analysers, passage schema, and where vectors lie."""
    model = home.host.identity
    place = home.generations.places.place
    return IndexIdentity(model.fingerprint, model.dims, ANALYSIS_VERSION, PASSAGE_SCHEMA, model.sparse, place)


def chosen_model(loaded: LoadedConfig, root: Path) -> ModelSpec:
    """The model that the configuration asks for. Raises ConfigError, ModelFilesWrong."""
    model = loaded.config.model
    return choose(model.name, loaded.model_folder(root), root / "models", precision=model.precision)


def timestamp(home: Home) -> str:
    """Now, in UTC, as ISO 8601 with microseconds: what `created`, `updated` and `observed` hold."""
    return utc_text(home.clock())


def utc_text(seconds: float) -> str:
    """Seconds since 1970 in the form of `timestamp`."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds * 1_000_000) % 1_000_000:06d}Z"
