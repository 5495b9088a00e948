"""Does any road, attacked by hand, tell a session more about another project than about one that does not exist?"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memoryd.digest import document_id
from memoryd.errors import MemorydError, NotFound, TokenInvalid
from memoryd.operations import artifacts, filed, gateway, leaving, reading, review, snapshots
from memoryd.operations.brief import recall
from memoryd.operations.callers import described
from memoryd.operations.feedback import feedback
from memoryd.operations.health import status
from memoryd.operations.home import Caller, Home
from memoryd.operations.kept import listed
from memoryd.operations.reconcile import reconcile_vault
from memoryd.operations.scan import scan_corpora
from memoryd.operations.since import diff_since
from tests.operations.conftest import configure, opened, settle

OLD = "The walrus project ships on a Thursday in March."
SECRET = "The walrus project ships on a Friday in March."
OWN = "Our own project ships on Monday."
NONE = "f" * 64


@dataclass
class Two:
    """Two projects in one home; `mine` asks for what belongs to `other`."""

    home: Home
    mine: Caller
    other: Caller
    own: dict[str, Any]
    secret: dict[str, Any]
    retired: dict[str, Any]
    artifact: dict[str, Any]
    snapshot: dict[str, Any]
    scopes: tuple[str, str]


@pytest.fixture
def two(root, project, tmp_path):
    mine, other = project("shop"), project("sh0p")
    (Path(other.directory) / "plan.md").write_text("Friday.")
    with opened(root) as home:
        gateway.add(home, other, content=OLD, type="fact")
        scopes = described(home, mine)["writes"], described(home, other)["writes"]
    folder = tmp_path / "attic"
    folder.mkdir()
    (folder / "walrus.md").write_text("# Tusks\n\nWalrus minutes.")
    configure(root, corpora=[{"label": "attic", "path": str(folder), "scope": scopes[1]}])
    with opened(root) as home:
        scan_corpora(home)
        retired = gateway.add(home, other, content=OLD, type="fact")
        given = {"id": retired["id"], "content": SECRET}
        token = gateway.supersede(home, other, **given)["confirm"]
        secret = gateway.supersede(home, other, **given, confirm=token)
        feedback(home, other, id=secret["id"], verdict="useful", note="walrus confirmed")
        kept = artifacts.add_given(home, other, text="walrus log", name="build/log.txt")
        taken = snapshots.take(home, other, path=other.directory, label="cellar")
        own = gateway.add(home, mine, content=OWN, type="fact")
        settle(home)
        yield Two(home, mine, other, own, secret, retired, kept, taken, scopes)


def outcome(call, value: str) -> str:
    """What a call answers, with what was asked for blotted out."""
    try:
        answer = call(value)
    except MemorydError as error:
        answer = error.to_dict()
    said = json.dumps(answer, sort_keys=True)
    for name in (repr(value), repr(value[:80]), repr(value.partition("/")[0]), value if len(value) > 8 else "'"):
        said = said.replace(name, "<asked>")
    return said


def direct(two: Two):
    """(name of the road, the call, what reaches the other project, what reaches nothing)."""
    home, who = two.home, two.mine
    path, digits = two.secret["path"], home.documents.by_path("vault", two.secret["path"].encode()).address[7:]
    other = document_id("vault", path.encode())
    kept, taken = two.artifact, two.snapshot
    former = home.memories.get(two.retired["id"]).address[7:]
    names = [
        ("id", two.secret["id"], NONE),
        ("id", two.secret["id"][:10], NONE[:10]),
        ("id", two.retired["id"], NONE),
        ("id", other, NONE),
        ("id", kept["id"], NONE),
        ("address", f"sha256:{digits}", f"sha256:{NONE}"),
        ("address", f"sha256:{digits[:12]}", f"sha256:{NONE[:12]}"),
        ("address", f"sha256:{former}", f"sha256:{NONE}"),
        ("address", kept["address"], f"sha256:{NONE}"),
        ("source", f"vault/{path}", f"vault/{'x' * len(path)}"),
        ("source", "attic/walrus.md", "attix/walrus.md"),
        ("source", "attic/walrus.md", "attic/walrux.md"),
        ("source", kept["source"], "artifact/x/y"),
        ("source", f"snapshot:{taken['seq']}/plan.md", "snapshot:9999/plan.md"),
        ("source", f"snapshot:{taken['seq']}/plan.md", f"snapshot:{taken['seq']}/none.md"),
    ]
    for name, there, absent in names:
        for more in ({}, {"metadata": True}, {"offset": 3, "limit": 5}, {"scope": "global"}, {"scope": two.scopes[0]}):
            yield f"get {name} {more}", lambda v, n=name, m=more: reading.get(home, who, **{n: v}, **m), there, absent
    for there, absent in ((two.secret["id"], NONE), (two.secret["id"][:10], NONE[:10]), (two.retired["id"], NONE)):
        calls = {
            "as_of": lambda v: reading.get(home, who, id=v, as_of="1 minute ago"),
            "as_of metadata": lambda v: reading.get(home, who, id=v, as_of="2 days ago", metadata=True),
            "feedback": lambda v: feedback(home, who, id=v, verdict="wrong", note="no"),
            "supersede": lambda v: gateway.supersede(home, who, id=v, content="Other words."),
            "supersede same": lambda v: gateway.supersede(home, who, id=v, content=SECRET),
            "supersede by": lambda v: gateway.supersede(home, who, id=two.own["id"], by=v),
            "supersede of by": lambda v: gateway.supersede(home, who, id=v, by=two.own["id"]),
            "archive": lambda v: gateway.archive(home, who, id=v, reason="it ended"),
            "review words": lambda v: leaving.words(home, who, id=v),
            "review put off": lambda v: leaving.put_off(home, who, section="stale", id=v, days=3),
            "review keep": lambda v: leaving.keep(home, who, section="conflicting", id=two.own["id"], other=v),
        }
        for name, call in calls.items():
            yield name, call, there, absent
    for there, absent in (
        ("cellar", "cellax"),
        ("cellar@-1", "cellax@-1"),
        ("attic", "attix"),
        ("attic@2 days ago", "attix@2 days ago"),
        (str(taken["seq"]), "9999"),
        (taken["root"][:12], NONE[:12]),
    ):
        yield "diff since", lambda v: diff_since(home, who, since=v), there, absent
        yield "diff until", lambda v: diff_since(home, who, since="2 days ago", until=v), there, absent
    yield "diff prefix", lambda v: diff_since(home, who, since="1 day ago", path_prefix=v), "attic/", "attix/"
    yield "search prefix", lambda v: reading.search(home, who, query="x", path_prefix=v), "attic/", "attix/"
    yield "search prefix below", lambda v: reading.search(home, who, query="x", path_prefix=v), "attic/a/", "attix/a/"


def test_every_direct_road_tells_the_same_of_anothers_and_of_nothing(two):
    seen = 0
    for name, call, there, absent in direct(two):
        answered = outcome(call, there)
        assert answered == outcome(call, absent), name
        assert "walrus" not in answered.lower() and two.scopes[1] not in answered, name
        assert '"code"' in answered, f"{name} answers neither"
        seen += 1
    assert seen > 100
    assert feedback_of(two) == {"useful": 1, "wrong": 0, "outdated": 0}, "nothing of another project was counted"


def feedback_of(two: Two) -> dict[str, int]:
    said = reading.get(two.home, two.other, id=two.secret["id"], metadata=True)["feedback"]
    return {verdict: said[verdict] for verdict in ("useful", "wrong", "outdated")}


@pytest.mark.parametrize("redeemed", [False, True])
def test_a_confirm_token_of_another_projects_plan_is_worth_nothing(two, redeemed):
    home = two.home
    plans = [
        (gateway.supersede, {"content": "The walrus ships on Sunday."}),
        (gateway.archive, {"reason": "the walrus left"}),
    ]
    for call, given in plans:
        target = gateway.add(home, two.other, content=f"Plan to be changed by {call.__name__}.", type="note")["id"]
        token = call(home, two.other, id=target, **given)["confirm"]
        if redeemed:
            assert call(home, two.other, id=target, **given, confirm=token)["outcome"] in ("superseded", "archived")
        ask = partial(call, home, two.mine, **given, confirm=token)
        there, absent = (outcome(lambda value, ask=ask: ask(id=value), value) for value in (target, NONE))
        assert there == absent and "not-found" in there
        for own in (two.own["id"], two.own["id"][:12]):
            with pytest.raises((TokenInvalid, NotFound)) as caught:
                ask(id=own)
            assert "walrus" not in str(caught.value.to_dict()).lower()
        state = reading.get(home, two.other, id=target)["status"]
        assert (state == "in_force") is not redeemed


def test_an_add_of_anothers_words_is_answered_like_words_that_nobody_knows(two):
    """`exists`, `retired`, `similar`, `conflicts`: each speaks of the caller's own scopes only."""
    home = two.home
    cases = [SECRET, OLD, SECRET.upper(), f"{SECRET[:-1]}", SECRET.replace("Friday", "Sunday")]
    shapes = []
    for number, words in enumerate([*cases, "Nobody ever said this of the heron."]):
        answer = gateway.add(
            home, two.mine, content=words, type="decision" if number == 5 else "fact", key=f"k{number}"
        )
        assert (answer["outcome"], answer["scope"]) == ("added", two.scopes[0])
        assert two.scopes[1] not in str(answer) and two.secret["id"] not in str(answer)
        shapes.append((sorted(answer), answer["next"], answer["similarity"]))
    assert len({str(shape) for shape in shapes}) == 1
    others = {two.secret["id"], two.retired["id"]}
    assert not others & {one["id"] for one in answer["similar"]}


def test_a_supersede_with_anothers_words_is_a_revision_of_ones_own(two):
    """`replaced` looks for a memory that holds the words already: only in the scope of the one that it replaces."""
    home = two.home
    given = {"id": two.own["id"], "content": SECRET}
    seen = gateway.supersede(home, two.mine, **given)
    assert "by" not in seen and two.secret["id"] not in str(seen)
    done = gateway.supersede(home, two.mine, **given, confirm=seen["confirm"])
    assert (done["scope"], done["fact"]) == (two.scopes[0], two.own["fact"])
    assert reading.get(home, two.other, id=two.secret["id"])["status"] == "in_force"


def test_an_artifact_of_the_same_name_and_bytes_is_ones_own(two):
    home = two.home
    kept = artifacts.add_given(home, two.mine, text="walrus log", name="build/log.txt")
    assert (kept["outcome"], kept["scope"]) == ("added", two.scopes[0])
    assert kept["source"] == f"artifact/{two.scopes[0]}/build/log.txt"
    for name in (f"../{two.scopes[1]}/build/log.txt", f"/artifact/{two.scopes[1]}/x", "a/../../x", "./x"):
        with pytest.raises(MemorydError):
            artifacts.add_given(home, two.mine, text="x", name=name)
    inside = artifacts.add_given(home, two.mine, text="x", name=f"{two.scopes[1]}/build/log.txt")
    assert inside["source"].startswith(f"artifact/{two.scopes[0]}/{two.scopes[1]}/")
    assert reading.get(home, two.other, source=two.artifact["source"])["content"] == "walrus log"


def broad(two: Two, caller: Caller):
    """Every answer that is not about one thing."""
    home = two.home
    for mode in ("hybrid", "keyword", "semantic"):
        for query in (SECRET, "walrus", "ships", "tusks"):
            given = {"query": query, "mode": mode, "max_results": 1, "explain": True}
            yield f"search {mode} {query}", reading.search(home, caller, **given)
            yield f"prefix {mode}", reading.search(home, caller, **given, path_prefix=f"vault/{two.scopes[1]}/")
            yield f"prefix cut {mode}", reading.search(home, caller, **given, path_prefix=f"vault/{two.scopes[1][:-3]}")
            yield f"global {mode}", reading.search(home, caller, **given, scope="global")
    yield "recall", recall(home, caller, task=SECRET, max_tokens=4000)
    yield "status", status(home, caller)
    yield "review", review.review(home, caller)
    yield "snapshots", listed(home, caller)
    yield "diff", diff_since(home, caller, since="2 days ago")


def test_no_answer_of_a_session_holds_a_word_of_another_project(two):
    """Also where findings, faulty files and lost files of both projects meet in one home."""
    home = two.home
    filed.file(home, "conflict", two.own["id"], two.secret["id"], 0.9, "the walrus says otherwise")
    filed.file(home, "similar", two.secret["id"], two.own["id"], 0.9, "the walrus says the same")
    vault = home.vault.path
    (vault / two.scopes[1] / "fact" / "walrus-notes.md").write_text("---\nid: walrus\n---\nbroken")
    reconcile_vault(home)
    settle(home)
    for caller in (two.mine, Caller()):
        for name, answer in broad(two, caller):
            said = re.sub(r'"(path_prefix|summary)": "[^"]*"', "", json.dumps(answer))
            assert "walrus" not in said.lower(), name
            assert two.secret["id"][:8] not in said, name
            assert "attic" not in said and "cellar" not in said, name
    told = json.dumps([answer for _, answer in broad(two, two.other)])
    assert all(word in told for word in ("walrus-notes", "attic", "cellar", two.secret["id"])), "its own sees them"


def test_counts_of_an_explained_search_are_those_of_the_callers_scopes(two):
    home = two.home
    before = reading.search(home, two.mine, query="ships", mode="keyword", explain=True)
    for number in range(5):
        gateway.add(home, two.other, content=f"Ship number {number} ships the walrus.", type="note")
    settle(home)
    after = reading.search(home, two.mine, query="ships", mode="keyword", explain=True)
    assert after["explain"]["candidates"] == before["explain"]["candidates"]
    assert (after["summary"], after["suggestions"]) == (before["summary"], before["suggestions"])


def test_files_that_a_branch_lacks_are_counted_without_their_names(two):
    """The titles of another project's memories are in their files' names."""
    home = two.home
    for number in range(4):
        gateway.add(home, two.other, content=f"Walrus plan {number}.", type="note")
    for path in (home.vault.path / two.scopes[1]).rglob("*.md"):
        path.unlink()
    reconcile_vault(home)
    (notice,) = [text for text in status(home, two.mine)["notices"] if text.startswith("vault: ")]
    assert "lacks 6 files" in notice and "walrus" not in notice.lower()


def test_a_brief_about_another_project_is_no_session_of_it(root, project):
    mine, other = project("mine"), project("other")
    now = [1_800_000_000.0]
    with opened(root, clock=lambda: now[0]) as home:
        tusk = gateway.add(home, other, content="The tusk was found.", type="note")["id"]
        scope = described(home, other)["writes"]
        recall(home, other, task="first session")
        now[0] += 86_400
        given = {"id": tusk, "reason": "it was sold"}
        gateway.archive(home, other, **given, confirm=gateway.archive(home, other, **given)["confirm"])
        for caller, named in ((mine, scope), (mine, scope), (other, None)):
            now[0] += 86_400
            brief = recall(home, caller, task="zebra", scope=named)["brief"]
            assert "archived since: The tusk was found" in brief
        now[0] += 86_400
        assert "tusk" not in recall(home, other, task="zebra")["brief"]
