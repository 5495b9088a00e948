"""Are arguments checked by name, and does every call end as data?"""

from __future__ import annotations

import json
import threading
import time

import anyio
import pytest

from memoryd.errors import BadCharacters, DiskFull, InvalidInput, NotFound, ShuttingDown, UnknownParameter
from memoryd.server import lanes as lanes_module
from memoryd.server.lanes import Duty, Lanes
from memoryd.server.toolbox import Asker, Outcome, Tool, Toolbox, call

PARAMETERS = {
    "query": {"type": "string"},
    "max_results": {"type": "integer", "minimum": 1, "maximum": 20},
    "mode": {"type": "string", "enum": ["hybrid", "keyword"]},
    "path_prefix": {"type": "string"},
    "kinds": {"type": "array", "items": {"type": "string"}},
    "explain": {"type": "boolean"},
    "offset": {"type": "integer", "minimum": 0},
}


def tool(run=lambda _asker, given: given, **options) -> Tool:
    return Tool("memory_search", "Search", "Searches.", PARAMETERS, run, required=("query",), **options)


@pytest.mark.parametrize(
    ("given", "near"), [("path_prefx", "path_prefix"), ("kind", "kinds"), ("maxResults", "max_results")]
)
def test_case_61_an_unknown_parameter_is_refused_by_name(given: str, near: str):
    """Case 61: also the singular of a plural; the nearest known name is told."""
    with pytest.raises(UnknownParameter) as caught:
        tool().checked({"query": "x", given: "y"})
    assert f"`{given}`" in str(caught.value) and f"`{near}`" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        ({}, "query"),
        ({"query": None}, "query"),
        ({"query": 5}, "query"),
        ({"query": "x", "max_results": 0}, "max_results"),
        ({"query": "x", "max_results": 21}, "max_results"),
        ({"query": "x", "max_results": "5"}, "max_results"),
        ({"query": "x", "max_results": True}, "max_results"),
        ({"query": "x", "mode": "both"}, "mode"),
        ({"query": "x", "kinds": "memory"}, "kinds"),
        ({"query": "x", "kinds": [1]}, "kinds.0"),
        ({"query": "x", "explain": "yes"}, "explain"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict, parameter: str):
    with pytest.raises(InvalidInput) as caught:
        tool().checked(arguments)
    assert f"`{parameter}`" in str(caught.value) and caught.value.details["parameter"] == parameter


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"mode": "hybird"}, '`mode` is "hybird"; it must be one of `hybrid`, `keyword`. Did you mean `hybrid`?'),
        ({"mode": "both"}, '`mode` is "both"; it must be one of `hybrid`, `keyword`.'),
        ({"max_results": 21}, "`max_results` is 21; it must be from 1 to 20."),
        ({"max_results": "5"}, '`max_results` is "5"; it must be an integer.'),
        ({"kinds": "memory"}, '`kinds` is "memory"; it must be an array.'),
        ({"offset": -1}, "`offset` is -1; it must be at least 0."),
    ],
)
def test_a_refusal_says_what_may_be_passed(arguments: dict, words: str):
    with pytest.raises(InvalidInput) as caught:
        tool().checked({"query": "x", **arguments})
    assert str(caught.value) == f"memory_search: {words}"
    assert caught.value.details.get("allowed") == (["hybrid", "keyword"] if "mode" in arguments else None)


def test_null_counts_as_absent_and_whole_numbers_are_integers():
    given = tool().checked({"query": "x", "max_results": 5.0, "mode": None, "kinds": None, "explain": False})
    assert given == {"query": "x", "max_results": 5, "explain": False}
    assert type(given["max_results"]) is int


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x\udfff"])
def test_h12_characters_that_no_file_can_hold_are_refused_in_every_parameter(text: str):
    """H12: NUL and unpaired surrogates, also inside lists."""
    for arguments in ({"query": text}, {"query": "x", "kinds": ["memory", text]}):
        with pytest.raises(BadCharacters):
            tool().checked(arguments)


def test_a_refusal_never_repeats_a_huge_argument():
    with pytest.raises(InvalidInput) as caught:
        tool().checked({"query": "x", "mode": "y" * 1_000_000})
    assert len(str(caught.value)) < 500


def test_schemas_are_plain():
    schema = tool().schema
    assert schema["additionalProperties"] is False and schema["required"] == ["query"]
    assert all(isinstance(one["type"], str) for one in schema["properties"].values())


def test_an_unknown_tool_is_told_with_the_nearest():
    class Box(Toolbox):
        tools = (tool(),)

    with pytest.raises(NotFound, match="memory_search"):
        Box().named("memory_serch")


def opened() -> Lanes:
    made = Lanes()
    made.opened.set()
    return made


def ended(run, **options) -> Outcome:
    async def main() -> Outcome:
        return await call(opened(), tool(run, **options), Asker(), {"query": "x"})

    return anyio.run(main)


def test_a_typed_error_is_shown_as_it_is():
    def fail(_asker, _given):
        raise DiskFull("No space.", path="/x")

    outcome = ended(fail)
    assert outcome.error and outcome.data == DiskFull("No space.", path="/x").to_dict()
    assert json.loads(outcome.text) == outcome.data


@pytest.mark.parametrize(
    "error", [ValueError("secret"), KeyError("secret"), MemoryError("secret"), OSError(28, "secret")]
)
def test_any_other_error_is_a_reference(error: Exception, caplog: pytest.LogCaptureFixture):
    def fail(_asker, _given):
        raise error

    outcome = ended(fail)
    assert outcome.error and outcome.data["code"] == "internal-error" and "secret" not in outcome.text
    assert outcome.data["details"]["reference"] in caplog.text and "secret" in caplog.text


def test_text_and_data_are_equal_also_with_bad_names():
    outcome = ended(lambda _asker, _given: {"name": "file \udce4", "list": ["\ud800"], "★": 1})
    assert json.loads(outcome.text) == outcome.data == {"name": "file \\udce4", "list": ["\\ud800"], "★": 1}
    outcome.text.encode()


def test_h08_a_write_that_fails_leaves_its_lane_free():
    """H08: two writes in a row, one that raises in the middle, then more than there are writers."""
    done: list[int] = []

    def write(_asker, given):
        if given["query"] == "fail":
            raise ValueError("in the middle")
        done.append(1)
        return {}

    async def main() -> None:
        lanes = opened()
        one = tool(write)
        for query in ["a", "fail"] * 20 + ["b"]:
            with anyio.fail_after(10):
                await call(lanes, one, Asker(), {"query": query})
        async with anyio.create_task_group() as group:
            for _ in range(lanes_module.WRITERS * 3):
                group.start_soon(call, lanes, one, Asker(), {"query": "c"})
        assert lanes.active == 0

    anyio.run(main)
    assert len(done) == 21 + lanes_module.WRITERS * 3


def test_a_begun_write_outlives_a_cancel_and_a_waiting_one_does_not():
    ran: list[str] = []
    go = threading.Event()

    def write(_asker, given):
        ran.append(given["query"])
        go.wait(10)
        ran.append("end of " + given["query"])
        return {}

    async def main() -> None:
        lanes = opened()
        async with anyio.create_task_group() as group:
            for number in range(lanes_module.WRITERS + 3):
                group.start_soon(call, lanes, tool(write), Asker(), {"query": str(number)})
            while len(ran) < lanes_module.WRITERS:
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
            threading.Timer(0.1, go.set).start()
        assert lanes.active == 0

    anyio.run(main)
    assert len([name for name in ran if not name.startswith("end")]) == lanes_module.WRITERS
    assert len(ran) == 2 * lanes_module.WRITERS


def test_a_draining_daemon_runs_nothing_new():
    async def main() -> None:
        lanes = opened()
        lanes.draining = True
        with pytest.raises(ShuttingDown):
            await call(lanes, tool(), Asker(), {"query": "x"})
        assert lanes.active == 0 and lanes.calls["memory_search", "cancelled"] == 1

    anyio.run(main)


def test_a_home_that_does_not_open_in_time_is_a_typed_answer(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lanes_module, "OPENING_SECONDS", 0.05)

    async def main() -> Outcome:
        return await call(Lanes(), tool(), Asker(), {"query": "x"})

    assert anyio.run(main).data["code"] == "home-opening"


def test_a_look_at_the_state_never_waits_behind_work():
    """Case 57: status has threads of its own."""
    go = threading.Event()

    async def main() -> None:
        lanes = opened()
        async with anyio.create_task_group() as group:
            for _ in range(lanes_module.READERS + 5):
                group.start_soon(lanes.read, lambda: go.wait(10))
            for _ in range(lanes_module.WRITERS + 5):
                group.start_soon(lanes.write, lambda: go.wait(10))
            await anyio.sleep(0.1)
            with anyio.fail_after(5):
                assert await lanes.watch(lambda: 7) == 7
            go.set()

    anyio.run(main)


def test_a_duty_goes_on_after_failures_and_rests_until_woken(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lanes_module, "FAILED_PAUSE", 0.01)
    rounds: list[float] = []
    stopping = threading.Event()

    def body(_stop) -> float:
        rounds.append(time.monotonic())
        if len(rounds) == 1:
            raise ValueError("once")
        if len(rounds) == 2:
            raise DiskFull("twice")
        return 60.0

    duty = Duty("test", body)
    thread = threading.Thread(target=duty.keep, args=(stopping,))
    thread.start()
    while len(rounds) < 3:
        time.sleep(0.01)
    duty.wake.set()
    while len(rounds) < 4:
        time.sleep(0.01)
    stopping.set()
    duty.wake.set()
    thread.join(30)
    assert not thread.is_alive() and len(rounds) == 4


def test_a_list_without_end_is_refused_before_its_items_are_looked_at():
    with pytest.raises(InvalidInput, match="more than 100 items"):
        tool().checked({"query": "x", "kinds": ["memory"] * 1_000_000})


def test_an_unknown_name_of_any_length_is_refused_at_once():
    with pytest.raises(UnknownParameter) as caught:
        tool().checked({"query": "x", "k" * 5_000_000: 1})
    assert len(str(caught.value)) < 300
    with pytest.raises(NotFound):
        Toolbox().named("t" * 5_000_000)
