"""Does a project keep its scope when its remote changes, and does a broken alias table stop no reading?"""

from __future__ import annotations

import json
import shutil

import pytest

from memoryd.errors import VaultFileInvalid
from memoryd.operations import callers, gateway, reading
from memoryd.operations.brief import recall
from memoryd.operations.health import status
from memoryd.operations.home import Caller
from memoryd.sources.projects import project_of
from tests.operations.conftest import commits, git, opened

OLD, NEW = "https://example.org/me/shop.git", "git@example.com:team/store.git"


def add(home, caller, content="Port 8080."):
    return gateway.add(home, caller, content=content, type="fact")


def test_a_changed_remote_keeps_the_scope_also_for_new_clones(root, project, tmp_path):
    caller = project("shop")
    git("remote", "add", "origin", OLD, cwd=caller.directory)
    with opened(root) as home:
        first = add(home, caller)
        git("remote", "set-url", "origin", NEW, cwd=caller.directory)
        assert callers.described(home, caller)["writes"] == first["scope"], "before any write too"
        assert commits(home) == 1, "reading writes nothing"
        again = add(home, caller)
        assert (again["outcome"], again["id"], again["scope"]) == ("exists", first["id"], first["scope"])
        table = json.loads((home.vault.path / "scopes.json").read_text())
        assert table == {"v": 1, "aliases": {"remote:example.com/team/store": first["scope"]}}
        assert git("status", "--porcelain", cwd=home.vault.path) == ""
        assert commits(home) == 2
        assert home.state.intents.all() == []
        record = home.scopes.get(first["scope"])
        assert (record.remote, record.root) == ("example.com/team/store", caller.directory)
        add(home, caller)
        assert commits(home) == 2, "once"
    clone = project("elsewhere")
    git("remote", "add", "origin", NEW, cwd=clone.directory)
    with opened(root) as home:
        assert reading.get(home, clone, id=first["id"])["scope"] == first["scope"]
        assert add(home, clone)["outcome"] == "exists"


def test_a_session_keeps_its_project_when_its_directory_is_removed(home, project):
    caller = project("shop")
    first = add(home, caller)
    shutil.rmtree(caller.directory)
    assert reading.get(home, caller, id=first["id"])["scope"] == first["scope"]
    assert add(home, caller, "Port 9090.")["scope"] == first["scope"]


def test_a_first_remote_keeps_the_scope_of_the_path(home, project):
    caller = project("shop")
    first = add(home, caller)
    git("remote", "add", "origin", NEW, cwd=caller.directory)
    assert add(home, caller)["id"] == first["id"]
    git("remote", "remove", "origin", cwd=caller.directory)
    assert add(home, caller)["id"] == first["id"]


def test_a_remote_that_is_a_project_of_its_own_stays_one(home, project):
    one, two = project("one"), project("two")
    git("remote", "add", "origin", OLD, cwd=one.directory)
    git("remote", "add", "origin", NEW, cwd=two.directory)
    first, second = add(home, one), add(home, two)
    assert first["scope"] != second["scope"]
    git("remote", "set-url", "origin", NEW, cwd=one.directory)
    assert callers.described(home, one)["writes"] == second["scope"]
    assert not (home.vault.path / "scopes.json").exists()


@pytest.mark.parametrize("text", ['{"v": 1,\n "aliases": {,\n', "[]", '{"aliases": {"a": 1}}', "\udcff"])
def test_a_broken_alias_table_stops_no_reading_and_is_named(root, project, text):
    caller = project("shop")
    git("remote", "add", "origin", NEW, cwd=caller.directory)
    plain = project_of(caller.directory, {}).scope
    kept = "p-shop-0011aabb"
    with opened(root) as home:
        file = home.vault.path / "scopes.json"
        file.write_text(json.dumps({"v": 1, "aliases": {"remote:example.com/team/store": kept}}))
        first = add(home, caller)
        assert first["scope"] == kept
        file.write_text(text, errors="surrogateescape")
        assert callers.described(home, caller)["writes"] == kept, "the last good table"
        assert add(home, caller)["id"] == first["id"]
        assert reading.get(home, caller, id=first["id"])["scope"] == kept
        assert reading.search(home, caller, query="port", mode="keyword")["index"]["generation"] == 1
        assert recall(home, caller, task="ports")["index"]["generation"] == 1
        (notice,) = status(home, caller)["notices"]
        line = 2 if "\n" in text else 1
        assert f"line {line}" in notice
        assert notice.count("scopes.json") >= 2
        assert "Correct" in notice
        assert "Markdown" not in notice
        assert file.read_text(errors="surrogateescape") == text, "never rewritten"
    with opened(root) as home:
        assert callers.described(home, caller)["writes"] == kept, "its root is known by it"
        other = project("other")
        assert status(home, other)["scopes"]["writes"] not in (None, plain, kept)
        with pytest.raises(VaultFileInvalid) as caught:
            add(home, other)
        assert "scopes.json" in caught.value.next_step
        assert gateway.add(home, Caller(), content="Words.", type="fact", scope="global")["outcome"] == "added"
        file.unlink()
        assert status(home, caller)["notices"] == []
        assert add(home, other)["outcome"] == "added"
