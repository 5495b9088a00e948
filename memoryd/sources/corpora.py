"""Which files does a corpus hold now, and what could not be seen?

Roots are read-only and never trusted to be there: what cannot be read is reported, and named in `Walk.unread`, so
that nobody takes absence for deletion. Links are not followed, and only regular files are ever opened.
"""

from __future__ import annotations

import errno
import os
import stat
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memoryd.config import CorpusConfig
from memoryd.errors import CorpusDuplicate, CorpusError, CorpusNested, CorpusUnreadable
from memoryd.records import Finding, Kind, shown_path
from memoryd.sources.ignore import Globs, RuleFile, Rules, ignored, is_code, path_text, rule_lines
from memoryd.sources.regular import open_folder, read_regular, reason_of
from memoryd.sources.tree import fingerprint

IGNORE_FILE = b".gitignore"
_IGNORE_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class CorpusFile:
    """One file as a walk saw it; `path` is relative to the root, `looks` is `tree.fingerprint`.

    Only its content says for certain whether it changed.
    """

    path: bytes
    size: int
    mtime_ns: int
    exec: bool
    looks: tuple[int, int, int, int, int]


@dataclass(slots=True)
class Walk:
    """What a walk found, sorted by path.

    `unread` names what could not be seen: b"" everything, b"folder/" all below it, else one file. `complete` says
    that the root itself was seen: then what is neither among the files nor hidden is gone.
    """

    files: list[CorpusFile] = field(default_factory=list)
    problems: list[Finding] = field(default_factory=list)
    unread: list[bytes] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return b"" not in self.unread

    def hides(self, path: bytes) -> bool:
        """Whether a path may still be there although it is not among the files."""
        return any(path == one or ((not one or one.endswith(b"/")) and path.startswith(one)) for one in self.unread)


def resolve_root(text: str, *, base: Path | None = None) -> Path:
    """The real absolute path that a configured one means: `~`, `file://`, relative to `base` (else the working
    directory), trailing slashes, links and `..` resolved. It need not exist. Raises CorpusError for other URLs."""
    path = text.strip()
    scheme, colon, _ = path.partition("://")
    if colon and scheme.isalnum():
        parts = urllib.parse.urlsplit(path)
        if parts.scheme != "file" or parts.netloc not in {"", "localhost"}:
            raise CorpusError(f"{text!r} is not a folder of this machine.", path=text)
        path = urllib.parse.unquote(parts.path, errors="surrogateescape")
    path = os.path.expanduser(path)  # noqa: PTH111 - an unknown user is answered below, not by an exception
    if not path or "\0" in path or path.startswith("~"):
        raise CorpusError(f"{text!r} is not a path.", path=text)
    return Path(os.path.realpath(Path(base or Path.cwd()) / path))


def check_root(corpus: CorpusConfig, *, base: Path | None = None) -> Path:
    """The root of a corpus that can be read now. Raises CorpusUnreadable, or CorpusError where it is a file."""
    root = resolve_root(corpus.path, base=base)
    try:
        if not stat.S_ISDIR(root.stat().st_mode):
            raise CorpusError(
                f"{root} is a file; a corpus is a folder.",
                next_step=f"Give {root.parent} as the path and {root.name!r} as an include.",
                path=str(root),
            )
        with os.scandir(root):
            return root
    except OSError as error:
        raise CorpusUnreadable(f"{root} cannot be read: {error.strerror}.", path=str(root)) from error


def validate(corpora: Sequence[CorpusConfig], *, base: Path | None = None, reserved: Sequence[Path] = ()) -> None:
    """Refuse what cannot work together: a label or root that stands twice, a root inside another or inside one of
    the `reserved` folders (the home), a glob that cannot be read. Roots need not exist.

    Raises CorpusDuplicate, CorpusNested, CorpusError.
    """
    taken: list[tuple[str, Path]] = []
    for corpus in corpora:
        Globs(corpus.include, corpus.exclude, code=corpus.code)
        root = resolve_root(corpus.path, base=base)
        for folder in reserved:
            if root.is_relative_to(os.path.realpath(folder)):
                raise CorpusNested(f"{root} belongs to memoryd itself.", label=corpus.label, path=str(root))
        for label, other in taken:
            _refuse_pair(corpus.label, root, label, other)
        taken.append((corpus.label, root))


def _refuse_pair(label: str, root: Path, other_label: str, other: Path) -> None:
    if label == other_label:
        raise CorpusDuplicate(f"The label `{label}` is used twice.", label=label)
    if root == other or _same_folder(root, other):
        raise CorpusDuplicate(f"`{label}` and `{other_label}` are the same folder: {root}.", path=str(root))
    if root.is_relative_to(other) or other.is_relative_to(root):
        raise CorpusNested(f"The folders of `{label}` ({root}) and `{other_label}` ({other}) lie in each other.")


def _same_folder(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)  # noqa: PTH121 - one mount may show one folder under two names
    except OSError:
        return False


def walk(
    corpus: CorpusConfig, *, known: int, file_limit: int, base: Path | None = None, reserved: Sequence[Path] = ()
) -> Walk:
    """All files that the corpus wants now, without opening any of them.

    `known` is how many documents of it are indexed: a walk that finds none while some are known reports an empty
    root instead of their removal. Files over `file_limit` bytes and unreadable ones are reported and count as unread.
    `reserved` folders are never entered. Raises CorpusError only for a configuration that cannot be read.
    """
    walker = _Walker(corpus, file_limit, {os.path.realpath(folder) for folder in reserved})
    try:
        root = check_root(corpus, base=base)
    except CorpusError as error:
        walker.found.unread.append(b"")
        walker.report(error.code, b"", error.message, error.next_step)
        return walker.found
    walker.run(root)
    found = walker.found
    found.files.sort(key=lambda one: one.path)
    if not found.files and known:
        found.unread[:] = [b""]
        message = f"No file was found, but {known} documents are known: nothing was removed."
        walker.report("corpus-empty", b"", message, "Bring the folder back, or remove the corpus from config.json.")
    elif not found.files and not found.unread:
        message = f"No file of {walker.seen} matches ({walker.left_out} entries are excluded or ignored)."
        walker.report("corpus-nothing-found", b"", message, "Check include, exclude and the .gitignore files.")
    return found


def read_file(corpus: CorpusConfig, path: bytes, *, file_limit: int | None = None, base: Path | None = None) -> bytes:
    """The bytes of one file of a walk. No link is followed on the way, nothing but a regular file is opened.

    Raises OSError: ENOENT for a file that is gone, ELOOP or ENOTDIR for a link, ENXIO for a pipe, device or socket,
    EFBIG over `file_limit` bytes, EINVAL for a path that no walk gives out.
    """
    parts = path.split(b"/")
    if any(part in {b"", b".", b"..", b".git"} for part in parts):
        raise OSError(errno.EINVAL, "not a path of a corpus")
    with open_folder(resolve_root(corpus.path, base=base), parts[:-1]) as folder:
        return read_regular(parts[-1], folder, limit=file_limit)


def kind_of(path: bytes) -> Kind:
    """`code` for source files of known languages, else `document`."""
    return "code" if is_code(path_text(path)) else "document"


class _Walker:
    """One walk: folders wait on a stack with the ignore files that apply to them."""

    def __init__(self, corpus: CorpusConfig, file_limit: int, reserved: set[str]) -> None:
        self.corpus = corpus
        self.globs = Globs(corpus.include, corpus.exclude, code=corpus.code)
        self.file_limit = file_limit
        self.reserved = reserved
        self.found = Walk()
        self.seen = 0
        self.left_out = 0
        self._root = b""
        self._visited: set[tuple[int, int]] = set()
        self._waiting: list[tuple[bytes, tuple[RuleFile, ...]]] = []

    def report(self, code: str, path: bytes, message: str, remedy: str) -> None:
        """Add a finding about a path below the root (b"": the root itself)."""
        self.found.problems.append(Finding(code, f"{self.corpus.label}/{shown_path(path)}", message, remedy))

    def run(self, root: Path) -> None:
        """Walk the tree below the real path `root`."""
        self._root = os.fsencode(root)
        try:
            self._waiting.append((b"", _rules_above(self._root)))
        except OSError as error:
            self._unread(b"", error)
        while self._waiting:
            prefix, chain = self._waiting.pop()
            try:
                with open_folder(Path(os.fsdecode(self._root + b"/" + prefix))) as folder:
                    self._folder(folder, prefix, chain)
            except OSError as error:
                self._unread(prefix, error)

    def _folder(self, folder: int, prefix: bytes, chain: tuple[RuleFile, ...]) -> None:
        about = os.fstat(folder)
        if (about.st_dev, about.st_ino) in self._visited:
            self.report("corpus-loop", prefix, "This folder was walked under another name already.", "Nothing to do.")
            return
        self._visited.add((about.st_dev, about.st_ino))
        with os.scandir(folder) as listing:
            entries = [(os.fsencode(entry.name), entry) for entry in listing]
        names = {name for name, _ in entries}
        if prefix and b"pyvenv.cfg" in names:
            self.left_out += 1
            return
        if IGNORE_FILE in names:
            chain = (*chain, RuleFile(_read_rules(folder), skip=len(path_text(prefix))))
        lead = path_text(prefix)
        for name, entry in entries:
            if name != b".git":
                self._entry(entry, prefix + name, lead + path_text(name), chain)

    def _entry(self, entry: os.DirEntry[str], path: bytes, text: str, chain: tuple[RuleFile, ...]) -> None:
        try:
            if entry.is_symlink():
                if not self._left_out(text, chain, folder=False):
                    self._link(path, text)
            elif entry.is_dir(follow_symlinks=False):
                if not self._left_out(text, chain, folder=True) and not self._is_reserved(path):
                    self._waiting.append((path + b"/", chain))
            else:
                self.seen += 1
                if self.globs.takes(text) and not self._left_out(text, chain, folder=False):
                    self._file(entry, path)
        except OSError as error:
            self._unread(path, error)

    def _left_out(self, text: str, chain: tuple[RuleFile, ...], *, folder: bool) -> bool:
        out = self.globs.excludes(text, folder=folder) or ignored(chain, text, folder=folder)
        self.left_out += out
        return out

    def _is_reserved(self, path: bytes) -> bool:
        return bool(self.reserved) and os.fsdecode(self._root + b"/" + path) in self.reserved

    def _file(self, entry: os.DirEntry[str], path: bytes) -> None:
        about = entry.stat(follow_symlinks=False)
        if not stat.S_ISREG(about.st_mode):
            self.report("corpus-special", path, "This is no regular file and was not opened.", "Exclude it.")
        elif about.st_size > self.file_limit:
            self.found.unread.append(path)
            message = f"{about.st_size} bytes are over the limit of {self.file_limit}: not read."
            self.report("corpus-too-large", path, message, "Exclude the file, or raise limits.file_bytes.")
        elif not os.access(self._root + b"/" + path, os.R_OK):
            self._unread(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
        else:
            executable = bool(about.st_mode & 0o111)
            looks = fingerprint(about)
            self.found.files.append(CorpusFile(path, about.st_size, about.st_mtime_ns, executable, looks))

    def _link(self, path: bytes, text: str) -> None:
        """Say where a link leads that would have been of interest; it is never followed."""
        place = Path(os.fsdecode(self._root + b"/" + path))
        if not place.exists():
            self.report("corpus-link", path, "This link leads nowhere.", "Remove the link, or bring its target back.")
        elif place.is_dir() or self.globs.takes(text):
            inside = place.resolve().is_relative_to(os.fsdecode(self._root))
            message = "its target counts where it lies" if inside else "its target lies outside and is not read"
            self.report("corpus-link", path, f"Links are not followed: {message}.", "Nothing to do.")

    def _unread(self, path: bytes, error: OSError) -> None:
        self.found.unread.append(path)
        message = f"This could not be read ({error.strerror}); nothing below it counts as removed."
        self.report("corpus-unreadable", path, message, "Make it readable, or exclude it, and scan again.")


def _rules_above(root: bytes) -> tuple[RuleFile, ...]:
    """Ignore files from the top of the git work tree that holds the root down to the root's parent."""
    above: list[Path] = []
    place = Path(os.fsdecode(root))
    for folder in (place, *place.parents):
        if os.path.lexists(folder / ".git"):
            break
        above.append(folder.parent)
    else:
        return ()
    found: list[RuleFile] = []
    for folder in reversed(above):
        way = path_text(os.fsencode(place.relative_to(folder))) + "/"
        with open_folder(folder) as opened:
            found.append(RuleFile(_read_rules(opened), prepend=way))
    return tuple(found)


def _read_rules(folder: int) -> Rules:
    """The rules of a folder's ignore file; like git, a link or anything but a file holds none. Raises OSError."""
    try:
        return Rules(rule_lines(read_regular(IGNORE_FILE, folder, limit=_IGNORE_LIMIT)))
    except OSError as error:
        if reason_of(error) in {"gone", "link", "special"}:
            return Rules([])
        raise
