"""Is what lies outside a caller's scopes answered, on every road, exactly like something missing?"""

from __future__ import annotations

import pytest

from memoryd.digest import document_id
from memoryd.errors import MemorydError, NotFound, ScopeUnknown
from memoryd.operations import gateway, reading
from memoryd.operations.brief import recall
from memoryd.operations.callers import described
from memoryd.operations.reconcile import reconcile_vault
from memoryd.operations.scan import scan_corpora
from tests.operations.conftest import configure, opened, settle

SECRET = "The walrus project ships on a Friday in March."


@pytest.fixture
def secret(home, project):
    """A memory of another project, and a caller who must not see it."""
    mine, other = project("mine"), project("other")
    gateway.add(home, mine, content="Our own project ships on Monday.", type="fact")
    added = gateway.add(home, other, content=SECRET, type="fact")
    settle(home)
    return mine, other, added


def roads(home, caller, added):
    """Every road that names something directly, with what reaches the secret and what reaches nothing."""
    missing = "f" * 64
    document = document_id("vault", added["path"].encode())
    digits = added["address"].removeprefix("sha256:")
    pairs = [
        (reading.get, "id", added["id"], missing),
        (reading.get, "id", added["id"][:12], missing[:12]),
        (reading.get, "id", document, missing),
        (reading.get, "address", added["address"], f"sha256:{missing}"),
        (reading.get, "address", f"sha256:{digits[:10]}", f"sha256:{missing[:10]}"),
        (reading.get, "source", f"vault/{added['path']}", "vault/none/none.md"),
        (gateway.supersede, "id", added["id"], missing),
        (gateway.supersede, "id", added["id"][:12], missing[:12]),
        (gateway.archive, "id", added["id"], missing),
    ]
    rest = {gateway.supersede: {"content": "New words."}, gateway.archive: {"reason": "why"}}
    for call, name, there, absent in pairs:
        yield (
            lambda value, call=call, name=name: call(home, caller, **{name: value}, **rest.get(call, {})),
            there,
            absent,
        )


def test_every_direct_road_answers_like_something_missing(home, secret):
    mine, other, added = secret
    for ask, there, absent in roads(home, mine, added):
        answers = []
        for value in (there, absent):
            with pytest.raises(NotFound) as caught:
                ask(value)
            answers.append(str(caught.value.to_dict()).replace(value, "<it>"))
        assert answers[0] == answers[1]
    for ask, there, _ in roads(home, other, added):
        assert ask(there), "its own project reaches it on the same road"


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "semantic"])
def test_no_search_and_no_suggestion_shows_it(home, secret, mode):
    mine, other, added = secret
    answer = reading.search(home, mine, query=SECRET, mode=mode, max_results=1)
    assert SECRET not in str(answer)
    assert added["id"] not in str(answer)
    found = reading.search(home, other, query=SECRET, mode=mode)["memories"]
    assert found[0]["id"] == added["id"]
    for given in ({"path_prefix": "vault/"}, {"kinds": ["memory"]}, {"types": ["fact"]}):
        assert added["id"] not in str(reading.search(home, mine, query=SECRET, mode=mode, **given))


def test_recall_neighbours_and_duplicates_do_not_show_it(home, secret):
    mine, _other, added = secret
    assert added["id"] not in str(recall(home, mine, task=SECRET))
    answer = gateway.add(home, mine, content=SECRET, type="fact")
    assert (answer["outcome"], answer["id"] == added["id"]) == ("added", False)
    assert added["id"] not in str(answer["similar"])


def test_a_scope_can_be_named_on_purpose(home, secret):
    mine, other, added = secret
    scope = described(home, other)["writes"]
    found = reading.search(home, mine, query=SECRET, mode="keyword", scope=scope)["memories"]
    assert [one["id"] for one in found] == [added["id"]]
    assert reading.get(home, mine, id=added["id"], scope=scope)["scope"] == scope
    for unknown in ("p-none-00000000", "everything", "../x", ""):
        with pytest.raises((ScopeUnknown, NotFound)):
            reading.get(home, mine, id=added["id"], scope=unknown)


def test_others_contents_do_not_make_a_beginning_ambiguous(home, project):
    """Two contents whose addresses share eight digits, one of them out of sight."""
    mine, other = project("mine"), project("other")
    own = gateway.add(home, mine, content="Mine.", type="fact")
    digits = own["address"].removeprefix("sha256:")
    hidden = gateway.add(home, other, content="Other.", type="fact")
    with home.catalog.write() as tx:  # what nobody can craft: the other content's address begins the same way
        twin = f"sha256:{digits[:8]}" + "0" * 56
        for table in ("events", "documents"):
            tx.execute(f"UPDATE {table} SET address = ? WHERE address = ?", (twin, hidden["address"]))
    assert reading.get(home, mine, address=f"sha256:{digits[:8]}")["content"].endswith("Mine.")


def test_a_copy_of_a_memory_in_another_scope_hides_none(home, project):
    """The same id in two files of different scopes: each caller reads the one it may see."""
    mine, other = project("mine"), project("other")
    gateway.add(home, other, content="Register the other scope.", type="fact")
    own = gateway.add(home, mine, content="Mine.", type="fact")
    scopes = described(home, mine)["writes"], described(home, other)["writes"]
    file = home.vault.path / own["path"]
    copy = home.vault.path / scopes[1] / "a-copy.md"
    copy.parent.mkdir(exist_ok=True)
    copy.write_text(file.read_text().replace(scopes[0], scopes[1]))
    reconcile_vault(home)
    for caller, scope in zip((mine, other), scopes, strict=True):
        for id in (own["id"], own["id"][:12]):
            assert reading.get(home, caller, id=id)["scope"] == scope
        assert gateway.archive(home, caller, id=own["id"], reason="x")["outcome"] == "preview"


def test_a_successor_out_of_sight_is_not_named(home, project):
    mine, other = project("mine"), project("other")
    hidden = gateway.add(home, other, content=SECRET, type="fact")
    own = gateway.add(home, mine, content="Mine.", type="fact")
    file = home.vault.path / own["path"]
    text = file.read_text().replace("status: in_force", f"status: superseded\nsuperseded_by: {hidden['id']}")
    file.write_text(text)
    reconcile_vault(home)
    assert "successor" not in reading.get(home, mine, id=own["id"])
    for call, given in ((gateway.supersede, {"content": "x"}), (gateway.archive, {"reason": "x"})):
        with pytest.raises(MemorydError) as caught:
            call(home, mine, id=own["id"], **given)
        assert SECRET not in str(caught.value.to_dict())


def test_a_document_moved_out_of_sight_takes_its_past_along(root, project, tmp_path):
    caller = project("app")
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("The first words.")
    with opened(root) as home:
        gateway.add(home, caller, content="Register.", type="fact")
        scope = described(home, caller)["writes"]
    nobody = type(caller)()
    configure(root, corpora=[{"label": "d", "path": str(folder)}])
    with opened(root) as home:
        scan_corpora(home)
        first = reading.get(home, nobody, source="d/a.md")["address"]
        (folder / "a.md").write_text("The second words.")
        scan_corpora(home)
        past = reading.get(home, nobody, address=first)
        assert (past["content"], past["current"]) == ("The first words.", False)
    configure(root, corpora=[{"label": "d", "path": str(folder), "scope": scope}])
    with opened(root) as home:
        scan_corpora(home)
        for given in ({"source": "d/a.md"}, {"address": first}):
            with pytest.raises(NotFound):
                reading.get(home, nobody, **given)
        assert reading.get(home, caller, source="d/a.md")["content"] == "The second words."


def test_the_history_of_a_document_begins_where_its_readers_may_look(root, project, tmp_path):
    caller = project("app")
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("A secret of the project.")
    with opened(root) as home:
        gateway.add(home, caller, content="Register.", type="fact")
        scope = described(home, caller)["writes"]
    nobody = type(caller)()
    configure(root, corpora=[{"label": "d", "path": str(folder), "scope": scope}])
    with opened(root) as home:
        scan_corpora(home)
        first = reading.get(home, caller, source="d/a.md")["address"]
        (folder / "a.md").write_text("For everybody.")
    configure(root, corpora=[{"label": "d", "path": str(folder)}])
    with opened(root) as home:
        scan_corpora(home)
        (shown,) = reading.get(home, nobody, source="d/a.md", metadata=True)["history"]
        assert (shown["event"], shown["address"] == first) == ("seen", False)
        both = reading.get(home, caller, source="d/a.md", metadata=True)["history"]
        assert [one["address"] for one in both] == [first, shown["address"]]
