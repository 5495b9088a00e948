"""What takes the place of what: by new words, by a memory that is there, never the older for the newer."""

from __future__ import annotations

import pytest

from memoryd.errors import InvalidInput, NotFound, ReadOnlyEntry, SupersedeReversed
from memoryd.operations import gateway, reading
from memoryd.operations.home import Caller

ME = Caller()


def add(home, content, **given):
    return gateway.add(home, ME, content=content, type="fact", scope="global", **given)


def confirmed(home, **arguments):
    seen = gateway.supersede(home, ME, **arguments)
    assert seen["outcome"] == "preview"
    return gateway.supersede(home, ME, **arguments, confirm=seen["confirm"])


def test_a_memory_that_is_there_takes_the_place_of_an_older_one_in_one_commit(home):
    old = add(home, "The build runs on Jenkins.")
    new = add(home, "Builds happen in the new pipeline.")
    before = home.vault.git.run(["rev-list", "--count", "HEAD"]).out
    done = confirmed(home, id=old["id"], by=new["id"])
    assert (done["outcome"], done["retired"], done["id"], done["fact"]) == (
        "superseded",
        old["id"],
        new["id"],
        old["id"],
    )
    assert int(home.vault.git.run(["rev-list", "--count", "HEAD"]).out) == int(before) + 1
    first, second = home.memories.get(old["id"]), home.memories.get(new["id"])
    assert (first.fields.status, first.fields.superseded_by) == ("superseded", new["id"])
    assert (second.fields.status, second.fields.supersedes, second.fields.fact, second.fields.seq) == (
        "in_force",
        old["id"],
        old["id"],
        2,
    )
    assert reading.get(home, ME, id=new["id"])["content"].endswith("\n\nBuilds happen in the new pipeline.")


def test_a_second_memory_that_gives_way_to_the_same_one_keeps_its_own_fact(home):
    one, two, new = (add(home, f"{name} decides about releases.") for name in ("Anna", "The board", "Nobody any more"))
    confirmed(home, id=one["id"], by=new["id"])
    confirmed(home, id=two["id"], by=new["id"])
    assert home.memories.get(new["id"]).fields.supersedes == one["id"]
    assert home.memories.get(two["id"]).fields.superseded_by == new["id"]
    assert [row.fields.id for row in home.memories.listed(None, ("in_force",), (), 9, 0)] == [new["id"]]


def test_the_older_one_never_takes_the_place_of_the_newer(home):
    clock = home.clock
    older = add(home, "Logs are kept for a week.")
    home.clock = lambda: clock() + 60
    newer = add(home, "Logs are kept for a year.")
    with pytest.raises(SupersedeReversed) as caught:
        gateway.supersede(home, ME, id=newer["id"], by=older["id"])
    assert caught.value.details == {"older": older["id"], "newer": newer["id"]}
    assert home.memories.get(newer["id"]).fields.status == "in_force"


def test_words_that_a_newer_memory_holds_already_are_not_written_twice(home):
    old, new = add(home, "Deploys happen on Fridays."), add(home, "Nobody deploys on a Friday.")
    done = confirmed(home, id=old["id"], content="Nobody deploys on a Friday.")
    assert done["id"] == new["id"]
    assert len(home.memories.listed(None, (), (), 9, 0)) == 2


def test_the_token_of_a_link_is_redeemed_twice_with_one_answer_and_shortened_ids_do(home):
    old, new = add(home, "The port is 80."), add(home, "Port 443 is the one that counts.")
    seen = gateway.supersede(home, ME, id=old["id"][:12], by=new["id"][:12])
    first = gateway.supersede(home, ME, id=old["id"], by=new["id"], confirm=seen["confirm"])
    assert gateway.supersede(home, ME, id=old["id"][:12], by=new["id"][:12], confirm=seen["confirm"]) == first


@pytest.mark.parametrize("given", [{}, {"content": "a", "by": "b"}])
def test_exactly_one_of_words_and_memory_is_given(home, given):
    with pytest.raises(InvalidInput, match="either `content`"):
        gateway.supersede(home, ME, id=add(home, "One.")["id"], **given)


def test_itself_a_retired_one_and_an_unknown_one_take_no_place(home):
    one, two = add(home, "First words."), add(home, "Second thoughts.")
    with pytest.raises(InvalidInput, match="own place"):
        gateway.supersede(home, ME, id=one["id"], by=one["id"])
    with pytest.raises(NotFound):
        gateway.supersede(home, ME, id=one["id"], by="f" * 64)
    three = confirmed(home, id=two["id"], content="Third opinion.")
    with pytest.raises(InvalidInput, match="not in force"):
        gateway.supersede(home, ME, id=one["id"], by=two["id"])
    with pytest.raises(InvalidInput, match="superseded already") as caught:
        gateway.supersede(home, ME, id=two["id"], content="Fourth.")
    assert caught.value.details["successor"] == three["id"]
    assert caught.value.details["proposal"]["arguments"] == {"id": three["id"], "content": "Fourth."}


def test_a_document_that_is_no_memory_is_read_only(home):
    from memoryd.operations import artifacts

    kept = artifacts.add_given(home, ME, text="# A log\n\nIt ran.", name="log.md", scope="global")
    with pytest.raises(ReadOnlyEntry):
        gateway.archive(home, ME, id=kept["id"], reason="old")
    with pytest.raises(ReadOnlyEntry):
        gateway.supersede(home, ME, id=kept["id"], content="other")


def test_a_proposal_for_another_project_can_be_made_as_it_stands(home, project):
    mine, other = project("mine"), project("other")
    scope = gateway.add(home, other, content="The retry limit is 5.", type="fact")["scope"]
    told = gateway.add(home, mine, content="The retry limit is 7.", type="fact", scope=scope)
    (conflict,) = told["conflicts"]
    asked = conflict["proposal"]["arguments"]
    assert asked["scope"] == scope
    assert gateway.supersede(home, mine, **asked)["outcome"] == "superseded"
    with pytest.raises(NotFound):
        gateway.archive(home, mine, id=told["id"], reason="without the scope it is out of sight")
    assert gateway.archive(home, mine, id=told["id"], reason="with it", scope=scope)["outcome"] == "preview"
