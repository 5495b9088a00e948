"""Do a vault's own questions name the memory that answers them, and nothing that several would answer?"""

from __future__ import annotations

from memoryd.operations import gateway, reading
from memoryd.operations.evaluate import evaluate_own
from memoryd.operations.home import Caller
from memoryd.operations.ownset import questions
from tests.operations.conftest import opened, settle

HERE = Caller()


def kept(home, content, **more):
    return gateway.add(home, HERE, content=content, type="fact", scope="global", **more)


def fill(home):
    kept(home, "Uploads are retried three times.\n\nThe server bans the fourth.", key="upload.retry-budget")
    kept(home, "Releases are cut on Tuesday by the build team.")
    kept(home, "The same title\n\nOne body.", title="A title twice")
    kept(home, "Quite another text\n\nOther body.", title="A title twice")
    kept(home, "Short.", title="Short")
    old = kept(home, "The cache lives in Redis on port 6380.")
    plan = gateway.supersede(home, HERE, id=old["id"], content="The cache lives in process memory since May.")
    gateway.supersede(
        home, HERE, id=old["id"], content="The cache lives in process memory since May.", confirm=plan["confirm"]
    )
    settle(home)


def held(root):
    """All bytes of a home but what SQLite lays beside a file for its readers."""
    files = (path for path in root.rglob("*") if path.is_file() and not path.name.endswith(("-wal", "-shm")))
    return {path: path.read_bytes() for path in files}


def test_each_memory_in_force_is_asked_by_title_key_and_outdated_words(root):
    with opened(root) as home:
        fill(home)
        found = {(one.category, one.text.strip()) for one in questions(home, {})}
        rows = {row.document_id: row.fields.title for row in home.memories.listed(None, ("in_force",), (), 20, 0)}
        answers = {one.text.strip(): rows[one.answer] for one in questions(home, {})}
    assert ("title", "Uploads are retried three times.") in found
    assert ("key", "upload retry budget") in found
    assert ("outdated", "The cache lives in Redis on port 6380.") in found
    assert answers["The cache lives in Redis on port 6380."] == "The cache lives in process memory since May."
    assert {text for _, text in found}.isdisjoint({"A title twice", "Short"}), "no answer is the only one, or no words"


def test_the_home_is_only_read_and_recalled_facts_are_a_category(root, tmp_path):
    with opened(root) as home:
        fill(home)
        reading.search(home, HERE, query="when are releases cut", max_results=1)
        home.count_recalls()
    before = held(root)
    report = evaluate_own(root, root / "vault", cache_path=tmp_path / "cache" / "embeddings.db", ablate=True)
    assert held(root) == before
    own = report["sets"]["own"]
    assert own["queries"] == 5
    assert own["categories"]["recalled"]["queries"] == 1
    assert {name: part["queries"] for name, part in own["categories"].items() if name != "recalled"} == {
        "title": 3,
        "key": 1,
        "outdated": 1,
    }
    assert own["arms"]["hybrid"]["recall@5"] == 1.0
    assert "without dense" in own["ablations"]
