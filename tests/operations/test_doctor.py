"""Does each check see the one thing that is broken, and say ok when all is whole?"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from dataclasses import replace

import pytest

from memoryd.models.identity import ModelFiles, locate
from memoryd.operations import gateway
from memoryd.operations.doctor import CHECKS, MIN_FREE_BYTES, Place, examine
from memoryd.operations.home import Caller
from memoryd.operations.owner import own_home
from memoryd.runtime import RuntimePaths, bind
from tests.operations.conftest import configure, opened
from tests.templates import copy

PATH = os.environ["PATH"]


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A home that was used."""
    root = tmp_path_factory.mktemp("doctor") / "home"
    with opened(root) as home:
        gateway.add(home, Caller(), content="One memory.", type="fact", scope="global")
    (root / "log" / "memoryd.log").touch()
    return root


@pytest.fixture
def place(template, tmp_path):
    root = tmp_path / "home"
    copy(template, root)
    return Place(root, {"PATH": PATH})


def findings(place):
    """{name: finding} of the checks that fail; every failure has a code and a next step."""
    bad = {one["name"]: one for one in examine(place) if not one["ok"]}
    for one in bad.values():
        assert one["code"]
        assert one["message"]
        assert one["next_step"]
    return bad


def only(place, name):
    """The finding of the one check that fails."""
    bad = findings(place)
    assert list(bad) == [name], bad
    return bad[name]


def test_a_whole_home_and_a_missing_one_are_fine(place, tmp_path):
    assert [one["name"] for one in examine(place)] == list(CHECKS)
    assert findings(place) == {}
    before = sorted(place.root.rglob("*"))
    assert findings(Place(tmp_path / "nowhere", {"PATH": PATH})) == {}
    assert not (tmp_path / "nowhere").exists()
    assert sorted(place.root.rglob("*")) == before, "looking changes nothing"


def test_python_an_old_sqlite_and_missing_packages(place):
    assert "3.34.0" in only(replace(place, sqlite=(3, 34, 0)), "python")["message"]
    assert "not_there_9" in only(replace(place, packages=("json", "not_there_9")), "python")["message"]


def test_git_missing_or_old(place, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    missing = findings(replace(place, environment={"PATH": str(tools)}))
    assert missing["git"]["code"] == "git-missing"
    old = tools / "git"
    old.write_text("#!/bin/sh\necho git version 2.30.1\n")
    old.chmod(0o755)
    assert findings(replace(place, environment={"PATH": str(tools)}))["git"]["code"] == "git-too-old"


def test_home_open_to_others_foreign_or_a_file(place, tmp_path):
    place.root.chmod(0o750)
    assert "chmod 700" in only(place, "home")["next_step"]
    place.root.chmod(0o700)
    assert "another user" in only(replace(place, uid=lambda: os.getuid() + 1), "home")["message"]
    (tmp_path / "file").write_text("")
    assert "no folder" in findings(replace(place, root=tmp_path / "file"))["home"]["message"]


def test_space_on_a_full_disk(place):
    asked = []
    full = replace(place, free=lambda path: asked.append(path) or MIN_FREE_BYTES - 1)
    assert "199 MiB" in only(full, "space")["message"]
    assert asked == [place.root]


def test_log_that_cannot_be_written(place):
    log = place.root / "log" / "memoryd.log"
    log.unlink()
    log.mkdir()
    assert str(log) in only(place, "log")["message"]
    log.rmdir()
    log.parent.chmod(0o755)
    assert "open to other users" in only(place, "log")["message"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "config-error"),
        ('{"serach": {}}', "config-key-unknown"),
        ('{"corpora": [{"label": "a", "path": "/nowhere/at/all"}]}', "corpus-unreadable"),
        ('{"corpora": [{"label": "a", "path": "log"}]}', "corpus-nested"),
        ('{"corpora": [{"label": "a", "path": "/tmp"}, {"label": "a", "path": "/usr"}]}', "corpus-duplicate"),
    ],
)
def test_config_that_is_broken_or_makes_no_sense(place, text, code):
    (place.root / "config.json").write_text(text)
    assert findings(place)["config"]["code"] == code


def test_format_damaged_or_missing(place):
    path = place.root / "FORMAT"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"chunk_avg 8192", b"chunk_avg 9192"))
    assert only(place, "format")["code"] == "format-damaged"
    path.unlink()
    assert "there are packs" in only(place, "format")["message"]


def test_vault_without_its_repository(place):
    shutil.rmtree(place.root / "vault" / ".git")
    assert only(place, "vault")["code"] == "vault-not-a-repository"
    configure(place.root, vault={"path": "elsewhere"})
    assert findings(place) == {}, "that vault does not exist yet"


def test_memories_with_broken_frontmatter_are_named_with_file_and_line(place):
    (file,) = (place.root / "vault").rglob("*.md")
    file.write_text(file.read_text().replace("type: fact", "type: [oops"))
    found = only(place, "memories")
    assert found["warning"] and found["code"] == "vault-file-invalid"
    assert found["message"].startswith(f"{file}:6: ")
    assert "Line" not in found["message"]
    for number in range(6):
        (file.parent / f"{number}.md").write_text("no frontmatter")
    message = only(place, "memories")["message"]
    assert "0.md:1: " in message and "and 2 more" in message


def test_model_file_missing_or_altered(place, tmp_path):
    files = locate()
    copy = ModelFiles(tmp_path / "model.onnx", files.tokenizer)
    assert only(replace(place, model=lambda: copy), "model")["code"] == "model-files-wrong"
    shutil.copy(files.weights, copy.weights)
    assert findings(replace(place, model=lambda: copy)) == {}
    with copy.weights.open("r+b") as stream:
        stream.seek(1000)
        stream.write(b"\0\1\2\3")
    assert "not the expected file" in only(replace(place, model=lambda: copy), "model")["message"]


def test_index_of_another_model_or_lost(place):
    (manifest,) = (place.root / "indexes").glob("gen-*/manifest.json")
    data = json.loads(manifest.read_text())
    data["identity"]["analysis"] += 1
    manifest.write_text(json.dumps(data))
    assert "rebuild" in only(place, "index")["next_step"]
    manifest.unlink()
    assert only(place, "index")["code"] == "index-damaged"
    (place.root / "indexes" / "CURRENT").write_text("../../etc\n")
    assert "no generation" in only(place, "index")["message"]


def test_vectors_on_a_server_need_their_extra(place, monkeypatch):
    manifest = place.root / "indexes" / "gen-1" / "manifest.json"
    data = json.loads(manifest.read_text())
    data["identity"]["place"] = "http://127.0.0.1:1 (memoryd, 1 shards, 1 replicas)"
    manifest.write_text(json.dumps(data))
    configure(place.root, vector={"url": "http://127.0.0.1:1"})
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    monkeypatch.delitem(sys.modules, "memoryd.index.qdrant", raising=False)
    assert "memoryd[qdrant]" in only(place, "vectors")["next_step"]


def test_sockets_in_a_folder_open_to_others(place):
    run = place.root / "run"
    run.chmod(0o777)
    assert only(place, "sockets")["next_step"] == f"chmod 700 {run}"
    run.chmod(0o700)
    (run / "rpc.sock").write_text("")
    assert "no socket" in only(place, "sockets")["message"]


def test_daemon_dead_sockets_are_told_and_a_silent_owner_is_named(place):
    paths = RuntimePaths(str(place.root))
    bind(paths.rpc_socket).close()
    told = {one["name"]: one for one in examine(place)}["daemon"]
    assert told["ok"]
    assert "dead sockets" in told["message"]
    lock = own_home(place.root)
    try:
        silent = only(place, "daemon")
        assert silent["code"] == "home-busy"
        assert f"Process {os.getpid()} " in silent["message"]
        listening: socket.socket = bind(paths.http_socket)
        listening.listen(8)
        try:
            assert only(place, "daemon")["code"] == "daemon-unavailable"
        finally:
            listening.close()
    finally:
        lock.release()


def test_every_check_has_a_test_that_breaks_it():
    here = {name.removeprefix("test_").split("_")[0] for name in globals() if name.startswith("test_")}
    assert set(CHECKS) <= here
