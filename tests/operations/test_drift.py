"""Is what became of cited lines told rightly, shortly, and without secrets?"""

from __future__ import annotations

import time

import pytest

from memoryd.digest import address_of
from memoryd.extract.lines import lines_of
from memoryd.operations.drift import SHOWN, WIDTH, drifted
from memoryd.operations.lookout import Standing
from memoryd.sources.citation import Citation

FILE = b"".join(b"line number %d says something\n" % n for n in range(1, 31))


def cite(first: int, last: int, data: bytes = FILE) -> tuple[Citation, bytes]:
    lines = lines_of(data)
    assert lines is not None
    piece = lines.piece(first, last)
    return Citation("f.py", first, last, address_of(piece)), piece


def judged(first: int, last: int, now: bytes, *, kept: bool = True, data: bytes = FILE) -> Standing:
    citation, piece = cite(first, last, data)
    return drifted(citation, now, lambda: piece if kept else None)


@pytest.mark.parametrize("kept", [True, False])
def test_the_same_lines_at_the_same_place_are_fresh_whatever_else_changed(kept):
    assert judged(10, 20, FILE, kept=kept) == Standing("fresh")
    assert (
        judged(10, 20, FILE.replace(b"number 5 ", b"no. 5 ").replace(b"number 30 ", b"x"), kept=kept).state == "fresh"
    )


@pytest.mark.parametrize("now", [FILE.replace(b"\n", b"\r\n"), FILE.replace(b"\n", b"\r")])
def test_other_line_ends_are_no_other_words(now):
    assert judged(10, 20, now, kept=False) == Standing("fresh", "only the line ends differ")
    assert drifted(Citation("f.py", 0, 0, address_of(FILE)), now, lambda: None).state == "fresh"


def test_a_last_line_that_gets_its_line_end_is_fresh():
    data = FILE.rstrip(b"\n")
    assert judged(29, 30, FILE, data=data, kept=False) == Standing("fresh", "only the line ends differ")
    assert judged(29, 30, FILE + b"more\n", data=data, kept=False).state == "fresh"
    assert judged(29, 30, data, kept=False) == Standing("fresh", "only the line ends differ")


@pytest.mark.parametrize("kept", [True, False])
def test_lines_that_stand_elsewhere_are_named(kept):
    now = b"a\nb\nc\nd\n" + FILE
    assert judged(10, 20, now, kept=kept) == Standing("changed", "the lines moved to L14-L24", now="f.py#L14-L24")
    assert judged(3, 3, now, kept=kept).now == "f.py#L7"


def test_lines_that_stand_at_several_places_are_said_to_do_so():
    found = judged(10, 12, b"x\n" + FILE + FILE)
    assert found == Standing("changed", "the lines stand at 2 places now, the nearest is L11-L13", now="f.py#L11-L13")


def test_other_lines_are_counted_and_shown():
    now = FILE.replace(b"number 12 says", b"number 12 means").replace(b"number 15 says", b"number 15 means")
    assert judged(10, 20, now) == Standing(
        "changed",
        "2 of 11 lines differ",
        (
            *("- line number 12 says something", "- line number 15 says something"),
            *("+ line number 12 means something", "+ line number 15 means something"),
        ),
    )


def test_lines_that_moved_and_changed_are_found_by_those_that_stayed():
    now = b"a\nb\nc\n" + FILE.replace(b"number 12 says", b"number 12 means")
    found = judged(10, 20, now)
    assert found.hint == "1 of 11 lines differ; they begin at L13 now"
    assert found.diff == ("- line number 12 says something", "+ line number 12 means something")


def test_lines_added_or_taken_away_among_them():
    added = judged(10, 20, FILE.replace(b"line number 12", b"new one\nline number 12"))
    assert (added.hint, added.diff) == ("1 line added among 11 lines", ("+ new one",))
    gone = judged(10, 20, FILE.replace(b"line number 12 says something\n", b""))
    assert (gone.hint, gone.diff) == ("1 of 11 lines differ", ("- line number 12 says something",))
    last = judged(10, 20, FILE.replace(b"number 20 says", b"number 20 means"))
    assert (last.hint, len(last.diff)) == ("1 of 11 lines differ", 2), "what follows does not count"


def test_nothing_left_of_them():
    assert (
        judged(10, 12, b"quite\nanother\nfile\n").hint == "none of 3 lines stands there any more; the file ends at L3"
    )
    assert judged(2, 2, b"quite\nanother\n").hint == "the line is another one now"
    assert judged(10, 12, b"").hint == "none of 3 lines stands there any more; the file ends at L0"
    assert judged(10, 12, b"\0\1").hint == "the file is no text any more"


def test_without_what_they_said_only_the_change_is_told():
    assert (
        judged(10, 20, FILE.replace(b"12", b"xx"), kept=False).hint
        == "it is another text now; the former one is not kept"
    )
    assert judged(10, 20, b"a\nb\n", kept=False).hint == "the file ends at L2"


def test_a_whole_file_is_compared_as_a_whole():
    citation = Citation("f.py", 0, 0, address_of(FILE))
    now = b"first\n" + FILE.replace(b"number 12 says", b"number 12 means")
    found = drifted(citation, now, lambda: FILE)
    assert (found.state, found.hint) == ("changed", "1 of 30 lines differ")
    assert found.diff == ("- line number 12 says something", "+ first", "+ line number 12 means something")
    assert drifted(Citation("f.bin", 0, 0, address_of(b"\0\1")), b"\0\1", lambda: None).state == "fresh"
    assert drifted(Citation("f.bin", 0, 0, address_of(b"\0\1")), b"\0\2", lambda: None).state == "changed"


def test_a_hint_is_short_whatever_changed():
    long = b"".join(b"%d %s\n" % (n, b"y" * 5000) for n in range(300))
    found = judged(1, 300, long.replace(b"y", b"z")[:300_000], data=long)
    assert found.diff == ()
    some = judged(1, 30, FILE.replace(b"says", b"s" * 500))
    assert len(some.diff) == 2 * SHOWN
    assert all(len(line) <= WIDTH + 2 for line in some.diff)


def test_a_secret_that_stands_there_now_is_not_shown():
    token = b"ghp_" + b"A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"[:36]
    now = FILE.replace(b"number 12 says something", b"token = '" + token + b"'")
    found = judged(10, 20, now)
    assert found.state == "changed"
    assert found.diff == ()
    assert found.hint.startswith("1 of 11 lines differ; they are not shown")
    key = b"-----BEGIN RSA PRIVATE KEY-----\n" + b"MIIEpAIBAAKCAQEA1234567890abcdefghijklmnopqrstuvwxyzABCD\n" * 6
    around = judged(10, 20, b"\n".join(FILE.split(b"\n")[:11]) + b"\n" + key)
    assert around.diff == (), "nor a piece of one that begins further up"


def test_large_files_cost_a_bounded_time():
    big = b"".join(b"%d lorem ipsum dolor sit amet consectetur\n" % n for n in range(110_000))
    assert len(big) > 4_900_000
    began = time.thread_time()
    judged(50_000, 50_390, big.replace(b"50100 lorem", b"50100 xxxxx"), data=big)
    judged(50_000, 50_390, b"a\n" + big, data=big, kept=False)
    judged(1, 400, b"\n".join(b"%d" % (n % 7) for n in range(100_000)), data=big)
    assert time.thread_time() - began < 6, "some tenths of a second on an idle machine"


def test_what_stands_before_does_not_count_either():
    first = judged(10, 20, FILE.replace(b"number 10 says", b"number 10 means"))
    assert (first.hint, len(first.diff)) == ("1 of 11 lines differ", 2)
    shorter = judged(10, 20, b"a\n" + FILE.replace(b"line number 20 says something\n", b""))
    assert shorter.hint == "1 of 11 lines differ; they begin at L11 now"
