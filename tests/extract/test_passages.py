"""Does a file become passages that are findable, citable and complete?"""

from __future__ import annotations

import codecs
import json
import textwrap
import tracemalloc
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.digest import sha256_hex
from memoryd.extract.blocks import MAX_CHARS, MAX_WORDS
from memoryd.extract.passages import Extracted, embed_text, embedded_again, extract, identify, readable_name
from memoryd.extract.text import slice_text


def words(count: int, word: str = "word") -> str:
    return " ".join(f"{word}{number}" for number in range(count))


def check(data: bytes, found: Extracted, *, body_start: int = 0) -> None:
    """What holds for every file: order, limits, exact bytes, right lines, valid text."""
    at = body_start
    for passage in found.passages:
        assert at <= passage.start < passage.end <= len(data)
        assert slice_text(data, passage.start, passage.end, found.encoding) == passage.text
        assert len(passage.text) <= MAX_CHARS and len(passage.text.split()) <= MAX_WORDS
        json.dumps([passage.text, *passage.heading]).encode("ascii")
        passage.text.encode("utf-8")
        assert 1 <= passage.line_start <= passage.line_end
        at = passage.end


def lost(data: bytes, found: Extracted, *, body_start: int = 0) -> str:
    """Non-blank text of the body that is in no passage."""
    at, left = body_start, ""
    for passage in found.passages:
        left += slice_text(data, at, passage.start, found.encoding)
        at = passage.end
    return (left + slice_text(data, at, len(data), found.encoding)).replace("\ufeff", "").strip()


def test_markdown_passages_carry_their_place():
    text = f"---\ntitle: From front\n---\n# Top\n\n{words(80)}\n\n## Größe\n\n{words(150, 'ü')}\n"
    data = text.encode()
    found = extract("a/b.md", data)
    check(data, found)
    assert (found.title, found.extractor, found.encoding, found.problem) == ("From front", "markdown@1", "utf-8", None)
    first, second = found.passages
    assert (first.heading, first.line_start, first.line_end) == (("Top",), 4, 6)
    assert (second.heading, second.line_start, second.line_end) == (("Top", "Größe"), 8, 10)
    assert "title:" not in first.text
    assert data[second.start : second.end].decode().startswith("## Größe")
    assert lost(data, found, body_start=text.index("# Top")) == ""


@pytest.mark.parametrize(
    ("path", "text", "given", "title"),
    [
        ("a.md", "---\ntitle: T\n---\n# H", "", "T"),
        ("a.md", "---\ntitle: T\n---\n# H", "Given", "Given"),
        ("a.md", "## Sub\n\n# H", "", "H"),
        ("docs/getting_started-now.md", "text", "", "Getting started now"),
        ("pkg/README.md", "text", "", "Pkg README"),
        ("pkg/__init__.py", "x = 1", "", "Pkg init"),
        ("README", "text", "", "README"),
        ("archive.tar.gz", "text", "", "Archive.tar"),
        ("---.md", "text", "", "Untitled"),
        ("a.md", '---\ntitle: "x\\ud800\\u0000y"\n---\n', "", "x y"),
        ("\udcff.md", "text", "", "Untitled"),
    ],
)
def test_titles(path: str, text: str, given: str, title: str):
    assert extract(path, text.encode(), title=given).title == title
    assert readable_name("") == "Untitled"


def test_front_matter_that_the_caller_knows_is_skipped():
    text = "---\nid: x\n---\n---\nkept: yes\n---\nwords ü\n"
    start = text.index("---\nkept")
    data = text.encode()
    found = extract("m.md", data, body_start=start, title="M")
    check(data, found, body_start=start)
    assert [passage.text for passage in found.passages] == ["---\nkept: yes\n---\nwords ü"]
    assert (found.passages[0].line_start, found.passages[0].line_end) == (4, 7)
    marked = codecs.BOM_UTF8 + data
    again = extract("m.md", marked, body_start=start + 3, title="M")
    check(marked, again, body_start=start + 3)
    assert again.passages[0].text == found.passages[0].text
    assert extract("m.md", data, body_start=len(data)).passages == ()


def test_python_is_cut_on_definitions():
    text = (
        textwrap.dedent(
            '''
        """Module words that say what it is for."""

        import os

        # about plain
        @decorate
        def plain():
            return 1

        class Big(Base):
            """Class words that say something."""

            field = 1
        '''
        ).lstrip()
        + "".join(f"\n    def method{n}(self):\n        return '{words(60)}'\n" for n in range(4))
        + "\n    tail = 2\n\nif __name__ == '__main__':\n    plain()\n"
    )
    data = text.encode()
    found = extract("mod.py", data)
    check(data, found)
    assert lost(data, found) == ""
    assert found.extractor == "python@1"
    assert [(one.symbol, one.heading) for one in found.passages] == [
        ("", ()),
        ("plain", ()),
        ("Big", ()),
        *((f"Big.method{n}", ("Big",)) for n in range(4)),
    ]
    assert found.passages[-1].text.endswith("tail = 2\n\nif __name__ == '__main__':\n    plain()"), (
        "a few words go along"
    )
    assert found.passages[1].text.startswith("# about plain\n@decorate")
    assert found.passages[3].text.startswith("    def method0")


def test_a_small_class_is_one_passage_and_a_large_function_is_cut_on_statements():
    small = "class A:\n    def b(self):\n        pass\n\n    def c(self):\n        pass\n"
    assert [one.symbol for one in extract("a.py", small.encode()).passages] == ["A"]
    large = "def f():\n" + "".join(f"    call(\n        '{words(18)}',\n    )\n" for _ in range(40))
    found = extract("a.py", large.encode())
    assert {one.symbol for one in found.passages} == {"f"}
    assert all(one.text.startswith("    call(") for one in found.passages[1:])


def test_the_bare_first_line_of_a_class_goes_with_what_follows():
    methods = "".join(f"    def m{n}(self):\n        '{words(90)}'\n\n" for n in range(3))
    found = extract("a.py", f"import os\n\n\nclass Bare(Base):\n{methods}".encode()).passages
    assert [one.symbol for one in found] == ["Bare", "Bare.m1", "Bare.m2"]
    assert found[0].text.startswith("import os\n\n\nclass Bare(Base):\n    def m0(self):")


def test_python_that_does_not_parse_is_cut_as_text():
    text = "def broken(:\n" + "\n".join(words(20, f"l{n}x") + "\n" for n in range(30))
    found = extract("a.py", text.encode())
    check(text.encode(), found)
    assert lost(text.encode(), found) == ""
    assert found.extractor == "python@1"
    assert {one.symbol for one in found.passages} == {""}


@pytest.mark.parametrize(
    "path", ["conf.toml", "src/a.ts", "Token.sol", "NOTES", "Makefile", "a.rst", ".hidden", "x.unknown"]
)
def test_case_31_text_by_content_not_by_suffix(path: str):
    data = f"# {words(10)}\n\n{words(20)}\n".encode()
    found = extract(path, data)
    assert (found.extractor, len(found.passages), found.problem) == ("text@1", 1, None)
    assert extract(path, b"\x89PNG\r\n\x1a\n\0").passages == ()


def test_case_30_and_h30_one_file_that_is_not_text():
    """Case 30, H30: Latin-1, UTF-16, BOM and bad bytes are searchable text; a PNG and an empty file are no error."""
    text = "# Grüße\n\nDie Brücke über den Fluß.\n"
    for data, encoding in (
        (text.encode("latin-1"), "cp1252"),
        (codecs.BOM_UTF8 + text.encode(), "utf-8"),
        (codecs.BOM_UTF16_LE + text.encode("utf-16-le"), "utf-16-le"),
        (codecs.BOM_UTF16_BE + text.encode("utf-16-be"), "utf-16-be"),
    ):
        found = extract("a.md", data)
        check(data, found)
        assert (found.title, found.encoding, found.passages[0].text) == ("Grüße", encoding, text.rstrip())
    damaged = text.encode() + b"\xff\n"
    assert "\ufffd" in extract("a.md", damaged).passages[0].text
    assert extract("a.md", damaged).problem
    empty = extract("empty-file.md", b"")
    assert (empty.title, empty.passages, empty.problem) == ("Empty file", (), None)
    image = extract("image.md", b"\x89PNG\r\n\x1a\n\0\0")
    assert image.passages == () and image.problem and image.title == "Image"


def test_case_30_an_emoji_at_every_edge_stays_whole():
    text = ("😀" * (MAX_CHARS + 7)) + "\n\n" + ("é" * (MAX_CHARS * 2))
    found = extract("a.txt", text.encode())
    check(text.encode(), found)
    assert "".join(passage.text for passage in found.passages) == text.replace("\n", "")


def test_h12_a_file_with_nul_or_surrogates_is_told_apart():
    """H12: NUL makes a file binary, encoded surrogates are replaced; neither raises."""
    assert extract("a.md", b"one \0 two").passages == ()
    found = extract("a.md", b"one \xed\xa0\x80 two")
    check(b"one \xed\xa0\x80 two", found)
    assert found.passages[0].text == "one \ufffd\ufffd\ufffd two"


def test_case_33_a_fact_far_inside_has_its_own_passage():
    text = "# Note\n\n" + words(6000, "filler") + ". The harbour pilot is called Amaru. " + words(3000, "more")
    assert text.index("Amaru") > 30_000
    found = extract("a.md", text.encode())
    check(text.encode(), found)
    assert sum("Amaru" in passage.text for passage in found.passages) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.md", "x" * 2_000_000 + " end-word"),
        ("a.md", "#" * 1_000_000),
        ("a.md", "# " * 500_000),
        ("a.md", "#\n" * 60_000),
        ("a.md", "# H\n" * 40_000),
        ("a.md", "".join("  " * depth + "- item\n" for depth in range(400))),
        ("a.md", ">" * 400 + " deep\n" + "[" * 100_000),
        ("a.md", "```\n" * 50_001),
        ("a.md", "\n" * 300_000 + "end"),
        ("a.md", " " * 1_000_000 + "end"),
        ("a.md", "a\n" * 100_000),
        ("a.md", "---\n" + "key: value\n" * 100_000),
        ("a.md", "<!--" * 100_000),
        ("a.md", "." * 1_000_000),
        ("a.py", "\n".join("    " * depth + f"def f{depth}():" for depth in range(90)) + "\n" + "    " * 90 + "pass\n"),
        ("a.py", "def f(): pass\n" * 5_000),
        ("a.py", "x = [" + "1, " * 50_000 + "]"),
        ("a.txt", "word " * 200_000),
    ],
    ids=range(18),
)
def test_h22_long_and_deep_files_end_and_lose_nothing(path: str, text: str):
    """H22: whatever the shape, each passage is within the cap and the words near the end are there."""
    data = text.encode()
    found = extract(path, data)
    check(data, found)
    assert sum(len("".join(passage.text.split())) for passage in found.passages) == len("".join(text.split()))


def test_h22_and_case_32_memory_is_bounded_by_the_file():
    """H22, case 32: peak memory stays within 16 times the file, and is not held afterwards."""
    data = b"".join(f"## Section {number}\n\n{words(30)}\n\n".encode() for number in range(3_000))
    tracemalloc.start()
    try:
        count = len(extract("a.md", data).passages)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count > 500
    assert peak < 16 * len(data)
    assert held < len(data)


MARKUP = st.lists(
    st.sampled_from(
        [
            "# Ä\n",
            "## B b\n",
            "\n",
            "\r\n",
            "\n\n",
            "- item\n",
            "```py\n",
            "wörd ",
            "😀",
            "x" * 900,
            "---\n",
            "title: x\n",
            "===\n",
            "def f():\n",
            "    pass\n",
            "class C:\n",
            '"""',
            "\t",
            "\x0c",
            words(120) + "\n",
        ]
    ),
    max_size=30,
).map("".join)


@given(MARKUP, st.sampled_from(["a.md", "a.py", "a.txt"]), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
def test_no_words_are_lost_whatever_the_file(text: str, path: str, encoding: str):
    data = text.encode(encoding)
    found = extract(path, data)
    check(data, found)
    missing = lost(data, found)
    assert not missing or (path == "a.md" and missing.startswith("---"))


@given(st.binary(max_size=300), st.sampled_from(["a.md", "a.py", "a"]), st.integers(0, 300))
def test_no_bytes_raise(data: bytes, path: str, body_start: int):
    found = extract(path, data, body_start=body_start)
    json.dumps([found.title, [passage.text for passage in found.passages]]).encode("utf-8")


def test_embedded_text_names_its_place_once_and_briefly():
    assert embed_text("Redis", ("Sets", "SADD"), "adds members") == "Redis > Sets > SADD\nadds members"
    assert embed_text("Redis", ("Redis", "Sets"), "## Sets\n\nadds") == "Redis\n## Sets\n\nadds"
    assert embed_text("", (), "alone") == "alone"
    assert embed_text("Set", (), "reset the set") == "Set\nreset the set"
    long = embed_text("t" * 300, tuple(f"heading {n} " * 9 for n in range(6)), "text")
    first = long.splitlines()[0]
    assert len(first) <= 200 and first.startswith("t" * 80) and "heading 5" in first


def test_ids_follow_text_and_occurrence():
    text = f"# T\n\n{words(150)}\n\n## A\n\n{words(150, 'same')}\n\n## A\n\n{words(150, 'same')}\n"
    found = extract("a.md", text.encode())
    named = identify("d" * 64, "T", found.passages)
    assert len({one.id for one in named}) == len(named) == 3
    assert named[1].text_sha256 == named[2].text_sha256 == sha256_hex(named[1].embed_text.encode())
    retitled = identify("d" * 64, "Another title", found.passages)
    assert [one.id for one in retitled] == [one.id for one in named], "ids are made of the text alone"
    assert retitled[1].text_sha256 != named[1].text_sha256
    assert all(str(uuid.UUID(one.id)) == one.id for one in named)
    edited = extract("a.md", text.replace("word0 ", "changed ").encode())
    again = identify("d" * 64, "T", edited.passages)
    assert [one.id for one in again[1:]] == [one.id for one in named[1:]], "an edit touches only what changed"
    assert again[0].id != named[0].id
    assert identify("e" * 64, "T", found.passages)[0].id != named[0].id


def test_golden_passage_ids_of_schema_one():
    """Ids lie in every index: a change here needs another PASSAGE_SCHEMA."""
    found = extract("docs/a.md", b"# Title\n\nOne paragraph.\n")
    (one,) = identify("0" * 64, found.said_title, found.passages)
    assert one.embed_text == "# Title\n\nOne paragraph."
    assert one.id == "0c088541-d4b3-819e-8180-30d5fb736619"


@pytest.mark.parametrize(
    ("path", "data"), [("a.txt", b"plain words"), ("x/readme.md", b"no heading here"), ("a.py", b"x = 1\n")]
)
def test_a_moved_file_embeds_nothing_again(path: str, data: bytes):
    first, moved = extract(path, data), extract(f"elsewhere/other-{path.replace('/', '-')}", data)
    assert first.title != moved.title
    assert first.said_title == moved.said_title == ""
    before, after = (identify(n * 64, found.said_title, found.passages) for n, found in (("a", first), ("b", moved)))
    assert [one.text_sha256 for one in before] == [one.text_sha256 for one in after]


def test_what_was_embedded_is_found_again_by_its_hash():
    for title, said in (("Release guide", "Release guide"), ("Setup", "")):
        text = embed_text(said, ("A",), "words")
        assert embedded_again(title, ("A",), "words", sha256_hex(text.encode())) == text
