"""Is knowledge added, corrected and retired without damage, and is every refusal named?"""

from __future__ import annotations

import hashlib
import threading

import pytest

from memoryd.errors import (
    BadCharacters,
    BlankContent,
    ContentTooLarge,
    InvalidInput,
    NotFound,
    ScopeRequired,
    ScopeUnknown,
    TokenInvalid,
)
from memoryd.operations import gateway, reading
from memoryd.operations.home import Caller
from tests.operations.conftest import commits, git, opened, settle

RULE = "Deployments go through the staging cluster first; production follows after one quiet hour."


def add(home, caller, content=RULE, **other):
    return gateway.add(home, caller, content=content, type=other.pop("type", "decision"), **other)


def confirmed(call, home, caller, **arguments):
    preview = call(home, caller, **arguments)
    assert preview["outcome"] == "preview"
    return call(home, caller, **arguments, confirm=preview["confirm"])


def ids(answer):
    return [one["id"] for one in answer["memories"]]


def test_an_added_memory_is_one_file_one_commit_and_found(home, project):
    caller = project("app")
    answer = add(home, caller, title="Staging first", tags=["deploy"], key="deploy.order")
    assert answer["outcome"] == "added"
    assert commits(home) == 1
    shown = git("show", "--stat", "--format=%H", "HEAD", cwd=home.vault.path)
    assert shown.splitlines()[0] == answer["commit"]
    assert "1 file changed" in shown
    data = (home.vault.path / answer["path"]).read_bytes()
    assert answer["address"] == "sha256:" + hashlib.sha256(data).hexdigest()
    assert data.decode().endswith(RULE)
    settle(home)
    found = reading.search(home, caller, query="which cluster do deployments visit before production?")
    assert ids(found)[0] == answer["id"]
    assert found["memories"][0]["address"] == answer["address"]
    assert found["index"] == {"generation": 1, "pending": 0, "degraded": []}


def test_case_35_h40_the_same_add_again_gives_the_first_id_and_writes_nothing(home, project):
    """H40, case 35: a retry after a timeout, also with outer blanks, finds the first record."""
    caller = project("app")
    first = add(home, caller)
    for again in (RULE, RULE + " ", RULE + "\r\n"):
        second = add(home, caller, again)
        assert (second["outcome"], second["id"], second["commit"]) == ("exists", first["id"], first["commit"])
        assert not second["edited"]
    assert commits(home) == 1


def test_case_35_a_retry_after_a_restart_finds_it_too(root, project):
    caller = project("app")
    with opened(root) as home:
        first = add(home, caller)
    with opened(root) as home:
        second = add(home, caller)
        assert (second["outcome"], second["id"], second["commit"]) == ("exists", first["id"], first["commit"])


def test_the_same_words_in_another_scope_are_another_memory(home, project):
    a, b = add(home, project("one")), add(home, project("two"))
    assert a["outcome"] == b["outcome"] == "added"
    assert a["id"] != b["id"]


def test_two_sessions_at_once_write_it_once(home, project):
    caller = project("app")
    answers: list[dict] = []
    threads = [threading.Thread(target=lambda: answers.append(add(home, caller))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(a["outcome"] for a in answers) == ["added"] + ["exists"] * 5
    assert len({a["id"] for a in answers}) == 1
    assert commits(home) == 1


def test_neighbours_are_listed_and_nothing_is_withheld(home, project):
    caller = project("app")
    first = add(home, caller)
    settle(home)
    second = add(home, caller, "Deployments go to the staging cluster first and wait there for two hours.")
    assert second["outcome"] == "added"
    assert [one["id"] for one in second["similar"]] == [first["id"]]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", BlankContent),
        (" \n\t ", BlankContent),
        ("a\0b", BadCharacters),
        ("a \ud83d b", BadCharacters),
        ("a \ude00 b", BadCharacters),
        ("x" * (10 << 20), ContentTooLarge),
    ],
)
def test_h12_bad_content_is_refused_before_anything_is_written(home, project, content, error):
    """H12: NUL, lone surrogates, blank and 10 MB content."""
    with pytest.raises(error):
        add(home, project("app"), content)
    assert home.vault.head() is None
    assert home.vault.listing() == {}
    assert home.store.last_seq() == 0


@pytest.mark.parametrize("field", ["title", "key"])
def test_h12_bad_characters_elsewhere_are_refused_too(home, project, field):
    """H12: NUL in title, key and tags."""
    caller = project("app")
    with pytest.raises(BadCharacters):
        add(home, caller, **{field: "a\0b"})
    with pytest.raises(BadCharacters):
        add(home, caller, tags=["ok", "a\0b"])
    assert home.vault.listing() == {}


def test_paired_surrogates_and_wide_text_survive_exactly(home, project):
    caller = project("app")
    words = "Größe ★ 🎉 привет 記憶 — all kept\n\n\tcode  stays"
    answer = add(home, caller, words, title='A "quoted": title # with marks')
    shown = reading.get(home, caller, id=answer["id"])
    assert shown["content"].endswith(words)
    assert shown["title"] == 'A "quoted": title # with marks'


def test_unknown_types_and_long_lines_are_refused_by_name(home, project):
    caller = project("app")
    with pytest.raises(InvalidInput, match="type"):
        add(home, caller, type="rumour")
    with pytest.raises(ContentTooLarge, match="title"):
        add(home, caller, title="x" * 500)


def test_scopes_of_a_write(home, project, nobody):
    caller = project("app")
    with pytest.raises(ScopeRequired):
        add(home, nobody)
    assert add(home, nobody, scope="global")["scope"] == "global"
    with pytest.raises(ScopeUnknown):
        add(home, nobody, scope="p-app-00000000")
    with pytest.raises(ScopeUnknown):
        add(home, nobody, scope="../../etc")
    own = add(home, caller)["scope"]
    assert own.startswith("p-app-")
    assert add(home, nobody, "Another fact about it.", scope=own)["scope"] == own, "it has a record now"


def test_supersede_previews_then_does_exactly_that_in_one_commit(home, project):
    caller = project("app")
    old = add(home, caller, key="deploy.order")
    words = "Deployments go straight to production since the canary exists."
    preview = gateway.supersede(home, caller, id=old["id"], content=words)
    assert preview["outcome"] == "preview"
    assert any(line.startswith("-Deployments") for line in preview["diff"])
    assert commits(home) == 1
    done = gateway.supersede(home, caller, id=old["id"], content=words, confirm=preview["confirm"])
    assert (done["outcome"], done["retired"], done["fact"]) == ("superseded", old["id"], old["fact"])
    assert commits(home) == 2
    assert "2 files changed" in git("show", "--stat", "--format=", "HEAD", cwd=home.vault.path)
    before, after = ((home.vault.path / one["path"]).read_text() for one in (old, done))
    assert f"superseded_by: {done['id']}" in before.replace("'", "").replace('"', "")
    assert f"supersedes: {old['id']}" in after.replace("'", "").replace('"', "")
    assert before.endswith(RULE), "the retired words stay"


def test_a_token_redeemed_again_gives_the_first_answer(root, project):
    caller = project("app")
    with opened(root) as home:
        old = add(home, caller)
        plan = {"id": old["id"], "content": "Another rule."}
        token = gateway.supersede(home, caller, **plan)["confirm"]
        first = gateway.supersede(home, caller, **plan, confirm=token)
        assert gateway.supersede(home, caller, **plan, confirm=token) == first
    with opened(root) as home:
        assert gateway.supersede(home, caller, **plan, confirm=token) == first
        assert commits(home) == 2


def test_a_token_is_bound_to_arguments_state_and_home(home, project, tmp_path):
    caller = project("app")
    old = add(home, caller)
    token = gateway.supersede(home, caller, id=old["id"], content="A new rule.")["confirm"]
    with pytest.raises(TokenInvalid):
        gateway.supersede(home, caller, id=old["id"], content="Another new rule.", confirm=token)
    with pytest.raises(TokenInvalid):
        gateway.archive(home, caller, id=old["id"], reason="old", confirm=token)
    with pytest.raises(TokenInvalid):
        gateway.supersede(home, caller, id=old["id"], content="A new rule.", confirm=token[:-2] + "xx")
    for nonsense in ("", "x", "a.b", "é.ü", token.replace(".", "")):
        with pytest.raises(TokenInvalid):
            gateway.supersede(home, caller, id=old["id"], content="A new rule.", confirm=nonsense)
    file = home.vault.path / old["path"]
    file.write_text(file.read_text().replace("quiet hour", "quiet day"))
    from memoryd.operations.reconcile import reconcile_vault

    reconcile_vault(home)
    with pytest.raises(TokenInvalid):
        gateway.supersede(home, caller, id=old["id"], content="A new rule.", confirm=token)
    assert commits(home) == 1


def test_a_token_grows_old(home, project):
    caller = project("app")
    old = add(home, caller)
    token = gateway.archive(home, caller, id=old["id"], reason="gone")["confirm"]
    now = home.clock()
    home.clock = lambda: now + 3601
    with pytest.raises(TokenInvalid, match="old"):
        gateway.archive(home, caller, id=old["id"], reason="gone", confirm=token)


def test_h42_only_the_revision_in_force_comes_back(home, project):
    """H42: A superseded by B superseded by C, D archived; every mode shows C only, the others on request."""
    caller = project("app")
    a = add(home, caller, "The service listens on port 8080.")
    b = confirmed(gateway.supersede, home, caller, id=a["id"], content="The service listens on port 9090.")
    c = confirmed(gateway.supersede, home, caller, id=b["id"], content="The service listens on port 7070.")
    d = add(home, caller, "The service listens on a Unix socket.")
    confirmed(gateway.archive, home, caller, id=d["id"], reason="never built")
    settle(home)
    for mode in ("hybrid", "keyword", "semantic"):
        assert ids(reading.search(home, caller, query="The service listens on port 8080.", mode=mode)) == [c["id"]]
    shown = reading.get(home, caller, id=a["id"])
    assert shown["successor"]["id"] == c["id"]
    assert shown["status"] == "superseded"
    again = add(home, caller, "The service listens on port 8080.")
    assert (again["outcome"], again["successor"]["id"]) == ("retired", c["id"])
    assert again["proposal"]["arguments"]["id"] == c["id"]
    assert c["fact"] == a["id"]


def test_case_20_a_b_a_is_three_revisions(home, project):
    """case 20: A's words are in force again, under an id of their own."""
    caller = project("app")
    a = add(home, caller, "Use tabs.")
    b = confirmed(gateway.supersede, home, caller, id=a["id"], content="Use blanks.")
    again = confirmed(gateway.supersede, home, caller, id=b["id"], content="Use tabs.")
    assert len({a["id"], b["id"], again["id"]}) == 3
    assert reading.get(home, caller, id=again["id"])["status"] == "in_force"
    assert {one["fact"] for one in (a, b, again)} == {a["id"]}


def test_superseding_what_was_superseded_names_the_successor(home, project):
    caller = project("app")
    a = add(home, caller)
    b = confirmed(gateway.supersede, home, caller, id=a["id"], content="The next rule.")
    with pytest.raises(InvalidInput) as caught:
        gateway.supersede(home, caller, id=a["id"], content="Yet another rule.")
    assert b["id"] in caught.value.next_step
    with pytest.raises(InvalidInput):
        gateway.archive(home, caller, id=a["id"], reason="x")


def test_superseding_with_the_same_words_is_refused(home, project):
    caller = project("app")
    a = add(home, caller)
    with pytest.raises(InvalidInput, match="same"):
        gateway.supersede(home, caller, id=a["id"], content=RULE + "  ")


def test_an_archived_memory_can_be_revived_as_a_revision(home, project):
    caller = project("app")
    a = add(home, caller)
    confirmed(gateway.archive, home, caller, id=a["id"], reason="premature")
    retired = add(home, caller)
    assert retired["outcome"] == "retired"
    back = confirmed(gateway.supersede, home, caller, id=a["id"], content="Staging first, and then production.")
    assert back["outcome"] == "superseded"
    assert reading.get(home, caller, id=back["id"])["status"] == "in_force"


def test_a_memory_of_another_project_is_like_a_missing_one(home, project):
    mine, other = project("mine"), project("other")
    a = add(home, other)
    for call in (
        lambda: gateway.supersede(home, mine, id=a["id"], content="x"),
        lambda: gateway.archive(home, mine, id=a["id"], reason="x"),
        lambda: gateway.supersede(home, mine, id=a["id"][:12], content="x"),
        lambda: gateway.supersede(home, mine, id="f" * 64, content="x"),
        lambda: gateway.supersede(home, mine, id="nonsense", content="x"),
    ):
        with pytest.raises(NotFound):
            call()


def test_a_hand_edit_keeps_the_id_and_the_birth_words_answer_edited(home, project):
    caller = project("app")
    a = add(home, caller)
    file = home.vault.path / a["path"]
    file.write_text(file.read_text().replace("one quiet hour", "two quiet hours"))
    from memoryd.operations.reconcile import reconcile_vault

    reconcile_vault(home)
    again = add(home, caller)
    assert (again["outcome"], again["id"], again["edited"]) == ("exists", a["id"], True)


def test_h08_a_write_that_raises_does_not_block_the_next(home, project):
    """H08: the lanes are free again after an error in the middle of a write."""
    caller = project("app")
    lock = home.vault.path / ".git" / "index.lock"
    lock.write_text("")
    from memoryd.errors import GitLocked

    with pytest.raises(GitLocked) as caught:
        add(home, caller)
    assert "index.lock" in caught.value.message
    assert home.vault.listing() == {}
    assert home.state.intents.all() == []
    lock.unlink()
    assert add(home, caller)["outcome"] == "added"
    assert add(home, caller, "A second one.")["outcome"] == "added"


def test_h41_distinct_facts_are_all_stored(home, project):
    """H41: pairs that differ in a number, a version, a sign, a name; the same text with another type."""
    caller = project("app")
    texts = [
        "The timeout is 30 seconds.",
        "The timeout is 31 seconds.",
        "Enable the cache.",
        "Disable the cache.",
        "Works with Python 3.11.",
        "Works with Python 3.12.",
    ]
    answers = [add(home, caller, text) for text in texts] + [add(home, caller, texts[0], type="lesson")]
    written = ["added", "conflicts", "added", "conflicts", "added", "conflicts", "conflicts"]
    assert [a["outcome"] for a in answers] == written
    settle(home)
    assert home.memories.counts(None)["in_force"] == 7


def test_titles_come_from_the_first_words(home, project):
    caller = project("app")
    assert add(home, caller, "# Heading here\n\nText.")["title"] == "Heading here"
    assert add(home, caller, "```\ncode\n```")["title"]
    assert len(add(home, caller, "word " * 100)["title"]) <= 80


def test_callers_without_a_directory_that_exists_count_as_outside(home, tmp_path):
    with pytest.raises(ScopeRequired):
        add(home, Caller(directory=str(tmp_path / "gone")))


MARKS = "<<<<<<< HEAD\nThree tries.\n=======\nFive tries.\n>>>>>>> theirs\n"


def test_the_marks_of_a_merge_are_not_stored_unless_the_text_speaks_of_them(home, nobody):
    """Whoever reads the vault takes such a file for one that a merge left half done."""
    known = add(home, nobody, scope="global")
    for call in (
        lambda: add(home, nobody, f"Tries:\n\n{MARKS}", scope="global"),
        lambda: gateway.supersede(home, nobody, id=known["id"], content=f"Tries:\n\n{MARKS}"),
    ):
        with pytest.raises(InvalidInput, match="from its line 3") as caught:
            call()
        assert "fenced code block" in caught.value.next_step
    assert commits(home) == 1
    fenced = add(home, nobody, f"This is what a conflict looks like:\n\n```\n{MARKS}```\n", scope="global")
    settle(home)
    assert "problem" not in reading.get(home, nobody, id=fenced["id"])
