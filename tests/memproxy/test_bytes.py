"""What may stand on a line, how long may it be, and what comes out on stdout?"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from memoryd.runtime import MAX_LINE_BYTES
from tests.daemons import Proxy, Stack

TEXT = '★ 🎉 Кириллица 繁體中文 \u2028 \\ " \t'


def test_h11_bytes_that_are_no_utf8_cost_only_their_line(served: Stack):
    """H11: FF FE, then a valid request."""
    proxy = served.session()
    proxy.write(b"\xff\xfe\n")
    proxy.write(b'{"truncated": \n')
    assert proxy.call("show", text="fine")["text"] == "fine"
    assert proxy.seen == []


def test_h11_a_damaged_line_with_an_id_is_answered(served: Stack):
    """H11: the id is found before or behind the damage; never an answer with a null id."""
    proxy = served.session()
    proxy.write(b'{"jsonrpc":"2.0","id":70,"method":"tools/call","params":{"name":"\xff"}}\n')
    proxy.write(b'{"method":"tools/call","params":{"name":"\xff","id":1},"jsonrpc":"2.0","id":"z"}\n')
    proxy.write(b'{"jsonrpc":"2.0","id":71,"method":"tools/call","params":{"n": NaN}}\n')
    assert proxy.answer(70)["error"]["code"] == -32700
    assert proxy.answer("z")["error"]["code"] == -32700
    assert proxy.answer(71)["error"]["code"] == -32700
    assert proxy.call("show", text="fine")["text"] == "fine"
    assert proxy.seen == []


@pytest.mark.parametrize("locale", ["C", "POSIX", "en_US.ISO-8859-1", "zh_TW.BIG5"])
def test_h11_text_round_trips_whatever_the_locale(served: Stack, locale: str):
    """H11: stars, emoji, Cyrillic and Chinese under a legacy code page."""
    proxy = served.session(
        env={**os.environ, "LC_ALL": locale, "LANG": locale, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    )
    assert proxy.call("show", text=TEXT)["text"] == TEXT
    line = json.dumps(
        {"jsonrpc": "2.0", "id": 900, "method": "tools/call", "params": {"name": "show", "arguments": {"text": TEXT}}},
        ensure_ascii=False,
    )
    proxy.write(line.encode() + b"\n")
    assert proxy.answer(900)["result"]["structuredContent"]["text"] == TEXT


@pytest.mark.parametrize("text", ["\\ud83d", "\\udc00", "a\\u0000b"])
def test_h12_what_no_file_can_hold_is_refused_by_name(served: Stack, text: str):
    """H12: an unpaired surrogate or NUL is a tool error that names the parameter, before anything is written."""
    proxy = served.session()
    proxy.write(
        b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"write","arguments":{"text":"%s"}}}\n'
        % text.encode()
    )
    result = proxy.answer(5)["result"]
    assert result["isError"] and result["structuredContent"]["code"] == "bad-characters"
    assert "`text`" in result["structuredContent"]["message"]
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert served.written() == []


def test_h12_a_paired_escape_becomes_its_character(served: Stack):
    """H12: \\ud83c\\udf89 is one character."""
    proxy = served.session()
    proxy.write(
        b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"show","arguments":{"text":"\\ud83c\\udf89"}}}\n'
    )
    assert proxy.answer(5)["result"]["structuredContent"]["text"] == "🎉"


def test_h12_a_surrogate_in_a_result_is_shown_escaped(served: Stack):
    """H12: a file name that is not UTF-8 must not poison the conversation."""
    proxy = served.session()
    assert proxy.call("show", kind="surrogate")["text"] == "file \\udce4.md"
    assert proxy.call("show", text="next")["text"] == "next"


def sized_request(proxy: Proxy, size: int, character: str = "x") -> bytes:
    """A request line of exactly `size` bytes, newline not counted; the id comes last as some SDKs write it."""
    call = {"method": "tools/call", "params": {"name": "show", "arguments": {"text": "@"}}, "jsonrpc": "2.0", "id": 8}
    frame = json.dumps(call, ensure_ascii=False).encode()
    room = size - len(frame) + 1
    text = character.encode() * (room // len(character.encode()))
    text += b"y" * (room - len(text))
    return frame.replace(b"@", text)


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 1 << 20, 10 << 20, MAX_LINE_BYTES - 1])
@pytest.mark.parametrize("character", ["x", "€"])
def test_h14_case_55_long_requests_pass_up_to_the_limit(served: Stack, size: int, character: str):
    """H14, case 55: also with a three-byte character on the boundaries; near the limit the answer is too large."""
    proxy = served.session()
    line = sized_request(proxy, size, character)
    assert len(line) == size
    proxy.write(line + b"\n")
    answer = proxy.answer(8)
    if size < MAX_LINE_BYTES // 2:  # the answer holds the text twice, as data and as text
        assert len(answer["result"]["structuredContent"]["text"].encode()) > size - 200
    else:
        assert answer["error"]["code"] == -32603 and "over the line limit" in answer["error"]["message"]
    assert proxy.call("show", text="next")["text"] == "next"


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 1 << 20, 4 << 20])
def test_h14_long_results_pass(served: Stack, size: int):
    """H14: results of the same sizes."""
    proxy = served.session()
    assert len(proxy.call("show", kind="big", size=size)["text"]) == size


def test_case_55_a_response_of_20_mb_is_a_typed_error(served: Stack):
    """Case 55: bounded, typed, the connection survives."""
    proxy = served.session()
    error = proxy.answer(proxy.call_id("show", kind="big", size=20_000_000))["error"]
    assert error["code"] == -32603 and str(MAX_LINE_BYTES) in error["message"]
    assert proxy.call("show", text="next")["text"] == "next"


@pytest.mark.parametrize("place", ["first", "last"])
def test_h14_a_request_over_the_limit_is_answered_by_its_id(served: Stack, place: str):
    """H14: the proxy enforces the limit, tells the id wherever it stands, and goes on."""
    proxy = served.session()
    filler = b'"params":{"name":"show","arguments":{"text":"' + b"x" * (MAX_LINE_BYTES + 10) + b'","id":3}}'
    parts = [b'"jsonrpc":"2.0"', b'"id":8', b'"method":"tools/call"', filler]
    if place == "last":
        parts = [b'"method":"tools/call"', filler, b'"jsonrpc":"2.0"', b'"id":8']
    proxy.write(b"{" + b",".join(parts) + b"}\n")
    error = proxy.answer(8)["error"]
    assert error["code"] == -32600 and str(MAX_LINE_BYTES) in error["message"]
    assert proxy.call("show", text="next")["text"] == "next"
    assert proxy.seen == []


def test_h14_a_line_that_never_ends_keeps_memory_bounded(served: Stack):
    """H14: 100 MiB without a newline."""
    proxy = served.session()
    for _ in range(100):
        proxy.write(b"x" * (1 << 20))
    proxy.write(b"\n")
    assert proxy.call("show", text="next")["text"] == "next"
    status = Path(f"/proc/{proxy.process.pid}/status").read_text()
    peak = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
    assert peak < 80_000


def test_case_55_a_truncated_frame_at_the_end_of_stdin(served: Stack):
    """Case 55: half a line, then nothing: no answer, clean exit."""
    proxy = served.session()
    proxy.write(b'{"jsonrpc":"2.0","id":3,"method":"tools/li')
    proxy.close()
    assert proxy.wait() == 0
    assert proxy.line() is None


def test_what_is_no_request_is_answered_only_where_it_can_be(served: Stack):
    proxy = served.session()
    for message in (
        {"jsonrpc": "2.0", "id": None, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": True, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": {"a": 1}, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 99, "result": {}},
        {"jsonrpc": "2.0", "id": "unasked", "result": {}},
        42,
        "text",
    ):
        proxy.send(message)
    assert proxy.quiet(0.2) == []
    proxy.send({"jsonrpc": "2.0", "id": 1.5, "method": "tools/list"})
    assert proxy.answer(1.5)["error"]["code"] == -32600
    proxy.send({"jsonrpc": "2.0", "id": 30, "method": 5})
    assert proxy.answer(30)["error"]["code"] == -32600
    proxy.send({"jsonrpc": "1.0", "id": 31, "method": "tools/list"})
    assert proxy.answer(31)["error"]["code"] == -32600
    proxy.send({"jsonrpc": "2.0", "id": 32, "method": "tools/list", "params": [1]})
    assert proxy.answer(32)["error"]["code"] in {-32600, -32602}
    proxy.send({"jsonrpc": "2.0", "id": 33, "method": "no/such"})
    assert proxy.answer(33)["error"]["code"] == -32601
    proxy.write(b'{"jsonrpc":"2.0","id":34,"method":"tools/list","params":' + b"[" * 50_000 + b"]" * 50_000 + b"}\n")
    assert proxy.answer(34)["error"]["code"] == -32700
    assert proxy.call("show", text="next")["text"] == "next"


def test_batches_are_refused_one_by_one(served: Stack):
    proxy = served.session()
    proxy.send([{"jsonrpc": "2.0", "id": 40, "method": "ping"}, {"jsonrpc": "2.0", "method": "x"}, 5])
    assert proxy.answer(40)["error"]["code"] == -32600
    assert proxy.quiet(0.2) == []


@pytest.mark.parametrize("debug", [False, True])
def test_h10_case_54_stdout_holds_nothing_but_json_rpc(stack: Stack, debug: bool):
    """H10, case 54: cold start, prints in the daemon, an imported module of the proxy that prints, writes to
    descriptor 1, an exception in a tool: every line of stdout is JSON-RPC."""
    extra = "print('printed'); import os; "
    environment = {**os.environ, **({"PYTHONWARNINGS": "always", "PYTHONVERBOSE": "1"} if debug else {})}
    noisy = (
        "import memproxy.session as s; old = s.Session.host_line; "
        "s.Session.host_line = lambda self, line: (print('library talk', flush=True), os.write(1, b'native'), old(self, line))[2]; "
    )
    import sys

    from tests.daemons import START

    code = START.format(extra=f"import os; sys.executable = {str(stack.starter)!r}; {noisy}")
    proxy = Proxy([sys.executable, "-c", code, "--home", str(stack.home)], env=environment, stderr=None)
    stack.proxies.append(proxy)
    del extra
    proxy.hello()
    assert proxy.call("show", kind="print")["printed"] is True
    failed = proxy.answer(proxy.call_id("show", kind="fail"))["result"]
    assert failed["isError"]
    proxy.end()
    assert proxy.seen == []
    assert "printed by a library" in stack.log() and "written to descriptor 1" in stack.log()
