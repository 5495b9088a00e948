"""Are the lines of a file the bytes that other tools count and cut?"""

from __future__ import annotations

import subprocess

import pytest

from memoryd.extract.lines import lines_of


@pytest.mark.parametrize(
    "data", [b"", b"a", b"a\n", b"a\nb", b"\n\nx\n", b"\xef\xbb\xbfa\nb\n", b"caf\xe9\nx\n", "é\nß".encode()]
)
def test_pieces_are_what_sed_prints(data, tmp_path):
    file = tmp_path / "f"
    file.write_bytes(data)
    lines = lines_of(data)
    assert lines is not None
    assert b"".join(lines.piece(n, n) for n in range(1, lines.count + 1)) == data
    for first in range(1, lines.count + 1):
        for last in range(first, lines.count + 1):
            printed = subprocess.run(["sed", "-n", f"{first},{last}p", file], capture_output=True, check=True).stdout
            assert lines.piece(first, last) == printed


def test_crlf_and_cr_end_a_line_too():
    lines = lines_of(b"a\r\nb\rc\n\nd")
    assert lines is not None
    assert lines.count == 5
    assert (lines.piece(1, 1), lines.piece(2, 3), lines.words()) == (b"a\r\n", b"b\rc\n", [b"a", b"b", b"c", b"", b"d"])


def test_utf_16_is_cut_at_its_own_lines_and_what_is_no_text_not_at_all():
    data = "ab\nĊc\n".encode("utf-16")
    lines = lines_of(data)
    assert lines is not None
    assert lines.count == 2
    assert lines.piece(1, 1) + lines.piece(2, 2) == data
    assert lines_of(b"\x00\x01") is None
