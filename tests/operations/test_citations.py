"""Are the places that a memory cites checked: when it is written, and at every search, recall and look?"""

from __future__ import annotations

import errno
import os
import threading
import time

import pytest

from memoryd.digest import address_of
from memoryd.errors import BadCitation, InvalidInput, NotFound, OutsideProject, SecretFound, TokenInvalid
from memoryd.operations import gateway, lookout, reading
from memoryd.operations.artifacts import add as keep
from memoryd.operations.brief import recall
from memoryd.operations.check import check
from memoryd.operations.freshness import mark
from memoryd.operations.health import status
from memoryd.operations.home import Caller
from memoryd.operations.rebuild import rebuild
from memoryd.operations.reconcile import reconcile_vault
from memoryd.sources.citation import read
from tests.operations.conftest import commits, git, opened, settle

RULE = "The retry budget of the upload client is three, because the server bans the fourth."
CODE = "".join(f"line {n} of the client\n" for n in range(1, 31))


@pytest.fixture
def app(project):
    """A caller in a project with one file of thirty lines."""
    caller = project("app")
    write(caller, CODE)
    return caller


def write(caller: Caller, text: str | bytes, name: str | bytes = "src/client.py") -> None:
    path = os.path.join(os.fsencode(str(caller.directory)), os.fsencode(name))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as stream:
        stream.write(text.encode() if isinstance(text, str) else text)


def add(home, caller, *citations: str, content: str = RULE, **more):
    return gateway.add(home, caller, content=content, type="decision", citations=list(citations), **more)


def states(home, caller, identity: str, **more):
    return reading.get(home, caller, id=identity, **more)["citations"]


def file_of(home, answer) -> bytes:
    return (home.vault.path / answer["path"]).read_bytes()


def refused(error, home, caller, *citations: str):
    with pytest.raises(error) as found:
        add(home, caller, *citations)
    assert home.vault.head() is None
    assert home.vault.listing() == {}
    return found.value


def test_the_address_stands_in_the_file_and_is_what_other_tools_print(home, app):
    answer = add(home, app, "src/client.py#L10-L20", "src/client.py#L3", "./src/client.py")
    lines = CODE.splitlines(keepends=True)
    written = [
        f"src/client.py#L10-L20 {address_of(''.join(lines[9:20]).encode())}",
        f"src/client.py#L3 {address_of(lines[2].encode())}",
        f"src/client.py {address_of(CODE.encode())}",
    ]
    assert "citations: [" + ", ".join(f'"{one}"' for one in written) + "]" in file_of(home, answer).decode()
    assert commits(home) == 1


def test_every_answer_says_how_the_citations_stand(home, app):
    answer = add(home, app, "src/client.py#L10-L20")
    settle(home)
    fresh = [{"at": "src/client.py#L10-L20", "state": "fresh"}]
    (hit,) = reading.search(home, app, query="retry budget upload")["memories"]
    brief = recall(home, app, task="change the retry budget")["brief"]
    assert hit["citations"] == fresh
    assert "(cites src/client.py#L10-L20: fresh)" in brief
    address = address_of("".join(CODE.splitlines(keepends=True)[9:20]).encode())
    assert states(home, app, answer["id"]) == [{**fresh[0], "address": address}]
    assert states(home, app, answer["id"], metadata=True)[0]["state"] == "fresh"


def test_changed_lines_moved_lines_and_a_missing_file_are_told(home, app):
    answer = add(home, app, "src/client.py#L10-L20")
    write(app, CODE.replace("line 12 of", "line twelve of").replace("line 15 of", "line fifteen of"))
    (one,) = states(home, app, answer["id"])
    assert (one["state"], one["hint"]) == ("changed", "2 of 11 lines differ")
    assert one["diff"][0] == "- line 12 of the client"
    assert one["diff"][2] == "+ line twelve of the client"
    write(app, "import os\n\n\n\n" + CODE)
    (one,) = states(home, app, answer["id"])
    assert (one["state"], one["hint"]) == ("changed", "the lines moved to L14-L24")
    assert one["now"] == "src/client.py#L14-L24"
    os.unlink(f"{app.directory}/src/client.py")
    (one,) = states(home, app, answer["id"])
    assert (one["state"], one["hint"]) == ("missing", "the file is gone")
    write(app, CODE)
    assert states(home, app, answer["id"])[0]["state"] == "fresh"


def test_what_the_cited_lines_said_stays_readable_by_their_address_and_is_no_hit(home, app):
    answer = add(home, app, "src/client.py#L10-L20")
    write(app, "all is different\n")
    settle(home)
    (one,) = states(home, app, answer["id"])
    kept = reading.get(home, app, address=one["address"])
    assert kept["content"] == "".join(CODE.splitlines(keepends=True)[9:20])
    assert kept["title"] == "src/client.py#L10-L20"
    found = reading.search(home, app, query="line 12 of the client", mode="keyword")["memories"]
    assert [hit["kind"] for hit in found] in ([], ["memory"])
    assert reading.search(home, app, query="line 12", path_prefix="artifact/")["memories"] == []


def test_nobody_else_may_read_the_kept_lines(home, app, project):
    answer = add(home, app, "src/client.py#L10-L20")
    address = states(home, app, answer["id"])[0]["address"]
    with pytest.raises(NotFound):
        reading.get(home, project("other"), address=address)


def test_crlf_and_a_missing_last_line_end(home, app):
    write(app, b"one\r\ntwo\r\nthree")
    answer = add(home, app, "src/client.py#L1-L2", "src/client.py#L3", "src/client.py")
    assert [one["state"] for one in states(home, app, answer["id"])] == ["fresh"] * 3
    write(app, b"one\ntwo\nthree\n")
    found = states(home, app, answer["id"])
    assert [(one["state"], one["hint"]) for one in found] == [("fresh", "only the line ends differ")] * 3
    with pytest.raises(BadCitation, match="ends at line 3"):
        add(home, app, "src/client.py#L4", content="Something else.")


def test_a_path_that_is_no_utf_8_is_cited_as_answers_show_it(home, app):
    write(app, "words\n", b"notes/caf\xe9.txt")
    answer = add(home, app, "notes/caf\\xe9.txt#L1")
    (one,) = states(home, app, answer["id"])
    assert (one["at"], one["state"]) == ("notes/caf\\xe9.txt#L1", "fresh")
    write(app, "others\n", b"notes/caf\xe9.txt")
    assert states(home, app, answer["id"])[0]["state"] == "changed"


def test_a_link_is_refused_and_not_followed_later(home, app, tmp_path):
    (tmp_path / "secret.txt").write_text("top secret\n")
    os.symlink(tmp_path / "secret.txt", f"{app.directory}/link.txt")
    os.symlink(tmp_path, f"{app.directory}/out")
    for path in ("link.txt", "out/secret.txt", "out/nothing.txt"):
        assert "links are not followed" in refused(BadCitation, home, app, path).message
    answer = add(home, app, "src/client.py#L1")
    os.unlink(f"{app.directory}/src/client.py")
    os.symlink(tmp_path / "secret.txt", f"{app.directory}/src/client.py")
    (one,) = states(home, app, answer["id"])
    assert (one["state"], one["hint"]) == ("unknown", "a link stands there now, and links are not followed")
    os.unlink(f"{app.directory}/src/client.py")
    os.mkfifo(f"{app.directory}/src/client.py")
    assert states(home, app, answer["id"])[0]["state"] == "missing"


@pytest.mark.parametrize(
    "path", ["../other/src/a.py", "/etc/passwd", "src/../../x", ".git/config", "src/client.py#L1/../../x"]
)
def test_a_path_outside_the_project_is_refused(home, app, path):
    assert refused(OutsideProject, home, app, path).details["parameter"] == "citations"


@pytest.mark.parametrize(
    ("citation", "why"),
    [
        ("src/none.py", "is not there"),
        ("src/client.py#L31", "ends at line 30"),
        ("src/client.py#L20-L31", "ends at line 30"),
        ("src/client.py#L0", "count from L1"),
        ("src/client.py#L9-L3", "first one comes first"),
        ("src", "is no regular file"),
        ("src/client.py/x", "is not there"),
        ("logo.bin#L1", "is no text"),
        ("huge.txt", "has more than"),
        ("", "names no file|does not read"),
        ("src/client.py#L1 sha256:" + "0" * 64, "brings an address"),
    ],
)
def test_what_is_not_there_is_refused_by_name_and_nothing_is_written(home, app, citation, why):
    write(app, b"\0\1\2", "logo.bin")
    write(app, b"x" * (lookout.FILE_BYTES + 1), "huge.txt")
    error = refused(BadCitation, home, app, "src/client.py#L1", citation)
    assert error.code == "bad-citation"
    assert any(part in error.message for part in why.split("|"))


def test_a_file_that_is_no_text_is_cited_whole(home, app):
    write(app, b"\0\1\2", "logo.bin")
    answer = add(home, app, "logo.bin")
    assert states(home, app, answer["id"])[0]["state"] == "fresh"
    write(app, b"\0\1\3", "logo.bin")
    (one,) = states(home, app, answer["id"])
    assert (one["state"], one["hint"]) == ("changed", "it is another text now; the former one is not kept")


def test_the_number_of_citations_is_limited_and_repetitions_count_once(home, app):
    refused(InvalidInput, home, app, *[f"src/client.py#L{n}" for n in range(1, 22)])
    answer = add(home, app, "src/client.py#L1", "./src/client.py#L1-1")
    assert len(states(home, app, answer["id"])) == 1
    many = add(home, app, *[f"src/client.py#L{n}" for n in range(1, 21)], content="Another rule of the client.")
    settle(home)
    write(app, CODE.replace("line 19 of", "line nineteen of"))
    hit = reading.search(home, app, query="Another rule of the client.")["memories"][0]
    assert hit["id"] == many["id"]
    assert (len(hit["citations"]), hit["citations_more"]) == (5, 15)
    assert hit["citations"][0]["at"] == "src/client.py#L19", "what needs a look comes first"


def test_citations_belong_to_the_callers_project_alone(home, app, project, nobody):
    other = project("other")
    own = gateway.add(home, other, content="A rule of the other project.", type="fact")["scope"]
    for caller, scope in ((app, "global"), (app, own), (nobody, "global")):
        before = commits(home)
        with pytest.raises(OutsideProject):
            add(home, caller, "src/client.py#L1", scope=scope)
        assert commits(home) == before


def test_another_projects_memory_is_told_by_state_and_never_by_lines(home, app, project):
    answer = add(home, app, "src/client.py#L10-L20")
    other = project("other")
    write(other, CODE.replace("line 12 of", "line twelve of"))
    scope = answer["scope"]
    assert states(home, other, answer["id"], scope=scope)[0]["state"] == "fresh", "the other's own files do not count"
    write(app, CODE.replace("line 12 of", "a private word of"))
    (one,) = states(home, other, answer["id"], scope=scope)
    assert (one["state"], one["hint"]) == ("changed", "1 of 11 lines differ")
    assert "private" not in str(reading.get(home, other, id=answer["id"], scope=scope)["citations"])
    assert "diff" in states(home, app, answer["id"])[0]


def test_a_planted_citation_tells_nothing_of_other_folders(home, app, project, tmp_path):
    other = project("other")
    write(other, "private\n", "plan.txt")
    answer = add(home, app, "src/client.py#L1")
    path = home.vault.path / answer["path"]
    names = ["../other/plan.txt#L1", "../other/nothing.txt#L1", f"{other.directory}/plan.txt", "client.py"]
    address = address_of(b"private\n")
    planted = ", ".join(f'"{name} {address}"' for name in names)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(f"citations: [{planted}]\n" if line.startswith("citations:") else line for line in lines))
    reconcile_vault(home)
    found = states(home, app, answer["id"])
    assert [one["state"] for one in found] == ["unknown", "unknown", "unknown", "missing"]
    assert found[0]["hint"].replace("plan", "nothing") == found[1]["hint"]


def test_a_project_folder_that_is_gone_unreadable_or_another_one_now(home, app, project):
    answer = add(home, app, "src/client.py#L1")
    other, scope = project("other"), answer["scope"]
    folder = str(app.directory)

    def seen() -> tuple[str, str]:
        (one,) = states(home, other, answer["id"], scope=scope)
        return one["state"], one.get("hint", "")

    os.rename(f"{folder}/.git", f"{folder}/.gut")
    assert seen() == ("unknown", "the folder that this project was last seen in is not it now")
    os.rename(f"{folder}/.gut", f"{folder}/.git")
    assert seen() == ("fresh", "")
    os.rename(folder, folder + "-elsewhere")
    assert seen() == ("missing", "the project's folder is gone")
    os.symlink(folder + "-elsewhere", folder)
    assert seen()[0] == "unknown", "a link leads to it: who says that it is the same project"
    os.unlink(folder)
    os.rename(folder + "-elsewhere", folder)
    assert seen() == ("fresh", "")


def test_an_unreadable_file_is_unknown_and_not_missing(home, app, monkeypatch):
    def refused(root: int, path: bytes, limit: int) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    answer = add(home, app, "src/client.py#L1")
    if os.geteuid() == 0:  # root reads a file whatever its mode is, so the refusal is injected
        monkeypatch.setattr(lookout, "read", refused)
    os.chmod(f"{app.directory}/src", 0)
    try:
        assert states(home, app, answer["id"])[0]["state"] == "unknown"
    finally:
        os.chmod(f"{app.directory}/src", 0o755)


def test_a_worktree_and_a_clone_are_looked_at_themselves(home, app, tmp_path):
    git("remote", "add", "origin", "https://example.org/app.git", cwd=app.directory)
    git("add", ".", cwd=app.directory)
    git("commit", "-qm", "one", cwd=app.directory)
    answer = add(home, app, "src/client.py#L10-L20")
    git("worktree", "add", "-q", tmp_path / "wt", "-b", "other", cwd=app.directory)
    git("clone", "-q", app.directory, tmp_path / "clone", cwd=tmp_path)
    git("remote", "set-url", "origin", "https://example.org/app.git", cwd=tmp_path / "clone")
    for name in ("wt", "clone"):
        there = Caller(str(tmp_path / name))
        assert states(home, there, answer["id"])[0]["state"] == "fresh"
        write(there, CODE.replace("line 12 of", f"line of {name} in"))
        (one,) = states(home, there, answer["id"])
        assert (one["state"], one["diff"][1]) == ("changed", f"+ line of {name} in the client")
    assert states(home, app, answer["id"])[0]["state"] == "fresh"


def test_a_checkout_of_another_branch_is_noticed_and_the_way_back_too(home, app):
    git("add", ".", cwd=app.directory)
    git("commit", "-qm", "one", cwd=app.directory)
    answer = add(home, app, "src/client.py#L10-L20")
    git("checkout", "-qb", "next", cwd=app.directory)
    write(app, CODE.replace("line 12 of", "line twelve of"))
    git("commit", "-qam", "two", cwd=app.directory)
    assert states(home, app, answer["id"])[0]["state"] == "changed"
    git("checkout", "-q", "-", cwd=app.directory)
    assert states(home, app, answer["id"])[0]["state"] == "fresh"
    git("checkout", "-q", "next", cwd=app.directory)
    assert states(home, app, answer["id"])[0]["state"] == "changed"


def test_a_restart_and_a_rebuild_keep_citations_and_their_evidence(root, app):
    with opened(root) as home:
        answer = add(home, app, "src/client.py#L10-L20")
    write(app, CODE.replace("line 12 of", "line twelve of"))
    for name in ("catalog.db", "embeddings.db"):
        (root / name).unlink()
    with opened(root) as home:
        rebuild(home)
        (one,) = states(home, app, answer["id"])
        assert (one["state"], one["hint"]) == ("changed", "1 of 11 lines differ")
        assert check(home, read_data=True)["clean"]


def test_cited_lines_that_hold_a_secret_are_not_kept(home, app):
    token = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"[:36]
    write(app, f"a = 1\ntoken = '{token}'\n")
    answer = add(home, app, "src/client.py#L1-L2")
    (one,) = states(home, app, answer["id"])
    assert one["state"] == "fresh"
    with pytest.raises(NotFound):
        reading.get(home, app, address=one["address"])
    write(app, "a = 2\n")
    (one,) = states(home, app, answer["id"])
    assert (one["state"], one["hint"]) == ("changed", "the file ends at L1")
    with pytest.raises(SecretFound):
        add(home, app, f"{token}.py", content="Words.")


def test_hand_written_citations_are_told_by_line_and_crash_nothing(home, app):
    answer = add(home, app, "src/client.py#L1")
    path = home.vault.path / answer["path"]
    lines = path.read_text().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if line.startswith("citations:"))
    lines[at] = (
        "citations:\n  - src/client.py#L2\n  - https://example.org/why\n  - src/client.py#L9-L3\n  - 'a\\tb'\n"
        "  - src/none.py\n"
    )
    path.write_text("".join(lines))
    reconcile_vault(home)
    settle(home)
    (hit,) = reading.search(home, app, query="retry budget upload")["memories"]
    found = {one["at"]: one for one in hit["citations"]}
    assert found["src/client.py#L2"]["hint"] == "it was noted down by hand, without an address to compare with"
    assert found["https://example.org/why"]["state"] == "unknown"
    assert found["src/none.py"]["state"] == "missing"
    assert "has to be mended by hand" in found["src/client.py#L9-L3"]["hint"]
    (fault,) = status(home, app)["vault"]["faulty"]
    assert fault["problem"].startswith(f"Line {at + 4}, key `citations`: The citation 'src/client.py#L9-L3'")
    assert hit["problem"] == fault["problem"]
    assert hit["fact"] == answer["fact"], "it is a memory all the same"


def test_a_revision_keeps_the_citations_unless_it_is_given_others(home, app):
    first = add(home, app, "src/client.py#L10-L20")
    held = states(home, app, first["id"])[0]["address"]
    write(app, CODE.replace("line 12 of", "line twelve of"))

    def supersede(identity, **more):
        asked = {"id": identity, **more}
        plan = gateway.supersede(home, app, **asked)
        return plan, gateway.supersede(home, app, **asked, confirm=plan["confirm"])

    plan, second = supersede(first["id"], content="The budget is four now, since the server got patient.")
    assert not any("cites" in line for line in plan["diff"])
    (one,) = states(home, app, second["id"])
    assert (one["state"], one["address"]) == ("changed", held)
    words = "The budget is four now, since the server got patient."
    plan, third = supersede(second["id"], content=words, citations=["src/client.py#L12"])
    address = address_of(b"line twelve of the client\n")
    assert plan["diff"] == [f"-cites src/client.py#L10-L20 {held}", f"+cites src/client.py#L12 {address}"]
    assert states(home, app, third["id"]) == [{"at": "src/client.py#L12", "state": "fresh", "address": address}]
    assert reading.get(home, app, address=address)["content"] == "line twelve of the client\n"
    _, last = supersede(third["id"], content="No place says it any more.", citations=[])
    assert "citations" not in reading.get(home, app, id=last["id"])


def test_a_token_is_bound_to_the_citations_and_to_what_stands_there(home, app):
    first = add(home, app, "src/client.py#L10-L20")
    asked = {"id": first["id"], "content": "Other words.", "citations": ["src/client.py#L12"]}
    token = gateway.supersede(home, app, **asked)["confirm"]
    for other in ({"citations": ["src/client.py#L13"]}, {"citations": None}):
        with pytest.raises(TokenInvalid):
            gateway.supersede(home, app, **{**asked, **other}, confirm=token)
    write(app, CODE.replace("line 12 of", "line twelve of"))
    with pytest.raises(TokenInvalid):
        gateway.supersede(home, app, **asked, confirm=token)
    write(app, CODE)
    done = gateway.supersede(home, app, **asked, confirm=token)
    os.unlink(f"{app.directory}/src/client.py")
    assert gateway.supersede(home, app, **asked, confirm=token) == done, "redeemed again it looks at nothing"


def test_words_that_are_there_already_keep_what_they_cite(home, app):
    first = add(home, app, "src/client.py#L1")
    again = add(home, app, "src/client.py#L1")
    assert (again["outcome"], "citations" in again["next"]) == ("exists", False)
    os.unlink(f"{app.directory}/src/client.py")
    other = add(home, app, "src/client.py#L2")
    assert (other["outcome"], other["id"]) == ("exists", first["id"])
    assert "Its citations stay as they are" in other["next"]


def test_the_proposal_for_a_mere_variant_brings_the_citations_along(home, app):
    first = add(home, app, "src/client.py#L1")
    settle(home)
    answer = add(home, app, "src/client.py#L2", content=RULE.upper())
    assert answer["outcome"] == "similar"
    call = answer["proposal"]["arguments"]
    assert call["citations"] == ["src/client.py#L2"]
    done = gateway.supersede(home, app, **call)
    assert (done["outcome"], done["retired"]) == ("superseded", first["id"])
    assert [one["at"] for one in states(home, app, done["id"])] == ["src/client.py#L2"]


def test_a_file_that_looks_as_it_did_is_not_read_again(home, app, monkeypatch):
    for n in range(60):
        write(app, CODE, f"src/{n}.py")
    lines = CODE.splitlines(keepends=True)
    address = address_of("".join(lines[9:20]).encode())
    scope = gateway.add(home, app, content="A rule.", type="fact")["scope"]

    def entries() -> list[dict]:
        names = iter(range(60))
        return [
            {"scope": scope, "citations": [f"src/{next(names)}.py#L10-L20 {address}" for _ in range(3)]}
            for _ in range(20)
        ]

    monkeypatch.setattr(lookout, "RACY_NS", -60_000_000_000)  # as if the files had been written long ago
    reads: list[bytes] = []
    monkeypatch.setattr(lookout, "read", lambda root, path, limit: reads.append(path) or read(root, path, limit))
    for turn in range(3):
        answer = entries()
        mark(home, app, answer)
        assert {one["state"] for entry in answer for one in entry["citations"]} == {"fresh"}
        assert len(reads) == 60, f"turn {turn}: each file once, whatever the number of answers"
    write(app, CODE + "# more\n", "src/7.py")
    mark(home, app, entries())
    assert reads[60:] == [b"src/7.py"]


def test_a_disk_that_does_not_answer_holds_up_no_search(home, app, monkeypatch):
    answer = add(home, app, "src/client.py#L1")
    settle(home)
    goes_on = threading.Event()
    real = lookout.read

    def hang(*given):
        goes_on.wait(30)
        return real(*given)

    monkeypatch.setattr(lookout, "read", hang)
    try:
        began = time.monotonic()
        for _ in range(5):
            (hit,) = reading.search(home, app, query="retry budget", mode="keyword")["memories"]
            assert hit["citations"][0]["state"] == "unknown"
            assert "did not answer" in hit["citations"][0]["hint"]
        assert time.monotonic() - began < 25
    finally:
        goes_on.set()
    monkeypatch.setattr(lookout, "read", real)
    until = time.monotonic() + 10
    while states(home, app, answer["id"])[0]["state"] != "fresh" and time.monotonic() < until:
        time.sleep(0.02)
    assert states(home, app, answer["id"])[0]["state"] == "fresh"


def test_an_artifact_cannot_be_put_among_the_cited_lines(home, app):
    with pytest.raises(InvalidInput, match="no name for an artifact"):
        keep(home, app, data=b"x", name=".cited/" + "0" * 64)
