"""Is what an add of known words answers true, seen by the right caller, and can its proposal be made as it stands?"""

from __future__ import annotations

import pytest

from memoryd.catalog.state import Intent
from memoryd.digest import sha256_hex
from memoryd.errors import HeldElsewhere, NotFound, TokenInvalid, VaultBusy
from memoryd.operations import callers, gateway, reading
from memoryd.operations.reconcile import reconcile_vault
from tests.operations.conftest import commits, git, opened, settle

WORDS = "Use tabs."


def add(home, caller, content=WORDS):
    return gateway.add(home, caller, content=content, type="decision")


def confirmed(call, home, caller, **arguments):
    token = call(home, caller, **arguments)["confirm"]
    return call(home, caller, **arguments, confirm=token)


def test_the_proposal_for_archived_words_brings_them_back(home, project):
    caller = project("app")
    first = add(home, caller)
    confirmed(gateway.archive, home, caller, id=first["id"], reason="premature")
    retired = add(home, caller, WORDS + " ")
    assert (retired["outcome"], retired["status"], retired["successor"]) == ("retired", "archived", None)
    assert retired["proposal"]["tool"] == "memory_supersede"
    back = gateway.supersede(home, caller, **retired["proposal"]["arguments"])
    assert (back["outcome"], back["fact"], back["id"] == first["id"]) == ("superseded", first["fact"], False)
    again = add(home, caller)
    assert (again["outcome"], again["id"]) == ("exists", back["id"])
    assert reading.get(home, caller, id=back["id"])["content"].endswith(WORDS + " ")


def test_the_proposal_for_superseded_words_brings_them_back(home, project):
    caller = project("app")
    a = add(home, caller)
    b = confirmed(gateway.supersede, home, caller, id=a["id"], content="Use blanks.")
    retired = add(home, caller)
    asked = retired["proposal"]["arguments"]
    assert {**asked, "confirm": ""} == {"id": b["id"], "content": WORDS, "confirm": ""}
    back = gateway.supersede(home, caller, **asked)
    count = commits(home)
    again = add(home, caller, " Use  tabs.\n")
    assert (again["outcome"], again["id"]) == ("exists", back["id"]), "A, B, A: A's words are in force"
    assert commits(home) == count
    confirmed(gateway.archive, home, caller, id=back["id"], reason="Neither.")
    last = add(home, caller)
    assert last["proposal"]["arguments"]["id"] == back["id"]
    assert gateway.supersede(home, caller, **last["proposal"]["arguments"])["fact"] == a["id"]


def test_a_successor_out_of_sight_is_no_proposal(home, project):
    mine, other = project("mine"), project("other")
    hidden = add(home, other, "The walrus ships in March.")
    own = add(home, mine)
    file = home.vault.path / own["path"]
    text = file.read_text().replace("status: in_force", f"status: superseded\nsuperseded_by: {hidden['id']}")
    file.write_text(text)
    reconcile_vault(home)
    answer = add(home, mine)
    assert (answer["outcome"], answer["proposal"], answer["successor"]) == ("retired", None, None)
    assert hidden["id"] not in str(answer)


def test_an_id_that_is_held_in_another_scope_is_refused_without_a_word_about_it(home, project):
    """A person moved the file to another project: its id stays, and so it is in the way of the same words."""
    mine, other = project("mine"), project("other")
    theirs = add(home, other, "Register the other scope.")["scope"]
    own = add(home, mine)
    file = home.vault.path / own["path"]
    moved = home.vault.path / theirs / "walrus-plans.md"
    moved.write_text(file.read_text().replace(own["scope"], theirs).replace("Use tabs.", "Walrus plans."))
    file.unlink()
    reconcile_vault(home)
    with pytest.raises(HeldElsewhere) as caught:
        add(home, mine)
    told = str(caught.value.to_dict())
    assert not [word for word in (theirs, "alrus", own["path"], own["id"]) if word in told]
    assert gateway.add(home, other, content=WORDS, type="decision", scope=theirs)["outcome"] == "added"


def test_a_first_answer_is_for_its_arguments_and_its_scopes(home, project):
    mine, other = project("mine"), project("other")
    own = add(home, mine)
    given = {"id": own["id"], "content": "Use blanks."}
    token = gateway.supersede(home, mine, **given)["confirm"]
    first = gateway.supersede(home, mine, **given, confirm=token)
    assert gateway.supersede(home, mine, id=own["id"][:12], content="Use blanks.", confirm=token) == first

    for wrong in ({"content": "Use  blanks."}, {"id": first["id"]}, {"id": "f" * 64}):
        with pytest.raises(TokenInvalid):
            gateway.supersede(home, mine, **{**given, **wrong}, confirm=token)
    with pytest.raises(TokenInvalid):
        gateway.archive(home, mine, id=own["id"], reason="Use blanks.", confirm=token)
    with pytest.raises(NotFound) as caught:
        gateway.supersede(home, other, **given, confirm=token)
    with pytest.raises(NotFound) as missing:
        gateway.supersede(home, other, **given)
    assert caught.value.to_dict() == missing.value.to_dict()


@pytest.mark.parametrize("others", [0, 1, 5])
@pytest.mark.parametrize("drained", [True, False])
def test_words_whose_file_was_deleted_a_moment_ago_are_written_again(home, project, others, drained):
    caller = project("app")
    for number in range(others):
        add(home, caller, f"Other words {number}.")
    callers.writable(home, caller, None)  # its scope is registered
    if not drained:
        home.store_lane.acquire()
    first = add(home, caller)
    if not drained:
        home.store_lane.release()
    file = home.vault.path / first["path"]
    file.unlink()
    again = add(home, caller)
    assert (again["outcome"], again["id"], again["path"]) == ("added", first["id"], first["path"])
    assert WORDS in file.read_text()
    assert git("status", "--porcelain", cwd=home.vault.path) == ""
    reconcile_vault(home)
    settle(home)
    assert add(home, caller)["outcome"] == "exists"
    assert reading.get(home, caller, id=first["id"])["content"].endswith(WORDS)
    assert home.memories.duplicates() == []


def test_words_whose_file_was_moved_a_moment_ago_exist(home, project):
    caller = project("app")
    first = add(home, caller)
    add(home, caller, "Other words.")
    (home.vault.path / "sorted").mkdir()
    (home.vault.path / first["path"]).rename(home.vault.path / "sorted" / "tabs.md")
    again = add(home, caller)
    assert (again["outcome"], again["id"], again["path"]) == ("exists", first["id"], "sorted/tabs.md")
    assert commits(home) == 2


def test_the_lost_file_of_retired_words_brings_nothing_back(home, project):
    caller = project("app")
    first = add(home, caller)
    confirmed(gateway.archive, home, caller, id=first["id"], reason="premature")
    (home.vault.path / first["path"]).unlink()
    assert add(home, caller)["outcome"] == "retired"


def written_by_another_home(home, tmp_path, nobody) -> tuple[str, str, bytes]:
    """Id, path and bytes of a memory as another home on the same vault would have written it; put into this vault."""
    with opened(tmp_path / "another") as other:
        told = gateway.add(other, nobody, content=WORDS, type="decision", scope="global")
        data = (other.vault.path / told["path"]).read_bytes()
    file = home.vault.path / told["path"]
    file.parent.mkdir(parents=True)
    file.write_bytes(data)
    return told["id"], told["path"], data


def test_words_that_came_by_a_pull_a_moment_ago_exist(home, tmp_path, nobody):
    id, path, _data = written_by_another_home(home, tmp_path, nobody)
    git("add", path, cwd=home.vault.path)
    git("commit", "-q", "-m", "pulled", cwd=home.vault.path)
    answer = gateway.add(home, nobody, content=WORDS, type="decision", scope="global")
    assert (answer["outcome"], answer["id"], commits(home)) == ("exists", id, 1)


def test_words_of_an_interrupted_write_are_settled_first_or_named(home, tmp_path, nobody):
    """An add that is sent again after a kill -9, while somebody's lock keeps the first one from being settled."""
    id, path, data = written_by_another_home(home, tmp_path, nobody)
    lock = home.vault.path / ".git" / "index.lock"
    lock.touch()
    home.state.intents.add(Intent("w", path.encode(), sha256_hex(data), None, 0, home.clock() + 60))
    with pytest.raises(VaultBusy) as caught:
        gateway.add(home, nobody, content=WORDS, type="decision", scope="global")
    assert "not taken in yet" in caught.value.message and "memoryd status" in caught.value.next_step
    assert (home.vault.path / path).read_bytes() == data
    lock.unlink()
    answer = gateway.add(home, nobody, content=WORDS, type="decision", scope="global")
    assert (answer["outcome"], answer["id"], commits(home)) == ("added", id, 1)
    assert home.state.intents.all() == []
