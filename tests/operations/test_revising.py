"""What a lifecycle change is bound to: the words that it showed, not what an earlier change of the same answer did."""

from __future__ import annotations

import pytest

from memoryd.errors import TokenInvalid
from memoryd.operations import gateway
from memoryd.operations.home import Caller, Home
from tests.operations.conftest import settle

ME = Caller()


def add(home: Home, minutes: int) -> dict:
    words = f"The cache lives for {minutes} minutes."
    answer = gateway.add(home, ME, content=words, type="fact", scope="global", key="cache")
    settle(home)
    return answer


def proposals(answer: dict) -> list[dict]:
    return [one["proposal"]["arguments"] for one in answer["conflicts"]]


def test_every_proposal_of_one_answer_can_be_carried_out(home):
    older = [add(home, 10), add(home, 20)]
    new = add(home, 30)
    made = [gateway.supersede(home, ME, **arguments) for arguments in proposals(new)]
    assert {one["retired"] for one in made} == {one["id"] for one in older}
    settle(home)
    assert [row.fields.id for row in home.memories.listed(("global",), ("in_force",), (), 9, 0)] == [new["id"]]


def test_a_proposal_is_void_once_the_newer_words_were_edited(home):
    add(home, 10)
    new = add(home, 20)
    path = home.vault.path / new["path"]
    path.write_text(path.read_text().replace("20 minutes.", "25 minutes."))
    with pytest.raises(TokenInvalid):
        gateway.supersede(home, ME, **proposals(new)[0])
