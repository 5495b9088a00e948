"""Facts of an entry: how it was read, how far the indexes are, which states it had, and nothing of other scopes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memoryd.errors import IndexDamaged
from memoryd.operations import gateway, reading
from memoryd.operations.artifacts import add
from memoryd.operations.facts import HISTORY_MOST
from memoryd.operations.home import Caller
from memoryd.operations.reconcile import reconcile_vault
from memoryd.operations.scan import scan_corpora
from tests.operations.conftest import configure, opened, settle

HERE = Caller()
LONG = "".join(f"# Part {number}\n\n" + "some words of this part. " * 60 + "\n\n" for number in range(6))


def keep(home, data: bytes, name: str, **more):
    return add(home, HERE, data=data, name=name, scope="global", **more)


def facts(home, caller=HERE, **which):
    return reading.get(home, caller, metadata=True, **which)


def test_text_is_extracted_then_embedded(home):
    kept = keep(home, LONG.encode(), "long.md", tags=["ci", "nightly"])
    told = facts(home, id=kept["id"])
    count = told["passages"]
    assert count >= 6
    assert told["extraction"]["status"] == "extracted"
    assert "@" in told["extraction"]["extractor"]
    waiting = {"status": "pending", "embedded": 0, "pending": count, "poisoned": 0}
    assert {name: told["embedding"][name] for name in waiting} == waiting
    assert "has not come to it" in told["embedding"]["reason"]
    assert told["indexed"] == {"lexical": False, "vectors": False}
    settle(home)
    told = facts(home, id=kept["id"])
    done = {"status": "embedded", "embedded": count, "pending": 0, "poisoned": 0, "reason": None}
    assert told["embedding"] == done
    assert told["indexed"] == {"lexical": True, "vectors": True}
    assert home.generation.vectors.count() == count
    assert (told["tags"], told["exec"], told["size"]) == (["ci", "nightly"], False, len(LONG))
    assert told["stored"] == {"chunks": len(home.store.layout(kept["address"])), "problem": None}
    assert "problem" not in told


def test_what_cannot_be_embedded_is_counted_with_the_reason(home, monkeypatch):
    kept = keep(home, LONG.encode(), "long.md")
    texts = [passage.text_sha256 for passage in home.passages.of_document(kept["id"])]
    with monkeypatch.context() as patched:
        patched.setattr(home.host, "poisoned", lambda: frozenset(texts))
        told = facts(home, id=kept["id"])["embedding"]
    assert (told["status"], told["pending"]) == ("poisoned", 0), "nothing waits where nothing can come"
    settle(home)
    monkeypatch.setattr(home.host, "poisoned", lambda: frozenset(texts[:2]))
    told = facts(home, id=kept["id"])["embedding"]
    assert (told["status"], told["embedded"], told["poisoned"]) == ("poisoned", len(texts) - 2, 2)
    assert told["reason"].startswith(f"2 of {len(texts)} passages ended the model's process")


def test_a_vector_index_that_cannot_open_is_the_reason(home, monkeypatch):
    kept = keep(home, LONG.encode(), "long.md")
    settle(home)
    vectors = home.generation.vectors
    monkeypatch.setattr(home.generation, "vectors", None)
    monkeypatch.setitem(home.generation.problems, "vectors", IndexDamaged("the vectors are damaged"))
    told = facts(home, id=kept["id"])["embedding"]
    assert (told["status"], told["reason"]) == ("pending", "the vectors are damaged")
    monkeypatch.setattr(home.generation, "vectors", vectors)


def test_what_is_no_text_is_stored_only(home):
    kept = keep(home, b"\x89PNG\r\n" + bytes(range(256)) * 300, "shot.png")
    settle(home)
    told = facts(home, id=kept["id"])
    assert (told["extraction"]["status"], told["passages"]) == ("binary", 0)
    assert told["embedding"] == {"status": "none", "embedded": 0, "pending": 0, "poisoned": 0, "reason": None}
    assert told["problem"] == told["extraction"]["problem"] == "the content is binary, not text"


def test_signs_that_are_replaced_are_told_with_the_content_too(home):
    keep(home, "odd ".encode("utf-16") + b"\x00\xd8x\x00", "odd.txt")
    source = "artifact/global/odd.txt"
    assert facts(home, source=source)["extraction"]["status"] == "partial"
    assert "surrogates" in reading.get(home, HERE, source=source)["problem"]


def test_a_former_content_is_not_described_by_the_one_that_followed(home):
    first = keep(home, b"first words\n", "note.txt")
    second = keep(home, LONG.encode(), "note.txt")
    settle(home)
    told = facts(home, address=first["address"])
    assert (told["current"], told["size"], told["passages"]) == (False, 12, 0)
    assert told["extraction"]["status"] == told["embedding"]["status"] == "none"
    assert "former content" in told["embedding"]["reason"]
    history = [(one["event"], one["address"], one["size"]) for one in told["history"]]
    assert history == [("seen", first["address"], 12), ("seen", second["address"], len(LONG))]
    assert told["history"][0]["seq"] < told["history"][1]["seq"]


def test_content_that_cannot_be_read_has_facts_all_the_same(home):
    kept = keep(home, LONG.encode(), "long.md")
    settle(home)
    for pack in (home.root / "store" / "packs").rglob("*.pack"):
        pack.unlink()
    home.store.rebuild_index()
    told = facts(home, id=kept["id"])
    assert told["size"] == len(LONG)
    assert (told["stored"]["chunks"], kept["address"] in told["stored"]["problem"]) == (0, True)


def test_the_revisions_of_a_memory(home):
    first = gateway.add(home, HERE, content="The port is 1.", type="fact", scope="global")
    ids = [first["id"]]
    for number in (2, 3):
        words = f"The port is {number}."
        token = gateway.supersede(home, HERE, id=ids[-1], content=words)["confirm"]
        ids.append(gateway.supersede(home, HERE, id=ids[-1], content=words, confirm=token)["id"])
    settle(home)
    for id in ids:
        told = facts(home, id=id)["revisions"]
        assert [one["id"] for one in told] == ids
        assert [one["status"] for one in told] == ["superseded", "superseded", "in_force"]
        assert all(reading.get(home, HERE, address=one["address"])["content"] for one in told)


def test_a_faulty_memory_is_told_with_its_content(home):
    added = gateway.add(home, HERE, content="The pump is serviced in May.", type="fact", scope="global")
    settle(home)
    file = Path(home.vault.path) / added["path"]
    file.write_text(file.read_text().replace("type: fact", "type: [oops"))
    reconcile_vault(home)
    shown = reading.get(home, HERE, source=f"vault/{added['path']}")
    assert shown["problem"].startswith("Line 6: ")
    assert facts(home, source=f"vault/{added['path']}")["extraction"]["status"] == "faulty"
    assert "problem" not in reading.get(
        home, HERE, address=facts(home, source=shown["source"])["history"][0]["address"]
    )


def test_long_histories_show_the_newest_and_count_all(home):
    for number in range(HISTORY_MOST + 5):
        keep(home, b"state %d\n" % number, "counter.txt")
    told = facts(home, source="artifact/global/counter.txt")
    assert (len(told["history"]), told["history_count"]) == (HISTORY_MOST, HISTORY_MOST + 5)
    assert told["history"][-1]["address"] == told["address"]


def test_history_and_revisions_of_other_scopes_are_not_shown(root, tmp_path, project):
    """A corpus moved from a project to `global`: what it held before stays the project's."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("hidden words\n")
    caller = project("mine")
    with opened(root) as home:
        scope = gateway.add(home, caller, content="x", type="note")["scope"]
    configure(root, corpora=[{"label": "d", "path": str(docs), "scope": scope}])
    with opened(root) as home:
        scan_corpora(home)
        hidden = facts(home, caller, source="d/a.md")["address"]
    (docs / "a.md").write_text("shown words\n")
    configure(root, corpora=[{"label": "d", "path": str(docs), "scope": "global"}])
    with opened(root) as home:
        scan_corpora(home)
        told = facts(home, source="d/a.md")
        assert hidden not in json.dumps(told)
        assert told["history_count"] == 1
        assert facts(home, caller, source="d/a.md")["history_count"] == 2


@pytest.mark.parametrize("exec", [True, False])
def test_the_exec_bit_of_a_corpus_file(root, tmp_path, exec):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "run.md").write_text("run\n")
    (docs / "run.md").chmod(0o755 if exec else 0o644)
    configure(root, corpora=[{"label": "d", "path": str(docs)}])
    with opened(root) as home:
        scan_corpora(home)
        assert facts(home, source="d/run.md")["exec"] is exec
