"""Does a real session's secret stay out of a real daemon's home, and can the session not let it in?"""

from __future__ import annotations

from pathlib import Path

from tests.daemons import stack_in
from tests.extract.credentials import Maker
from tests.templates import written


def test_a_session_cannot_store_a_secret_nor_say_that_it_may(tmp_path: Path):
    one = Maker(6).of("github-token")
    said = {"content": f"The bot's token is {one}.", "type": "fact", "scope": "global"}
    with stack_in(tmp_path, fixture=False) as stack:
        proxy = stack.session(cwd=stack.starter.parent)
        refused = proxy.answer(proxy.call_id("memory_add", **said))["result"]
        assert refused["isError"] and refused["structuredContent"]["code"] == "secret-found"
        assert one[4:] not in str(refused)
        known = proxy.call("memory_add", content="The bot has a token.", type="fact", scope="global")["id"]
        calls = {
            "memory_add": said,
            "memory_supersede": {"id": known, "content": said["content"]},
            "memory_archive": {"id": known, "reason": said["content"]},
        }
        for tool, arguments in calls.items():
            answer = proxy.answer(proxy.call_id(tool, **arguments, allow_secret=True))["result"]
            assert answer["isError"] and answer["structuredContent"]["code"] == "unknown-parameter", tool
            assert "`allow_secret`" in answer["structuredContent"]["message"]
        kept = proxy.call("artifact_add", text=said["content"], scope="global", redact=True)
        assert kept["redacted"] == {"count": 1, "kinds": {"github-token": 1}}
        holding = [p for p in stack.home.rglob("*") if p.is_file() and one[4:].encode() in written(p)]
        assert holding == []
