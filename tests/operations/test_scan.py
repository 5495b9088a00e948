"""Do corpora become documents, and does no bad scan lose any?"""

from __future__ import annotations

import os

import pytest

from memoryd.config import load_config
from memoryd.errors import CorpusDuplicate, CorpusNested, InvalidInput, NotFound
from memoryd.operations import reading
from memoryd.operations.changes import diff
from memoryd.operations.health import status
from memoryd.operations.home import Caller
from memoryd.operations.kept import listed
from memoryd.operations.restore import restore
from memoryd.operations.scan import scan_corpora
from tests.operations.conftest import configure, opened, settle

HERE = Caller(directory=None)


@pytest.fixture
def docs(tmp_path):
    folder = tmp_path / "docs"
    (folder / "guide").mkdir(parents=True)
    (folder / "index.md").write_text("# Home\n\nWelcome to the aardvark handbook.\n")
    (folder / "guide" / "setup.md").write_text("# Setup\n\nInstall the badger first.\n\n## Later\n\nFeed it.\n")
    (folder / "guide" / "code.py").write_text("def chameleon():\n    return 1\n")
    return folder


def corpus(folder, **other):
    return {"label": "docs", "path": str(folder), **other}


def sources(answer):
    return [one["source"] for one in answer["memories"]]


def counts(report):
    one = report["corpora"]["docs"]
    return tuple(one[name] for name in ("added", "changed", "unchanged", "removed"))


def test_files_are_searchable_by_passage_with_provable_places(root, docs):
    configure(root, corpora=[corpus(docs)])
    with opened(root) as home:
        report = scan_corpora(home)
        assert counts(report) == (2, 0, 0, 0)
        settle(home)
        found = reading.search(home, HERE, query="badger", mode="keyword")["memories"][0]
        assert found["source"] == "docs/guide/setup.md"
        data = (docs / "guide" / "setup.md").read_bytes()
        start, end = found["bytes"]
        assert data[start:end].decode() == found["content"]
        lines = data.decode().splitlines()
        first, last = found["lines"]
        assert "\n".join(lines[first - 1 : last]).strip() == found["content"].strip()
        assert sources(reading.search(home, HERE, query="chameleon", mode="keyword")) == []


def test_case_21_an_unchanged_tree_is_not_indexed_again(root, docs):
    """case 21: scans in a loop store nothing; delete, rename and move are followed; no ghost returns."""
    configure(root, corpora=[corpus(docs)])
    with opened(root) as home:
        scan_corpora(home)
        settle(home)
        seq, mark = home.store.last_seq(), home.generation.watermark
        for _ in range(3):
            assert counts(scan_corpora(home)) == (0, 0, 2, 0)
        settle(home)
        assert (home.store.last_seq(), home.generation.watermark) == (seq, mark)
        (docs / "index.md").rename(docs / "start.md")
        assert counts(scan_corpora(home)) == (1, 0, 1, 1)
        settle(home)
        assert sources(reading.search(home, HERE, query="aardvark"))[0] == "docs/start.md"
        assert "docs/index.md" not in sources(reading.search(home, HERE, query="aardvark"))


def test_case_19_content_decides_not_size_or_mtime(root, docs):
    """case 19: same size, same mtime, other bytes."""
    configure(root, corpora=[corpus(docs)])
    with opened(root) as home:
        scan_corpora(home)
        file = docs / "index.md"
        info = file.stat()
        file.write_text(file.read_text().replace("aardvark", "anteater"))
        os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))
        assert counts(scan_corpora(home)) == (0, 1, 1, 0)


def test_case_20_a_b_a_has_three_entries_of_history(root, docs):
    """case 20: the latest content is A's again."""
    configure(root, corpora=[corpus(docs)])
    with opened(root) as home:
        first = (docs / "index.md").read_text()
        for text in (first, "# Home\n\nOther.\n", first):
            (docs / "index.md").write_text(text)
            scan_corpora(home)
        shown = reading.get(home, HERE, source="docs/index.md", metadata=True)
        addresses = [entry["address"] for entry in shown["history"]]
        assert len(addresses) == 3
        assert addresses[0] == addresses[2] != addresses[1]
        assert reading.get(home, HERE, source="docs/index.md")["content"] == first


def test_case_25_h19_absence_is_not_deletion(root, docs):
    """case 25, H19: a missing, emptied or unreadable root removes nothing and is named."""
    configure(root, corpora=[corpus(docs)])
    with opened(root) as home:
        scan_corpora(home)
        docs.rename(docs.with_name("away"))
        report = scan_corpora(home)["corpora"]["docs"]
        assert report["removed"] == 0
        assert report["problems"]
        docs.mkdir()
        report = scan_corpora(home)["corpora"]["docs"]
        assert report["removed"] == 0
        assert report["problems"]
        assert any("corpus/docs" in notice for notice in status(home, HERE)["notices"])
        docs.rmdir()
        docs.with_name("away").rename(docs)
        assert counts(scan_corpora(home)) == (0, 0, 2, 0)
        assert status(home, HERE)["notices"] == []


def many(docs, folder):
    (docs / folder).mkdir()
    for number in range(40):
        (docs / folder / f"{number}.md").write_text(f"# Page {number}\n\nThe walrus number {number}.\n")


def test_a_root_that_is_suddenly_nearly_empty_loses_nothing_until_a_person_confirms(root, docs, tmp_path):
    many(docs, "pages")
    configure(root, corpora=[corpus(docs)])
    with opened(root) as home:
        assert counts(scan_corpora(home)) == (42, 0, 0, 0)
        docs.rename(tmp_path / "unmounted")
        docs.mkdir()
        (docs / "stray.md").write_text("# Stray\n")
        report = scan_corpora(home)
        one = report["corpora"]["docs"]
        assert (report["ok"], one["complete"], one["removed"], one["documents"]) == (False, False, 0, 43)
        (problem,) = one["problems"]
        assert problem["code"] == "corpus-emptied"
        assert "memoryd corpus scan docs --accept-removals" in problem["message"]
        assert "42 of 42" in status(home, HERE)["corpora"][0]["problem"]
        assert report["check"]["ok"]
        with pytest.raises(InvalidInput):
            scan_corpora(home, accept_removals=True)
        report = scan_corpora(home, ["docs"], accept_removals=True)
        assert (report["ok"], counts(report), home.documents.live_count("docs")) == (True, (0, 0, 1, 42), 1)
        assert status(home, HERE)["corpora"][0]["problem"] is None


def test_files_that_only_moved_and_small_corpora_need_no_confirmation(root, docs):
    configure(root, corpora=[corpus(docs)])
    with opened(root) as home:
        scan_corpora(home)
        (docs / "index.md").unlink()
        (docs / "guide" / "setup.md").rename(docs / "one.md")
        assert counts(scan_corpora(home)) == (1, 0, 0, 2)
        many(docs, "pages")
        assert counts(scan_corpora(home)) == (40, 0, 1, 0)
        (docs / "pages").rename(docs / "leaves")
        report = scan_corpora(home)
        assert (report["ok"], counts(report)) == (True, (40, 0, 1, 40))


def test_case_26_one_bad_file_does_not_stop_the_others(root, docs):
    """case 26, H30: reported with its path, tried again next time."""
    configure(root, corpora=[corpus(docs)])
    (docs / "bad.md").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0" * 20)
    os.mkfifo(docs / "pipe.md")
    with opened(root) as home:
        report = scan_corpora(home)["corpora"]["docs"]
        assert report["added"] >= 2
        settle(home)
        assert sources(reading.search(home, HERE, query="badger", mode="keyword"))[0] == "docs/guide/setup.md"


def test_while_the_configuration_differs_nothing_is_removed(root, docs):
    configure(root, corpora=[corpus(docs)])
    with opened(root) as home:
        scan_corpora(home)
        (docs / "index.md").unlink()
        configure(root, corpora=[corpus(docs, include=["**/*.txt"])])
        report = scan_corpora(home)
        assert report["corpora"]["docs"]["removed"] == 0
        assert "config.json changed" in report["config_differs"]
        assert status(home, HERE)["config"]["differs"]
        configure(root, corpora=[corpus(docs)])
        assert scan_corpora(home)["corpora"]["docs"]["removed"] == 1


def test_a_dry_run_counts_by_top_folder_and_stores_nothing(root, docs):
    configure(root, corpora=[corpus(docs, code=True)])
    with opened(root) as home:
        report = scan_corpora(home, dry_run=True)["corpora"]["docs"]
        assert report["files"] == 3
        assert report["folders"] == {"./": 1, "guide/": 2}
        assert home.store.last_seq() == 0


def test_code_is_taken_when_asked_and_cut_at_definitions(root, docs):
    configure(root, corpora=[corpus(docs, code=True)])
    with opened(root) as home:
        scan_corpora(home)
        settle(home)
        found = reading.search(home, HERE, query="chameleon", mode="keyword")["memories"][0]
        assert (found["kind"], found["symbol"]) == ("code", "chameleon")
        assert sources(reading.search(home, HERE, query="chameleon", kinds=["document"])) != ["docs/guide/code.py"]


def test_case_2_the_same_bytes_under_two_labels_are_two_documents(root, docs, tmp_path):
    """case 2: both paths are listed; one going leaves the other."""
    other = tmp_path / "notes"
    other.mkdir()
    (other / "copy.md").write_bytes((docs / "index.md").read_bytes())
    configure(root, corpora=[corpus(docs), {"label": "notes", "path": str(other)}])
    with opened(root) as home:
        scan_corpora(home)
        settle(home)
        (hit,) = reading.search(home, HERE, query="aardvark", mode="keyword")["memories"]
        assert [hit["source"], *hit["also"]] == ["docs/index.md", "notes/copy.md"]
        assert sources(reading.search(home, HERE, query="aardvark", path_prefix="notes")) == ["notes/copy.md"]
        (docs / "index.md").unlink()
        scan_corpora(home)
        settle(home)
        assert "notes/copy.md" in sources(reading.search(home, HERE, query="aardvark"))
        assert reading.get(home, HERE, source="notes/copy.md")["content"].startswith("# Home")


def test_duplicate_labels_and_nested_roots_are_refused_at_the_start(root, docs):
    configure(root, corpora=[corpus(docs), corpus(docs / "guide")])
    with pytest.raises(CorpusDuplicate), opened(root):
        pass
    configure(root, corpora=[corpus(docs), {"label": "inner", "path": str(docs / "guide")}])
    with pytest.raises(CorpusNested), opened(root):
        pass


def test_an_unknown_label_is_refused(root, docs):
    configure(root, corpora=[corpus(docs)])
    with opened(root) as home, pytest.raises(NotFound):
        scan_corpora(home, ["dcos"])


def test_a_project_scope_keeps_a_corpus_to_its_project(root, docs, project):
    caller = project("app")
    from memoryd.operations.callers import described

    with opened(root) as home:
        scope = described(home, caller)["writes"]
    configure(root, corpora=[corpus(docs, scope=scope)])
    with opened(root) as home:
        scan_corpora(home)
        settle(home)
        assert sources(reading.search(home, caller, query="aardvark"))[0] == "docs/index.md"
        assert sources(reading.search(home, HERE, query="aardvark")) == []
        with pytest.raises(NotFound):
            reading.get(home, HERE, source="docs/index.md")


def test_the_loaded_configuration_is_the_one_in_force(root, docs):
    configure(root, corpora=[corpus(docs)])
    assert load_config(root / "config.json").config.corpora[0].include == ("**/*.md",)


def test_a_configuration_that_changes_during_a_scan_removes_nothing(root, docs):
    """The question is asked again right before the removal: reading may have taken long."""
    configure(root, corpora=[corpus(docs)])
    with opened(root) as home:
        scan_corpora(home)
        (docs / "index.md").unlink()

        def meanwhile(_done, _total, _note):
            configure(root, corpora=[corpus(docs.with_name("elsewhere"))])

        report = scan_corpora(home, progress=meanwhile)
        assert report["corpora"]["docs"]["removed"] == 0
        assert "config.json changed" in report["config_differs"]
        assert not report["ok"]


def test_the_report_ends_with_a_check(root, docs):
    configure(root, corpora=[corpus(docs)])
    with opened(root) as home:
        report = scan_corpora(home)
        assert report["check"] == {"ok": True, "problems": [], "pending": 2}
        assert report["ok"]
        with home.catalog.write() as tx:
            tx.execute("UPDATE tallies SET documents = 5 WHERE source = 'docs'")
            home.catalog.set_meta(tx, "applied_seq", "1")
        report = scan_corpora(home)
        assert not report["ok"]
        first, second = report["check"]["problems"]
        assert "5 documents of docs, not 2" in first
        assert "2 records of the packs" in second


def test_a_root_that_is_no_folder_fails_the_scan_as_a_whole(root, docs, tmp_path):
    """Other corpora go on, the report is there, but it does not say that all went well."""
    configure(root, corpora=[corpus(tmp_path / "none"), {"label": "more", "path": str(docs)}])
    with opened(root) as home:
        report = scan_corpora(home)
        assert not report["ok"]
        assert report["check"]["ok"]
        assert (report["corpora"]["docs"]["complete"], report["corpora"]["more"]["complete"]) == (False, True)
        assert report["corpora"]["more"]["added"] == 2
        assert not scan_corpora(home, dry_run=True)["ok"]


def test_a_corpus_out_of_the_configuration_is_named_until_it_is_dropped(root, docs):
    configure(root, corpora=[corpus(docs)])
    with opened(root) as home:
        scan_corpora(home)
        address = reading.get(home, HERE, source="docs/index.md")["address"]
        assert status(home, HERE)["orphaned"] == []
        for refused in ("docs", "vault"):
            with pytest.raises(InvalidInput):
                scan_corpora(home, drop=[refused])
        with pytest.raises(NotFound):
            scan_corpora(home, drop=["dosc"])
    configure(root, corpora=[{"label": "gone", "path": str(docs / "none")}])
    with opened(root) as home:
        assert [(one["label"], one["documents"]) for one in status(home, HERE)["orphaned"]] == [("docs", 2)]
        with pytest.raises(InvalidInput):
            scan_corpora(home, ["gone"], drop=["docs"])
        report = scan_corpora(home, drop=["docs"])
        assert report["dropped"] == {"docs": {"documents": 2, "removed": 0}}, "one root could not be seen"
        assert not report["ok"]
    configure(root, corpora=[])
    with opened(root) as home:
        assert scan_corpora(home)["orphaned"][0]["label"] == "docs"
        assert scan_corpora(home, drop=["docs"], dry_run=True)["dropped"]["docs"]["removed"] == 0
        report = scan_corpora(home, drop=["docs"])
        assert report["dropped"] == {"docs": {"documents": 2, "removed": 2}}
        assert (report["orphaned"], report["ok"]) == ([], True)
        assert home.documents.live_count() == 0
        assert reading.get(home, HERE, address=address)["content"].startswith("# Home")
    configure(root, corpora=[corpus(docs)])
    with opened(root) as home:
        assert counts(scan_corpora(home)) == (2, 0, 0, 0), "configured again it is read again"


def test_every_scan_that_changed_something_keeps_a_snapshot(root, docs, tmp_path):
    configure(root, corpora=[corpus(docs)])
    with opened(root) as home:
        first = scan_corpora(home)["corpora"]["docs"]["snapshot"]
        assert first["new"]
        again = scan_corpora(home)["corpora"]["docs"]["snapshot"]
        assert (again["seq"], again["new"]) == (first["seq"], False)
        (docs / "guide" / "setup.md").rename(docs / "guide" / "install.md")
        (docs / "new.md").write_text("# New\n")
        assert scan_corpora(home)["corpora"]["docs"]["snapshot"]["new"]
        told = diff(home, HERE, since="docs@1")
        assert [(one["old_path"], one["path"]) for one in told["renamed"]] == [("guide/setup.md", "guide/install.md")]
        assert [one["path"] for one in told["added"]] == ["new.md"]
        restore(home, HERE, snapshot="docs", target=str(tmp_path / "back"))
        assert (tmp_path / "back" / "guide" / "install.md").read_bytes() == (docs / "guide" / "install.md").read_bytes()


def test_a_root_that_was_not_seen_keeps_no_snapshot(root, docs):
    configure(root, corpora=[corpus(docs)])
    with opened(root) as home:
        scan_corpora(home)
        docs.rename(docs.with_name("away"))
        assert "snapshot" not in scan_corpora(home)["corpora"]["docs"]
        assert "snapshot" not in scan_corpora(home, dry_run=True)["corpora"]["docs"]
        assert len(listed(home, HERE)["snapshots"]) == 1


def test_a_file_that_became_executable_is_another_state(root, docs):
    configure(root, corpora=[corpus(docs)])
    with opened(root) as home:
        scan_corpora(home)
        (docs / "index.md").chmod(0o755)
        assert counts(scan_corpora(home)) == (0, 1, 1, 0)
        (changed,) = diff(home, HERE, since="docs@1")["modified"]
        assert (changed["path"], changed["old_kind"], changed["kind"]) == ("index.md", "file", "executable")
