"""Do status, readiness and numbers say what is, in every state of a home?"""

from __future__ import annotations

import json

from memoryd.operations import gateway
from memoryd.operations.health import numbers, ready, status
from memoryd.operations.home import Caller
from memoryd.operations.reconcile import reconcile_vault
from memoryd.operations.scan import scan_corpora
from memoryd.runtime import VERSION
from tests.operations.conftest import configure, opened, settle

HERE = Caller()


def test_an_empty_home(home, root):
    shown = status(home, HERE)
    assert (shown["version"], shown["home"]) == (VERSION, str(root))
    assert shown["scopes"] == {"project": None, "reads": ["global"], "writes": None}
    assert (shown["memories"], shown["passages"], shown["notices"], shown["corpora"]) == ({}, 0, [], [])
    assert shown["index"] == {"generation": 1, "vectors": "files", "pending": 0, "degraded": []}
    assert shown["model"]["state"] == "off"
    assert shown["vault"]["commit"] is None
    assert ready(home) == []
    json.dumps(shown)


def test_what_is_written_shows_at_once_and_pending_goes(root, project, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("Words.")
    configure(root, corpora=[{"label": "d", "path": str(tmp_path / "docs")}])
    caller = project("app")
    with opened(root) as home:
        added = gateway.add(home, caller, content="One.", type="fact")
        scan_corpora(home)
        shown = status(home, caller)
        assert shown["index"]["pending"] == 2
        assert ready(home) == ["2 documents are not indexed yet"]
        assert numbers(home)["index_pending"] == 2
        settle(home)
        shown = status(home, caller)
        assert shown["index"]["pending"] == 0
        assert shown["scopes"]["project"]["name"] == "app"
        assert shown["scopes"]["writes"] == added["scope"]
        assert shown["documents"]["source"] == {"d": 1, "vault": 1}
        assert shown["corpora"] == [
            {
                "label": "d",
                "path": str(tmp_path / "docs"),
                "scope": "global",
                "code": False,
                "documents": 1,
                "problem": None,
            }
        ]
        assert ready(home) == []
        figures = numbers(home)
        assert all(isinstance(value, (int, float)) for value in figures.values())
        assert (figures["documents"], figures["memories_in_force"], figures["index_degraded"]) == (2, 1, 0)
        assert figures["store_packs"] == shown["store"]["packs"] > 0


def test_a_changed_configuration_is_told(home, root):
    assert not status(home, HERE)["config"]["differs"]
    configure(root, log_level="DEBUG")
    assert status(home, HERE)["config"]["differs"]
    assert numbers(home)["config_differs"] == 1.0


def test_a_catalog_that_was_damaged_is_told(root):
    with opened(root) as home:
        gateway.add(home, HERE, content="One.", type="fact", scope="global")
    (root / "catalog.db").write_bytes(b"no database" * 1000)
    with opened(root) as home:
        assert any("set aside" in notice for notice in status(home, HERE)["notices"])
        assert status(home, HERE)["memories"] == {"in_force": 1}


def test_without_a_generation_nothing_is_called_ready(home):
    home.generation.close()
    home.generation = None
    assert ready(home) == ["index: No generation is open."]
    assert status(home, HERE)["index"]["generation"] == 0


def test_what_lies_in_other_scopes_is_counted_and_not_described(root, project, tmp_path):
    mine, other = project("mine"), project("walrus")
    with opened(root) as home:
        scope = gateway.add(home, other, content="Walrus plans.", type="fact")["scope"]
    places = {label: tmp_path / f"{label}-walrus" for label in ("hidden", "lost")}
    places["hidden"].mkdir()
    (places["hidden"] / "a.md").write_text("Walrus words.")
    configure(root, corpora=[{"label": label, "path": str(path), "scope": scope} for label, path in places.items()])
    with opened(root) as home:
        (place,) = (home.vault.path / scope).iterdir()
        (file,) = place.iterdir()
        (place / "a-copy.md").write_text(file.read_text())
        (place / "walrus-faulty.md").write_text("---\ntitle: [unclosed\n---\nx\n")
        reconcile_vault(home)
        report = scan_corpora(home)
        assert not report["corpora"]["lost"]["complete"]
        address = home.documents.by_path("hidden", b"a.md").address
        home.notices[address] = "Walrus content is damaged."
        home.notices[f"vault/{scope}/fact/walrus.md"] = "It cannot be read."
        shown = status(home, mine)
        text = json.dumps({**shown, "documents": {**shown["documents"], "scope": {}}})
        assert not [word for word in ("alrus", "hidden", "lost", address) if word in text]
        assert shown["elsewhere"] == {
            "documents": 1,
            "faulty": 1,
            "duplicate_ids": 1,
            "corpora": 2,
            "orphaned": 0,
            "notices": 3,
        }
        assert scope in shown["documents"]["scope"]
        theirs = status(home, other)
        assert set(theirs["elsewhere"].values()) == {0}
        assert [one["label"] for one in theirs["corpora"]] == ["hidden", "lost"]
        assert len(theirs["notices"]) == 3
        assert [one["path"] for one in theirs["vault"]["faulty"]] == [f"{scope}/fact/walrus-faulty.md"]
        assert len(theirs["vault"]["duplicate_ids"]) == 1
    configure(root)
    with opened(root) as home:
        assert (status(home, mine)["orphaned"], status(home, mine)["elsewhere"]["orphaned"]) == ([], 1)
        assert [one["label"] for one in status(home, other)["orphaned"]] == ["hidden"]
