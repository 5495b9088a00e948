"""Does a memory file keep what was typed, and is a broken one named instead of repaired?"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from memoryd.errors import VaultFileInvalid
from memoryd.records import MemoryFields
from memoryd.sources.entry import ORDER, file_path, parse, render, rewrite, utc_time

ID = "00" + "1e3" * 20 + "45"
FACT = "12" * 32

FIELDS = MemoryFields(
    id=ID,
    fact=FACT,
    seq=3,
    type="decision",
    title="Ports: use 8080, not 80",
    scope="p-shop-0011aabb",
    status="in_force",
    created="2026-06-03T10:00:00Z",
    updated="2026-06-04T10:00:00Z",
    tags=("net", "yes"),
    key="port",
    body="# Ports\n\nUse 8080.\n",
)

GIVEN = f"""---
# kept for people
id: {ID}
fact: "{FACT}"
aliases: [a, {{b: c}}]   # Obsidian's
type: fact
title: 'It''s here'  # why
tags:
  - one
  # between
  - two
scope: global
status: in_force
created: 2026-06-03
cssclass:
  nested:
    deep: 1
---

Body  with  blanks
\tand a tab
"""


def memory(**lines: str) -> bytes:
    """A file with these frontmatter lines instead of the usual ones."""
    usual = {
        "id": ID,
        "fact": FACT,
        "type": "fact",
        "title": "T",
        "scope": "global",
        "status": "in_force",
        "created": "2026-06-03T10:00:00Z",
    }
    text = "".join(f"{key}: {value}\n" for key, value in (usual | lines).items() if value is not None)
    return f"---\n{text}---\nBody\n".encode()


def refused(data: bytes) -> VaultFileInvalid:
    with pytest.raises(VaultFileInvalid) as caught:
        parse(data)
    assert caught.value.details["line"] >= 1
    assert str(caught.value.details["line"]) in caught.value.message
    with pytest.raises(VaultFileInvalid):
        rewrite(data, {"status": "archived"})
    return caught.value


GOLDEN = (
    b"---\n"
    b'id: "001e31e31e31e31e31e31e31e31e31e31e31e31e31e31e31e31e31e31e31e345"\n'
    b'fact: "1212121212121212121212121212121212121212121212121212121212121212"\n'
    b"seq: 3\n"
    b"type: decision\n"
    b'title: "Ports: use 8080, not 80"\n'
    b'tags: ["net", "yes"]\n'
    b"scope: p-shop-0011aabb\n"
    b"status: in_force\n"
    b'created: "2026-06-03T10:00:00Z"\n'
    b'updated: "2026-06-04T10:00:00Z"\n'
    b'key: "port"\n'
    b"---\n"
    b"\n"
    b"# Ports\n"
    b"\n"
    b"Use 8080.\n"
)


def test_the_form_of_a_memory_file_is_fixed():
    """The golden vector of docs/formats.md: these bytes never change."""
    assert render(FIELDS) == GOLDEN
    assert parse(GOLDEN).fields == FIELDS


def test_a_rendered_memory_reads_back():
    data = render(FIELDS)
    entry = parse(data)
    assert entry.fields == FIELDS
    assert data[entry.body_start :] == FIELDS.body.encode()
    assert b"\r" not in data


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)


@given(
    title=TEXT,
    body=st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
    tags=st.lists(TEXT.filter(bool), max_size=4).map(tuple),
    key=st.none() | TEXT,
    reason=st.none() | TEXT,
    seq=st.integers(0, 10**9),
)
def test_every_text_survives_the_file(title, body, tags, key, reason, seq):
    fields = replace(FIELDS, title=title, body=body, tags=tags, key=key, archive_reason=reason, seq=seq)
    assert parse(render(fields)).fields == fields


@given(title=TEXT, tags=st.lists(TEXT.filter(bool), max_size=4))
def test_any_yaml_reader_keeps_strings(title, tags):
    """A reader that guesses types (as most do) gets text for text and a number for `seq` alone."""
    block = render(replace(FIELDS, title=title, tags=tuple(tags))).decode().split("---\n")[1]
    read = yaml.safe_load(block)
    assert read["title"] == title
    assert read.get("tags", []) == tags
    assert all(isinstance(read[key], str) for key in ("id", "fact", "type", "scope", "status", "created", "updated"))
    assert read["seq"] == 3


def test_keys_are_written_in_a_fixed_order_and_absent_ones_left_out():
    block = render(replace(FIELDS, key=None, tags=())).decode()
    keys = re.findall(r"^([a-z_]+):", block, re.MULTILINE)
    assert keys == [key for key in ORDER if key in keys]
    assert "tags" not in keys and "key" not in keys and "supersedes" not in keys


def test_an_empty_key_is_not_an_absent_one():
    assert parse(render(replace(FIELDS, key=""))).fields.key == ""
    assert parse(memory(key="")).fields.key is None


@pytest.mark.parametrize("title", ["2026-06-03", "2024", "1.10", "yes", "null", "~", "0o17", "1e3", "0012"])
def test_h26_titles_come_back_as_typed(title):
    """H26: YAML does not decide the type."""
    entry = parse(memory(title=title, key=title, tags=title))
    assert (entry.fields.title, entry.fields.key, entry.fields.tags) == (title, title, (title,))


def test_h26_an_id_of_digits_keeps_its_zeros():
    """H26: an id that looks like a number comes back exactly."""
    digits = "0012" * 16
    assert parse(memory(id=digits, fact=digits)).fields.id == digits


def test_h26_tags_may_be_empty_or_single():
    """H26: no tags, one tag (not its letters), a list in either style."""
    assert parse(memory(tags="")).fields.tags == ()
    assert parse(memory(tags="single")).fields.tags == ("single",)
    assert parse(memory(tags="[2024, no]")).fields.tags == ("2024", "no")
    assert parse(memory(tags="\n- a\n- b")).fields.tags == ("a", "b")


def test_h26_times_of_all_kinds_sort_by_instant():
    """H26: a bare date, a zone, no zone."""
    typed = {
        "2026-06-03": "2026-06-03T00:00:00Z",
        "2026-06-03T08:30:00+09:00": "2026-06-02T23:30:00Z",
        "2026-06-03 00:00:01": "2026-06-03T00:00:01Z",
        "2026-06-03T00:00:02Z": "2026-06-03T00:00:02Z",
    }
    for text, wanted in typed.items():
        fields = parse(memory(created=text)).fields
        assert (fields.created, fields.updated) == (wanted, wanted)
    read = sorted(parse(memory(created=text)).fields.created for text in typed)
    assert read[0] == "2026-06-02T23:30:00Z"
    for bad in ("yesterday", "2026-13-01", "0001-01-01T00:00:00+09:00"):
        assert refused(memory(created=bad)).details["key"] == "created"


def test_h26_deep_nesting_is_read_over_or_refused_but_never_a_crash():
    """H26: a 400-deep list of an unknown key is none of our business; a bomb is named by its line."""
    deep = "[" * 400 + "]" * 400
    assert parse(memory(extra=deep)).fields.title == "T"
    assert refused(memory(extra="[" * 100_000)).details["line"] == 9
    assert refused(memory(extra="{a: " * 60_000)).details["line"] == 9
    assert refused(memory(tags=deep)).details["key"] == "tags"
    refused(b"---\n" + b"- " * 100_000 + b"\n---\n")


def test_a_bomb_of_aliases_is_not_expanded():
    lines = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40))
    data = memory().replace(b"---\nid", b"---\na0: &a0 x\n" + lines.encode() + b"id", 1)
    assert parse(data).fields.id == ID


def test_h27_a_block_that_does_not_parse_is_never_shadowed():
    """H27: an unclosed quote, or something before the fence: refused, and `refused` checks that rewrite refuses too."""
    assert refused(memory(title='"unclosed')).details["line"] >= 5
    assert refused(b"\n" + memory()).details["line"] == 1
    assert refused(b"# comment\n" + memory()).details["line"] == 1


@pytest.mark.parametrize(
    ("data", "line", "key"),
    [
        (memory(title="a: b"), 5, None),
        (memory(title="\n\tx: 1"), 6, None),
        (memory().replace(b"---\nBody", b"--\nBody"), None, None),
        (b"---\n---\nBody\n", 1, None),
        (b"---\n", 1, None),
        (b"", 1, None),
        (b"# Only a heading\n", 1, None),
        (b"---\n- a\n---\n", 2, None),
        (b"---\n{id: a}\n---\n", 2, None),
        (memory(id=None), 1, "id"),
        (memory(fact=""), 3, "fact"),
        (memory(id="0012"), 2, "id"),
        (memory(type="idea"), 4, "type"),
        (memory(scope="p-x"), 6, "scope"),
        (memory(scope="../etc"), 6, "scope"),
        (memory(status="In_force"), 7, "status"),
        (memory(status="[in_force]"), 7, "status"),
        (memory(seq="two"), 9, "seq"),
        (memory(supersedes="abc"), 9, "supersedes"),
        (memory(title='"a\\0b"'), 5, "title"),
        (memory(title="a\x07b"), 5, None),
        (memory(tags="{a: b}"), 9, "tags"),
        (memory().replace(b"type: fact\n", b"type: fact\ntype: note\n"), 5, "type"),
        (memory(title="*nothing"), 5, "title"),
    ],
)
def test_h28_a_broken_block_is_named_by_line(data, line, key):
    """H28: colon in a value, tab, no close, two dashes, empty block, frontmatter only, missing and wrong values."""
    error = refused(data)
    assert line is None or error.details["line"] == line
    assert error.details.get("key") == key


def test_h28_frontmatter_without_a_body_or_final_newline_is_whole():
    """H28: the closing fence may be the end of the file."""
    data = memory().removesuffix(b"\nBody\n")
    entry = parse(data)
    assert (entry.fields.body, entry.body_start) == ("", len(data))
    assert parse(rewrite(data, {"status": "archived"})).fields.status == "archived"


ENDINGS = {
    "LF": lambda data: data,
    "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "CR": lambda data: data.replace(b"\n", b"\r"),
    "BOM+LF": lambda data: b"\xef\xbb\xbf" + data,
    "BOM+CRLF": lambda data: b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"),
    "mixed": lambda data: data.replace(b"\n", b"\r\n", 3).replace(b"tags:\n", b"tags:\r"),
}


@pytest.mark.parametrize("how", ENDINGS)
def test_h29_line_endings_and_bom_change_no_metadata_and_survive(how):
    """H29: the same entry in six forms."""
    data = ENDINGS[how](GIVEN.encode())
    entry, plain = parse(data), parse(GIVEN.encode())
    assert replace(entry.fields, body="") == replace(plain.fields, body="")
    body = data[entry.body_start :]
    assert body.decode() == entry.fields.body
    changed = rewrite(data, {"status": "superseded", "superseded_by": FACT, "updated": "2026-07-01T00:00:00Z"})
    assert changed.startswith(b"\xef\xbb\xbf") == data.startswith(b"\xef\xbb\xbf")
    assert changed.endswith(body)
    assert parse(changed).fields.superseded_by == FACT
    before, after = re.split(b"\r\n|\r|\n", data), re.split(b"\r\n|\r|\n", changed)
    assert [line for line in before if line not in after] == [b"status: in_force"]
    assert [line for line in after if line not in before] == [
        b"status: superseded",
        f'superseded_by: "{FACT}"'.encode(),
        b'updated: "2026-07-01T00:00:00Z"',
    ]
    if how in ("CRLF", "BOM+CRLF"):
        assert changed.count(b"\n") == changed.count(b"\r\n")
    if how == "CR":
        assert b"\n" not in changed


def test_rewrite_keeps_comments_order_and_unknown_keys():
    data = GIVEN.encode()
    changed = rewrite(data, {"title": "New", "tags": ("x", "y: z")}).decode()
    wanted = GIVEN.replace("'It''s here'  # why", '"New"  # why')
    wanted = wanted.replace("tags:\n  - one\n  # between\n  - two\n", 'tags: ["x", "y: z"]\n')
    assert changed == wanted


def test_rewrite_removes_a_key_with_all_its_lines():
    changed = rewrite(GIVEN.encode(), {"tags": None, "title": None, "key": None}).decode()
    assert changed == GIVEN.replace("title: 'It''s here'  # why\n", "").replace(
        "tags:\n  - one\n  # between\n  - two\n", ""
    )
    assert rewrite(changed.encode(), {}) == changed.encode()


def test_rewrite_of_block_scalars_and_empty_values():
    data = memory(title="|\n  two\n  lines", archive_reason="", key=">-\n  folded\n  text")
    assert parse(data).fields.title == "two\nlines\n"
    changed = rewrite(data, {"title": "one", "archive_reason": "old", "key": "k"})
    fields = parse(changed).fields
    assert (fields.title, fields.archive_reason, fields.key) == ("one", "old", "k")
    assert changed.count(b"\n") == data.count(b"\n") - 4


def test_rewrite_refuses_what_other_lines_depend_on():
    """An anchor that another key uses, and indentation that a new line would break."""
    anchored = memory(title="&t shared", key="*t")
    assert parse(anchored).fields.key == "shared"
    with pytest.raises(VaultFileInvalid):
        rewrite(anchored, {"title": "other"})
    with pytest.raises(VaultFileInvalid):
        rewrite(memory(), {"status": "gone"})
    indented = re.sub(rb"(?m)^(?!---|Body)", b"  ", memory())
    assert parse(indented).fields.id == ID
    with pytest.raises(VaultFileInvalid):
        rewrite(indented, {"superseded_by": FACT})


@given(
    title=st.none() | TEXT,
    tags=st.none() | st.lists(TEXT.filter(bool), max_size=3).map(tuple),
    reason=st.none() | TEXT,
    status=st.sampled_from(["in_force", "superseded", "archived"]),
    how=st.sampled_from(sorted(ENDINGS)),
)
def test_rewrite_changes_what_is_named_and_nothing_else(title, tags, reason, status, how):
    data = ENDINGS[how](GIVEN.encode())
    before = parse(data)
    changed = rewrite(data, {"title": title, "tags": tags, "archive_reason": reason, "status": status})
    after = parse(changed)
    wanted = replace(before.fields, title=title or "", tags=tags or (), archive_reason=reason, status=status)
    assert after.fields == wanted
    assert changed[after.body_start :] == data[before.body_start :]
    assert b"# kept for people" in changed and b"deep: 1" in changed


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (memory(title="caf\xe9").decode().encode("latin-1"), 5),
        (b"\x89PNG\r\n\x1a\n" + bytes(20), 1),
        (memory().decode().encode("utf-16"), 1),
        (memory() + b"more\n\xff", 12),
    ],
)
def test_h30_what_is_not_utf8_text_is_named(data, line):
    """H30: Latin-1, a picture, UTF-16 under the name of a memory; case 30: invalid bytes."""
    assert refused(data).details["line"] == line


def test_h12_escaped_surrogates_and_nul_are_refused():
    """H12: a frontmatter escape must not smuggle in what JSON cannot carry."""
    refused(memory(title='"\\ud800"'))
    refused(memory(tags='["ok", "a\\0"]'))
    assert parse(memory(title='"\\U0001f389"')).fields.title == "🎉"


def test_too_much_frontmatter_is_refused():
    assert refused(memory(extra="x" * 300_000)).details["line"] == 1


def test_a_file_is_named_by_scope_type_title_and_id():
    assert file_path(FIELDS) == b"p-shop-0011aabb/decision/ports-use-8080-not-80-001e31e3.md"
    assert file_path(replace(FIELDS, title="日本", scope="global")) == b"global/decision/note-001e31e3.md"


MOMENTS = st.datetimes(
    datetime(2, 1, 1),
    datetime(9998, 1, 1),
    timezones=st.just(UTC) | st.builds(lambda minutes: timezone(timedelta(minutes=minutes)), st.integers(-1439, 1439)),
).map(lambda moment: moment.replace(microsecond=0))


@given(MOMENTS, MOMENTS)
def test_utc_times_sort_as_instants(one, other):
    left, right = utc_time(one.isoformat()), utc_time(other.isoformat())
    assert (left < right) == (one < other)
    assert utc_time(left) == left
