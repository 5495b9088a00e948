"""Are lines cut, parsed and rescued right, whatever arrives in whatever pieces?"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.lines import HEAD_BYTES, TAIL_BYTES, LineBuffer, Overlong, error_line, is_id, parse, rescue_id, serialise

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
IDS = st.integers() | st.text(max_size=20)


@given(VALUES)
def test_parse_reads_what_json_writes(value):
    assert parse(json.dumps(value).encode()) == value
    assert parse(b" \t" + json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\r") == value


@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=5))
def test_serialise_is_one_line_of_ascii_that_json_reads(message):
    line = serialise(message)
    assert line.endswith(b"\n") and line.count(b"\n") == 1 and line.isascii()
    assert json.loads(line) == message


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b" ",
        b"{",
        b'{"a"}',
        b"[1,]",
        b"nul",
        b'"\n"',
        b"{} {}",
        b"\xff",
        b"NaN",
        b"-Infinity",
        b'{"a":1}x',
        b"\xef\xbb\xbf{}",
    ],
)
def test_what_is_not_json_is_a_value_error(line: bytes):
    with pytest.raises(ValueError):
        parse(line)


def test_deep_nesting_is_an_error_and_no_crash():
    with pytest.raises(RecursionError):
        parse(b"[" * 200_000)
    assert rescue_id(b'{"id":7,"params":' + b"[" * 200_000, b"") == 7


@given(st.lists(st.binary(max_size=40).map(lambda piece: piece.replace(b"\n", b"")), max_size=12), st.data())
def test_lines_come_out_as_they_went_in_however_they_are_cut(lines: list[bytes], data):
    stream = b"".join(line + b"\n" for line in lines)
    buffer = LineBuffer(100)
    found: list[bytes | Overlong] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += buffer.feed(stream[:size])
        stream = stream[size:]
    assert found == lines


@given(st.integers(1, 300), st.integers(1, 50))
def test_the_limit_counts_the_newline(size: int, step: int):
    line = b"x" * size
    buffer = LineBuffer(100)
    found: list[bytes | Overlong] = []
    for start in range(0, size, step):
        found += buffer.feed(line[start : start + step])
    found += buffer.feed(b"\nnext\n")
    assert found[1] == b"next"
    if size + 1 <= 100:
        assert found[0] == line
    else:
        assert isinstance(found[0], Overlong) and found[0].size == size


def test_an_overlong_line_keeps_only_its_ends():
    buffer = LineBuffer(1 << 20)
    buffer.feed(b"head" + b"x" * (1 << 20))
    for _ in range(50):
        buffer.feed(b"y" * 100_000)
    (line,) = buffer.feed(b"tail\n")
    assert isinstance(line, Overlong)
    assert line.head.startswith(b"head") and len(line.head) == HEAD_BYTES
    assert line.tail.endswith(b"tail") and len(line.tail) == TAIL_BYTES
    assert line.size == 8 + (1 << 20) + 50 * 100_000


@given(IDS, st.text(max_size=30), st.sampled_from(["first", "middle", "last"]))
def test_the_id_is_found_at_the_top_level_only(request_id, text: str, place: str):
    params = {"id": 1, "text": text + '"id":2}', "deep": {"id": 3, "more": [{"id": 4}]}}
    members = [("jsonrpc", "2.0"), ("method", "tools/call"), ("params", params)]
    members.insert({"first": 0, "middle": 2, "last": 3}[place], ("id", request_id))
    line = json.dumps(dict(members)).encode()
    damaged = line.replace(b'"deep":', b'"deep": \xff')
    assert rescue_id(damaged, damaged) == request_id
    without = (
        json.dumps({key: value for key, value in members if key != "id"}).encode().replace(b'"deep":', b'"deep": \xff')
    )
    assert rescue_id(without, without) is None


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","result":{"text":"\xff"},"id":5}',
        b'{"error":{"message":"\xff"},"jsonrpc":"2.0","id":5}',
        b'{"method":"x","params":"\xff","id":null}',
        b'{"method":"x","params":"\xff","id":true}',
        b'{"method":"x","params":"\xff","id":[1]}',
        b'["id",5',
        b'"id":5}',
        b"id",
        b"",
        b'{"method":"x","params":"ends with \\"id\\":5}',
    ],
)
def test_where_no_id_can_be_told_there_is_none(line: bytes):
    assert rescue_id(line, line) is None


def test_ids_that_can_be_answered():
    assert [is_id(value) for value in (0, "", 1.5, None, True, [], {})] == [
        True,
        True,
        True,
        False,
        False,
        False,
        False,
    ]
    assert json.loads(error_line("x", -31002, "no", {"code": "c"})) == {
        "jsonrpc": "2.0",
        "id": "x",
        "error": {"code": -31002, "message": "no", "data": {"code": "c"}},
    }
