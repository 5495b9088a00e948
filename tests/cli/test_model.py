"""`memoryd model`: list, verify, use, warm and pull, as a person runs them."""

from __future__ import annotations

import json

from tests.models.whole import look_alike


def test_list_names_the_models_and_why_one_serves(shell):
    data = shell.json("model", "list")
    assert data["in_force"] == "embedded" and "auto" in data["why"]
    embedded, bge = data["models"]
    assert embedded["usable"] and embedded["dims"] == 384
    assert not bge["usable"] and bge["problem"] and bge["next_step"]
    shown = shell.run("model", "list").out
    assert "* embedded: all-MiniLM-L6-v2-int8" in shown and "In force: embedded" in shown


def test_verify_reads_loads_and_proves(shell):
    data = shell.json("model", "verify")
    assert data["name"] == "embedded" and data["found"] > 0.8 and data["paraphrase"] > data["unrelated"]


def test_h23_what_is_not_whole_is_neither_verified_nor_used(shell):
    """A folder copied by hand, in which one head is missing."""
    folder = look_alike(shell.home / "models" / "bge-m3")
    (folder / "sparse_linear.pt").unlink()
    for command in ("verify", "use"):
        done = shell.run("model", command, "bge-m3")
        assert done.code == 1 and ("sparse_linear.pt" in done.err or "not installed" in done.err)
    assert not (shell.home / "config.json").exists()


def test_use_changes_the_setting_alone_and_says_what_follows(shell):
    (shell.home).mkdir(exist_ok=True)
    (shell.home / "config.json").write_text('{"model": {"threads": 2}, "search": {"candidates": 50}}')
    data = shell.json("model", "use", "embedded")
    assert data["in_force"] == "embedded" and "new generation" in data["next"]
    kept = json.loads((shell.home / "config.json").read_text())
    assert kept == {"model": {"threads": 2, "name": "embedded"}, "search": {"candidates": 50}}


def test_warm_and_warm_up_load_the_daemons_model(shell):
    shell.home.mkdir(exist_ok=True)
    assert shell.json("status")["model"]["state"] == "off"
    assert shell.json("model", "warm")["state"] == "ready"
    shell.run("stop")
    (shell.home / "config.json").write_text('{"model": {"warm_up": true}}')
    assert shell.json("status")["model"]["state"] in ("loading", "ready")
