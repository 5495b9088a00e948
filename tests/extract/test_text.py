"""Is what is text read as text, whatever its encoding, and do byte offsets lead back to it exactly?"""

from __future__ import annotations

import codecs
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memoryd.extract.text import byte_offsets, char_position, decode, line_starts, slice_text

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\r\t"), max_size=60)


@pytest.mark.parametrize(
    ("data", "text", "encoding"),
    [
        (b"", "", "utf-8"),
        (b"plain", "plain", "utf-8"),
        ("ünï 😀".encode(), "ünï 😀", "utf-8"),
        (codecs.BOM_UTF8 + "é".encode(), "é", "utf-8"),
        (codecs.BOM_UTF8, "", "utf-8"),
        (codecs.BOM_UTF16_LE + "é😀".encode("utf-16-le"), "é😀", "utf-16-le"),
        (codecs.BOM_UTF16_BE + "é😀".encode("utf-16-be"), "é😀", "utf-16-be"),
    ],
)
def test_sound_text_has_no_problem(data: bytes, text: str, encoding: str):
    found = decode(data)
    assert found is not None
    assert (found.text, found.encoding, found.problem) == (text, encoding, None)


@pytest.mark.parametrize(
    ("data", "text", "encoding"),
    [
        ("Grüße aus Köln".encode("latin-1"), "Grüße aus Köln", "cp1252"),
        ("“quoted” – 5 €".encode("cp1252"), "“quoted” – 5 €", "cp1252"),
        (b"caf\xe9 \x81", "café \x81", "latin-1"),
        ("né 😀 œuvre ".encode() + b"\xff end", "né 😀 œuvre \ufffd end", "utf-8"),
        ("é😀".encode() + b"\xed\xa0\x80", "é😀" + "\ufffd" * 3, "utf-8"),
        (b"plain \xed\xa0\x80 words", "plain \ufffd\ufffd\ufffd words", "utf-8"),
        (codecs.BOM_UTF8 + b"a\xffb", "a\ufffdb", "utf-8"),
        ("😀é".encode() + "😀".encode()[:2], "😀é\ufffd\ufffd", "utf-8"),
        (codecs.BOM_UTF16_LE + b"\x00\xd8a\x00", "\ufffda", "utf-16-le"),
        (codecs.BOM_UTF16_LE + b"a\x00b", "a", "utf-16-le"),
    ],
)
def test_case_30_other_bytes_are_read_and_the_problem_is_told(data: bytes, text: str, encoding: str):
    found = decode(data)
    assert found is not None
    assert (found.text, found.encoding) == (text, encoding)
    assert found.problem
    assert json.loads(json.dumps(found.text).encode("ascii")) == text
    found.text.encode("utf-8")


@pytest.mark.parametrize(
    "data",
    [
        b"text with \0 inside",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"\x1f\x8b\x08\x08abcdefgh",
        b"%PDF-1.7 no nul here",
        bytes(range(1, 32)) * 4,
        bytes(byte for byte in range(1, 256)) * 8,
        codecs.BOM_UTF16_LE + b"a\x00\x00\x00",
        "no mark".encode("utf-16-le"),
        codecs.BOM_UTF32_LE + "ab".encode("utf-32-le"),
    ],
)
def test_h12_and_h30_what_is_not_text_is_none(data: bytes):
    """H12: a NUL stops this file only. H30: a PNG named `.md` is no text."""
    assert decode(data) is None


@given(
    st.binary(max_size=200)
    | st.lists(st.sampled_from([b"\xe2\x82\xac", b"\xff", b"\xed\xa0\x80", b"a", b"\xf0\x9f", b"\n"]), max_size=30).map(
        b"".join
    )
)
def test_h12_no_bytes_raise_or_give_lone_surrogates(data: bytes):
    found = decode(data)
    if found is not None:
        found.text.encode("utf-8")
        assert len(found.raw) == len(found.text)


def encoded(text: str, encoding: str) -> bytes:
    marks = {"utf-8-sig": codecs.BOM_UTF8, "utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
    return marks.get(encoding, b"") + text.encode(encoding.removesuffix("-sig"), "replace")


@given(
    text=ANY_TEXT,
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "cp1252", "latin-1"]),
    cuts=st.lists(st.integers(0, 60), max_size=4),
    damage=st.lists(st.tuples(st.integers(0, 100), st.integers(128, 255)), max_size=2),
)
@example(text="a😀b", encoding="utf-16-le", cuts=[1, 2], damage=[])
def test_offsets_lead_back_to_the_text(text: str, encoding: str, cuts: list[int], damage: list[tuple[int, int]]):
    """Decoding a byte range between two offsets gives exactly the characters between the two positions."""
    data = bytearray(encoded(text, encoding))
    for at, byte in damage:
        data.insert(min(at, len(data)), byte)
    found = decode(bytes(data))
    if found is None:
        return
    positions = sorted({min(cut, len(found.text)) for cut in cuts} | {0, len(found.text)})
    offsets = byte_offsets(found, positions)
    assert offsets == sorted(offsets) and offsets[-1] <= len(data)
    for first, last, start, end in zip(positions, positions[1:], offsets, offsets[1:]):
        assert slice_text(bytes(data), start, end, found.encoding) == found.text[first:last]
    for position, offset in zip(positions, offsets):
        assert char_position(found, bytes(data), offset) == position


def test_a_position_inside_the_mark_is_the_start():
    data = codecs.BOM_UTF8 + b"abc"
    found = decode(data)
    assert found is not None
    assert char_position(found, data, 0) == 0
    assert byte_offsets(found, [0, 3]) == [3, 6]


@given(st.text(alphabet="ab\n\r\x0b\x0c\x1c\u2028\x85", max_size=30))
def test_lines_end_as_editors_count_them(text: str):
    starts = list(line_starts(text))
    expected = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    lines = [text[start:end].rstrip("\r\n") for start, end in zip(starts, starts[1:])]
    assert lines == expected
