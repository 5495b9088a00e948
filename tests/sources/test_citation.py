"""Is a citation read as it was meant, refused where it leads out, and its file reached without a link?"""

from __future__ import annotations

import os

import pytest

from memoryd.errors import BadCitation, OutsideProject
from memoryd.records import MemoryFields
from memoryd.sources import entry
from memoryd.sources.citation import Citation, fault_in, faulty, is_elsewhere, parse, read, state_of

ADDRESS = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("src/a.py", Citation("src/a.py")),
        ("src/a.py#L10", Citation("src/a.py", 10, 10)),
        ("src/a.py#L10-L20", Citation("src/a.py", 10, 20)),
        ("src/a.py#L10-20", Citation("src/a.py", 10, 20)),
        (f"src/a.py#L10-L20 {ADDRESS}", Citation("src/a.py", 10, 20, ADDRESS)),
        (f"src/a.py {ADDRESS}", Citation("src/a.py", 0, 0, ADDRESS)),
        ("./src//a.py#L7-L7", Citation("src/a.py", 7, 7)),
        ("my notes/a #1.md#L2", Citation("my notes/a #1.md", 2, 2)),
        ("a.py#Lx", Citation("a.py#Lx")),
    ],
)
def test_every_form_is_read_and_written_so_that_it_reads_the_same(text, meant):
    assert parse(text) == meant
    assert parse(meant.written) == meant


def test_a_place_is_written_shortly():
    assert parse("a.py#L3-L3").at == "a.py#L3"
    assert parse("a.py#L3-5").written == "a.py#L3-L5"
    assert parse("a.py#L3-5").moved(13, 15).at == "a.py#L13-L15"


@pytest.mark.parametrize(
    "text", ["../b/secret", "/etc/passwd", "src/../../b", "//etc/passwd", ".git/config", "sub/.git/HEAD#L1"]
)
def test_what_leads_out_of_the_project_is_refused(text):
    with pytest.raises(OutsideProject) as error:
        parse(text)
    assert error.value.details["parameter"] == "citations"


@pytest.mark.parametrize(
    "text",
    ["", "a.py#L0", "a.py#L9-L3", "a\nb.py", "a\x00.py", "src/", ".", "a\ud800.py", "x" * 1200, "a.py#L0-L2"],
)
def test_what_is_no_citation_is_refused(text):
    with pytest.raises(BadCitation):
        parse(text)


def memory(*citations: str) -> bytes:
    ids = "0" * 64
    return entry.render(
        MemoryFields(
            *(ids, ids, 1, "fact", "t", "global", "in_force", "2026-01-01", "2026-01-01"), citations=citations, body="b"
        )
    )


def test_the_first_citation_that_does_not_read_is_named_by_line():
    block = b'citations:\n  - "a.py#L1"\n  - "../x"\n  - "a.py#L0"\n---\n'
    data = memory("a.py#L1").replace(b'citations: ["a.py#L1"]\n---\n', block)
    line = data.split(b"\n").index(b'  - "../x"') + 1
    found = fault_in(data)
    assert found is not None
    assert found.startswith(f"Line {line}, key `citations`: The citation '../x' leads out of the project")
    assert faulty(entry.parse(data).fields.citations, data) == found


@pytest.mark.parametrize("citations", [(), ("a.py",), (f"a.py#L1 {ADDRESS}",), ("https://example.org/x",)])
def test_good_citations_and_web_addresses_are_no_fault(citations):
    assert faulty(citations, memory(*citations)) is None
    assert fault_in(memory(*citations)) is None


def test_web_addresses_are_told_from_paths():
    assert is_elsewhere("https://example.org/a.py#L1")
    assert not is_elsewhere("a:b.py")


@pytest.fixture
def opened(tmp_path):
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_bytes(b"one\ntwo\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.py").write_bytes(b"secret\n")
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    yield root, fd
    os.close(fd)


def refused(fd, path: bytes) -> str:
    with pytest.raises(OSError) as error:
        read(fd, path, 100)
    return os.strerror(error.value.errno or 0)


def test_a_file_is_read_with_how_it_looked(opened):
    root, fd = opened
    assert read(fd, b"src/a.py", 100) == (b"one\ntwo\n", state_of((root / "src" / "a.py").lstat()))


def test_links_pipes_folders_and_large_files_are_not_read(opened):
    root, fd = opened
    before = len(os.listdir("/proc/self/fd"))
    (root / "link.py").symlink_to(root / "src" / "a.py")
    (root / "out").symlink_to(root.parent / "elsewhere")
    os.mkfifo(root / "pipe")
    (root / "large").write_bytes(b"x" * 101)
    loop = "Too many levels of symbolic links"
    assert refused(fd, b"link.py") == loop
    assert refused(fd, b"out/a.py") == loop
    assert refused(fd, b"out/not-there.py") == loop, "nothing is said about what lies behind a link"
    assert refused(fd, b"pipe") == refused(fd, b"src") == "No such device or address"
    assert refused(fd, b"large") == "File too large"
    assert refused(fd, b"src/b.py") == refused(fd, b"src/a.py/b") == refused(fd, b"x/y") == "No such file or directory"
    assert len(os.listdir("/proc/self/fd")) == before
