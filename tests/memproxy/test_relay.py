"""Does one session talk to the daemon as if it were the server itself, in both protocol eras?"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.daemons import ENVELOPE, MODERN, Stack, wait_for


def test_legacy_session_from_nothing_to_an_answer(stack: Stack):
    proxy = stack.proxy()
    result = proxy.hello()
    assert result["serverInfo"]["name"] == "memoryd"
    assert result["capabilities"]["tools"] == {"listChanged": True}
    assert result["instructions"] == "A daemon for tests."
    names = [tool["name"] for tool in proxy.request("tools/list")["result"]["tools"]]
    assert names == ["slow", "show", "die", "write", "write_then_die", "change"]
    assert proxy.call("show", text="hello")["text"] == "hello"
    assert stack.starts == 1


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_each_legacy_revision(served: Stack, version: str):
    proxy = served.proxy()
    assert proxy.hello(version)["protocolVersion"] == version
    answer = proxy.answer(proxy.call_id("show", text="x"))["result"]
    assert answer["structuredContent"]["text"] == "x"
    assert "resultType" not in answer


def test_modern_session(served: Stack):
    proxy = served.proxy()
    answer = proxy.request("server/discover", {"_meta": ENVELOPE})
    assert MODERN in answer["result"]["supportedVersions"]
    listed = proxy.request("tools/list", {"_meta": ENVELOPE})["result"]
    assert listed["ttlMs"] > 0 and listed["cacheScope"] == "public" and listed["resultType"] == "complete"
    assert proxy.call("show", modern=True, text="hello")["text"] == "hello"


def test_initialize_after_discover_gets_a_fresh_connection(served: Stack):
    proxy = served.proxy()
    proxy.request("server/discover", {"_meta": ENVELOPE})
    assert proxy.hello("2025-11-25")["protocolVersion"] == "2025-11-25"
    assert proxy.call("show", text="legacy now")["text"] == "legacy now"
    assert not [m for m in proxy.seen if m.get("method") == "notifications/tools/list_changed"]


def test_initialize_while_a_modern_call_is_in_flight_answers_both(served: Stack):
    proxy = served.proxy()
    slow = proxy.call_id("slow", modern=True, seconds=0.4)
    first = proxy.ask(
        "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    )
    assert proxy.answer(slow)["result"]["structuredContent"] == {"slept": True}
    assert proxy.answer(first)["result"]["protocolVersion"] == "2025-06-18"


def test_the_start_directory_reaches_the_tools_whatever_the_locale(served: Stack, tmp_path: Path):
    """H11: directory names travel as bytes, not through a code page."""
    folder = tmp_path / "проект ★"
    folder.mkdir()
    for locale in ({"LC_ALL": "C"}, {"LC_ALL": "en_US.ISO-8859-1", "PYTHONCOERCECLOCALE": "0"}):
        proxy = served.session(cwd=folder, env={**os.environ, **locale})
        assert proxy.call("show")["directory"] == str(folder)


def test_a_start_directory_that_is_gone(served: Stack, tmp_path: Path):
    folder = tmp_path / "gone"
    folder.mkdir()
    proxy = served.proxy(cwd=folder)
    wait_for(lambda: os.readlink(f"/proc/{proxy.process.pid}/cwd") == str(folder))
    proxy.hello()
    other = served.proxy(cwd=folder, preexec_fn=folder.rmdir)
    other.hello()
    assert other.call("show")["directory"] is None


def test_many_requests_written_at_once_are_each_answered_once(served: Stack):
    proxy = served.session()
    ids = [proxy.call_id("show", text=f"n{n}") for n in range(300)]
    texts = {proxy.answer(id)["result"]["structuredContent"]["text"] for id in ids}
    assert texts == {f"n{n}" for n in range(300)}
    assert proxy.quiet(0.2) == []


def test_string_ids_and_integer_ids_are_different(served: Stack):
    proxy = served.session()
    proxy.ask("tools/call", {"name": "show", "arguments": {"text": "string"}}, id="7")
    assert proxy.answer("7")["result"]["structuredContent"]["text"] == "string"
    proxy.ask("tools/call", {"name": "show", "arguments": {"text": "number"}}, id=7000)
    assert proxy.answer(7000)["result"]["structuredContent"]["text"] == "number"


def test_an_id_in_use_is_refused(served: Stack):
    proxy = served.session()
    slow = proxy.call_id("slow", seconds=0.5)
    proxy.ask("tools/list", id=slow)
    refused = proxy.message()
    assert refused["id"] == slow and refused["error"]["code"] == -32600
    assert proxy.message()["result"]["structuredContent"] == {"slept": True}


def test_a_host_that_stops_reading_loses_nothing(served: Stack):
    """Backpressure: answers of 20 MB wait in the daemon, not in the proxy's memory."""
    proxy = served.session()
    ids = [proxy.call_id("show", kind="big", size=2_000_000) for _ in range(10)]
    wait_for(lambda: _rss(proxy) > 0)
    for id in ids:
        assert len(proxy.answer(id)["result"]["structuredContent"]["text"]) == 2_000_000
    assert _rss(proxy) < 60_000


def _rss(proxy) -> int:
    for line in Path(f"/proc/{proxy.process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1])
    return 0


@pytest.mark.parametrize("arguments", [["--home"], ["--home="], ["--nonsense"]])
def test_wrong_arguments_end_with_2(served: Stack, arguments: list[str]):
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-c", "from memproxy.relay import main; raise SystemExit(main())", *arguments],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 2 and done.stdout == b"" and done.stderr.startswith(b"memproxy: ")
