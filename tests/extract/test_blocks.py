"""Does packing keep the limits, lose nothing and cut where a reader would?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memoryd.extract.blocks import MAX_CHARS, MAX_WORDS, block, pack, split
from memoryd.extract.markdown import outline
from memoryd.extract.text import line_starts


def packed(text: str) -> list[tuple[str, tuple[str, ...]]]:
    found = outline(text, line_starts(text), 0)
    return [(text[span.start : span.end], span.path) for span in pack(text, found.blocks, found.breaks)]


def words(count: int, word: str = "word") -> str:
    return " ".join(f"{word}{number}" for number in range(count))


def test_a_short_document_is_one_passage():
    text = f"# T\n\nintro\n\n## A\n\n{words(50)}\n\n## B\n\n{words(50)}\n"
    assert [path for _, path in packed(text)] == [("T",)]


def test_sections_that_are_large_enough_stand_alone():
    text = f"# T\n\n{words(60)}\n\n## A\n\n{words(80)}\n\n## B\n\n{words(90)}\n"
    assert [path for _, path in packed(text)] == [("T",), ("T", "A"), ("T", "B")]


def test_small_neighbours_of_one_section_are_merged_up_to_the_limit():
    text = "# T\n\n" + "\n\n".join(words(25, f"p{number}x") for number in range(20))
    sizes = [len(piece.split()) for piece, _ in packed(text)]
    assert sizes == [177, 200, 125]


def test_small_sections_are_no_confetti():
    text = "# T\n\n" + "".join(f"## S{number}\n\n{words(8)}\n\n" for number in range(60))
    found = packed(text)
    assert 5 <= len(found) <= 7
    assert all(len(piece.split()) >= 80 for piece, _ in found[:-1])
    assert all(path[0] == "T" for _, path in found)


def test_a_heading_stays_with_its_text():
    text = f"# T\n\n{words(150)}\n\n## Long\n\n{words(199)}\n\n## Next\n\n{words(90)}\n"
    found = packed(text)
    assert not any(len(piece.split()) < 20 for piece, _ in found)
    assert found[1][0].startswith("## Long\n\nword0")
    assert found[1][1] == ("T", "Long")


def test_fenced_code_is_not_cut_where_it_fits():
    fence = "```\n" + "\n\n".join(words(30, f"l{number}x") for number in range(5)) + "\n```"
    text = f"# T\n\n{words(120)}\n\n{fence}\n\n{words(120)}\n"
    assert any(fence in piece for piece, _ in packed(text))


def test_a_long_list_is_cut_between_items():
    text = "\n".join(f"- {words(30, f'i{number}x')}\n  and {words(4)}" for number in range(20))
    assert all(piece.startswith("- i") for piece, _ in packed(text))


def test_long_prose_is_cut_after_sentences_in_equal_shares():
    text = " ".join(f"{words(11, f's{number}x')}." for number in range(22))
    pieces = [text[start:end] for start, end in split(text, 0, len(text))]
    assert len(pieces) == 2
    assert all(piece.endswith(".") for piece in pieces)
    assert min(len(piece.split()) for piece in pieces) > 100


def test_indentation_of_the_first_line_is_kept_unless_it_is_huge():
    text = "\n    indented\n" + " " * 5000 + "far"
    pieces = [text[start:end] for start, end in split(text, 0, len(text))]
    assert pieces == ["    indented", "far"]


def test_case_33_one_line_without_blanks_is_cut_by_characters():
    text = "x" * 10_000
    pieces = [text[start:end] for start, end in split(text, 0, len(text))]
    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= MAX_CHARS


TEXTS = st.lists(
    st.sampled_from(
        [
            "# A\n",
            "## B\n",
            "### C\n",
            "\n",
            "- item\n",
            "```\n",
            "word ",
            "end. ",
            "x" * 700,
            " " * 900,
            "\t",
            "😀",
            "===\n",
            "\r\n",
            words(70) + "\n",
            words(210),
        ]
    ),
    max_size=40,
).map("".join)


@given(TEXTS)
def test_nothing_is_lost_and_both_limits_hold(text: str):
    found = outline(text, line_starts(text), 0)
    at = 0
    for span in pack(text, found.blocks, found.breaks):
        assert span.start >= at and not text[at : span.start].strip()
        piece = text[span.start : span.end]
        assert piece.strip() and not piece[-1].isspace()
        assert len(piece) <= MAX_CHARS and len(piece.split()) <= MAX_WORDS
        at = span.end
    assert not text[at:].strip()


@given(st.text(alphabet="ab .\n\r\t😀。", max_size=400).map(lambda text: text * 12), st.integers(0, 50))
def test_split_covers_every_word(text: str, start: int):
    at = start
    for first, last in split(text, start, len(text)):
        assert at <= first < last and not text[at:first].strip()
        assert last - first <= MAX_CHARS and len(text[first:last].split()) <= MAX_WORDS
        at = last
    assert not text[at:].strip()


def test_a_block_counts_words_only_where_they_matter():
    text = "a " * 5000
    assert block(text, 0, len(text)).words == MAX_WORDS + 1
    assert block("a b  \n", 0, 6).words == 2
