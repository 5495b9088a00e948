"""Do names follow bytes, and identities their rules?"""

from __future__ import annotations

import hashlib
import subprocess

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from memoryd import digest
from memoryd.errors import BadAddress

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcXYZ_09", max_size=6), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_canonical_json_is_rfc_8785(value):
    assert digest.canonical_json(value) == rfc8785.dumps(value)


def test_canonical_json_refuses_floats_anywhere():
    with pytest.raises(TypeError):
        digest.canonical_json({"a": [1, {"b": 0.5}]})


def test_an_address_is_what_sha256sum_prints(tmp_path):
    (tmp_path / "f").write_bytes(b"some bytes\n")
    printed = subprocess.run(["sha256sum", tmp_path / "f"], capture_output=True, text=True, check=True).stdout.split()[
        0
    ]
    assert digest.address_of(b"some bytes\n") == f"sha256:{printed}"


def test_case_13_addresses_are_accepted_with_prefix_upper_case_and_shortened():
    full = hashlib.sha256(b"x").hexdigest()
    assert digest.parse_address(f"sha256:{full}") == (full, True)
    assert digest.parse_address(full.upper()) == (full, True)
    assert digest.parse_address(full[:8]) == (full[:8], False)


@pytest.mark.parametrize("text", ["..", "../" * 20, "sha256:", "abc", "g" * 64, "0" * 65, "0" * 7, "\0" * 8, "٠" * 8])
def test_case_12_anything_else_is_no_address(text):
    with pytest.raises(BadAddress):
        digest.parse_address(text)


GOLDEN = [
    (
        {"scope": "global", "type": "fact", "key": None, "content": "The build needs Node 20.", "supersedes": None},
        "a55eefc0845bcb7db376c14c19f2cec5721e306c1d451047f194405791b6e3c8",
    ),
    (
        {
            "scope": "p-app-0123abcd",
            "type": "decision",
            "key": "db",
            "content": "Use *SQLite*\n\n```\na  b\n```",
            "supersedes": "0" * 64,
        },
        "7998f560c72fe3c2ad2030a2562bcf5c938ac7968991c4571b0a39b1655bc537",
    ),
]


@pytest.mark.parametrize(("fields", "expected"), GOLDEN)
def test_golden_memory_ids_never_change(fields, expected):
    assert digest.memory_id(**fields) == expected
    assert hashlib.sha256(rfc8785.dumps({"v": 1, **fields})).hexdigest() == expected


def identity(content: str, **other: str | None) -> str:
    fields = {"scope": "global", "type": "fact", "key": None, "supersedes": None, **other}
    return digest.memory_id(content=content, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "variant",
    [
        "Use  tabs,\tnot spaces.",
        "  Use tabs, not spaces.\n\n",
        "Use tabs, not spaces.\r\n",
        "Use tabs, not\u00a0spaces.",
    ],
)
def test_h40_blanks_and_line_ends_do_not_change_an_id(variant):
    """H40: a retry that differs only in outer blanks gives the same id."""
    assert identity(variant) == identity("Use tabs, not spaces.")


@pytest.mark.parametrize(
    "other", ["Use tabs, not space.", "use tabs, not spaces.", "Use tabs; not spaces.", "Use tabs,\nnot spaces."]
)
def test_words_case_punctuation_and_lines_do(other):
    assert identity(other) != identity("Use tabs, not spaces.")


def test_absent_and_empty_key_differ_and_every_field_counts():
    ids = {
        identity("x"),
        identity("x", key=""),
        identity("x", key="k"),
        identity("x", type="note"),
        identity("x", scope="p-a-00000000"),
        identity("x", supersedes="0" * 64),
    }
    assert len(ids) == 6


def test_code_is_byte_exact_for_the_identity():
    assert identity("Run:\n\n```\na  b\n```") != identity("Run:\n\n```\na b\n```")
    assert identity("Run:\n\n    a  b\n\nend") != identity("Run:\n\n    a b\n\nend")
    assert identity("```\nunclosed  fence") != identity("```\nunclosed fence")
    assert identity("```\nx\n```\nafter  it") == identity("```\nx\n```\nafter it")
    assert identity("a\n    wrapped  line") == identity("a\nwrapped line"), "no code: it continues a paragraph"


def test_unicode_forms_are_one_outside_code_only():
    one, other = "caf\u00e9", "cafe\u0301"
    assert identity(one) == identity(other)
    for around in ("Run:\n\n```\n{}\n```\nend", "Run:\n\n~~~~ sh\n{}", "Run:\n\n    {}\n\nend", "Run:\n\n\t{}"):
        assert identity(around.format(one)) != identity(around.format(other))
        text = around.format(other).replace("Run:", f"Run {other}:").replace("end", f"end {other}")
        kept = digest.normalise_for_identity(text)
        assert other in kept
        assert f"Run {one}:" in kept
        assert text.count("end") == kept.count(f"end {one}")


def test_outer_blanks_count_only_where_they_make_code():
    for around in ("\t{}", "     {}\n", "\n\n    {}\n\n", "\u00a0{}"):
        assert identity(around.format("Use tabs.\n\nAlways.")) == identity("Use tabs.\n\nAlways.")
    assert identity("    a  b") != identity("    a b")
    assert identity("\tmake\n\tmake  all") != identity("\tmake\n\tmake all")


BITS = [
    "```",
    "~~~",
    "````",
    "    ",
    "  ",
    "\t",
    "\n",
    "\n\n",
    "a",
    "b  c",
    "\x1f",
    "\u00a0",
    "\u1fef" * 3,
    "e\u0301",
    "\r",
]


@given(st.lists(st.sampled_from(BITS), max_size=16).map("".join) | st.text(st.characters(codec="utf-8"), max_size=200))
def test_normalising_twice_changes_nothing(text):
    once = digest.normalise_for_identity(text)
    assert digest.normalise_for_identity(once) == once


def test_passage_ids_depend_on_document_text_and_occurrence():
    a = digest.passage_id("d" * 64, "a" * 64, 0)
    assert a == digest.passage_id("d" * 64, "a" * 64, 0)
    assert len({a, digest.passage_id("e" * 64, "a" * 64, 0), digest.passage_id("d" * 64, "a" * 64, 1)}) == 3


def test_the_raw_bytes_of_an_address_are_its_hash():
    assert digest.raw_address(digest.address_of(b"words")) == hashlib.sha256(b"words").digest()


def test_document_identity_is_the_place_not_the_content():
    assert digest.document_id("docs", b"a.md") != digest.document_id("notes", b"a.md")


@pytest.mark.parametrize(("text", "expected"), [("Über Größe!", "uber-groe"), ("日本", "note"), ("a" * 80, "a" * 48)])
def test_slugs_are_plain_file_names(text, expected):
    assert digest.slug(text) == expected


@given(json_values)
def test_canonical_json_is_read_back(value):
    assert digest.read_canonical(digest.canonical_json(value)) == value


@pytest.mark.parametrize("raw", [b'{"a": 1}', b'{"b":1,"a":2}', b"1.5", b"NaN", b'"\\u0061"', b"\xff", b"", b"{}\n"])
def test_what_is_not_canonical_is_refused(raw):
    with pytest.raises(ValueError):
        digest.read_canonical(raw)
