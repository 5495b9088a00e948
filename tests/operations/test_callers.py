"""Does a project keep its scope when its remote changes, and does a broken alias table stop no reading?"""

from __future__ import annotations

import json
import shutil

import pytest

from memoryd.errors import NotFound, ScopeUnknown, VaultFileInvalid
from memoryd.operations import artifacts, callers, gateway, reading
from memoryd.operations.brief import recall
from memoryd.operations.health import status
from memoryd.operations.home import Caller
from memoryd.sources.projects import project_of
from tests.operations.conftest import commits, git, opened, settle

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


def bare(tmp_path, name):
    """A repository to clone from, with one commit."""
    made = tmp_path / "made" / name
    made.mkdir(parents=True)
    git("init", "-q", cwd=made)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=made)
    git("clone", "-q", "--bare", made, tmp_path / f"{name}.git", cwd=tmp_path)
    return tmp_path / f"{name}.git"


def test_another_clone_at_the_place_of_a_former_project_is_a_project_of_its_own(home, tmp_path):
    """One folder for whatever is worked on, as containers and build machines have it."""
    place = tmp_path / "workspace"
    one, two = bare(tmp_path, "one"), bare(tmp_path, "two")
    caller = Caller(directory=str(place))
    git("clone", "-q", one, place, cwd=tmp_path)
    first = add(home, caller, "The first project's secret.")
    shutil.rmtree(place)
    git("clone", "-q", two, place, cwd=tmp_path)
    with pytest.raises(NotFound):
        reading.get(home, caller, id=first["id"])
    second = add(home, caller, "The second project's own.")
    assert second["scope"] != first["scope"]
    shutil.rmtree(place)
    git("clone", "-q", one, place, cwd=tmp_path)
    assert reading.get(home, caller, id=first["id"])["scope"] == first["scope"]
    assert not (home.vault.path / "scopes.json").exists()


def test_a_clone_keeps_its_scope_however_often_its_remote_changes(home, tmp_path):
    place = tmp_path / "shop"
    git("clone", "-q", bare(tmp_path, "shop"), place, cwd=tmp_path)
    caller = Caller(directory=str(place))
    first = add(home, caller)
    for number in range(3):
        git("remote", "set-url", "origin", f"https://example.org/me/shop{number}.git", cwd=place)
        assert reading.get(home, caller, id=first["id"])["scope"] == first["scope"]
        assert add(home, caller, f"Port {number}.")["scope"] == first["scope"]
    git("remote", "remove", "origin", cwd=place)
    assert add(home, caller)["outcome"] == "exists"


def test_look_alike_names_share_nothing(home, project, tmp_path):
    """Confusable letters, other case, composed or not, a blank, the same name elsewhere, one name within another."""
    names = [
        "shop",
        "sh0p",
        "Shop",
        "sh\u043ep",
        "shop ",
        "shop-1",
        "caf\u00e9",
        "cafe\u0301",
        "p-shop-0011aabb",
        "elsewhere/shop",
    ]
    told = {}
    for number, name in enumerate(names):
        caller = project(name)
        told[name] = (caller, add(home, caller, f"Said in folder number {number}."))
    scopes = {answer["scope"] for _, answer in told.values()}
    assert len(scopes) == len(names)
    settle(home)
    for name, (caller, answer) in told.items():
        found = reading.search(home, caller, query="said in folder number", mode="keyword")["memories"]
        assert [one["id"] for one in found] == [answer["id"]], name
        for scope in scopes - {answer["scope"]}:
            named = reading.search(home, caller, query="said", mode="keyword", scope=scope)["memories"]
            assert answer["id"] not in [one["id"] for one in named]


def test_a_scope_is_named_by_its_whole_id_alone(home, project):
    """No part, other case, confusable sign, blank or path of an id stands for it."""
    caller, elsewhere = project("shop"), Caller()
    scope = add(home, caller)["scope"]
    wrong = [
        scope[:-1],
        scope[:-8],
        f"{scope}0",
        scope.upper(),
        scope.replace("o", "\u043e"),
        scope.replace("o", "0"),
        f" {scope}",
        f"{scope}\n",
        f"{scope}/fact",
        f"global,{scope}",
        f"*{scope[1:]}",
        "p-%",
        "p-shop-________",
        "GLOBAL",
        "",
        "*",
    ]
    for name in wrong:
        for call in (
            lambda name=name: reading.search(home, elsewhere, query="port", scope=name),
            lambda name=name: reading.get(home, elsewhere, source="vault/x", scope=name),
            lambda name=name: recall(home, elsewhere, task="port", scope=name),
            lambda name=name: gateway.add(home, elsewhere, content="x", type="fact", scope=name),
            lambda name=name: artifacts.add_given(home, elsewhere, text="x", scope=name),
        ):
            with pytest.raises(ScopeUnknown):
                call()
    assert reading.search(home, elsewhere, query="port", scope=scope, mode="keyword")["index"]


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
