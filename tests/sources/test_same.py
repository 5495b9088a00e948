"""Is only settled what loses nothing, and alike on both sides?"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from memoryd.records import MemoryFields
from memoryd.sources.entry import render
from memoryd.sources.same import ALIASES, settled_bytes, why

PATH = b"global/fact/a.md"
ONE = MemoryFields(
    id="a" * 64,
    fact="a" * 64,
    seq=1,
    type="fact",
    title="Herons",
    scope="global",
    status="in_force",
    created="2026-03-01T10:00:00Z",
    updated="2026-03-01T10:00:00Z",
    body="Herons nest.\n",
)
LATER = {"created": "2026-03-02T10:00:00Z", "updated": "2026-03-02T10:00:00Z"}


@pytest.mark.parametrize("other", [LATER, {**LATER, "title": "Birds", "tags": ("x",)}])
def test_a_memory_that_was_added_twice_is_the_earlier_one(other):
    here, there = render(ONE), render(replace(ONE, **other))
    assert settled_bytes(PATH, None, here, there) == settled_bytes(PATH, None, there, here) == here


def test_line_endings_make_no_other_words():
    here, there = render(replace(ONE, **LATER)), render(ONE).replace(b"\n", b"\r\n")
    assert settled_bytes(PATH, None, here, there) == settled_bytes(PATH, None, there, here) == there


@pytest.mark.parametrize(
    "other",
    [
        {"body": "Herons nest!\n"},
        {"status": "archived", "archive_reason": "gone"},
        {"status": "superseded", "superseded_by": "b" * 64},
        {"id": "b" * 64},
        {"key": "k"},
        {"scope": "p-x-0011aabb"},
    ],
)
def test_whatever_says_something_else_is_a_persons(other):
    here, there = render(ONE), render(replace(ONE, **LATER, **other))
    for base in (None, render(ONE)):
        assert settled_bytes(PATH, base, here, there) is None


def test_of_a_file_that_was_there_before_only_times_may_differ():
    base, here = render(ONE), render(replace(ONE, status="archived", archive_reason="gone", updated="2026-04-01"))
    there = render(replace(ONE, status="archived", archive_reason="gone", updated="2026-04-02"))
    assert settled_bytes(PATH, base, here, there) == settled_bytes(PATH, base, there, here) == here
    assert settled_bytes(PATH, base, render(replace(ONE, title="x")), render(replace(ONE, title="y"))) is None


@pytest.mark.parametrize(("here", "there"), [(None, b"x"), (b"x", None), (b"x", b"y"), (b"\xff", render(ONE))])
def test_what_is_no_memory_or_was_removed_is_a_persons(here, there):
    assert settled_bytes(PATH, b"z", here, there) is None


def table(**aliases):
    return json.dumps({"v": 1, "aliases": aliases}).encode()


def test_alias_tables_are_joined_unless_they_contradict():
    joined = settled_bytes(ALIASES, None, table(a="p-a-0011aabb"), table(b="p-b-0011aabb"))
    assert joined == settled_bytes(ALIASES, None, table(b="p-b-0011aabb"), table(a="p-a-0011aabb"))
    assert json.loads(joined) == {"v": 1, "aliases": {"a": "p-a-0011aabb", "b": "p-b-0011aabb"}}
    for there in (table(a="p-x-0011aabb"), b"{", b"[]", b'{"v": 2, "aliases": {}}', b'{"v": 1, "aliases": [1]}'):
        assert settled_bytes(ALIASES, None, table(a="p-a-0011aabb"), there) is None


def test_the_reason_says_what_happened_on_either_side():
    gone = render(replace(ONE, status="archived", archive_reason="x"))
    replaced = render(replace(ONE, status="superseded", superseded_by="c" * 64))
    assert why(render(ONE), replaced, gone) == "superseded by cccccccc here, archived there"
    assert why(None, b"x", b"y") == "added on both sides"
    assert why(b"z", b"x", b"y") == "changed on both sides"
    assert why(b"z", None, b"y") == "deleted here, changed there"
    assert why(b"z", b"x", None) == "changed here, deleted there"
