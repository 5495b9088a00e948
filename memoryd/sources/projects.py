"""Which project does a directory belong to, so that all work trees and clones of it share one scope?

No git process runs: a few small files are read, which cannot hang and works in repositories of other users too.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from memoryd.digest import sha256_hex, slug
from memoryd.records import shown_path

_MAX_CONFIG = 1 << 20
_SECTION = re.compile(r'\s*\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_SETTING = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?\Z")
_SCP = re.compile(r"(?:[^/@:]*@)?(\[[0-9A-Fa-f:.]+\]|[^/:@]+):(?!//)(.*)\Z", re.DOTALL)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_PORTS = {"http": 80, "https": 443, "ssh": 22, "git": 9418, "ftp": 21, "ftps": 990}


@dataclass(frozen=True, slots=True)
class Project:
    """A git project: its scope id, a name for people, the normalised remote (None: none) and the root directory.

    `key` is what the scope id was made of and what the vault's alias table maps to an id.
    """

    scope: str
    name: str
    remote: str | None
    root: str
    key: str


@dataclass(frozen=True, slots=True)
class _Repository:
    root: str
    config: str


def project_of(directory: str, aliases: Mapping[str, str]) -> Project | None:
    """The project around an absolute directory; None without one, or where the directory cannot be read.

    `aliases` maps project keys to scope ids that they keep, for instance after a remote was renamed.
    """
    try:
        repository = _repository_around(directory)
        if repository is None:
            return None
        url = _remote_url(repository.config)
        remote = normalise_remote(url, repository.root) if url else None
        root = os.fsencode(repository.root)
    except (OSError, ValueError):  # deleted, unreadable, or no path at all (NUL, lone surrogates)
        return None
    key = f"remote:{remote}" if remote else "path:" + shown_path(root)
    name = PurePosixPath(remote or repository.root).name.removesuffix(".git") or "root"
    digest = sha256_hex(key.encode() if remote else b"path:" + root)
    scope = aliases.get(key) or f"p-{slug(name, fallback='project')}-{digest[:8]}"
    return Project(scope, shown_path(os.fsencode(name)), remote, shown_path(root), key)


def normalise_remote(url: str, root: str = "/") -> str:
    """One spelling for all URLs of a repository: `host/path`, without scheme, credentials, default port and `.git`.

    A local path becomes absolute with links resolved (seen from `root`). Case stays in the path, not in the host.
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


def _repository_around(directory: str) -> _Repository | None:
    """The nearest repository, looking upwards on the same file system, as git does."""
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
        if marker.is_file():
            return _linked(folder, marker)
        if (marker / "HEAD").is_file() or (marker / "HEAD").is_symlink():
            return _Repository(str(folder), str(marker / "config"))
    return None


def _linked(folder: Path, marker: Path) -> _Repository | None:
    """A work tree or submodule whose `.git` is a file that names the git directory."""
    text = _small_text(marker).strip()
    if not text.startswith("gitdir:"):
        return None
    own = folder / text.removeprefix("gitdir:").strip()
    if not own.is_dir():
        return None
    if not (own / "commondir").is_file():
        return _Repository(str(folder), str(own / "config"))
    common = Path(os.path.realpath(own / _small_text(own / "commondir").strip()))
    root = common.parent if common.name == ".git" else common
    return _Repository(str(root), str(common / "config"))


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
