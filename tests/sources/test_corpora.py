"""Does a walk find what a corpus wants, read nothing else, and never take absence for deletion?"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from memoryd.config import CorpusConfig
from memoryd.digest import address_of
from memoryd.errors import CorpusDuplicate, CorpusError, CorpusNested, CorpusUnreadable
from memoryd.sources import corpora
from memoryd.sources.corpora import Walk, check_root, kind_of, read_file, resolve_root, validate

LIMIT = 1 << 20
T = TypeVar("T")


def corpus(path: Path | str, **more: Any) -> CorpusConfig:
    return CorpusConfig(label=more.pop("label", "docs"), path=str(path), **more)


def walk(path: Path | str, known: int = 0, **more: Any) -> Walk:
    return corpora.walk(corpus(path, **more), known=known, file_limit=LIMIT)


def paths(found: Walk) -> list[str]:
    return [os.fsdecode(file.path) for file in found.files]


def codes(found: Walk) -> dict[str, str]:
    return {problem.where: problem.code for problem in found.problems}


def make(root: Path, *names: str, text: str = "words") -> Path:
    for name in names:
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return root


def as_ordinary_user(action: Callable[[], T]) -> T:
    """Run without the capabilities that let root read everything; they are given up by one thread only."""
    result: list[T] = []

    def run() -> None:
        if os.geteuid() == 0:
            libc = ctypes.CDLL(None, use_errno=True)
            header = (ctypes.c_uint32 * 2)(0x20080522, 0)
            data = (ctypes.c_uint32 * 6)()
            assert libc.capget(header, data) == 0
            for index in (0, 1):  # effective and permitted: CAP_DAC_OVERRIDE is bit 1, CAP_DAC_READ_SEARCH bit 2
                data[index] &= ~0b110
            assert libc.capset(header, data) == 0
        result.append(action())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return result[0]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def test_files_come_sorted_with_size_time_and_exec_bit(root: Path):
    make(root, "b.md", "a/c.md", "a/code.py", "notes.txt")
    (root / "b.md").chmod(0o755)
    found = walk(root)
    assert paths(found) == ["a/c.md", "b.md"]
    first, second = found.files
    assert (first.size, first.exec, second.exec) == (5, False, True)
    assert second.mtime_ns == (root / "b.md").stat().st_mtime_ns
    assert found.complete and not found.problems
    assert read_file(corpus(root), b"a/c.md") == b"words"


def test_code_is_asked_for(root: Path):
    make(root, "a.md", "pkg/mod.py", "pkg/a.ts", "Makefile")
    assert paths(walk(root, code=True)) == ["a.md", "pkg/a.ts", "pkg/mod.py"]
    assert paths(walk(root, include=("**/*",))) == ["Makefile", "a.md"]
    assert paths(walk(root, include=("*.py",))) == ["pkg/mod.py"]
    assert (kind_of(b"x/a.PY"), kind_of(b"x/a.md"), kind_of(b"Makefile")) == ("code", "document", "document")


def test_case_29_comma_list_of_a_corpus(root: Path):
    make(root, "a.cpp", "deep/down/b.h", "c.md")
    assert paths(walk(root, include=("*.cpp,*.h",))) == ["a.cpp", "deep/down/b.h"]
    assert paths(walk(root, include=("**/*",))) == ["c.md"]


def test_case_27_git_is_never_read_and_ignore_files_are_honoured(root: Path):
    make(
        root,
        ".git/hooks/x.md",
        ".git/info.md",
        "sub/.git/y.md",
        "kept.md",
        "sub/z.md",
        "gen/a.md",
        "sub/gen.md",
        "sub/deep/gen.md",
    )
    (root / ".gitignore").write_text("/gen/\nsub/deep/*.md\n")
    (root / "sub" / ".gitignore").write_text("gen.md\n!z.md\n")
    assert paths(walk(root, include=("**/*.md", ".git/**"))) == ["kept.md", "sub/z.md"]
    with pytest.raises(OSError, match="not a path"):
        read_file(corpus(root), b".git/info.md")


def test_case_27_ignore_files_above_the_root_count_up_to_the_work_tree(tmp_path: Path):
    make(tmp_path, "outer/.gitignore", text="*.md\n")
    repo = make(tmp_path / "outer" / "repo", ".git/HEAD", "docs/a.md", "docs/private/b.md", "docs/b.md")
    (repo / ".gitignore").write_text("/docs/private/\nb.md\n")
    assert paths(walk(repo / "docs")) == ["a.md"]
    (repo / ".gitignore").write_text("docs/\n")
    assert "a.md" in paths(walk(repo / "docs")), "a root that was named on purpose is walked"


def test_tool_folders_and_virtual_environments_are_left_out(root: Path):
    make(root, "a.md", "build/b.md", "node_modules/p/README.md", ".cache/c.md", "python/pyvenv.cfg", "python/lib/d.md")
    make(root, "extra/e.md", "extra/deep/f.md")
    assert paths(walk(root, exclude=("extra/deep/",))) == ["a.md", "extra/e.md"]
    assert paths(walk(root, include=("*.md", ".cache/**"), exclude=("extra/", "!build/"))) == [
        ".cache/c.md",
        "a.md",
        "build/b.md",
    ]


def test_case_28_every_way_to_write_a_root(root: Path, monkeypatch: pytest.MonkeyPatch, own_home: Path):
    make(root, "a b.md")
    make(own_home, "notes/n.md")
    monkeypatch.chdir(root.parent)
    name = root.name
    for text in (name, f"./{name}/", f"{name}/../{name}", f"{root}/", root.as_uri(), f"file://localhost{root}/"):
        assert resolve_root(text) == root
        assert paths(walk(text)) == ["a b.md"]
    assert resolve_root(name, base=root.parent) == root
    assert paths(walk("~/notes/")) == ["n.md"]
    spaced = root.parent / "with space"
    spaced.mkdir()
    assert resolve_root(spaced.as_uri()) == spaced


@pytest.mark.parametrize(
    "text", ["", "  ", "https://host.example/docs", "file://elsewhere/docs", "~nobody-here/x", "a\0b"]
)
def test_case_28_what_is_no_path_is_a_clear_error(text: str):
    with pytest.raises(CorpusError):
        resolve_root(text)


def test_case_28_a_file_as_root_is_a_clear_error(root: Path):
    make(root, "a.md")
    with pytest.raises(CorpusError, match="is a file") as caught:
        check_root(corpus(root / "a.md"))
    assert "include" in caught.value.next_step
    found = walk(root / "a.md", known=3)
    assert codes(found) == {"docs/": "corpus-error"}
    assert found.hides(b"a.md") and not found.complete


def test_case_28_nothing_found_is_said(root: Path):
    make(root, "a.txt", "build/b.md")
    found = walk(root)
    assert codes(found) == {"docs/": "corpus-nothing-found"}
    assert found.complete


def test_validate_refuses_duplicates_nesting_and_bad_globs(tmp_path: Path):
    one, two = make(tmp_path / "one", "a/x.md"), make(tmp_path / "two", "y.md")
    (tmp_path / "link").symlink_to(one)
    validate([corpus(one, label="a"), corpus(two, label="b"), corpus(tmp_path / "one-more", label="c")])
    with pytest.raises(CorpusDuplicate, match="label"):
        validate([corpus(one, label="a"), corpus(two, label="a")])
    with pytest.raises(CorpusDuplicate, match="same folder"):
        validate([corpus(one, label="a"), corpus(tmp_path / "link", label="b")])
    for pair in ([one, one / "a"], [one / "a", one], [tmp_path / "link" / "a", one]):
        with pytest.raises(CorpusNested):
            validate([corpus(path, label=f"l{number}") for number, path in enumerate(pair)])
    with pytest.raises(CorpusError, match="glob"):
        validate([corpus(one, include=("a\\",))])
    with pytest.raises(CorpusNested, match="itself"):
        validate([corpus(one / "a")], reserved=[one])


def test_reserved_folders_are_not_entered(root: Path):
    make(root, "a.md", "home/vault/secret.md")
    found = corpora.walk(corpus(root), known=0, file_limit=LIMIT, reserved=[root / "home"])
    assert paths(found) == ["a.md"]


def test_case_19_content_decides_not_size_or_time(root: Path):
    """A file edited without changing size and time has another inode time; where not even that, its bytes tell."""
    make(root, "a.md", text="first")
    before, address = walk(root).files, address_of(read_file(corpus(root), b"a.md"))
    seen = (root / "a.md").stat()
    (root / "a.md").write_text("other")
    os.utime(root / "a.md", ns=(seen.st_atime_ns, seen.st_mtime_ns))
    (now,) = walk(root).files
    assert now.looks != before[0].looks
    assert replace(now, looks=before[0].looks) == before[0], "size and time are as they were"
    assert address_of(read_file(corpus(root), b"a.md")) != address


def test_case_25_and_h19_a_root_that_is_gone_or_empty_removes_nothing(root: Path):
    make(root, "a.md")
    (root / "a.md").unlink()
    empty = walk(root, known=7)
    assert codes(empty) == {"docs/": "corpus-empty"}
    assert "7" in empty.problems[0].message
    root.rmdir()
    gone = walk(root, known=7)
    assert codes(gone) == {"docs/": "corpus-unreadable"}
    for found in (empty, gone):
        assert not found.complete
        assert found.hides(b"a.md") and found.hides(b"deep/b.md")
    with pytest.raises(CorpusUnreadable):
        check_root(corpus(root))


def test_h19_unreadable_root_folder_and_file(root: Path):
    """H19: what cannot be read is named, and nothing below it counts as removed; the rest is found."""
    make(root, *(f"{number}.md" for number in range(5)), "sub/a.md", "sub/b.md", "other/c.md")
    (root / "3.md").chmod(0)
    (root / "sub").chmod(0)
    found = as_ordinary_user(lambda: walk(root, known=8))
    assert paths(found) == ["0.md", "1.md", "2.md", "4.md", "other/c.md"]
    assert codes(found) == {"docs/3.md": "corpus-unreadable", "docs/sub/": "corpus-unreadable"}
    assert found.complete
    assert [found.hides(path) for path in (b"3.md", b"sub/a.md", b"sub", b"other/c.md", b"33.md")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    with pytest.raises(PermissionError):
        as_ordinary_user_raising(lambda: read_file(corpus(root), b"3.md"))
    root.chmod(0)
    hidden = as_ordinary_user(lambda: walk(root, known=8))
    assert codes(hidden) == {"docs/": "corpus-unreadable"}
    assert hidden.hides(b"0.md")
    root.chmod(0o755)
    (root / "sub").chmod(0o755)


def as_ordinary_user_raising(action: Callable[[], object]) -> None:
    def caught() -> OSError | None:
        try:
            action()
        except OSError as error:
            return error
        return None

    error = as_ordinary_user(caught)
    if error:
        raise error


def test_h19_an_unreadable_ignore_file_hides_its_folder(root: Path):
    """Without the rules nobody knows what was meant to stay out, so the folder is left as it was."""
    make(root, "a.md", "sub/b.md", "sub/.gitignore")
    (root / "sub" / ".gitignore").chmod(0)
    found = as_ordinary_user(lambda: walk(root))
    assert paths(found) == ["a.md"]
    assert found.hides(b"sub/b.md")


def test_h31_links_loops_and_awkward_names(root: Path):
    """H31: the walk ends, each real file comes once, nothing outside is read, and links are listed."""
    outside = make(root.parent / "outside", "secret.md", "folder/more.md")
    make(root, "real.md", "one/a.md", "two/b.md", "with space.md", "new\nline.md")
    odd = os.fsencode(root) + b"/\xff\xfe.md"
    Path(os.fsdecode(odd)).write_text("odd")
    for link, target in {
        "self": ".",
        "up": "..",
        "one/to-two": "../two",
        "two/to-one": "../one",
        "dangling.md": "nowhere.md",
        "loop.md": "loop.md",
        "again.md": "real.md",
        "secret.md": str(outside / "secret.md"),
        "folder": str(outside / "folder"),
        "plain.txt": "real.md",
    }.items():
        (root / link).symlink_to(target)
    found = walk(root)
    assert [file.path for file in found.files] == sorted(
        [b"real.md", b"one/a.md", b"two/b.md", b"with space.md", b"new\nline.md", b"\xff\xfe.md"]
    )
    links = [where.removeprefix("docs/") for where, code in codes(found).items() if code == "corpus-link"]
    expected = ["again.md", "dangling.md", "folder", "loop.md", "one/to-two", "secret.md", "self", "two/to-one", "up"]
    assert sorted(links) == expected
    assert found.complete
    assert read_file(corpus(root), b"\xff\xfe.md") == b"odd"
    for path, number in (
        (b"secret.md", errno.ELOOP),
        (b"folder/more.md", errno.ENOTDIR),
        (b"one/to-two/b.md", errno.ENOTDIR),
    ):
        with pytest.raises(OSError) as caught:
            read_file(corpus(root), path)
        assert caught.value.errno == number


def test_h31_a_root_that_is_a_link_is_walked_at_its_real_place(root: Path):
    make(root, "a.md")
    link = root.parent / "link"
    link.symlink_to(root)
    assert paths(walk(link)) == ["a.md"]
    assert read_file(corpus(link), b"a.md") == b"words"


def test_h30_pipes_sockets_and_devices_are_never_opened(root: Path):
    """H30: a FIFO named `.md` neither hangs the walk nor the reader."""
    make(root, *(f"good{number}.md" for number in range(20)))
    os.mkfifo(root / "pipe.md")
    listener = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(root)
    try:
        listener.bind("sock.md")
    finally:
        os.chdir(here)
    found = walk(root)
    assert len(found.files) == 20
    assert codes(found) == {"docs/pipe.md": "corpus-special", "docs/sock.md": "corpus-special"}
    for name in (b"pipe.md", b"sock.md"):
        with pytest.raises(OSError) as caught:
            read_file(corpus(root), name)
        assert caught.value.errno == errno.ENXIO
    listener.close()


def test_h30_a_pipe_as_ignore_file_holds_no_rules(root: Path):
    make(root, "a.md")
    os.mkfifo(root / ".gitignore")
    assert paths(walk(root)) == ["a.md"]


def test_h30_a_file_that_vanishes_between_listing_and_reading_is_told(root: Path):
    make(root, "a.md", "sub/b.md")
    listed = walk(root).files
    (root / "a.md").unlink()
    (root / "sub" / "b.md").unlink()
    (root / "sub").rmdir()
    for file in listed:
        with pytest.raises(FileNotFoundError):
            read_file(corpus(root), file.path)


def test_a_path_cannot_lead_out_of_the_root(root: Path):
    make(root.parent, "secret.md")
    for path in (b"../secret.md", b"", b"/etc/passwd", b"a//b", b"."):
        with pytest.raises(OSError, match="not a path"):
            read_file(corpus(root), path)


def test_case_32_a_huge_file_is_reported_and_not_read(root: Path):
    make(root, "a.md")
    with (root / "huge.md").open("wb") as file:
        file.truncate(200 << 20)
    found = walk(root, known=2)
    assert paths(found) == ["a.md"]
    assert codes(found) == {"docs/huge.md": "corpus-too-large"}
    assert found.hides(b"huge.md")
    with pytest.raises(OSError) as caught:
        read_file(corpus(root), b"huge.md", file_limit=LIMIT)
    assert caught.value.errno == errno.EFBIG


def test_reading_gives_all_bytes(root: Path):
    for size in (0, 1, 4096, 4097, 5_000_000):
        (root / "a.md").write_bytes(bytes(range(251)) * (size // 251) + b"x" * (size % 251))
        assert read_file(corpus(root), b"a.md") == (root / "a.md").read_bytes()


def test_no_descriptor_stays_open(root: Path):
    make(root, "a/b/c.md", "d.md")
    (root / "bad.md").symlink_to("a")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        walk(root)
        for path in (b"a/b/c.md", b"a/none/c.md", b"bad.md"):
            try:
                read_file(corpus(root), path)
            except OSError:
                pass
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_deep_tree_ends(root: Path):
    """Folders deeper than a path may be long are named as unread; the rest is found."""
    make(root, "a.md")
    here = os.open(root, os.O_RDONLY)
    for _ in range(40):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    found = walk(root)
    assert paths(found) == ["a.md"]
    assert list(codes(found).values()) == ["corpus-unreadable"]
