"""Do hand edits count, and does absence never count as deletion?"""

from __future__ import annotations

import errno
import shutil

import pytest

from memoryd.errors import DiskFull
from memoryd.files import Files
from memoryd.operations import gateway, reading
from memoryd.operations.health import status
from memoryd.operations.reconcile import reconcile_vault
from tests.operations.conftest import git, opened, settle


def add(home, caller, content, **other):
    return gateway.add(home, caller, content=content, type="fact", **other)


def test_an_edit_by_hand_is_searchable_once(home, project):
    caller = project("app")
    a = add(home, caller, "The queue holds at most forty jobs.")
    file = home.vault.path / a["path"]
    file.write_text(file.read_text().replace("forty jobs", "ninety zebras"))
    assert reconcile_vault(home)["changed"] == 1
    assert reconcile_vault(home)["changed"] == 0
    settle(home)
    found = reading.search(home, caller, query="zebras", mode="keyword")["memories"]
    assert [one["id"] for one in found] == [a["id"]]
    assert reading.search(home, caller, query="forty", mode="keyword")["memories"] == []
    assert len(reading.get(home, caller, id=a["id"], metadata=True)["history"]) == 2


def test_case_19_an_edit_that_keeps_size_and_mtime_is_found_after_a_restart(root, project):
    """case 19: content decides, not the clock."""
    caller = project("app")
    import os

    with opened(root) as home:
        a = add(home, caller, "The answer is 41.")
        file = home.vault.path / a["path"]
        info = file.stat()
        file.write_text(file.read_text().replace("answer is 41", "answer is 42"))
        os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))
    with opened(root) as home:
        assert "answer is 42" in reading.get(home, caller, id=a["id"])["content"]


def test_case_24_a_file_deleted_while_nothing_ran_is_gone_at_the_next_start(root, project):
    """case 24: and its content stays readable in the history."""
    caller = project("app")
    with opened(root) as home:
        a, b = add(home, caller, "First."), add(home, caller, "Second.")
        (home.vault.path / a["path"]).unlink()
    with opened(root) as home:
        settle(home)
        assert home.memories.get(a["id"]) is None
        assert [m["id"] for m in reading.search(home, caller, query="First Second")["memories"]] == [b["id"]]
        assert reading.get(home, caller, address=a["address"])["content"].endswith("First.")


def test_case_25_a_vault_that_is_suddenly_empty_removes_nothing(home, project):
    """case 25: an unmounted folder is reported, not believed."""
    caller = project("app")
    a = add(home, caller, "Only one.")
    hidden = home.vault.path.with_name("hidden")
    hidden.mkdir()
    for child in home.vault.path.iterdir():
        if child.name != ".git":
            shutil.move(str(child), hidden / child.name)
    report = reconcile_vault(home)
    assert report["removed"] == 0
    assert "suddenly empty" in report["problem"]
    assert home.memories.get(a["id"]) is not None
    assert any("suddenly empty" in notice for notice in status(home, caller)["notices"])
    for child in hidden.iterdir():
        shutil.move(str(child), home.vault.path / child.name)
    assert reconcile_vault(home)["problem"] is None
    assert not any("empty" in notice for notice in status(home, caller)["notices"])


def hide(home, folder):
    """Move every file of the working tree away, as an unmount would; .git stays."""
    folder.mkdir(exist_ok=True)
    for child in home.vault.path.iterdir():
        if child.name != ".git":
            shutil.move(str(child), folder / child.name)


def test_a_write_into_an_emptied_working_tree_loses_nothing(root, tmp_path, nobody):
    """case 25: the listing is not empty any more after a write, and the other files are still only absent."""
    hidden = tmp_path / "hidden"
    with opened(root) as home:
        old = [add(home, nobody, f"Fact {n}.", scope="global")["id"] for n in range(3)]
        reconcile_vault(home)
        hide(home, hidden)
        new = [add(home, nobody, "Written before the first look.", scope="global")["id"]]
        assert reconcile_vault(home)["removed"] == 0
        new += [add(home, nobody, f"Later fact {n}.", scope="global")["id"] for n in range(5)]
        report = reconcile_vault(home)
        assert report["removed"] == 0
        assert "lacks 3 files" in report["problem"]
    with opened(root) as home:
        assert any("lacks 3 files" in notice for notice in status(home, nobody)["notices"])
        assert all(home.memories.get(one) is not None for one in old + new)
        git("checkout", "-q", "--", ".", cwd=home.vault.path)
        assert reconcile_vault(home)["problem"] is None
        assert status(home, nobody)["notices"] == []
        assert home.memories.counts(None) == {"in_force": 9}


def test_most_files_deleted_at_once_are_gone_when_git_has_the_deletion(home, nobody):
    paths = [add(home, nobody, f"Fact {n}.", scope="global")["path"] for n in range(5)]
    reconcile_vault(home)
    for path in paths[:3]:
        (home.vault.path / path).unlink()
    assert (reconcile_vault(home)["removed"], home.memories.counts(None)) == (0, {"in_force": 5})
    git("commit", "-q", "-a", "-m", "Deleted on purpose", cwd=home.vault.path)
    report = reconcile_vault(home)
    assert (report["removed"], report["problem"]) == (3, None)
    assert home.memories.counts(None) == {"in_force": 2}


def test_a_vault_emptied_by_a_commit_is_empty(home, nobody):
    for n in range(3):
        add(home, nobody, f"Fact {n}.", scope="global")
    reconcile_vault(home)
    git("rm", "-q", "-r", ".", cwd=home.vault.path)
    git("commit", "-q", "-m", "All of it", cwd=home.vault.path)
    assert reconcile_vault(home)["removed"] == 3


def test_a_few_files_deleted_by_hand_are_gone(home, nobody):
    """case 24: of a handful, and of many."""
    paths = [add(home, nobody, f"Fact {n}.", scope="global")["path"] for n in range(9)]
    reconcile_vault(home)
    for path in paths[:2]:
        (home.vault.path / path).unlink()
    assert reconcile_vault(home)["removed"] == 2
    for path in paths[2:5]:
        (home.vault.path / path).unlink()
    assert reconcile_vault(home)["removed"] == 3


def test_an_edit_that_met_a_full_disk_is_taken_in_later(root, nobody):
    files = Files(lambda point: None)
    with opened(root, files=files) as home:
        a = add(home, nobody, "Forty jobs.", scope="global")
        file = home.vault.path / a["path"]
        file.write_text(file.read_text().replace("Forty", "Fifty"))

        def full(point):
            if point == "pack.write":
                raise OSError(errno.ENOSPC, "No space left on device")

        files.fault = full
        with pytest.raises(DiskFull):
            reconcile_vault(home)
        files.fault = lambda point: None
        assert reconcile_vault(home)["changed"] == 1


def test_h28_a_faulty_file_is_named_with_its_line_and_stays_findable(home, project):
    """H28: never silent, never rewritten."""
    caller = project("app")
    a = add(home, caller, "Good one.")
    file = home.vault.path / a["path"]
    broken = file.read_text().replace("title: ", "title: [unclosed ", 1).replace("Good one", "Walrus")
    file.write_text(broken)
    reconcile_vault(home)
    settle(home)
    faulty = status(home, caller)["vault"]["faulty"]
    assert [one["path"] for one in faulty] == [a["path"]]
    assert "Line 7" in faulty[0]["problem"]
    found = reading.search(home, caller, query="walrus", mode="keyword")["memories"]
    assert len(found) == 1
    assert "Line 7" in found[0]["problem"]
    assert file.read_text() == broken


def test_a_revert_in_git_puts_the_old_words_in_force_again(home, project):
    caller = project("app")
    a = add(home, caller, "Rule one.")
    preview = gateway.supersede(home, caller, id=a["id"], content="Rule two.")
    b = gateway.supersede(home, caller, id=a["id"], content="Rule two.", confirm=preview["confirm"])
    git("revert", "--no-edit", "HEAD", cwd=home.vault.path)
    reconcile_vault(home)
    settle(home)
    assert home.memories.get(b["id"]) is None
    assert reading.get(home, caller, id=a["id"])["status"] == "in_force"
    assert [m["id"] for m in reading.search(home, caller, query="Rule two")["memories"]] == [a["id"]]


def test_a_copied_file_is_reported_as_a_duplicate_id(home, project):
    caller = project("app")
    a = add(home, caller, "Original.")
    file = home.vault.path / a["path"]
    shutil.copy(file, file.with_name("copy.md"))
    reconcile_vault(home)
    assert status(home, caller)["vault"]["duplicate_ids"] == [a["id"]]
