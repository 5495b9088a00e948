"""Do status, readiness and numbers say what is, in every state of a home?"""

from __future__ import annotations

import json

from memoryd.operations import gateway
from memoryd.operations.health import numbers, ready, status
from memoryd.operations.home import Caller
from memoryd.operations.scan import scan_corpora
from memoryd.runtime import VERSION
from tests.operations.conftest import configure, opened, settle

HERE = Caller()


def test_an_empty_home(home, root):
    shown = status(home, HERE)
    assert (shown["version"], shown["home"]) == (VERSION, str(root))
    assert shown["scopes"] == {"project": None, "reads": ["global"], "writes": None}
    assert (shown["memories"], shown["passages"], shown["notices"], shown["corpora"]) == ({}, 0, [], [])
    assert shown["index"] == {"generation": 1, "pending": 0, "degraded": []}
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
