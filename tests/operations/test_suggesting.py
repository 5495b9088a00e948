"""Does every suggested query bring something that was not shown, to nobody who may not see it?"""

from __future__ import annotations

import pytest

from memoryd.operations import gateway, lifecycle, reading
from memoryd.operations.home import Caller
from memoryd.operations.ingest import Seen, store_documents
from tests.operations.conftest import index_words

HERE = Caller()


def keep(home, scope="global", **titled):
    """Documents of the source `t` by title, indexed by words."""
    seen = [
        Seen("t", name.encode(), scope, "document", text.encode(), title=name.replace("_", " "))
        for name, text in titled.items()
    ]
    store_documents(home, seen)
    index_words(home)


def ask(home, query, most, caller=HERE):
    return reading.search(home, caller, query=query, mode="keyword", max_results=most)


@pytest.fixture
def animals(home):
    names = ("aardvark", "badger", "chameleon", "dormouse", "echidna", "ferret", "gecko", "heron")
    keep(home, **{f"The_{name}": f"How to feed a {name} {'well ' * n}at the zoo." for n, name in enumerate(names)})
    return home


@pytest.mark.parametrize("most", [1, 2, 4])
def test_suggestions_lead_on_and_not_in_a_circle(animals, most):
    """Case 63: asked twice the same, none is the question itself or shown, none twice, and each brings something new."""
    asked = "feed at the zoo"
    for _ in range(5):
        answer = ask(animals, asked, most)
        again = ask(animals, asked, most)
        assert (again["suggestions"], again["memories"]) == (answer["suggestions"], answer["memories"])
        titles = {one["title"].casefold() for one in answer["memories"]} | {asked.casefold()}
        folded = [text.casefold() for text in answer["suggestions"]]
        assert len(set(folded)) == len(folded) and not titles & set(folded)
        shown = {one["id"] for one in answer["memories"]}
        for text in answer["suggestions"]:
            assert {one["id"] for one in ask(animals, text, most)["memories"]} - shown
        if not answer["suggestions"]:
            break
        asked = answer["suggestions"][0]


def test_suggestions_are_made(animals):
    assert len(ask(animals, "feed at the zoo", 2)["suggestions"]) == 2


def test_what_was_retired_a_moment_ago_is_not_suggested(home, monkeypatch):
    contents = [f"The emu number {n} {'runs and runs ' * n}at noon." for n in range(4)]
    made = {gateway.add(home, HERE, content=one, type="fact", scope="global")["title"]: one for one in contents}
    index_words(home)
    (first,) = ask(home, "emu noon", 1)["suggestions"][:1]
    monkeypatch.setattr(lifecycle, "try_drain", lambda *_, **__: None)
    (row,) = [row for row in home.memories.listed(None, ("in_force",), (), 9, 0) if row.fields.title == first]
    plan = {"id": row.fields.id, "reason": "gone"}
    gateway.archive(home, HERE, **plan, confirm=gateway.archive(home, HERE, **plan)["confirm"])
    assert home.fresh and first in made
    answer = ask(home, "emu noon", 1)
    assert first not in answer["suggestions"] and first not in [one["title"] for one in answer["memories"]]
    index_words(home)


def test_what_only_repeats_a_shown_title_is_not_suggested(home):
    texts = [f"The emu runs {'on and on ' * n}here." for n in range(5)]
    seen = [Seen("t", b"%d" % n, "global", "document", text.encode(), title="Emus") for n, text in enumerate(texts)]
    store_documents(home, seen)
    index_words(home)
    assert ask(home, "emu runs", 2)["suggestions"] == []


def test_titles_out_of_sight_are_not_suggested(home, project):
    mine, other = project("mine"), project("other")
    scopes = [gateway.add(home, one, content="A memory.", type="note")["scope"] for one in (mine, other)]
    for scope, whose in zip(scopes, ("mine", "theirs"), strict=True):
        keep(home, scope, **{f"{whose}_{n}_{name}": f"The emu {name}." for n, name in enumerate(("ran", "sat", "ate"))})
    suggested = [text for most in (1, 2, 3) for text in ask(home, "the emu", most, mine)["suggestions"]]
    assert suggested and all(text.startswith("mine") for text in suggested)
