"""Do records come back as they were written?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memoryd.digest import canonical_json
from memoryd.records import DocumentEvent, ScopeRecord, ancestors, decode_path, encode_path, shown_path

GOLDEN = (
    b'{"address":"sha256:aa","event":"seen","exec":false,"kind":"document","observed":"2026-01-02T03:04:05.000006Z",'
    b'"path":"a/b.md","scope":"global","size":3,"source":"docs","tags":["x"],"v":1}'
)


def event(**changes):
    fields = {
        "source": "docs",
        "path": b"a/b.md",
        "scope": "global",
        "kind": "document",
        "event": "seen",
        "address": "sha256:aa",
        "size": 3,
        "tags": ("x",),
        "observed": "2026-01-02T03:04:05.000006Z",
        "seq": 7,
    }
    return DocumentEvent(**{**fields, **changes})


def test_golden_document_record():
    assert canonical_json(event().to_json()) == GOLDEN


def test_document_records_round_trip_with_any_path():
    for path in (b"a.md", "\u00fc.md".encode(), b"\xff\xfe", b"line\nbreak"):
        once = event(path=path, title="T")
        assert DocumentEvent.from_json(once.to_json(), 7) == once


def test_fields_that_a_later_version_adds_are_ignored():
    assert DocumentEvent.from_json({**event().to_json(), "later": 1}, 7) == event()


def test_scope_records_round_trip():
    record = ScopeRecord(id="p-a-00000000", name="a", remote=None, root="/x", seq=3)
    assert ScopeRecord.from_json(record.to_json(), 3) == record


@given(st.binary(max_size=40))
def test_paths_survive_json(path):
    assert decode_path(encode_path(path)) == path
    shown_path(path).encode("utf-8")


def test_ancestors_are_the_folders_above():
    assert ancestors("docs", b"a/b/c.md") == ["docs/", "docs/a/", "docs/a/b/"]
    assert ancestors("docs", b"c.md") == ["docs/"]
