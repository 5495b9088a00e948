"""Can folders be added and read from a shell, and their jobs be followed?"""

from __future__ import annotations

import json

import pytest

from memoryd.cli_corpora import _show_scan


@pytest.fixture
def docs(shell):
    folder = shell.directory / "docs"
    (folder / "guide").mkdir(parents=True)
    (folder / "index.md").write_text("# Home\n\nWelcome to the aardvark handbook.\n")
    (folder / "guide" / "setup.md").write_text("# Setup\n\nInstall the badger first.\n")
    return folder


def test_a_folder_is_added_counted_scanned_and_searched(shell, docs):
    pid = shell.json("start")["pid"]
    added = shell.json("corpus", "add", "docs", "docs", "--exclude", "drafts/**")
    assert added["restarted"]
    assert added["added"] == {
        "label": "docs",
        "path": str(docs),
        "scope": "global",
        "code": False,
        "exclude": ["drafts/**"],
    }
    assert json.loads((shell.home / "config.json").read_text())["corpora"] == [added["added"]]
    dry = shell.json("corpus", "scan", "--dry-run")
    assert dry["corpora"]["docs"]["folders"] == {"./": 1, "guide/": 1}
    assert shell.json("start")["pid"] != pid, "the daemon runs on the new file"
    report = shell.json("corpus", "scan", "docs")["corpora"]["docs"]
    assert (report["added"], report["removed"], report["problems"]) == (2, 0, [])
    assert "docs: 2 files: 0 added, 0 changed, 2 unchanged, 0 removed" in shell.said("corpus", "scan")
    assert "guide/" in shell.said("corpus", "scan", "--dry-run")
    (listed,) = shell.json("corpus", "list")["corpora"]
    assert (listed["label"], listed["documents"], listed["problem"]) == ("docs", 2, None)
    assert str(docs) in shell.said("corpus", "list")
    assert shell.said("get", "docs/guide/setup.md") == "# Setup\n\nInstall the badger first.\n"

    jobs = shell.json("job", "list")["jobs"]
    assert [one["kind"] for one in jobs] == ["corpus-scan"] * 4
    assert {one["state"] for one in jobs} == {"done"}
    shown = shell.json("job", "show", jobs[0]["id"])
    assert shown == shell.json("job", "show", jobs[0]["id"].removeprefix("job-"))
    assert shown["result"]["dry_run"]
    assert {(one["done"], one["total"]) for one in jobs} == {(2, 2), (0, 0)}
    listed = shell.said("job", "list")
    assert "corpus-scan  done   2/2" in listed and "0/2" not in listed
    assert "finished" in shell.said("job", "show", jobs[0]["id"])
    assert shell.error("job", "show", "../healthz")["code"] == "not-found"
    assert shell.error("corpus", "scan", "dosc")["code"] == "not-found"

    docs.rename(docs.with_name("away"))
    whole = shell.json("corpus", "scan", code=1)
    report = whole["corpora"]["docs"]
    assert (whole["ok"], report["complete"], report["removed"]) == (False, False, 0)
    assert report["problems"][0]["code"] == "corpus-unreadable"
    done = shell.run("corpus", "scan")
    assert done.code == 1 and "docs: 0 files" in done.out and "cannot be read" in done.out
    assert shell.run("corpus", "scan", "--dry-run").code == 1
    assert shell.json("corpus", "list")["corpora"][0]["problem"]


def test_a_folder_that_is_suddenly_nearly_empty_needs_a_word_of_confirmation(shell, docs):
    for number in range(30):
        (docs / f"{number}.md").write_text(f"# Page {number}\n")
    shell.json("corpus", "add", "docs", "docs")
    shell.json("corpus", "scan")
    for number in range(30):
        (docs / f"{number}.md").unlink()
    (docs / "index.md").unlink()
    told = shell.run("corpus", "scan")
    assert told.code == 1 and "memoryd corpus scan docs --accept-removals" in told.out
    assert shell.json("corpus", "scan", "docs", "--accept-removals")["corpora"]["docs"]["removed"] == 31


def test_a_corpus_taken_out_of_the_configuration_is_named_and_dropped_when_asked(shell, docs):
    shell.json("corpus", "add", "docs", "docs")
    assert shell.json("corpus", "scan")["check"]["ok"]
    (shell.home / "config.json").write_text('{"corpora": []}')
    assert shell.error("corpus", "scan", "--drop", "docs")["code"] == "invalid-input"
    done = shell.run("corpus", "scan")
    assert done.code == 1 and "config.json changed" in done.out, "the daemon runs on another configuration"
    shell.run("stop")
    (orphan,) = shell.json("corpus", "list")["orphaned"]
    assert (orphan["label"], orphan["documents"]) == ("docs", 2)
    assert "memoryd corpus scan --drop docs" in shell.said("corpus", "list")
    assert shell.json("corpus", "scan")["orphaned"] == [orphan]
    dry = shell.json("corpus", "scan", "--dry-run", "--drop", "docs")
    assert dry["dropped"] == {"docs": {"documents": 2, "removed": 0}}
    assert "docs: 2 of 2 documents dropped" in shell.said("corpus", "scan", "--drop", "docs")
    assert shell.json("corpus", "list")["orphaned"] == []
    assert shell.error("corpus", "scan", "--drop", "docs")["code"] == "not-found"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["docs", "missing"], "corpus-unreadable"),
        (["docs", "docs/index.md"], "corpus-error"),
        (["docs", "docs", "--scope", "everywhere"], "config-error"),
        (["vault", "docs"], "config-error"),
        (["a/b", "docs"], "config-error"),
        (["docs", "../home/vault"], "corpus-nested"),
    ],
)
def test_what_cannot_be_a_corpus_is_refused_and_nothing_is_written(shell, docs, words, code):
    assert shell.error("corpus", "add", *words)["code"] == code
    assert not (shell.home / "config.json").exists()


def test_duplicates_and_nested_folders_are_refused(shell, docs):
    shell.json("corpus", "add", "docs", "docs")
    before = (shell.home / "config.json").read_bytes()
    assert shell.error("corpus", "add", "docs", "docs/guide")["code"] == "corpus-duplicate"
    assert shell.error("corpus", "add", "again", "docs")["code"] == "corpus-duplicate"
    assert shell.error("corpus", "add", "inner", "docs/guide")["code"] == "corpus-nested"
    assert (shell.home / "config.json").read_bytes() == before


def test_other_settings_and_a_configuration_elsewhere_are_kept(shell, docs):
    named = shell.directory / "settings.json"
    named.write_text('{"search": {"candidates": 50}, "corpora": []}')
    environment = {"MEMORYD_CONFIG": str(named)}
    assert shell.json("corpus", "add", "docs", "docs", environment=environment)["config"] == str(named)
    assert json.loads(named.read_text())["search"] == {"candidates": 50}
    shown = shell.json("config", environment=environment)
    assert (shown["path"], shown["exists"]) == (str(named), True)
    assert shown["config"]["corpora"][0]["label"] == "docs"
    assert not (shell.home / "config.json").exists()


def test_an_empty_list_and_a_missing_folder_say_what_to_do(shell):
    assert "memoryd corpus add" in shell.said("corpus", "list")
    assert shell.said("job", "list") == "No jobs yet.\n"
    assert "`--scope`" in shell.error("corpus", "add", "docs", ".", "--scope", "here")["next_step"]
    assert "existing folder" in shell.error("corpus", "add", "docs", "missing")["next_step"]


def test_a_path_with_steps_upwards_is_written_as_where_it_leads(shell, docs, tmp_path):
    """A link named as such stays; a step upwards from a link is one from its target."""
    far = tmp_path / "far" / "deep"
    far.mkdir(parents=True)
    (tmp_path / "far" / "pages").mkdir()
    (shell.directory / "link").symlink_to(far)
    assert shell.json("corpus", "add", "docs", "../here/docs")["added"]["path"] == str(docs)
    assert shell.json("corpus", "add", "link", "link")["added"]["path"] == str(shell.directory / "link")
    assert shell.json("corpus", "add", "pages", "link/../pages")["added"]["path"] == str(tmp_path / "far" / "pages")


def test_a_configuration_changed_by_hand_is_told_where_folders_are_looked_for(shell, docs):
    shell.json("start")
    (shell.home / "config.json").write_text(json.dumps({"corpora": [{"label": "docs", "path": str(docs)}]}))
    assert "`memoryd stop`" in shell.said("corpus", "list")
    told = shell.json("corpus", "scan", code=1)["config_differs"]
    assert "not in force" in told and "`memoryd stop`" in told
    shell.said("stop")
    assert "docs" in shell.said("corpus", "list") and "has changed" not in shell.said("corpus", "list")


@pytest.mark.parametrize(
    ("pending", "said"), [(0, None), (1, "1 document is being indexed"), (9, "9 documents are being")]
)
def test_a_scan_says_what_is_still_being_indexed(capsys, pending, said):
    report = {"files": 9, "added": 9, "changed": 0, "unchanged": 0, "removed": 0, "problems": []}
    check = {"ok": True, "problems": [], "pending": pending}
    _show_scan({"corpora": {"docs": report}, "dry_run": False, "orphaned": [], "check": check})
    shown = capsys.readouterr().out
    assert said in shown if said else "indexed" not in shown
