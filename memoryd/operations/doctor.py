"""What could be wrong with this installation and this home, check by check?

Each check looks at one thing, changes nothing, and names the next step. They run without a daemon, and beside one;
foreign packages are imported inside the checks, so that a missing one is a finding and no crash.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sqlite3
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memoryd.config import LoadedConfig, config_path, load_config
from memoryd.errors import (
    ConfigError,
    DaemonUnavailable,
    FormatDamaged,
    HomeBusy,
    HomeError,
    IndexProblem,
    MemorydError,
    NotFound,
    VaultError,
    VaultFileInvalid,
)
from memoryd.files import Files
from memoryd.index.marks import IndexIdentity, number_of, read_manifest
from memoryd.models.identity import EMBEDDED_KIND, ModelFiles, ModelIdentity, locate, verify
from memoryd.operations.home import chosen_model
from memoryd.operations.ingest import memory_fault
from memoryd.operations.owner import holder_of
from memoryd.records import shown_path
from memoryd.runtime import SUN_PATH_LIMIT, RuntimePaths, dial
from memoryd.sources.folder import Folder
from memoryd.sources.git import Git, require_git
from memoryd.store.format import parse_format

MIN_FREE_BYTES = 200 << 20
MIN_SQLITE = (3, 35)
ANSWER_SECONDS = 3.0
SHOWN_FAULTS = 5
LINE = re.compile(r"Line (\d+)[:, ]*(.*)", re.DOTALL)
REINSTALL = "Reinstall memoryd."
PACKAGES = ("mcp", "tantivy", "qdrant_edge", "zstandard", "pyfastcdc", "onnxruntime", "tokenizers", "yaml", "pathspec")
"""What a broken installation most often lacks: mainly the ones with compiled parts."""


def _free_bytes(path: Path) -> int:
    return shutil.disk_usage(path).free


@dataclass(frozen=True, slots=True)
class Place:
    """Where the checks look, and the facts of this machine that a test replaces."""

    root: Path
    environment: Mapping[str, str]
    uid: Callable[[], int] = os.getuid
    free: Callable[[Path], int] = _free_bytes
    model: Callable[[], ModelFiles] = locate
    packages: tuple[str, ...] = PACKAGES
    sqlite: tuple[int, ...] = sqlite3.sqlite_version_info

    @property
    def loaded(self) -> LoadedConfig:
        """The configuration of the home. Raises ConfigError."""
        return load_config(config_path(self.root, self.environment))


def examine(place: Place) -> list[dict[str, Any]]:
    """Run every check; one entry each with `name`, `ok`, `message` and, where not ok, `next_step` and `code`.

    With `warning`, memoryd works all the same, but something needs a person.
    """
    return [_run(name, check, place) for name, check in CHECKS.items()]


def _run(name: str, check: Callable[[Place], str], place: Place) -> dict[str, Any]:
    try:
        return {"name": name, "ok": True, "message": check(place)}
    except MemorydError as error:
        shown = error.to_dict()
        warning = {"warning": True} if isinstance(error, VaultFileInvalid) else {}
        return {"name": name, "ok": False, **warning, **{k: shown[k] for k in ("code", "message", "next_step")}}
    except ImportError as error:
        message = f"{error.name or 'A package'} cannot be imported: {error}."
        return {"name": name, "ok": False, "code": HomeError.code, "message": message, "next_step": REINSTALL}
    except OSError as error:
        message = f"{error.filename or place.root}: {error.strerror}."
        step = "Make the path readable for this user."
        return {"name": name, "ok": False, "code": HomeError.code, "message": message, "next_step": step}


def check_python(place: Place) -> str:
    """The interpreter is one that memoryd is tested on, with a usable SQLite and the packages it needs."""
    if place.sqlite < MIN_SQLITE:
        found, needed = (".".join(map(str, version)) for version in (place.sqlite, MIN_SQLITE))
        raise HomeError(f"SQLite {found} is too old.", next_step=f"Use a Python built with SQLite {needed} or newer.")
    missing = [name for name in place.packages if importlib.util.find_spec(name) is None]
    if missing:
        raise HomeError(f"Packages are missing: {', '.join(missing)}.", next_step=REINSTALL)
    return f"Python {sys.version.split()[0]}, SQLite {'.'.join(map(str, place.sqlite))}"


def check_git(place: Place) -> str:
    """git is there and new enough."""
    return f"git {require_git(place.environment.get('PATH'))}"


def check_home(place: Place) -> str:
    """The home is this user's and nobody else can read it."""
    if not place.root.exists():
        return f"{place.root} does not exist yet; the first start makes it"
    info = place.root.stat()
    if not stat.S_ISDIR(info.st_mode):
        raise HomeError(f"{place.root} is no folder.", next_step="Move the file away, or set MEMORYD_HOME.")
    if info.st_uid != place.uid():
        raise HomeError(f"{place.root} belongs to another user.", next_step="Choose a home of your own: MEMORYD_HOME.")
    _require_private(place.root)
    if not os.access(place.root, os.R_OK | os.W_OK | os.X_OK):
        raise HomeError(f"{place.root} is not writable.", next_step=f"chmod 700 {place.root}")
    return str(place.root)


def _require_private(path: Path) -> None:
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise HomeError(f"{path} is open to other users.", next_step=f"chmod 700 {path}")


def check_space(place: Place) -> str:
    """There is room to write."""
    there = place.root
    while not there.exists():
        there = there.parent
    free = place.free(there)
    if free < MIN_FREE_BYTES:
        raise HomeError(f"Only {free >> 20} MiB are free at {there}.", next_step="Free disk space.")
    return f"{free >> 20} MiB free"


def check_log(place: Place) -> str:
    """The log can be written."""
    log = Path(RuntimePaths(str(place.root)).log_file)
    if not log.parent.exists():
        return "no log yet"
    _require_private(log.parent)
    if not log.parent.is_dir() or (log.exists() and not log.is_file()):
        raise HomeError(f"{log} cannot be written.", next_step=f"Move away what lies at {log}.")
    if not os.access(log if log.exists() else log.parent, os.W_OK):
        raise HomeError(f"{log} cannot be written.", next_step=f"chmod u+w {log}")
    return str(log)


def check_config(place: Place) -> str:
    """The configuration parses and its corpora make sense and are there."""
    from memoryd.sources import corpora

    loaded = place.loaded
    base, reserved = loaded.path.parent, [place.root, loaded.vault_folder(place.root)]
    corpora.validate(loaded.config.corpora, base=base, reserved=reserved)
    for corpus in loaded.config.corpora:
        corpora.check_root(corpus, base=base)
    count = len(loaded.config.corpora)
    return f"{loaded.path}: {count} {'corpus' if count == 1 else 'corpora'}"


def check_format(place: Place) -> str:
    """FORMAT is whole and this version reads it."""
    path = place.root / "FORMAT"
    try:
        return f"chunker {parse_format(path.read_bytes(), str(path)).chunker}"
    except FileNotFoundError:
        if any((place.root / "store" / "packs").glob("*")):
            raise FormatDamaged(f"{path} is missing, but there are packs.", path=str(path)) from None
        return "no store yet"


def check_vault(place: Place) -> str:
    """The vault is a git repository that git is ready to work in."""
    loaded = place.loaded
    path = loaded.vault_folder(place.root)
    if not path.exists():
        return "no vault yet"
    git = Git(path, timeout=loaded.config.vault.git_timeout_seconds, files=Files(), environment=place.environment)
    git.places()
    return str(path)


def check_memories(place: Place) -> str:
    """Every file of the vault reads as a memory."""
    try:
        folder = Folder(place.loaded.vault_folder(place.root), Files())
    except ConfigError:
        return "not looked at: which folder it is stands in config.json"
    if not folder.root.exists():
        return "no vault yet"
    paths = sorted(folder.listing())
    faults = [fault for path in paths if (fault := _fault(folder, path))]
    if faults:
        more = [f"and {len(faults) - SHOWN_FAULTS} more: see `memoryd check`"] if len(faults) > SHOWN_FAULTS else []
        raise VaultFileInvalid("\n".join(faults[:SHOWN_FAULTS] + more))
    return f"{len(paths)} {'file' if len(paths) == 1 else 'files'}, all of them read as memories or notes"


def _fault(folder: Folder, path: bytes) -> str | None:
    """What is wrong with a memory's file, as `path:line: reason`."""
    try:
        fault = memory_fault(path, folder.read(path))
    except NotFound:
        return None  # removed since it was listed
    except VaultError as error:
        return error.message
    line = LINE.match(fault or "")
    return line and f"{folder.root / shown_path(path)}:{line[1]}: {line[2]}"


def check_model(place: Place) -> str:
    """The embedding model's files are there and are the expected ones."""
    identity = _model_of(place)
    if identity.kind == EMBEDDED_KIND:
        verify(place.model())
    return f"{identity.name}: {identity.dims} dimensions, fingerprint {identity.fingerprint[:12]}"


def _model_of(place: Place) -> ModelIdentity:
    return chosen_model(place.loaded, place.root).identity


def check_index(place: Place) -> str:
    """The serving generation was made for this model and these analysers."""
    from memoryd.extract.passages import PASSAGE_SCHEMA
    from memoryd.index.analysis import ANALYSIS_VERSION
    from memoryd.index.places import place_of

    pointer = place.root / "indexes" / "CURRENT"
    if not pointer.exists():
        return "no generation yet"
    name = pointer.read_bytes().decode("ascii", "replace").strip()
    if number_of(name) is None:
        raise IndexProblem(f"{pointer} names {name[:40]!r}, which is no generation.")
    model, where = _model_of(place), place_of(place.loaded.config.vector)
    wanted = IndexIdentity(model.fingerprint, model.dims, ANALYSIS_VERSION, PASSAGE_SCHEMA, model.sparse, where)
    made_for = read_manifest(pointer.parent / name)
    if made_for != wanted:
        raise IndexProblem(f"{name} was made for {made_for}; now in force: {wanted}.")
    return f"{name}, made for {wanted}"


def check_vectors(place: Place) -> str:
    """The server that `vector.url` names answers and lets us in."""
    from memoryd.index.places import places_for

    loaded = place.loaded
    return places_for(place.root, Files(), loaded.config.vector, loaded.key_file(), place.environment).look()


def check_sockets(place: Place) -> str:
    """The runtime folder is private and its sockets can be reached by path or by descriptor."""
    paths = RuntimePaths(str(place.root))
    if Path(paths.run).exists():
        _require_private(Path(paths.run))
    for path in (paths.rpc_socket, paths.http_socket):
        if os.path.lexists(path) and not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise HomeError(f"{path} is no socket.", next_step="Move it away.")
    length = len(os.fsencode(paths.rpc_socket))
    if length > SUN_PATH_LIMIT and not Path("/proc/self/fd").exists():
        raise HomeError(
            f"The socket path has {length} bytes; this system takes {SUN_PATH_LIMIT}.", next_step="Use a shorter home."
        )
    return f"socket path of {length} bytes"


def check_daemon(place: Place) -> str:
    """Whoever holds the home's lock answers on its socket."""
    holder = holder_of(place.root)
    paths = RuntimePaths(str(place.root))
    if holder is None:
        stale = " (dead sockets are left; the next start replaces them)" if os.path.lexists(paths.rpc_socket) else ""
        return f"none runs{stale}"
    try:
        _ask(paths.http_socket)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise HomeBusy(
            f"Process {holder or 'unknown'} holds {place.root}, but serves no socket.",
            next_step="It is starting, stopping, or another command works on this home: wait until it has ended.",
        ) from error
    except OSError as error:
        raise DaemonUnavailable(
            f"Process {holder or 'unknown'} holds {place.root}, but does not answer: {error}.",
            next_step=f"Read {paths.log_file}; end that process if it hangs.",
        ) from error
    return f"process {holder} answers"


def _ask(path: str) -> None:
    """Wait for the first byte of a health answer: for a stopped process the kernel still accepts connections."""
    sock = dial(path, ANSWER_SECONDS)
    try:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: memoryd\r\nConnection: close\r\n\r\n")
        if not sock.recv(1):
            raise ConnectionResetError("it hung up")
    finally:
        sock.close()


CHECKS: dict[str, Callable[[Place], str]] = {
    "python": check_python,
    "git": check_git,
    "home": check_home,
    "space": check_space,
    "log": check_log,
    "config": check_config,
    "format": check_format,
    "vault": check_vault,
    "memories": check_memories,
    "model": check_model,
    "index": check_index,
    "vectors": check_vectors,
    "sockets": check_sockets,
    "daemon": check_daemon,
}
