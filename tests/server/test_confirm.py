"""Is a person asked where that is possible, is a no respected, and is sealed state of use for one call only?"""

from __future__ import annotations

import pytest

from memoryd.server.confirm import STATE_SECONDS, Seal
from memoryd.server.sdk import MCPError
from tests.daemons import ENVELOPE, Proxy, Stack

ELICITING = {**ENVELOPE, "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}


def test_state_opens_for_its_own_call_only():
    now = [1000.0]
    seal = Seal(b"k" * 32, clock=lambda: now[0])
    state = seal.close("token", "change", {"id": "a"})
    assert seal.open(state, "change", {"id": "a"}) == "token"
    for wrong in (
        (state, "change", {"id": "b"}),
        (state, "other", {"id": "a"}),
        (state[:-1] + "0" if state[-1] != "0" else state[:-1] + "1", "change", {"id": "a"}),
        ("", "change", {"id": "a"}),
        ("x.y", "change", {"id": "a"}),
        ("é.é", "change", {"id": "a"}),
    ):
        with pytest.raises(MCPError):
            seal.open(*wrong)
    with pytest.raises(MCPError):
        Seal(b"q" * 32).open(state, "change", {"id": "a"})
    now[0] += STATE_SECONDS + 1
    with pytest.raises(MCPError, match="too old"):
        seal.open(state, "change", {"id": "a"})


@pytest.mark.parametrize(
    ("version", "capabilities"),
    [("2025-06-18", {}), ("2025-03-26", {"elicitation": {}}), ("2025-11-25", {"elicitation": {"url": {}}})],
)
def test_hosts_that_cannot_ask_get_the_token(served: Stack, version: str, capabilities: dict):
    proxy = served.proxy()
    proxy.hello(version, capabilities)
    answer = proxy.call("change", id="t1")
    assert answer["outcome"] == "preview"
    assert proxy.call("change", id="t1", confirm=answer["confirm"])["outcome"] == "changed"


def ask_and_answer(proxy: Proxy, answer: dict, id: str) -> dict:
    call = proxy.call_id("change", id=id)
    question = proxy.message()
    assert question["method"] == "elicitation/create"
    assert question["params"]["requestedSchema"]["required"] == ["confirm"]
    proxy.send({"jsonrpc": "2.0", "id": question["id"], **answer})
    return proxy.answer(call)["result"]["structuredContent"]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({"result": {"action": "accept", "content": {"confirm": True}}}, "changed"),
        ({"result": {"action": "accept", "content": {"confirm": False}}}, "declined"),
        ({"result": {"action": "accept"}}, "declined"),
        ({"result": {"action": "decline"}}, "declined"),
        ({"result": {"action": "cancel"}}, "preview"),
        ({"error": {"code": -32601, "message": "no forms here"}}, "preview"),
    ],
)
def test_what_the_person_says_decides(served: Stack, answer: dict, outcome: str):
    proxy = served.proxy()
    proxy.hello("2025-11-25", {"elicitation": {"form": {}}})
    before = len(served.written())
    assert ask_and_answer(proxy, answer, "p1")["outcome"] == outcome
    assert len(served.written()) == before + (outcome == "changed")


def modern(proxy: Proxy, arguments: dict, **more) -> dict:
    return proxy.request("tools/call", {"name": "change", "arguments": arguments, "_meta": ELICITING, **more})


def test_modern_hosts_ask_by_themselves(served: Stack):
    proxy = served.proxy()
    first = modern(proxy, {"id": "m1"})["result"]
    assert first["resultType"] == "input_required"
    state = first["requestState"]
    no = modern(proxy, {"id": "m1"}, requestState=state, inputResponses={"confirm": {"action": "decline"}})
    assert no["result"]["structuredContent"]["outcome"] == "declined"
    unclear = modern(proxy, {"id": "m1"}, requestState=state)
    assert unclear["result"]["structuredContent"]["outcome"] == "preview"
    yes = {"confirm": {"action": "accept", "content": {"confirm": True}}}
    for _ in range(2):  # redeemed again it gives the same answer
        done = modern(proxy, {"id": "m1"}, requestState=state, inputResponses=yes)
        assert done["result"]["structuredContent"] == {"outcome": "changed", "id": "m1"}


def test_answers_without_a_state_are_asked_again(served: Stack):
    proxy = served.proxy()
    yes = {"confirm": {"action": "accept", "content": {"confirm": True}}}
    before = served.written()
    assert modern(proxy, {"id": "m2"}, inputResponses=yes)["result"]["resultType"] == "input_required"
    forged = modern(proxy, {"id": "m2"}, requestState="forged.state", inputResponses=yes)
    assert forged["error"]["code"] == -32602
    assert served.written() == before


def test_a_modern_host_without_forms_gets_the_token(served: Stack):
    proxy = served.proxy()
    assert proxy.call("change", modern=True, id="m3")["outcome"] == "preview"
