"""Artifacts: text is found, everything is kept, and no name reaches into another scope."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memoryd.digest import address_of
from memoryd.errors import (
    BlankContent,
    ContentForgotten,
    ContentTooLarge,
    InvalidInput,
    NotFound,
    OutsideProject,
    ScopeRequired,
)
from memoryd.operations import callers, reading
from memoryd.operations.artifacts import add, add_file, add_given
from memoryd.operations.check import check
from memoryd.operations.entries import get
from memoryd.operations.health import status
from memoryd.operations.home import Caller
from memoryd.operations.ingest import bury
from memoryd.operations.rebuild import rebuild
from memoryd.operations.scan import orphaned
from memoryd.records import TombstoneRecord
from tests.operations.conftest import configure, git, opened, settle

LOG = b"step 1 ok\nstep 2 failed: flux capacitor overheated\n"


def keep(home, caller, data: bytes = LOG, name: str = "build/log.txt", scope: str | None = "global", **more):
    return add(home, caller, data=data, name=name, scope=scope, **more)


def test_text_is_found_and_read_back(home, nobody):
    added = keep(home, nobody)
    assert (added["outcome"], added["source"], added["findable"]) == ("added", "artifact/global/build/log.txt", True)
    settle(home)
    (found,) = reading.search(home, nobody, query="flux capacitor", mode="keyword")["memories"]
    assert (found["source"], found["kind"]) == (added["source"], "document")
    assert get(home, nobody, source=added["source"])["content"] == LOG.decode()
    assert get(home, nobody, address=added["address"])["id"] == added["id"]
    assert orphaned(home) == [], "no configuration names artifacts"
    assert check(home, read_data=True)["clean"]


def test_the_same_bytes_under_the_same_name_are_one_entry(home, nobody):
    first = keep(home, nobody)
    again = keep(home, nobody)
    assert (again["outcome"], again["id"]) == ("exists", first["id"])
    assert len(home.documents.history(first["id"])) == 1
    assert keep(home, nobody, name="other.txt")["outcome"] == "added"
    changed = keep(home, nobody, LOG + b"more\n")
    assert (changed["outcome"], changed["id"]) == ("changed", first["id"])
    assert home.store.read(first["address"]) == LOG, "the former state stays"
    assert keep(home, nobody, LOG + b"more\n", tags=["ci"])["outcome"] == "changed"
    assert keep(home, nobody, LOG + b"more\n", tags=["ci"])["outcome"] == "exists"


def test_binary_artifacts_are_kept_and_not_searched(home, nobody):
    data = b"\x89PNG\r\n" + bytes(range(256)) * 10
    added = keep(home, nobody, data, "shot.png")
    assert (added["findable"], added["size"]) == (False, len(data))
    assert home.store.read(address_of(data)) == data


def test_a_name_means_something_else_in_every_scope(home, nobody, project):
    mine, yours = project("mine"), project("yours")
    one, other = keep(home, mine, b"mine", scope=None), keep(home, yours, b"yours", scope=None)
    assert one["id"] != other["id"]
    assert get(home, mine, source=one["source"])["content"] == "mine"
    with pytest.raises(NotFound):
        get(home, yours, source=one["source"])
    with pytest.raises(ScopeRequired):
        keep(home, nobody, scope=None)


@pytest.mark.parametrize("name", ["", "/abs", "a//b", "../up", "a/./b", "line\nbreak", "x" * 401, "a/"])
def test_names_that_are_none_are_refused(home, nobody, name):
    with pytest.raises(InvalidInput):
        keep(home, nobody, name=name)


def test_files_are_added_under_their_name_or_another(home, nobody, tmp_path):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/n\xe9e.log"))
    path.write_bytes(LOG)
    added = add_file(home, nobody, path=str(path), scope="global")
    assert added["source"] == "artifact/global/n\\xe9e.log"
    assert get(home, nobody, source=added["source"])["content"] == LOG.decode()
    link = tmp_path / "link"
    link.symlink_to(path)
    assert add_file(home, nobody, path=str(link), name="named", scope="global")["source"] == "artifact/global/named"
    for wrong in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(NotFound):
            add_file(home, nobody, path=str(wrong), scope="global")


def test_artifacts_over_the_limit_are_refused(root, nobody, tmp_path):
    configure(root, limits={"file_bytes": 1024})
    with opened(root) as home:
        with pytest.raises(ContentTooLarge):
            keep(home, nobody, b"x" * 1025)
        (tmp_path / "large").write_bytes(b"x" * 1025)
        with pytest.raises(ContentTooLarge):
            add_file(home, nobody, path=str(tmp_path / "large"), scope="global")
        assert keep(home, nobody, b"x" * 1024)["outcome"] == "added"


def test_what_was_erased_comes_back_only_when_a_person_says_so(home, nobody):
    added = keep(home, nobody)
    with home.store_lane:
        bury(home, [TombstoneRecord(added["address"], None, "secret")])
    with pytest.raises(ContentForgotten):
        keep(home, nobody)
    assert keep(home, nobody, allow_forgotten=True)["outcome"] in ("added", "changed")


def test_a_rebuild_brings_artifacts_back(root, nobody):
    with opened(root) as home:
        added = keep(home, nobody)
        settle(home)
    (root / "catalog.db").unlink()
    with opened(root) as home:
        rebuild(home)
        assert get(home, nobody, source=added["source"])["content"] == LOG.decode()
        assert status(home, nobody)["orphaned"] == []


@pytest.fixture
def inside(project):
    """A session in a folder of its project."""
    caller = project("app")
    folder = Path(caller.directory) / "build"
    folder.mkdir()
    (folder / "log.txt").write_bytes(LOG)
    return Caller(str(folder))


def test_a_session_adds_text_once_whatever_it_repeats(home, inside):
    first = add_given(home, inside, text="Ünïcode output.\n", tags=["ci"])
    digits = first["address"].removeprefix("sha256:")
    assert first["source"] == f"artifact/{first['scope']}/text-{digits[:8]}.txt"
    assert (first["outcome"], first["size"], first["findable"]) == ("added", 18, True)
    assert first["source"] in first["next"]
    again = add_given(home, inside, text="Ünïcode output.\n")
    assert again == {**first, "outcome": "exists"}
    assert home.documents.get(first["id"]).tags == ("ci",), "tags that are not named stay"
    assert add_given(home, inside, text="Ünïcode output.\n", tags=[])["outcome"] == "changed"
    assert home.documents.get(first["id"]).tags == ()
    assert get(home, inside, address=first["address"])["content"] == "Ünïcode output.\n"


def test_a_session_adds_a_file_of_its_project_under_its_path(home, inside):
    for path in ("log.txt", "../build/log.txt", f"{inside.directory}/log.txt"):
        added = add_given(home, inside, path=path)
        assert added["source"] == f"artifact/{added['scope']}/build/log.txt"
    assert added["outcome"] == "exists"
    named = add_given(home, inside, path="log.txt", name="ci/1", scope="global")
    assert named["source"] == "artifact/global/ci/1"
    (Path(inside.directory) / "shot.png").write_bytes(b"\x89PNG\r\n" + bytes(range(256)))
    kept = add_given(home, inside, path="shot.png")
    assert not kept["findable"]
    assert kept["next"].startswith("It is stored, not searched")


def test_no_file_outside_the_project_is_read(home, inside, project, tmp_path):
    tree = Path(inside.directory).parent
    other = Path(project("other").directory)
    (other / "secret.txt").write_text("secret")
    (tmp_path / "app-more").mkdir()
    (tree / "build" / "link.txt").symlink_to(other / "secret.txt")
    (tree / "build" / "folder").symlink_to(other)
    outside = ["../../other/secret.txt", str(other / "secret.txt"), "link.txt", "folder/secret.txt", "/etc/passwd"]
    outside += [str(tmp_path / "app-more" / "none"), "../..", "..", "/nowhere", f"{tree}-twin/x", "../.git/config"]
    for path in outside:
        with pytest.raises(OutsideProject):
            add_given(home, inside, path=path)
    assert home.documents.live_count() == 0


def test_what_is_no_file_of_the_project_is_refused_with_the_next_step(home, inside, nobody, tmp_path):
    os.mkfifo(Path(inside.directory) / "pipe")
    for path in ("missing.txt", ".", "pipe"):
        with pytest.raises(NotFound):
            add_given(home, inside, path=path)
    with pytest.raises(OutsideProject, match="did not start inside a git project") as caught:
        add_given(home, nobody, path="/etc/hostname")
    assert "`text`" in caught.value.next_step
    for wrong in ({}, {"text": "a", "path": "log.txt"}):
        with pytest.raises(InvalidInput, match="exactly one"):
            add_given(home, inside, **wrong)
    with pytest.raises(BlankContent):
        add_given(home, inside, text=" \n")
    with pytest.raises(ScopeRequired):
        add_given(home, nobody, text="words")


def test_a_folder_that_becomes_a_link_leads_nowhere(home, inside, project, monkeypatch):
    """Swapped after it was looked at, before it is opened."""
    other = Path(project("other").directory)
    (other / "log.txt").write_text("secret")
    folder = Path(inside.directory)
    settled = callers.project

    def swap(*arguments):
        found = settled(*arguments)
        resolved = os.path.realpath

        def then_swapped(path, **options):
            answer = resolved(path, **options)
            if str(path).endswith("build/log.txt"):
                folder.rename(folder.with_name("before"))
                folder.symlink_to(other)
            return answer

        monkeypatch.setattr(os.path, "realpath", then_swapped)
        return found

    monkeypatch.setattr(callers, "project", swap)
    with pytest.raises(NotFound):
        add_given(home, inside, path="log.txt", scope="global")
    assert folder.is_symlink()


def test_a_linked_work_tree_is_the_project_where_it_stands(home, inside, tmp_path):
    tree = Path(inside.directory).parent
    git("add", "-A", cwd=tree)
    git("commit", "-qm", "one", cwd=tree)
    git("worktree", "add", "-q", tmp_path / "linked", cwd=tree)
    there = Caller(str(tmp_path / "linked"))
    mine = add_given(home, there, path="build/log.txt")
    assert mine["scope"] == add_given(home, inside, path="log.txt")["scope"]
    with pytest.raises(OutsideProject):
        add_given(home, there, path=f"{inside.directory}/log.txt")


def test_nothing_of_the_home_becomes_an_artifact(root, project):
    caller = project("app")
    inner = Path(caller.directory) / "state"
    with opened(inner) as home:
        for name in ("seal.key", "config.json", "vault/x.md"):
            with pytest.raises(InvalidInput, match="belongs to memoryd itself"):
                add_given(home, caller, path=f"state/{name}")


def test_a_session_cannot_bring_back_what_was_erased(home, inside):
    added = add_given(home, inside, path="log.txt")
    with home.store_lane:
        bury(home, [TombstoneRecord(added["address"], None, "secret")])
    for wrong in ({"path": "log.txt"}, {"text": LOG.decode()}):
        with pytest.raises(ContentForgotten):
            add_given(home, inside, **wrong)


def test_a_hit_says_that_it_is_an_artifact(home, inside):
    add_given(home, inside, path="log.txt")
    settle(home)
    (found,) = reading.search(home, inside, query="flux capacitor", path_prefix="artifact/")["memories"]
    assert found["trust"] == "artifact"
