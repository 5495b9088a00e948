"""Does one session talk to the daemon as if it were the server itself, in both protocol eras?"""

from __future__ import annotations

from tests.daemons import ENVELOPE, Stack


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


def test_modern_session_from_nothing_to_an_answer(stack: Stack):
    proxy = stack.proxy()
    answer = proxy.request("server/discover", {"_meta": ENVELOPE})
    assert "2026-07-28" in answer["result"]["supportedVersions"]
    listed = proxy.request("tools/list", {"_meta": ENVELOPE})["result"]
    assert listed["ttlMs"] > 0 and listed["cacheScope"] == "public"
    assert proxy.call("show", modern=True, text="hello")["text"] == "hello"
