"""Which project does a directory belong to, so that all work trees and clones of it share one scope?

No git process runs: a few small files are read, which cannot hang and works in repositories of other users too. A
`ProjectFinder` reads them once and then only looks whether they are still the same.
"""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from memoryd.digest import sha256_hex, slug
from memoryd.records import shown_path

FINDER_SIZE = 256
"""Directories that a finder remembers."""
FILE_FACTS = 5
RACY_NS = 2_000_000_000
_MAX_CONFIG = 1 << 20
_SECTION = re.compile(r'\s*\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_SETTING = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?\Z")
_SCP = re.compile(r"(?:[^/@:]*@)?(\[[0-9A-Fa-f:.]+\]|[^/:@]+):(?!//)(.*)\Z", re.DOTALL)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_PORTS = {"http": 80, "https": 443, "ssh": 22, "git": 9418, "ftp": 21, "ftps": 990}


@dataclass(frozen=True, slots=True)
class Project:
    """A git project: its scope id, a name for people, the normalised remote (None: none) and the root directory.

    `key` is what the scope id was made of and what the vault's alias table maps to an id. `tree` is the top of the work
    tree, as the system names it: that of a linked work tree or submodule is not the repository's `root`.
    """

    scope: str
    name: str
    remote: str | None
    root: str
    key: str
    tree: str


@dataclass(frozen=True, slots=True)
class _Repository:
    tree: str
    root: str
    config: str


State = tuple[int, ...] | None
"""What tells whether a path is still the same: device and inode, of a file also size and times; None: not there."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A project by its own names (None: none here), the state of all that decided it, and whether that is certain."""

    project: Project | None
    states: Mapping[str, State]
    settled: bool

    def still_holds(self) -> bool:
        return self.settled and all(_state(path) == state for path, state in self.states.items())


class ProjectFinder:
    """Finds projects as `project_of` does, many times a second. Safe from many threads."""

    def __init__(self, size: int = FINDER_SIZE) -> None:
        self._size = size
        self._known: OrderedDict[str, _Found] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, directory: str, aliases: Mapping[str, str]) -> Project | None:
        """As `project_of`; of a directory that is gone, the last answer stays in force."""
        with self._lock:
            known = self._known.get(directory)
        if known is None or not known.still_holds():
            found = _look(directory)
            if known is None or _state(directory) is not None:
                known = found
        with self._lock:
            self._known[directory] = known
            self._known.move_to_end(directory)
            while len(self._known) > self._size:
                self._known.popitem(last=False)
        return _named(known.project, aliases)


def project_of(directory: str, aliases: Mapping[str, str]) -> Project | None:
    """The project around an absolute directory; None without one, or where the directory cannot be read.

    `aliases` maps project keys to scope ids that they keep, for instance after a remote was renamed.
    """
    return _named(_look(directory).project, aliases)


def _named(project: Project | None, aliases: Mapping[str, str]) -> Project | None:
    """The project under the scope id that it keeps."""
    if project is None or project.key not in aliases:
        return project
    return replace(project, scope=aliases[project.key])


def _look(directory: str) -> _Found:
    states: dict[str, State] = {}
    now = time.time_ns()
    try:
        project = _project(directory, states)
    except (OSError, ValueError):  # deleted, unreadable, or no path at all (NUL, lone surrogates)
        return _Found(None, {}, settled=False)
    # a file that changed this moment may change once more without showing it
    settled = all(state is None or len(state) < FILE_FACTS or state[-1] < now - RACY_NS for state in states.values())
    return _Found(project, states, settled)


def _project(directory: str, states: dict[str, State]) -> Project | None:
    states[directory] = _state(directory)
    repository = _repository_around(directory, states)
    if repository is None:
        return None
    states[repository.config] = _state(repository.config)
    remote = _remote_of(repository)
    root = os.fsencode(repository.root)
    key = key_of(remote) if remote else "path:" + shown_path(root)
    name = PurePosixPath(remote or repository.root).name.removesuffix(".git") or "root"
    digest = sha256_hex(key.encode() if remote else b"path:" + root)
    scope = f"p-{slug(name, fallback='project')}-{digest[:8]}"
    return Project(scope, shown_path(os.fsencode(name)), remote, shown_path(root), key, repository.tree)


def _state(path: str) -> State:
    """Times and size only of files: a directory's change with whatever is made in it."""
    try:
        about = os.stat(path)  # noqa: PTH116 - this is the hot path
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(about.st_mode):
        return about.st_dev, about.st_ino
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def cloned_from(project: Project) -> str | None:
    """The remote that the repository began as a clone of, normalised; None where its log of HEAD does not say so."""
    try:
        first = _small_text(Path(project.root, ".git", "logs", "HEAD")).partition("\n")[0]
        _, said, url = first.partition("\tclone: from ")
        return normalise_remote(url, project.root) if said and url.strip() else None
    except (OSError, ValueError, RuntimeError):
        return None


def key_of(remote: str) -> str:
    """What the scope id of a project with this normalised remote is made of."""
    return f"remote:{remote}"


def id_ending(key: str) -> str:
    """The digits at the end of a scope id that was made of this key."""
    return sha256_hex(key.encode())[:8]


def _remote_of(repository: _Repository) -> str | None:
    """The normalised remote; None without one, or where its URL makes no sense: then the path names the project."""
    url = _remote_url(repository.config)
    try:
        remote = normalise_remote(url, repository.root) if url else ""
        remote.encode()
    except (ValueError, RuntimeError):
        return None
    return remote or None


def normalise_remote(url: str, root: str = "/") -> str:
    """One spelling for all URLs of a repository: `host/path`, without scheme, credentials, default port and `.git`.

    A local path becomes absolute with links resolved (seen from `root`). Case stays in the path, not in the host.
    Raises ValueError for what is no URL.
    """
    url = url.strip()
    helper, separator, address = url.partition("::")
    if separator and re.fullmatch(r"[A-Za-z0-9]+", helper):
        return normalise_remote(address, root)
    if _SCHEME.match(url):
        return _from_url(url, root)
    scp = _SCP.match(url)
    if scp is not None:
        return _joined(scp[1], None, scp[2])
    return _local(url, root)


def _from_url(url: str, root: str) -> str:
    parts = urlsplit(url)
    scheme = parts.scheme.lower().removeprefix("git+").removesuffix("+git")
    if scheme == "file":
        return _local(unquote(parts.path), root)
    try:
        port = parts.port
    except ValueError:
        port = None
    host = parts.hostname or ""
    shown = f"[{host}]" if ":" in host else host
    return _joined(shown, None if port == _PORTS.get(scheme) else port, unquote(parts.path))


def _joined(host: str, port: int | None, path: str) -> str:
    place = host.lower().rstrip(".") + (f":{port}" if port is not None else "")
    steps = [step for step in path.split("/") if step not in ("", ".")]
    return "/".join([place, *steps]).removesuffix(".git").rstrip("/")


def _local(path: str, root: str) -> str:
    absolute = os.path.realpath(Path(root, Path(path).expanduser() if path.startswith("~/") else path))
    return shown_path(os.fsencode(absolute)).removesuffix("/.git").removesuffix(".git") or "/"


def _repository_around(directory: str, states: dict[str, State]) -> _Repository | None:
    """The nearest repository, looking upwards on the same file system, as git does; notes what it looked at."""
    start = Path(directory)
    if not start.is_absolute() or not start.is_dir():
        return None
    start = Path(os.path.realpath(directory, strict=True))
    with os.scandir(start):
        pass  # raises where the directory cannot be read
    device = start.stat().st_dev
    for folder in (start, *start.parents):
        if folder.stat().st_dev != device:
            return None
        marker = folder / ".git"
        states[str(marker)] = _state(str(marker))
        if marker.is_file():
            return _linked(folder, marker, states)
        states[str(marker / "HEAD")] = _state(str(marker / "HEAD"))
        if (marker / "HEAD").is_file() or (marker / "HEAD").is_symlink():
            return _Repository(str(folder), str(folder), str(marker / "config"))
    return None


def _linked(folder: Path, marker: Path, states: dict[str, State]) -> _Repository | None:
    """A work tree or submodule whose `.git` is a file that names the git directory."""
    text = _small_text(marker).strip()
    if not text.startswith("gitdir:"):
        return None
    own = folder / text.removeprefix("gitdir:").strip()
    states[str(own)] = _state(str(own))
    if not own.is_dir():
        return None
    states[str(own / "commondir")] = _state(str(own / "commondir"))
    if not (own / "commondir").is_file():
        return _Repository(str(folder), str(folder), str(own / "config"))
    common = Path(os.path.realpath(own / _small_text(own / "commondir").strip()))
    root = common.parent if common.name == ".git" else common
    return _Repository(str(folder), str(root), str(common / "config"))


def _small_text(path: Path) -> str:
    """A small regular file as text; raises OSError for anything else."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as stream:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{path} is not a regular file")
        return stream.read(_MAX_CONFIG).decode("utf-8", "surrogateescape")


def _remote_url(config: str) -> str | None:
    """The URL of the remote `origin`, else of the first remote that has one."""
    found: dict[str, str] = {}
    try:
        text = _small_text(Path(config))
    except FileNotFoundError:
        return None
    remote: str | None = None
    for line in text.replace("\r\n", "\n").replace("\\\n", "").split("\n"):
        section = _SECTION.match(line)
        if section is not None:
            remote = _unescaped(section[2] or "") if section[1].lower() == "remote" else None
        setting = _SETTING.match(line, section.end() if section is not None else 0)
        if remote is not None and setting is not None and setting[1].lower() == "url" and setting[2]:
            found.setdefault(remote, _config_value(setting[2]))
    return found.get("origin") or next(iter(found.values()), None)


def _config_value(raw: str) -> str:
    """A value without its quotes, escapes and trailing comment."""
    out, inside, at = "", False, 0
    while at < len(raw):
        char = raw[at]
        if char == "\\" and at + 1 < len(raw):
            at += 1
            out += {"n": "\n", "t": "\t", "b": "\b"}.get(raw[at], raw[at])
        elif char == '"':
            inside = not inside
        elif char in "#;" and not inside:
            break
        else:
            out += char
        at += 1
    return out.strip()


def _unescaped(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)
