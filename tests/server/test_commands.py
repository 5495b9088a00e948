"""Commands of the shell are no tools: no session is offered them or can call them."""

from __future__ import annotations

import pytest

from memoryd.errors import NotFound, UnknownParameter
from memoryd.records import encode_path
from memoryd.runtime import RuntimePaths
from memoryd.server.commands import WRITING, caller_of, path_of
from memoryd.server.tools import MemoryToolbox


@pytest.fixture
def toolbox(tmp_path):
    return MemoryToolbox(RuntimePaths(str(tmp_path / "home")))


def test_only_the_shell_reaches_commands(toolbox):
    names = [command.name for command in toolbox.commands if command.name not in WRITING]
    assert {"snapshot_list", "snapshot_compare", "artifact_keep", "vault_status", "memory_why"} <= set(names)
    for name in names:
        assert toolbox.command(name).name == name
        with pytest.raises(NotFound):
            toolbox.named(name)
    assert not {tool.name for tool in toolbox.tools} & set(names)
    assert toolbox.command("memory_search").name == "memory_search"
    with pytest.raises(NotFound):
        toolbox.command("nothing")


def test_only_the_shell_may_let_a_secret_in(toolbox):
    for name in WRITING:
        theirs, ours = toolbox.named(name), toolbox.command(name)
        assert set(ours.schema["properties"]) - set(theirs.schema["properties"]) == {"allow_secret"}
        assert ours.schema["required"] == theirs.schema["required"]
        given = {one: "fact" if one == "type" else "3f9a2c81" for one in theirs.schema["required"]}
        assert ours.checked({**given, "allow_secret": True}) == {**given, "allow_secret": True}
        with pytest.raises(UnknownParameter):
            theirs.checked({**given, "allow_secret": True})
    assert not any("allow_secret" in tool.schema["properties"] for tool in toolbox.tools)


def test_looking_commands_change_nothing_and_adding_is_a_write(toolbox):
    read_only = {command.name: command.read_only for command in toolbox.commands}
    assert read_only["snapshot_list"] and read_only["snapshot_compare"] and read_only["vault_status"]
    assert not any(read_only[name] for name in ("artifact_keep", *WRITING))


@pytest.mark.parametrize("path", [b"/plain", b"/caf\xc3\xa9", b"/o\xffdd"])
def test_any_path_travels_in_a_jobs_arguments(path):
    assert path_of(encode_path(path)).encode("utf-8", "surrogateescape") == path


def test_who_asks_for_a_job():
    assert caller_of({"directory": "/w"}).directory == "/w"
    assert caller_of({}).directory is None
    assert caller_of({"directory": 3}).directory is None
