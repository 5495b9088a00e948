"""Are the files taken that the globs and ignore files mean, decided as git itself decides?"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryd.errors import CorpusError
from memoryd.sources.ignore import Globs, RuleFile, Rules, expand, ignored, is_code, rule_lines


def takes(path: str, include: list[str], *, exclude: list[str] | None = None, code: bool = False) -> bool:
    """What a walk does with a file: its folders first, then itself."""
    globs = Globs(include, exclude or [], code=code)
    parts = path.split("/")
    folders = ["/".join(parts[: end + 1]) for end in range(len(parts) - 1)]
    if any(globs.excludes(folder, folder=True) for folder in folders):
        return False
    return globs.takes(path) and not globs.excludes(path, folder=False)


@pytest.mark.parametrize(
    ("include", "path", "expected"),
    [
        ("*.cpp,*.h", "a.cpp", True),
        ("*.cpp,*.h", "src/deep/a.h", True),
        ("*.cpp, *.h", "a.h", True),
        ("*.cpp,*.h", "a.md", False),
        ("*.md", "a.md", True),
        ("*.md", "one/two/three/a.md", True),
        ("*.md", "a.mdx", False),
        ("docs/**", "docs/a.md", True),
        ("docs/**", "docs/deep/a.md", True),
        ("docs/**", "other/docs/a.md", False),
        ("docs/**", "docs", False),
        ("**/*", "a.md", True),
        ("**/*", "Makefile", True),
        ("**/*", "one/a.toml", True),
        ("**/*.md", "a.md", True),
        ("**/*.md", "one/two/a.md", True),
        ("/a.md", "a.md", True),
        ("/a.md", "one/a.md", False),
        ("./docs/*.md", "docs/a.md", True),
        ("docs/*", "docs/deep/a.md", False),
        ("docs", "docs/deep/a.md", True),
        ("docs/", "one/docs/a.md", True),
        ("docs/guide", "docs/guide/a.md", True),
        ("*.{md,rst}", "one/a.rst", True),
        ("**/*.{md,{rst,txt}}", "one/a.txt", True),
        ("*.md,!draft-*.md", "draft-1.md", False),
        ("[ab].md", "b.md", True),
        ("?.md", "ab.md", False),
    ],
)
def test_case_29_globs_match_what_they_say(include: str, path: str, expected: bool):
    assert takes(path, [include]) is expected


@pytest.mark.parametrize("bad", ["a\\", "{a,b}" * 12, "x\0y"])
def test_an_unreadable_glob_is_a_clear_error(bad: str):
    with pytest.raises(CorpusError, match="glob|patterns"):
        list(expand([bad]))


def test_code_is_taken_only_when_asked_for():
    assert not takes("src/a.py", ["**/*"])
    assert not takes("src/a.ts", ["src/**"])
    assert takes("src/a.py", ["**/*"], code=True)
    assert takes("src/a.py", ["**/*.md"], code=True)
    assert takes("src/a.py", ["src/*.py"])
    assert takes("setup.py", ["setup.py"])
    assert not takes("other.py", ["setup.py"])
    assert takes("src/a.py", ["**/*.md"], code=True, exclude=["*.ts"])
    assert not takes("src/a.ts", ["**/*.md"], code=True, exclude=["*.ts"])
    assert not takes("src/a_test.py", ["!*_test.py,**/*.md"], code=True)
    assert is_code("a/B.PY")
    assert not is_code("a/README.md")
    assert not is_code("py")


@pytest.mark.parametrize(
    "folder",
    [
        "build",
        "dist",
        "out",
        "outputs",
        "node_modules",
        ".venv",
        "venv",
        "__pycache__",
        ".git",
        ".tox",
        ".idea",
        "target",
    ],
)
def test_folders_of_tools_are_left_out_at_any_depth(folder: str):
    assert not takes(f"{folder}/a.md", ["**/*.md"])
    assert not takes(f"one/{folder}/two/a.md", ["**/*.md"])
    assert takes(f"{folder.lstrip('.')}x/a.md", ["**/*.md"])


def test_a_folder_that_an_include_spells_out_is_taken_back():
    assert takes(".github/a.md", [".github/**"])
    assert takes("dist/docs/a.md", ["dist/docs/*.md"])
    assert not takes(".hidden/a.md", [".github/**", "**/*.md"])
    assert takes("build/a.md", ["**/*.md"], exclude=["!build/"])
    assert not takes(".env", ["**/*"])


def test_only_folders_that_can_hold_something_are_entered():
    globs = Globs(["docs/**", "/notes/*.md"], [], code=False)
    assert not globs.excludes("docs", folder=True)
    assert not globs.excludes("notes", folder=True)
    assert globs.excludes("src", folder=True)
    assert not Globs(["docs/**", "*.md"], [], code=False).excludes("src", folder=True)
    assert not Globs(["docs/"], [], code=False).excludes("src", folder=True)


def test_case_27_anchored_slash_and_nested_rules():
    """Root-anchored and slash rules, folder rules, negation, and a deeper file that decides last."""
    top = RuleFile(Rules(["/todo.md", "docs/private/", "*.log", "!keep.log", "cache/", "# note", "", "\\#odd.md"]))
    deep = RuleFile(Rules(["!x.log", "/only-here.md"]), skip=len("sub/"))

    def out(path: str, *, folder: bool = False) -> bool:
        return ignored((top, deep) if path.startswith("sub/") else (top,), path, folder=folder)

    assert out("todo.md")
    assert not out("sub/todo.md")
    assert out("docs/private", folder=True)
    assert not out("docs/private")
    assert not out("other/docs/private", folder=True)
    assert out("a.log")
    assert not out("keep.log")
    assert out("sub/a.log")
    assert not out("sub/x.log")
    assert out("sub/only-here.md")
    assert not out("sub/more/only-here.md")
    assert out("sub/cache", folder=True)
    assert out("#odd.md")


def test_rules_of_a_folder_above_the_root_apply_from_there():
    above = RuleFile(Rules(["/repo/docs/secret.md", "notes.md"]), prepend="repo/docs/")
    assert ignored((above,), "secret.md", folder=False)
    assert ignored((above,), "deep/notes.md", folder=False)
    assert not ignored((above,), "deep/secret.md", folder=False)


def test_ignore_files_with_mark_windows_ends_and_bad_lines():
    rules = Rules(rule_lines(b"\xef\xbb\xbfa.md\r\n[z-a].md\r\nb.md  \r\n\xff.md\r\nfoo\\"))
    assert rules.decide("a.md", folder=False)
    assert rules.decide("b.md", folder=False)
    assert rules.decide("\udcff.md", folder=False)
    assert rules.decide("z.md", folder=False) is None


def test_names_with_newlines_are_matched_whole():
    rules = Rules(["*.md"])
    assert rules.decide("a\nb.md", folder=False)
    assert rules.decide("\n.md", folder=False)
    assert rules.decide("a.md\n", folder=False) is None


def test_many_stars_do_not_hang():
    rules = Rules(["*a*a*a*a*a*a*a*a*a*a*a*b", "**/*x*x*x*x*x*x*x*x*x*y"])
    assert rules.decide("a" * 250, folder=False) is None
    assert rules.decide("x" * 250, folder=False) is None
    assert rules.decide("a" * 250 + "b", folder=False)


NAMES = ["a", "b", "keep", "x.log", "y.md", "docs", "a b", "aabab.ab"]
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join)
LINES = st.one_of(
    st.sampled_from(
        [
            "*",
            "/*",
            "*/",
            "**/",
            "**",
            "*.log",
            "!*.md",
            "a/**",
            "!a/**",
            "**/keep",
            "a/**/b",
            "docs/*",
            "/a/",
            "!/a/",
            "a/**/",
            "*a*b",
            "*a*b*",
            "*a?*b",
            "a**b",
            "*ab*.*b",
            "!*[ab]*b",
            "*a*/*b*b",
            "k*e*p",
        ]
    ),
    st.builds(
        lambda sign, lead, path, tail: sign + lead + path + tail,
        st.sampled_from(["", "!"]),
        st.sampled_from(["", "/", "**/"]),
        PATHS,
        st.sampled_from(["", "/", "/*", "/**"]),
    ),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    paths=st.lists(PATHS, min_size=1, max_size=12),
    top=st.lists(LINES, max_size=5),
    deep=st.lists(LINES, max_size=3),
)
def test_case_27_decisions_are_those_of_git(tmp_path_factory, paths: list[str], top: list[str], deep: list[str]):
    root = tmp_path_factory.mktemp("repo")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    files = sorted({path for path in paths if _make(root, path)})
    (root / ".gitignore").write_text("\n".join(top) + "\n")
    below = [name for name in NAMES if (root / name).is_dir()]
    if below:
        (root / below[0] / ".gitignore").write_text("\n".join(deep) + "\n")
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--others", "--exclude-standard"], check=True, capture_output=True
    )
    expected = {name for name in listed.stdout.decode().split("\0") if name and not name.endswith(".gitignore")}
    chains = {"": (RuleFile(Rules(top)),)}
    if below:
        chains[below[0]] = (*chains[""], RuleFile(Rules(deep), skip=len(below[0]) + 1))
    assert {path for path in files if _kept(path, chains)} == expected


def _make(root: Path, path: str) -> bool:
    target = root / path
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x"):
            return True
    except OSError:
        return target.is_file()


def _kept(path: str, chains: dict[str, tuple[RuleFile, ...]]) -> bool:
    parts = path.split("/")
    for end in range(1, len(parts) + 1):
        chain = chains.get(parts[0], chains[""]) if end > 1 else chains[""]
        if ignored(chain, "/".join(parts[:end]), folder=end < len(parts)):
            return False
    return True
