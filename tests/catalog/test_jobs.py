from __future__ import annotations

from pathlib import Path

import pytest

from memoryd.catalog.db import Database, open_catalog
from memoryd.catalog.jobs import KEPT, JobRow, Jobs


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture
def jobs(db: Database) -> Jobs:
    return Jobs(db, clock=Clock())


def test_the_life_of_a_job(jobs: Jobs):
    id = jobs.create("scan", {"labels": ["docs"]})
    assert jobs.get(id) == JobRow(id, "scan", {"labels": ["docs"]}, "running", 0, 0, "", None, 1001.0, 1001.0, None)
    jobs.progress(id, 5, 20, "docs/a.md")
    row = jobs.get(id)
    assert row is not None
    assert (row.done, row.total, row.note, row.updated) == (5, 20, "docs/a.md", 1002.0)
    jobs.finish(id, "done", {"added": 3})
    assert jobs.get(id) == JobRow(
        id, "scan", {"labels": ["docs"]}, "done", 5, 20, "docs/a.md", {"added": 3}, 1001.0, 1003.0, 1003.0
    )


def test_the_first_end_stands(jobs: Jobs):
    id = jobs.create("rebuild", {})
    jobs.finish(id, "failed", {"code": "disk-full"})
    jobs.finish(id, "done", {})
    jobs.progress(id, 9, 9, "late")
    row = jobs.get(id)
    assert row is not None
    assert (row.state, row.result, row.done) == ("failed", {"code": "disk-full"}, 0)


@pytest.mark.parametrize("id", ["job-99", "job-", "job-x", "", "job-" + "9" * 30, "job-٣", "../1"])
def test_a_job_that_does_not_exist(jobs: Jobs, id: str):
    jobs.create("scan", {})
    assert jobs.get(id) is None
    jobs.progress(id, 1, 1)
    jobs.finish(id, "done", {})
    assert [row.state for row in jobs.listed(10)] == ["running"]


def test_the_newest_jobs_come_first(jobs: Jobs):
    ids = [jobs.create(kind, {}) for kind in ("scan", "rebuild", "check")]
    assert [row.id for row in jobs.listed(2)] == [ids[2], ids[1]]


def test_old_ended_jobs_go_but_never_a_running_one(jobs: Jobs):
    first = jobs.create("rebuild", {})
    for _ in range(KEPT + 20):
        jobs.finish(jobs.create("scan", {}), "done", {})
    kept = jobs.listed(1000)
    assert len(kept) == KEPT + 2
    assert kept[-1].id == first


def test_jobs_of_an_ended_daemon_are_abandoned_at_the_next_start(tmp_path: Path):
    """A job that was cut short says so, with how far it came."""
    db = open_catalog(tmp_path / "catalog.db")
    jobs = Jobs(db, clock=Clock())
    ended, running = jobs.create("scan", {}), jobs.create("rebuild", {})
    jobs.finish(ended, "done", {})
    jobs.progress(running, 7, 9, "half-way")
    db.close()
    db = open_catalog(tmp_path / "catalog.db")
    jobs = Jobs(db, clock=Clock())
    assert jobs.abandon_running() == [running]
    row = jobs.get(running)
    assert row is not None
    assert (row.state, row.done, row.total, row.finished) == ("abandoned", 7, 9, 1001.0)
    assert jobs.get(ended).state == "done"
    assert jobs.abandon_running() == []
    assert jobs.create("scan", {}) not in {ended, running}
    db.close()


def test_jobs_that_speak_of_something_are_erased(jobs: Jobs):
    kept = jobs.create("scan", {"labels": ["docs"]})
    for number, args in enumerate(({"note": "hunter2"}, {"note": "Käse"}, {})):
        id = jobs.create("scan", args)
        jobs.finish(id, "done", {"message": "hunter2"} if number == 2 else {})
    assert jobs.erase(["hunter2", "Käse"]) == 3
    assert [row.id for row in jobs.listed(9)] == [kept]
    assert jobs.erase([]) == 0
