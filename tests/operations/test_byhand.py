"""Is the vault a person's folder: is whatever a person does there followed or told by file and line, never rewritten?"""

from __future__ import annotations

import os
import shutil
import threading
import time

import pytest

from memoryd.digest import sha256_hex
from memoryd.errors import GitFailed, GitLocked, GitTimeout, MemorydError, VaultBusy
from memoryd.operations import gateway, reading
from memoryd.operations.brief import recall
from memoryd.operations.check import check
from memoryd.operations.health import status
from memoryd.operations.home import Caller
from memoryd.operations.reconcile import reconcile_vault
from tests.operations.conftest import configure, git, opened, settle

HERE = Caller()


def add(home, content, **other):
    return gateway.add(home, HERE, content=content, type="fact", scope="global", **other)


def supersede(home, identity, content):
    token = gateway.supersede(home, HERE, id=identity, content=content)["confirm"]
    return gateway.supersede(home, HERE, id=identity, content=content, confirm=token)


def look(home):
    report = reconcile_vault(home)
    settle(home)
    return report


def file_of(home, answer):
    return home.vault.path / answer["path"]


def told(home):
    """What status and check say of files: path -> problem; both say the same."""
    faulty = {one["path"]: one["problem"] for one in status(home, HERE)["vault"]["faulty"]}
    found = {f["where"]: f["message"] for f in check(home, quick=True)["findings"] if f["code"] == "vault-file-invalid"}
    assert found == faulty
    return faulty


def found(home, query, **other):
    return [one["id"] for one in reading.search(home, HERE, query=query, mode="keyword", **other)["memories"]]


def tree(home):
    """Every byte of the working tree."""
    root = home.vault.path
    files = (path for path in root.rglob("*") if path.is_file() and ".git" not in path.relative_to(root).parts)
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


WHOLE = """---
id: "{id}"
fact: "{id}"
type: fact
scope: global
status: in_force
created: 2026-03-01
---

{body}
"""


def drop(home, name, text):
    """A file that a person puts into the vault."""
    path = home.vault.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# dropped in


def test_a_dropped_in_file_with_frontmatter_is_a_memory(home):
    drop(home, "global/fact/anything.md", WHOLE.format(id="a" * 64, body="Herons nest in the north pond."))
    before = tree(home)
    look(home)
    assert found(home, "herons nest") == ["a" * 64]
    assert told(home) == {}
    assert tree(home) == before


@pytest.mark.parametrize("head", ["", "---\ntype: fact\ntags:\n  - birds\n---\n\n"])
def test_a_dropped_in_file_without_a_memorys_frontmatter_is_told_with_what_to_add(home, head):
    drop(home, "global/fact/herons.md", head + "Herons nest in the north pond.\n")
    before = tree(home)
    look(home)
    problem = told(home)["global/fact/herons.md"]
    for name in ("id", "fact", "scope", "status", "created"):
        assert f"`{name}`" in problem
    assert "Line 1" in problem
    assert len(reading.search(home, HERE, query="herons", mode="keyword")["memories"]) == 1
    assert tree(home) == before


def test_a_note_outside_the_memories_folders_is_nobodys_fault(home):
    """An Obsidian vault has notes of its own, with properties of their own."""
    drop(home, "README.md", "# My notes\n\nPelicans are white.\n")
    drop(home, "Daily/2026-03-01.md", "---\ntags:\n  - daily\naliases: [today]\n---\n\nSaw a kingfisher.\n")
    drop(home, "Zettel/1.md", "---\nid: 202603011200\ntype: permanent\nstatus: seed\n---\nBitterns boom.\n")
    before = tree(home)
    look(home)
    assert told(home) == {}
    assert [bool(found(home, word)) for word in ("pelicans", "kingfisher", "bitterns")] == [True] * 3
    assert home.memories.counts(None) == {}
    assert tree(home) == before


def test_a_memory_that_was_moved_out_and_broke_there_is_told_all_the_same(home):
    a = add(home, "Herons nest.")
    file = file_of(home, a)
    moved = home.vault.path / "Notes" / "moved.md"
    moved.parent.mkdir()
    moved.write_text(file.read_text().replace("title: ", "title: [oops ", 1))
    file.unlink()
    look(home)
    assert "Line" in told(home)["Notes/moved.md"]


# renames, moves, deletions


def test_a_renamed_and_a_moved_file_keep_id_history_and_words(home):
    a, b = add(home, "Herons nest in the pond."), add(home, "Pelicans fish at dawn.")
    look(home)
    (home.vault.path / "global" / "fact" / "birds of ours.md").write_bytes(file_of(home, a).read_bytes())
    file_of(home, a).unlink()
    (home.vault.path / "archive" / "deep").mkdir(parents=True)
    shutil.move(file_of(home, b), home.vault.path / "archive" / "deep" / "pelicans.md")
    before = tree(home)
    report = look(home)
    assert (report["added"], report["removed"]) == (2, 2)
    assert found(home, "herons") == [a["id"]] and found(home, "pelicans") == [b["id"]]
    assert reading.get(home, HERE, id=b["id"])["source"] == "vault/archive/deep/pelicans.md"
    assert add(home, "Pelicans fish at dawn.")["outcome"] == "exists"
    done = supersede(home, b["id"], "Pelicans fish at dusk.")
    assert (done["outcome"], done["retired"]) == ("superseded", b["id"])
    settle(home)
    assert found(home, "pelicans") == [done["id"]]
    assert told(home) == {} and status(home, HERE)["vault"]["duplicate_ids"] == []
    assert before.keys() < tree(home).keys()


def test_a_deleted_file_is_gone_and_comes_back(home):
    a = add(home, "Herons nest in the pond.")
    add(home, "Another.")
    look(home)
    file = file_of(home, a)
    data = file.read_bytes()
    file.unlink()
    look(home)
    assert found(home, "herons") == []
    file.write_bytes(data)
    look(home)
    assert found(home, "herons") == [a["id"]]


# git by hand


def test_a_branch_switch_there_and_back(home):
    a = add(home, "Herons nest in the pond.")
    root = home.vault.path
    git("switch", "-q", "-c", "other", cwd=root)
    b = add(home, "Pelicans fish at dawn.")
    done = supersede(home, a["id"], "Herons nest in the reeds.")
    git("switch", "-q", "main", cwd=root)
    look(home)
    assert found(home, "herons nest") == [a["id"]] and found(home, "pelicans") == []
    git("switch", "-q", "other", cwd=root)
    look(home)
    assert found(home, "herons nest") == [done["id"]] and found(home, "pelicans") == [b["id"]]
    assert told(home) == {}


def test_an_orphan_branch_is_absence_and_no_deletion(home):
    a = add(home, "Herons nest in the pond.")
    look(home)
    git("switch", "-q", "--orphan", "empty", cwd=home.vault.path)
    assert look(home)["removed"] == 0
    git("switch", "-q", "main", cwd=home.vault.path)
    assert look(home)["problem"] is None
    assert found(home, "herons") == [a["id"]]


def test_a_pull_of_somebodys_commits(home, tmp_path):
    a = add(home, "Herons nest in the pond.")
    other = tmp_path / "other"
    git("clone", "-q", home.vault.path, other, cwd=tmp_path)
    edited = other / a["path"]
    edited.write_text(edited.read_text().replace("in the pond", "in the reeds"))
    (other / "global" / "fact" / "b.md").write_text(WHOLE.format(id="b" * 64, body="Pelicans fish at dawn."))
    git("add", "-A", cwd=other)
    git("commit", "-q", "-m", "theirs", cwd=other)
    c = add(home, "Bitterns boom.")
    git("pull", "-q", "--no-rebase", "--no-edit", other, "main", cwd=home.vault.path)
    look(home)
    assert found(home, "reeds") == [a["id"]]
    assert found(home, "pelicans") == ["b" * 64]
    assert found(home, "bitterns") == [c["id"]]
    assert told(home) == {}


def test_stash_and_checkout_of_an_edit(home):
    a = add(home, "Herons nest in the pond.")
    file = file_of(home, a)
    root = home.vault.path
    for undo in (["stash", "-q"], ["checkout", "-q", "--", a["path"]]):
        file.write_text(file.read_text().replace("pond", "reeds"))
        look(home)
        assert found(home, "reeds") == [a["id"]]
        git(*undo, cwd=root)
        look(home)
        assert found(home, "reeds") == [] and found(home, "pond") == [a["id"]]
    git("stash", "pop", "-q", cwd=root)
    look(home)
    assert found(home, "reeds") == [a["id"]]


def test_h42_a_reverted_supersede_holds_in_every_answer(home):
    """H42: the old memory is in force again in search, recall, get, similar and dedup, the new one is gone."""
    a = add(home, "Herons nest in the pond since March.")
    b = supersede(home, a["id"], "Herons nest in the reeds since March.")
    git("revert", "--no-edit", "HEAD", cwd=home.vault.path)
    look(home)
    assert found(home, "herons nest") == [a["id"]]
    assert [one["id"] for one in reading.search(home, HERE, query="herons reeds")["memories"]] == [a["id"]]
    brief = recall(home, HERE, task="herons nest in the reeds")
    assert a["id"][:8] in brief["brief"] and b["id"][:8] not in brief["brief"]
    assert reading.get(home, HERE, id=a["id"])["status"] == "in_force"
    with pytest.raises(MemorydError):
        reading.get(home, HERE, id=b["id"])
    history = reading.get(home, HERE, id=a["id"], metadata=True)
    assert b["id"] not in str(history.get("revisions"))
    assert add(home, "Herons nest in the pond since March.")["outcome"] == "exists"
    near = add(home, "Herons nest in the pond since March and April.")
    assert b["id"] not in str(near)
    assert a["id"] in str(near)
    again = supersede(home, a["id"], "Herons nest in the reeds since March.")
    assert (again["outcome"], again["id"]) == ("superseded", b["id"])
    settle(home)
    assert a["id"] not in found(home, "herons nest")


def test_a_reverted_archive_is_in_force_again(home):
    a = add(home, "Herons nest in the pond.")
    token = gateway.archive(home, HERE, id=a["id"], reason="gone")["confirm"]
    gateway.archive(home, HERE, id=a["id"], reason="gone", confirm=token)
    look(home)
    assert found(home, "herons") == []
    git("revert", "--no-edit", "HEAD", cwd=home.vault.path)
    look(home)
    assert found(home, "herons") == [a["id"]]


def test_conflict_markers_are_told_by_line_and_the_file_stays(home):
    """In the frontmatter the file does not read as a memory; in the body it does, and is told all the same."""
    a, b = add(home, "Herons nest in the pond."), add(home, "First.\n\nPelicans fish at dawn.\n")
    for answer, line in ((a, "title: "), (b, "Pelicans")):
        file = file_of(home, answer)
        lines = file.read_text().splitlines()
        at = next(n for n, text in enumerate(lines) if text.startswith(line))
        lines[at : at + 1] = ["<<<<<<< HEAD", lines[at], "=======", lines[at] + " changed", ">>>>>>> theirs"]
        file.write_text("\n".join(lines) + "\n")
    before = tree(home)
    look(home)
    problems = told(home)
    assert set(problems) == {a["path"], b["path"]}
    assert "Line 6" in problems[a["path"]]
    assert "Line 15" in problems[b["path"]] and "conflict" in problems[b["path"]]
    assert "conflict" in problems[a["path"]]
    assert len(found(home, "pelicans")) == 1 and len(found(home, "herons")) == 1
    assert tree(home) == before


def test_words_about_conflict_markers_are_no_conflict(home):
    text = "Resolve what git marks:\n\n```\n<<<<<<< HEAD\none\n=======\ntwo\n>>>>>>> theirs\n```\n"
    a = add(home, text)
    b = add(home, "A heading\n=======\n\nand more.")
    look(home)
    assert told(home) == {}
    assert {a["outcome"], b["outcome"]} == {"added"}


# bytes


FORMS = {
    "crlf": lambda data: data.replace(b"\n", b"\r\n"),
    "cr": lambda data: data.replace(b"\n", b"\r"),
    "bom": lambda data: b"\xef\xbb\xbf" + data,
    "bom-crlf": lambda data: b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"),
    "mixed": lambda data: data.replace(b"\n", b"\r\n", 5),
}


@pytest.mark.parametrize("call", ["supersede", "archive"])
@pytest.mark.parametrize("form", FORMS)
def test_h29_endings_and_bom_change_nothing_and_survive(home, form, call):
    """H29: same metadata, the same words to the duplicate check, and a lifecycle change keeps the file's own form."""
    a = add(home, "Herons nest in the pond.\n\nAll of them.\n", tags=["birds"])
    file = file_of(home, a)
    changed = FORMS[form](file.read_bytes())
    file.write_bytes(changed)
    look(home)
    assert told(home) == {}
    again = add(home, "Herons nest in the pond.\n\nAll of them.\n")
    assert (again["outcome"], again["edited"], again["id"]) == ("exists", False, a["id"])
    if call == "supersede":
        supersede(home, a["id"], "Herons nest in the reeds.")
    else:
        token = gateway.archive(home, HERE, id=a["id"], reason="gone")["confirm"]
        gateway.archive(home, HERE, id=a["id"], reason="gone", confirm=token)
    after = file.read_bytes()
    assert after.startswith(b"\xef\xbb\xbf") == changed.startswith(b"\xef\xbb\xbf")
    for ending in (b"\r\n", b"\n", b"\r"):
        rest_before, rest_after = (
            data.replace(b"\r\n", b"") if ending != b"\r\n" else data for data in (changed, after)
        )
        assert (ending in rest_before) == (ending in rest_after), ending
    body = changed.split(b"---")[2]
    assert after.endswith(body)
    assert home.vault.committed(a["path"].encode())[1] == sha256_hex(after)


def test_h30_what_is_no_text_is_told_with_its_path_and_stops_nothing(home):
    """H30: 20 good files beside Latin-1, a PNG, UTF-16, an empty one, a FIFO and a link that leads nowhere."""
    for number in range(20):
        identity = f"{number:064x}"
        drop(home, f"global/fact/good{number}.md", WHOLE.format(id=identity, body=f"Heron number {number} nests."))
    drop(home, "global/fact/latin.md", "caf\u00e9".encode("latin-1"))
    drop(home, "global/fact/picture.md", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    drop(home, "global/fact/wide.md", WHOLE.format(id="c" * 64, body="wide").encode("utf-16"))
    drop(home, "global/fact/empty.md", b"")
    os.mkfifo(home.vault.path / "global" / "fact" / "pipe.md")
    (home.vault.path / "global" / "fact" / "link.md").symlink_to("nowhere.md")
    look(home)
    assert home.memories.counts(None) == {"in_force": 20}
    named = set(told(home)) | {notice.split(": ")[0].removeprefix("vault/") for notice in status(home, HERE)["notices"]}
    assert named == {f"global/fact/{name}.md" for name in ("latin", "picture", "wide", "empty", "pipe", "link")}
    (home.vault.path / "global" / "fact" / "pipe.md").unlink()
    (home.vault.path / "global" / "fact" / "link.md").unlink()
    look(home)
    assert status(home, HERE)["notices"] == []


@pytest.mark.parametrize("how", ["unclosed", "colon", "tab", "dashes", "empty", "quote"])
@pytest.mark.parametrize("call", ["supersede", "archive"])
def test_h27_a_broken_block_refuses_a_lifecycle_change(home, how, call):
    """H27: the file stays byte for byte, and nothing is put in front of it."""
    a = add(home, "Herons nest in the pond.")
    file = file_of(home, a)
    text = file.read_text()
    broken = {
        "unclosed": text.replace("---\n\n", "\n", 1),
        "colon": text.replace('title: "Herons', "title: a: b # ", 1).replace('pond."', "pond.", 1),
        "tab": text.replace("type: fact", "\ttype: fact", 1),
        "dashes": text.replace("---\n\n", "--\n\n", 1),
        "empty": "---\n---\n\nHerons nest in the pond.",
        "quote": text.replace('title: "', 'title: "a"b"', 1),
    }[how]
    given = {"content": "Herons nest in the reeds."} if call == "supersede" else {"reason": "gone"}
    token = getattr(gateway, call)(home, HERE, id=a["id"], **given)["confirm"]
    file.write_text(broken)
    for confirm in (token, None):
        with pytest.raises(MemorydError):
            getattr(gateway, call)(home, HERE, id=a["id"], **given, confirm=confirm)
    assert file.read_text() == broken
    look(home)
    assert set(told(home)) == {a["path"]}
    assert len(found(home, "herons")) == 1


def test_two_files_with_one_id_are_named_both(home):
    a = add(home, "Herons nest in the pond.")
    copy = file_of(home, a).with_name("copy.md")
    shutil.copy(file_of(home, a), copy)
    before = tree(home)
    look(home)
    vault = status(home, HERE)["vault"]
    assert vault["duplicate_ids"] == [a["id"]]
    assert vault["duplicates"] == [{"id": a["id"], "paths": sorted([a["path"], "global/fact/copy.md"])}]
    (finding,) = (f for f in check(home, quick=True)["findings"] if f["code"] == "duplicate-id")
    assert a["path"] in finding["message"] and "global/fact/copy.md" in finding["message"]
    assert set(found(home, "herons")) == {a["id"]}
    assert tree(home) == before


# Obsidian


def test_an_obsidian_vault_is_left_alone_and_makes_no_noise(home):
    a = add(home, "> [!note] Herons\n> nest in the pond, see [[Pelicans|white ones]] and ![[map.png]].\n")
    look(home)
    drop(home, ".obsidian/app.json", "{}")
    drop(home, ".obsidian/plugins/x/README.md", "# Plugin")
    drop(home, ".trash/old.md", WHOLE.format(id="e" * 64, body="Trashed words."))
    drop(home, "global/fact/map.png", b"\x89PNG\r\n")
    drop(home, "Boards/plan.canvas", '{"nodes": []}')
    drop(home, "Drawing.excalidraw.md", "---\nexcalidraw-plugin: parsed\n---\n# Text\n")
    drop(home, "global/fact/._herons.md", b"\0\5\26\7")
    before = tree(home)
    look(home)
    assert told(home) == {}
    assert status(home, HERE)["notices"] == []
    assert check(home, quick=True)["clean"]
    assert found(home, "herons pelicans") == [a["id"]]
    assert found(home, "trashed") == [] and found(home, "plugin") == []
    assert tree(home) == before
    git("status", "--porcelain", cwd=home.vault.path)


def test_the_properties_panel_may_write_the_frontmatter_anew(home):
    """It writes lists as lines, drops quotes, and adds `aliases`."""
    a = add(home, "Herons nest in the pond.", tags=["birds", "north"])
    file = file_of(home, a)
    body = file.read_text().split("---\n", 2)[2]
    lines = [
        f"id: {a['id']}",
        f"fact: {a['id']}",
        "seq: 1",
        "type: fact",
        "title: Herons nest",
        "tags:",
        "  - birds",
        "  - reeds",
        "scope: global",
        "status: in_force",
        "created: 2026-03-01T10:00:00",
        "updated: 2026-03-02",
        "aliases:",
        "  - waders",
        "cssclasses: []",
    ]
    file.write_text("---\n" + "\n".join(lines) + "\n---\n" + body)
    look(home)
    assert told(home) == {}
    (one,) = reading.search(home, HERE, query="herons", mode="keyword")["memories"]
    assert (one["id"], one["tags"]) == (a["id"], ["birds", "reeds"])
    supersede(home, a["id"], "Herons nest in the reeds.")
    text = file.read_text()
    assert "aliases:\n  - waders\n" in text and "tags:\n  - birds\n  - reeds\n" in text
    assert "status: superseded\n" in text


def test_a_file_moved_to_obsidians_trash_is_deleted(home):
    a = add(home, "Herons nest in the pond.")
    add(home, "Another.")
    look(home)
    trash = home.vault.path / ".trash"
    trash.mkdir()
    shutil.move(file_of(home, a), trash / "herons.md")
    look(home)
    assert found(home, "herons") == []


# commits that fail, and the others meanwhile


def hook(home, name, script):
    path = home.vault.path / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return path


def test_h36_h34_a_sleeping_hook_ends_in_time_and_other_sessions_go_on(root):
    """H36, H34: the add is refused with a clear error, file and index go back, reads answer meanwhile."""
    configure(root, vault={"git_timeout_seconds": 2})
    with opened(root) as home:
        a = add(home, "Herons nest in the pond.")
        settle(home)
        gone = home.vault.path / "started"
        path = hook(home, "pre-commit", f"touch {gone}\nsleep 60\n")
        before = tree(home)
        errors = []

        def write():
            try:
                add(home, "Pelicans fish at dawn.")
            except GitTimeout as error:
                errors.append(error)

        session = threading.Thread(target=write)
        session.start()
        while not gone.exists():
            time.sleep(0.01)
        assert found(home, "herons") == [a["id"]]
        assert reading.get(home, HERE, id=a["id"])["status"] == "in_force"
        assert status(home, HERE)["memories"] == {"in_force": 1}
        assert session.is_alive(), "nobody waited for it"
        session.join(60)
        (error,) = errors
        assert "hook" in error.next_step
        gone.unlink()
        assert tree(home) == before
        look(home)
        assert found(home, "pelicans") == []
        assert home.state.intents.all() == []
        path.unlink()
        assert add(home, "Pelicans fish at dawn.")["outcome"] == "added"


def test_h36_a_refusing_hook_leaves_file_index_and_answers_as_they_were(home):
    a = add(home, "Herons nest in the pond.")
    settle(home)
    path = hook(home, "pre-commit", "head -c 1000000 /dev/zero | tr '\\0' x; echo; echo no herons; exit 1\n")
    before = tree(home)
    with pytest.raises(GitFailed, match="no herons"):
        add(home, "Pelicans fish at dawn.")
    with pytest.raises(GitFailed, match="no herons"):
        supersede(home, a["id"], "Herons nest in the reeds.")
    look(home)
    assert tree(home) == before
    assert found(home, "pelicans") == [] and found(home, "herons") == [a["id"]]
    path.unlink()
    hook(home, "pre-commit", "for f in $(git diff --cached --name-only); do echo cormorant >> $f; git add $f; done\n")
    b = add(home, "Pelicans fish at dawn.")
    settle(home)
    assert found(home, "cormorant") == [b["id"]], "what is indexed is what was committed"


def test_h32_a_lasting_lock_and_a_merge_under_way_are_typed_refusals(home):
    a = add(home, "Herons nest in the pond.")
    home.vault.git.lock_wait = 0.2
    before = tree(home)
    lock = home.vault.path / ".git" / "index.lock"
    lock.touch()
    with pytest.raises(GitLocked) as refused:
        add(home, "Pelicans fish at dawn.")
    assert str(lock) in refused.value.message
    lock.unlink()
    (home.vault.path / ".git" / "REVERT_HEAD").write_text(home.vault.head() + "\n")
    for _ in range(2):
        with pytest.raises(VaultBusy):
            add(home, "Pelicans fish at dawn.")
    (home.vault.path / ".git" / "REVERT_HEAD").unlink()
    git("checkout", "-q", "--detach", cwd=home.vault.path)
    with pytest.raises(VaultBusy):
        supersede(home, a["id"], "Herons nest in the reeds.")
    git("checkout", "-q", "main", cwd=home.vault.path)
    look(home)
    assert tree(home) == before
    assert home.state.intents.all() == []
    assert add(home, "Pelicans fish at dawn.")["outcome"] == "added"
