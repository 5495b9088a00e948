"""Is what is read exactly what is stored, in pieces that fit together, whatever its encoding and age?"""

from __future__ import annotations

import codecs
import hashlib
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.errors import AmbiguousAddress, BadAddress, InvalidInput, NotFound
from memoryd.operations import gateway, reading
from memoryd.operations.entries import whole_characters
from memoryd.operations.home import Caller
from memoryd.operations.scan import scan_corpora
from tests.operations.conftest import configure, opened

HERE = Caller()
TEXT = "# Größe\n\nEin Satz mit ★ und 🎉 und 記憶.\n"
FILES = {
    b"plain.md": TEXT.encode(),
    b"bom.md": codecs.BOM_UTF8 + TEXT.encode(),
    b"wide.md": codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"),
    b"big.md": codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
    b"odd.md": codecs.BOM_UTF16_LE + "Half a character.".encode("utf-16-le") + b"x",
    b"latin.md": "# Größe\n\nCafé naïf à Zürich.\n".encode("latin-1"),
    b"name-\xe9\xff.md": b"An old name.\n",
    b"bytes.md": b"\0\x01\x02\x03" * 50,
    b"empty.md": b"",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("entries")
    docs = folder / "docs"
    docs.mkdir()
    for name, data in FILES.items():
        with open(os.path.join(os.fsencode(docs), name), "wb") as stream:
            stream.write(data)
    configure(folder / "home", corpora=[{"label": "d", "path": str(docs)}])
    with opened(folder / "home") as home:
        scan_corpora(home)
        yield home


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain.md", TEXT),
        ("bom.md", TEXT),
        ("wide.md", TEXT),
        ("big.md", TEXT),
        ("latin.md", "# Größe\n\nCafé naïf à Zürich.\n"),
        ("empty.md", ""),
    ],
)
def test_text_of_every_encoding_is_read_whole(library, name, text):
    shown = reading.get(library, HERE, source=f"d/{name}")
    assert shown["content"] == text
    assert shown["address"] == "sha256:" + hashlib.sha256(FILES[name.encode()]).hexdigest()
    assert (shown["size"], shown["current"]) == (len(FILES[name.encode()]), True)


@pytest.mark.parametrize("name", [name.decode() for name in FILES if name.isascii() and name != b"bytes.md"])
@pytest.mark.parametrize("limit", [1, 3, 7])
def test_pieces_fit_together_and_come_to_an_end(library, name, limit):
    whole = reading.get(library, HERE, source=f"d/{name}")
    pieces, offset = [], 0
    for _ in range(500):
        one = reading.get(library, HERE, source=f"d/{name}", offset=offset, limit=limit)
        pieces.append(one["content"])
        if one["next"] == "This is the end.":
            break
        assert one["bytes"][1] > offset
        offset = one["bytes"][1]
    assert one["bytes"][1] == whole["size"]
    assert "".join(pieces) == whole["content"]


def test_binary_content_is_named_and_its_facts_are_readable(library):
    with pytest.raises(InvalidInput, match="binary") as caught:
        reading.get(library, HERE, source="d/bytes.md")
    assert "metadata" in caught.value.next_step
    assert reading.get(library, HERE, source="d/bytes.md", metadata=True)["extraction"]["encoding"] == "binary"


def test_a_name_that_is_not_utf_8_can_be_asked_for_as_it_is_shown(library):
    shown = [row for row in library.documents.current("d") if b"\xff" in row.path]
    source = "d/" + shown[0].path.decode("utf-8", "backslashreplace")
    assert reading.get(library, HERE, source=source)["content"] == "An old name.\n"
    assert reading.get(library, HERE, source=source)["source"] == source


@pytest.mark.parametrize("given_", [{}, {"id": "a" * 64, "source": "d/plain.md"}, {"id": ""}])
def test_exactly_one_name_is_asked_for(library, given_):
    with pytest.raises(InvalidInput, match="exactly one"):
        reading.get(library, HERE, **given_)


def test_what_is_no_address_is_refused(library):
    for text in ("sha256:xyz", "sha256:123", "sha256:" + "0" * 65):
        with pytest.raises(BadAddress):
            reading.get(library, HERE, address=text)


def test_an_offset_beyond_the_end_gives_nothing_and_says_so(library):
    shown = reading.get(library, HERE, source="d/plain.md", offset=10**9)
    assert (shown["content"], shown["next"]) == ("", "This is the end.")


def test_past_contents_are_read_in_their_own_encoding(root, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    configure(root, corpora=[{"label": "d", "path": str(docs)}])
    versions = [TEXT.encode("utf-16"), "Café naïf.\n".encode("latin-1"), b"odd", TEXT.encode()]
    with opened(root) as home:
        for data in versions:
            (docs / "a.md").write_bytes(data)
            scan_corpora(home)
        history = reading.get(home, HERE, source="d/a.md", metadata=True)["history"]
        read = [reading.get(home, HERE, address=one["address"])["content"] for one in history]
        assert read == [TEXT, "Café naïf.\n", "odd", TEXT]
        (docs / "a.md").unlink()
        (docs / "b.md").write_text("b")
        scan_corpora(home)
        with pytest.raises(NotFound, match="gone"):
            reading.get(home, HERE, source="d/a.md")
        assert reading.get(home, HERE, address=history[1]["address"])["content"] == "Café naïf.\n"


def test_ids_by_beginning(home, nobody):
    one = gateway.add(home, nobody, content="One.", type="fact", scope="global")
    assert reading.get(home, nobody, id=one["id"][:8])["id"] == one["id"]
    assert reading.get(home, nobody, id=one["id"].upper())["id"] == one["id"]
    with home.catalog.write() as tx:
        tx.execute("UPDATE memories SET id = ? WHERE id = ?", (one["id"][:8] + "0" * 56, one["id"]))
    gateway.add(home, nobody, content="Another.", type="fact", scope="global")
    with home.catalog.write() as tx:
        tx.execute("UPDATE memories SET id = ? WHERE title = 'Another.'", (one["id"][:8] + "1" * 56,))
    with pytest.raises(AmbiguousAddress):
        reading.get(home, nobody, id=one["id"][:8])


@given(st.text(min_size=1, max_size=40), st.sampled_from(["utf-8", "utf-16-le", "utf-16-be"]), st.data())
def test_no_cut_splits_a_character_or_stands_still(text, encoding, data):
    raw = text.encode(encoding, "ignore")
    start = data.draw(st.integers(0, len(raw)))
    length = data.draw(st.integers(1, 10))
    first, last = whole_characters(raw, start, length, encoding)
    assert first <= start
    assert first < last or start == len(raw) or not raw
    assert raw[first:last].decode(encoding) in text
