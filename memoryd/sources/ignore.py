"""Which files of a tree does a corpus want: what do its globs name, and what do ignore files take out again?

Patterns are those of `.gitignore`, translated by pathspec; the order of decisions is git's own: the deepest ignore
file that says anything about an entry decides, its last matching line wins, and nothing comes back from below an
ignored folder. Paths are text: UTF-8, other bytes as surrogate escapes, so that every name can be matched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from memoryd.errors import CorpusError

DEFAULT_EXCLUDES = (
    ".*",
    "node_modules/",
    "bower_components/",
    "__pycache__/",
    "site-packages/",
    "*.egg-info/",
    "venv/",
    "virtualenv/",
    "build/",
    "_build/",
    "dist/",
    "out/",
    "output/",
    "outputs/",
    "target/",
    "coverage/",
    "htmlcov/",
)
"""What tools made or fetched. Hidden files and folders hold settings and secrets of tools; an include that spells out
a name (`.github/**`, `dist/*.md`) takes that name back."""

CODE_ENDINGS = frozenset(
    f".{ending}"
    for language in (
        "py pyi pyw pyx pxd js jsx mjs cjs ts tsx mts cts vue svelte java kt kts scala groovy gradle clj cljs",
        "c h cc cpp cxx hh hpp hxx ino m mm cs fs fsx vb go rs swift zig nim d dart rb php pl pm lua r jl",
        "ex exs erl hrl hs ml mli elm lisp el scm rkt sh bash zsh fish ps1 bat cmd sql css scss sass less",
        "sol proto graphql tf nix cmake asm s f f90 pas v sv vhd cu glsl wgsl tcl vim awk",
    )
    for ending in language.split()
)
"""Names that end so are source code of a known language; a corpus takes them only when it is asked to."""

_ENDS = "(?:(?P<ps_d>/)|$)"
_STAR = "[^/]*"
_WILD = re.compile(r"[*?\[\\]")
_MAX_GLOBS = 1000


@dataclass(frozen=True, slots=True)
class _Line:
    """One pattern: `source` is a regular expression for an entry's path without a trailing slash."""

    source: str
    takes: bool
    folders_only: bool


class Rules:
    """Ordered ignore lines, as one ignore file holds them."""

    def __init__(self, lines: Iterable[str]) -> None:
        parsed = [line for line in map(_parse, lines) if line is not None]
        self._for_folders = _join(parsed)
        self._for_files = _join([line for line in parsed if not line.folders_only])

    def decide(self, path: str, *, folder: bool) -> bool | None:
        """True: ignored, False: taken back by a `!` line, None: no line speaks about this entry."""
        for pattern, takes in self._for_folders if folder else self._for_files:
            if pattern.search(path):
                return takes
        return None


@dataclass(frozen=True, slots=True)
class RuleFile:
    """The rules of one ignore file and where it lies: `skip` characters of a path lead to its folder.

    For an ignore file above the root, `prepend` is the way from its folder down to the root.
    """

    rules: Rules
    skip: int = 0
    prepend: str = ""

    def decide(self, path: str, *, folder: bool) -> bool | None:
        """Like `Rules.decide`, for a path relative to the root."""
        return self.rules.decide(self.prepend + path[self.skip :], folder=folder)


def ignored(chain: tuple[RuleFile, ...], path: str, *, folder: bool) -> bool:
    """What the ignore files above an entry say, the deepest one last in the chain; its folder is not ignored itself."""
    for rule_file in reversed(chain):
        decision = rule_file.decide(path, folder=folder)
        if decision is not None:
            return decision
    return False


class Globs:
    """What a corpus wants of its tree: include globs, exclude globs and whether source code counts."""

    def __init__(self, include: Iterable[str], exclude: Iterable[str], *, code: bool) -> None:
        """Raises CorpusError for a glob that cannot be read."""
        wanted = list(expand(include))
        self._documents = Rules(_deepened(wanted))
        self._named_code = Rules(_deepened(glob for glob in wanted if glob[:1] == "!" or _names_code(glob)))
        self._code = code
        spelled = [f"!{part}" for glob in wanted for part in _spelled(glob)]
        self._excluded = Rules([*DEFAULT_EXCLUDES, *spelled, *expand(exclude)])
        self._tops = None if code else _tops(wanted)

    def takes(self, path: str) -> bool:
        """Whether a file is wanted by its name; excludes are asked apart."""
        if is_code(path):
            named = self._named_code.decide(path, folder=False)
            return named if named is not None else self._code
        return self._documents.decide(path, folder=False) is True

    def excludes(self, path: str, *, folder: bool) -> bool:
        """Whether an entry is left out by the default excludes or the corpus's own."""
        if folder and self._tops is not None and path.split("/", 1)[0] not in self._tops:
            return True
        return self._excluded.decide(path, folder=folder) is True


def is_code(path: str) -> bool:
    """Whether a name says that the file is source code of a known language."""
    name = path.rsplit("/", 1)[-1]
    dot = name.rfind(".")
    return dot > 0 and name[dot:].lower() in CODE_ENDINGS


def path_text(path: bytes) -> str:
    """The text of a path that patterns are matched against."""
    return path.decode("utf-8", "surrogateescape")


def rule_lines(data: bytes) -> list[str]:
    """The lines of an ignore file, as git reads them."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    return [line.removesuffix("\r") for line in text.split("\n")]


def expand(texts: Iterable[str]) -> Iterator[str]:
    """Single globs of comma lists (`*.cpp,*.h`) and braces (`*.{md,rst}`). Raises CorpusError for unreadable ones."""
    count = 0
    for text in texts:
        for part in _comma_list(text):
            for glob in _braces(part):
                count += 1
                glob = glob.removeprefix("./")  # noqa: PLW2901 - how people write "from here"
                if count > _MAX_GLOBS or "\0" in glob or (glob.strip("/!") and _parse(glob) is None):
                    raise CorpusError(f"The glob {text[:200]!r} cannot be used.", glob=text[:200])
                yield glob


def _parse(line: str) -> _Line | None:
    """A line as an entry's pattern; None for blanks, comments and what git discards, too."""
    bare = line.rstrip(" ") if not line.endswith("\\ ") else line
    folders_only = bare.endswith("/") and len(bare) > 1
    try:
        source, takes = GitIgnoreSpecPattern.pattern_to_regex(bare[:-1] if folders_only else bare)
        if source is None or takes is None:
            return None
        source = _linear(source.replace(_ENDS, r"\Z"))
        re.compile(source, re.DOTALL)
    except (ValueError, re.error):
        return None
    return _Line(source, takes, folders_only)


def _linear(source: str) -> str:
    """The same expression without a way to try a name over and over: between two stars the first place will do."""
    first, *middle = source.split(_STAR)
    if not middle:
        return source
    last = middle.pop()
    for part in middle:
        plain = not set("/()|") & set(part.replace("[^/]", ""))
        first += f"(?>[^/]*?{part})" if plain else _STAR + part
    return first + _STAR + last


def _join(lines: list[_Line]) -> list[tuple[re.Pattern[str], bool]]:
    """Last line first; neighbours of one sign become one expression."""
    joined: list[tuple[list[str], bool]] = []
    for line in reversed(lines):
        if joined and joined[-1][1] == line.takes:
            joined[-1][0].append(line.source)
        else:
            joined.append(([line.source], line.takes))
    return [
        (re.compile("|".join(f"(?:{source})" for source in sources), re.DOTALL), takes) for sources, takes in joined
    ]


def _deepened(globs: Iterable[str]) -> Iterator[str]:
    """A glob that names a folder (`docs/`, or `docs` without wildcard in its last part) takes all that lies below."""
    for glob in globs:
        bare = glob.rstrip("/")
        if glob.endswith("/") or not _WILD.search(bare.rsplit("/", 1)[-1]):
            lead = "" if "/" in bare.lstrip("!") else "**/"
            sign = "!" if bare[:1] == "!" else ""
            yield f"{sign}{lead}{bare.removeprefix('!')}/**"
        if not glob.endswith("/"):
            yield glob


def _names_code(glob: str) -> bool:
    """Whether a glob spells out the ending of a source file."""
    last = glob.rsplit("/", 1)[-1]
    ending = last[last.rfind(".") :]
    return "." in last and ending.lower() in CODE_ENDINGS


def _spelled(glob: str) -> Iterator[str]:
    parts = [] if glob[:1] == "!" else glob.split("/")
    return (part for part in parts if part and (part[0] == "." or not _WILD.search(part)))


def _tops(globs: list[str]) -> frozenset[str] | None:
    """The folders of the root that can hold anything wanted; None where any of them can."""
    tops: set[str] = set()
    for glob in globs:
        if glob[:1] == "!":
            continue
        first, _, rest = glob.removeprefix("/").partition("/")
        anchored = glob[:1] == "/" or rest
        if _WILD.search(first) or not anchored:
            return None
        tops.add(first)
    return frozenset(tops)


def _comma_list(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for at, char in enumerate(text):
        if char in "{}":
            depth += 1 if char == "{" else -1
        elif char == "," and depth <= 0:
            yield from filter(None, [text[start:at].strip()])
            start = at + 1
    yield from filter(None, [text[start:].strip()])


def _braces(glob: str) -> Iterator[str]:
    """Innermost braces first, so that nested ones end too."""
    pending = [glob]
    for _ in range(_MAX_GLOBS):
        if not pending:
            return
        one = pending.pop(0)
        found = re.search(r"\{([^{}]*,[^{}]*)\}", one)
        if found is None:
            yield one
            continue
        pending[:0] = [one[: found.start()] + choice + one[found.end() :] for choice in found[1].split(",")]
    raise CorpusError(f"The glob {glob[:200]!r} stands for too many patterns.", glob=glob[:200])
