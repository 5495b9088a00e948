"""Artifacts: text is found, everything is kept, and no name reaches into another scope."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memoryd.digest import address_of
from memoryd.errors import ContentForgotten, ContentTooLarge, InvalidInput, NotFound, ScopeRequired
from memoryd.operations import reading
from memoryd.operations.artifacts import add, add_file
from memoryd.operations.check import check
from memoryd.operations.entries import get
from memoryd.operations.health import status
from memoryd.operations.ingest import bury
from memoryd.operations.rebuild import rebuild
from memoryd.operations.scan import orphaned
from memoryd.records import TombstoneRecord
from tests.operations.conftest import configure, opened, settle

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
