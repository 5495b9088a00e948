"""Behaviour of memoryd.index.generations with both real engines."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from memoryd.errors import IndexDamaged, IndexMismatch, IndexProblem
from memoryd.files import Files
from memoryd.index.generations import Generation, Generations, IndexIdentity, Watermark
from tests.index.crash_script import IDENTITY, fill
from tests.index.entries import DIMS, EVERYWHERE, entry, unit, words

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "indexes"


@pytest.fixture
def opened() -> Iterator[Callable[[Generation | None], Generation]]:
    """Closes what a test opens."""
    kept: list[Generation] = []

    def keep(generation: Generation | None) -> Generation:
        assert generation is not None
        kept.append(generation)
        return generation

    yield keep
    for generation in kept:
        generation.close()


def names(generation: Generation) -> set[str]:
    """Documents that both legs find (they must agree)."""
    assert generation.lexical is not None and generation.vectors is not None
    by_words = {document for document, _ in generation.lexical.ids()}
    by_meaning = {document for document, _ in generation.vectors.ids()}
    assert by_words == by_meaning
    return by_words


def published(root: Path, *documents: str) -> None:
    """A closed, current generation that holds these documents."""
    generations = Generations(root, Files())
    made = generations.create(IDENTITY)
    for seq, name in enumerate(documents, 1):
        fill(made, name, seq=seq)
    generations.publish(made)
    made.close()


def current(root: Path, identity: IndexIdentity = IDENTITY) -> tuple[Generation | None, Generations]:
    generations = Generations(root, Files())
    return generations.open_current(identity), generations


def test_nothing_published_is_told(root):
    found, generations = current(root)
    assert found is None and "No generation" in generations.reason.message
    assert generations.collect() == []


def test_a_new_generation_is_empty_and_serves_after_publishing(root, opened):
    generations = Generations(root, Files())
    made = opened(generations.create(IDENTITY))
    assert (made.number, made.watermark, made.problems, made.mismatches()) == (1, Watermark(), {}, {})
    assert generations.open_current(IDENTITY) is None
    generations.publish(made)
    made.close()
    again = opened(generations.open_current(IDENTITY))
    assert (again.number, again.identity, names(again), generations.reason) == (1, IDENTITY, set(), None)


def test_what_was_committed_is_there_after_a_reopening(root, opened):
    published(root, "a.md", "b.md")
    found = opened(current(root)[0])
    assert names(found) == {entry("a.md").document_id, entry("b.md").document_id}
    assert found.watermark == Watermark(2, 2, "commit 2", 2, 2)
    assert found.lexical.search("text", EVERYWHERE, 5) and found.vectors.search(unit(1), EVERYWHERE, 5)
    assert found.mismatches() == {}


def test_the_legs_move_on_their_own_and_the_smaller_one_counts(root, opened):
    generations = Generations(root, Files())
    made = opened(generations.create(IDENTITY))
    made.lexical.replace([], [words("a.md", "alpha"), words("b.md", "beta")])
    made.commit_lexical(7, "commit")
    assert (made.watermark.lexical_seq, made.watermark.vector_seq) == (7, 0)
    made.vectors.replace([], [entry("a.md")])
    made.commit_vectors(3)
    assert (made.watermark.vector_seq, made.watermark.lexical_count, made.watermark.vector_count) == (3, 2, 1)
    assert made.mismatches() == {}


def test_files_on_disk_are_those_of_the_format(root):
    """A golden sample: what a later version must still read."""
    published(root, "a.md")
    assert (root / "CURRENT").read_bytes() == b"gen-1\n"
    folder = root / "gen-1"
    assert sorted(path.name for path in folder.iterdir()) == ["lexical", "manifest.json", "vectors", "watermark.json"]
    model = "m" * 64
    assert (folder / "manifest.json").read_text() == (
        f'{{"identity":{{"analysis":1,"dims":{DIMS},"model":"{model}","passages":1,"sparse":false}},"number":1,"v":1}}\n'
    )
    assert (folder / "watermark.json").read_text() == (
        '{"lexical_count":1,"lexical_seq":1,"v":1,"vault_commit":"commit 1","vector_count":1,"vector_seq":1}\n'
    )


def test_a_field_of_a_later_version_does_no_harm(root, opened):
    published(root, "a.md")
    for name in ("manifest.json", "watermark.json"):
        path = root / "gen-1" / name
        path.write_text(json.dumps(json.loads(path.read_text()) | {"later": True}))
    assert opened(current(root)[0]).watermark.vector_count == 1


# ---- another identity


@pytest.mark.parametrize(
    "change", [{"model": "n" * 64}, {"dims": 16}, {"analysis": 2}, {"passages": 2}], ids=lambda c: next(iter(c))
)
@pytest.mark.parametrize("documents", [(), ("a.md",)], ids=["empty", "filled"])
def test_h20_and_case_46_another_identity_is_refused_by_name_and_never_mixed(root, opened, change, documents):
    """H20: also where the index holds no point; nothing is dropped, and the old one still opens for its own identity."""
    published(root, *documents)
    other = replace(IDENTITY, **change)
    found, generations = current(root, other)
    assert found is None
    reason = generations.reason
    assert str(IDENTITY) in reason.message and str(other) in reason.message and "rebuild" in reason.next_step
    made = opened(generations.create(other))
    assert (made.number, made.vectors.count()) == (2, 0)
    generations.publish(made)
    made.close()
    assert generations.open_current(IDENTITY) is None
    assert opened(generations.open_current(other)).number == 2
    (root / "CURRENT").write_text("gen-1\n")
    assert len(names(opened(generations.open_current(IDENTITY)))) == len(documents)


# ---- pointer and folders


@pytest.mark.parametrize(
    "pointer",
    [b"", b"gen-2\n", b"gen-0\n", b"gen-01\n", b"../gen-1\n", b"gen-1/lexical\n", b"\xff\n", b"gen-1\ngen-1\n"],
)
def test_a_pointer_that_points_nowhere_is_damage_and_removes_nothing(root, pointer):
    published(root, "a.md")
    (root / "CURRENT").write_bytes(pointer)
    found, generations = current(root)
    assert found is None and isinstance(generations.reason, IndexDamaged)
    assert generations.collect() == [] and (root / "gen-1").is_dir()


@pytest.mark.parametrize("name", ["manifest.json", "watermark.json"])
@pytest.mark.parametrize(
    "content",
    [None, b"", b"{", b"[]", b"{}", b'{"v":2}', b'{"v":1,"number":9,"identity":{}}', b'{"v":1,"lexical_seq":"1"}'],
)
def test_a_damaged_small_file_is_damage(root, name, content):
    published(root, "a.md")
    path = root / "gen-1" / name
    path.unlink() if content is None else path.write_bytes(content)
    found, generations = current(root)
    assert found is None and name in generations.reason.message


def test_numbers_are_never_used_twice(root, opened):
    published(root, "a.md")
    (root / "gen-7").mkdir()
    generations = Generations(root, Files())
    assert opened(generations.create(IDENTITY)).number == 8


def test_collecting_keeps_what_serves_and_what_is_being_built(root, opened):
    published(root, "a.md")
    generations = Generations(root, Files())
    serving = opened(generations.open_current(IDENTITY))
    (root / "gen-2").mkdir()
    building = opened(generations.create(IDENTITY))
    other = root / "notes.txt"
    other.write_text("a person's")
    assert generations.collect() == [2]
    fill(building, "b.md", seq=1)
    generations.publish(building)
    assert generations.collect() == [], "the old one is still open"
    assert len(names(serving)) == 1
    serving.close()
    assert generations.collect() == [1]
    assert sorted(path.name for path in root.iterdir()) == ["CURRENT", "gen-3", "notes.txt"]
    assert len(names(building)) == 1


def test_h16_a_rebuild_from_nothing_brings_no_old_point_back(root, opened):
    """H16: drop and recreate brings no old point back."""
    published(root, "a.md", "b.md", "c.md")
    generations = Generations(root, Files())
    made = generations.create(IDENTITY)
    generations.publish(made)
    generations.collect()
    assert made.vectors.search(entry("a.md").vector, EVERYWHERE, 5) == []
    made.close()
    for _ in range(2):
        again = generations.open_current(IDENTITY)
        assert (again.vectors.count(), again.lexical.count(), names(again)) == (0, 0, set())
        assert again.lexical.search("text", EVERYWHERE, 5) == []
        again.close()


# ---- a leg that cannot open


@pytest.mark.parametrize("leg, other", [("lexical", "vectors"), ("vectors", "lexical")])
@pytest.mark.parametrize("how", ["missing", "emptied", "noise"])
def test_a_leg_that_cannot_open_leaves_the_other_serving(root, opened, leg, other, how):
    published(root, "a.md")
    folder = root / "gen-1" / leg
    if how == "noise":
        for path in folder.rglob("*"):
            if path.is_file():
                path.write_bytes(b"noise")
    else:
        shutil.rmtree(folder)
        if how == "emptied":
            folder.mkdir()
    found = opened(current(root)[0])
    assert getattr(found, leg) is None and set(found.problems) == {leg}
    assert found.problems[leg].details["leg"] == leg
    assert getattr(found, other).count() == 1 and found.mismatches() == {}
    with pytest.raises(IndexProblem):
        found.commit_lexical(9, "") if leg == "lexical" else found.commit_vectors(9)
    assert (found.watermark.lexical_seq, found.watermark.vector_seq) == (1, 1)
    found.commit_vectors(2) if leg == "lexical" else found.commit_lexical(2, "next")
    assert max(found.watermark.lexical_seq, found.watermark.vector_seq) == 2


# ---- counts


def lose_a_point(generation: Generation) -> None:
    """Delete one vector behind the index's back."""
    from memoryd.index import vector

    point, _ = generation.vectors._shard.scroll(vector.engine.ScrollRequest(limit=1))
    generation.vectors._shard.update(vector.engine.UpdateOperation.delete_points([point[0].id]))


def test_h18_a_lost_point_is_a_mismatch_until_it_is_made_good(root, opened):
    published(root, "a.md", "b.md")
    found = opened(current(root)[0])
    lose_a_point(found)
    mismatch = found.mismatches()["vectors"]
    assert isinstance(mismatch, IndexMismatch) and (mismatch.details["committed"], mismatch.details["drift"]) == (2, -1)
    assert "1 entries too few" in mismatch.message
    found.vectors.replace([entry("a.md").document_id, entry("b.md").document_id], [entry("a.md"), entry("b.md")])
    found.commit_vectors(found.watermark.vector_seq)
    assert found.mismatches() == {} and found.watermark.vector_count == 2


def test_h18_a_point_lost_while_nobody_looked_is_a_mismatch_at_the_next_opening(root, opened):
    published(root, "a.md", "b.md")
    found = current(root)[0]
    lose_a_point(found)
    found.vectors.flush()
    found.close()
    assert set(opened(current(root)[0]).mismatches()) == {"vectors"}


def test_an_entry_lost_from_the_lexical_leg_is_a_mismatch(root, opened):
    published(root, "a.md", "b.md")
    found = opened(current(root)[0])
    found.lexical.replace([entry("a.md").document_id], [])
    assert found.mismatches() == {}, "not committed, not seen"
    found.lexical.commit()
    assert found.mismatches()["lexical"].details["drift"] == -1


def test_writes_under_way_are_no_mismatch(root, opened):
    """Vectors are seen before their commit, lexical entries after theirs; neither may alarm a search."""
    published(root, "a.md")
    found = opened(current(root)[0])
    stop = threading.Event()
    alarms: list[object] = []

    def look() -> None:
        while not stop.is_set():
            alarms.extend(found.mismatches().values())

    watcher = threading.Thread(target=look)
    watcher.start()
    for turn in range(12):
        batch = [entry(f"{turn}/{n}.md") for n in range(20)]
        found.lexical.replace([one.document_id for one in batch], [words(f"{turn}/{n}.md", "text") for n in range(20)])
        found.commit_lexical(turn + 2, "c")
        found.vectors.replace([one.document_id for one in batch], batch)
        assert found.mismatches() == {}
        found.commit_vectors(turn + 2)
    stop.set()
    watcher.join(20)
    assert not watcher.is_alive() and alarms == []
    assert found.watermark == Watermark(13, 13, "c", 241, 241)


def test_a_closed_generation_refuses_and_is_quiet(root):
    published(root, "a.md")
    found, _ = current(root)
    found.close()
    found.close()
    assert found.closed
    with pytest.raises(IndexProblem):
        found.commit_vectors(2)


def test_one_owner_at_a_time(root, opened):
    """A second opening of the same set degrades its vector leg instead of sharing files."""
    published(root, "a.md")
    opened(current(root)[0])
    second = opened(current(root)[0])
    assert second.vectors is None and "in use" in second.problems["vectors"].message


# ---- crashes


def crash(root: Path, scenario: str, at: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.index.crash_script", str(root), scenario, str(at)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def points_of(root: Path, scenario: str) -> list[str]:
    done = crash(root, scenario, -1)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def prepared(tmp_path: Path, name: str) -> Path:
    """A root whose current generation holds old.md; a copy, which is quicker than making it again."""
    template = tmp_path / "template"
    if not template.exists():
        published(template, "old.md")
    root = tmp_path / name / "indexes"
    root.parent.mkdir()
    subprocess.run(["cp", "-a", template, root], check=True)
    return root


def each_crash(tmp_path: Path, scenario: str) -> Iterator[tuple[str, Path]]:
    """Kill the scenario at each of its fault points (alike ones in a row once), and hand over what it left."""
    points = points_of(prepared(tmp_path, "whole"), scenario)
    chosen = [n for n, point in enumerate(points) if n == 0 or point != points[n - 1] or n == len(points) - 1]
    for at in chosen:
        root = prepared(tmp_path, f"at-{at}")
        assert crash(root, scenario, at).returncode == -signal.SIGKILL
        yield points[at], root


def test_every_step_of_a_commit_announces_itself(tmp_path):
    steps = ["create", "write", "fsync", "rename", "fsync_dir"]
    expected = ["lexical-commit", *steps, "vector-flush", *steps]
    assert points_of(prepared(tmp_path, "whole"), "commit") == [f"generation.{step}" for step in expected]


def test_h17_a_kill_at_any_step_of_a_commit_loses_nothing_acknowledged(tmp_path):
    """H17: the old mark or the new one, never one beyond what is durable; done again, all is as without the crash."""
    for point, root in each_crash(tmp_path, "commit"):
        found, generations = current(root)
        assert found is not None, (point, generations.reason)
        assert found.problems == {}, point
        mark = found.watermark
        assert (mark.lexical_seq, mark.vector_seq) in {(1, 1), (2, 1), (2, 2)}, point
        old, new = entry("old.md").document_id, entry("new.md").document_id
        for leg, seq in (("lexical", mark.lexical_seq), ("vectors", mark.vector_seq)):
            held = {document for document, _ in getattr(found, leg).ids()}
            assert old in held and (new in held or seq < 2), (point, leg)
        fill(found, "new.md", seq=2)
        assert names(found) == {old, new} and found.mismatches() == {}, point
        assert found.watermark == Watermark(2, 2, "commit 2", 2, 2)
        found.close()


def test_h18_a_kill_at_any_step_of_publishing_opens_the_old_one_or_the_new_one(tmp_path):
    for point, root in each_crash(tmp_path, "publish"):
        found, generations = current(root)
        assert found is not None, (point, generations.reason)
        held = names(found)
        renamed = point == "generation.fsync_dir" and found.number == 2
        assert (found.number, held) == (
            (2, {entry("new.md").document_id}) if renamed else (1, {entry("old.md").document_id})
        ), point
        assert found.mismatches() == {} and found.problems == {}
        assert generations.collect() == [3 - found.number]
        assert sorted(path.name for path in root.glob("gen-*")) == [f"gen-{found.number}"]
        found.close()


def test_h18_a_half_built_generation_is_ignored_and_collected(tmp_path):
    """H18: a killed build answers nothing and is collected."""
    for point, root in each_crash(tmp_path, "create"):
        found, generations = current(root)
        assert found is not None and found.number == 1, point
        generations.collect()
        assert [path.name for path in root.glob("gen-*")] == ["gen-1"], point
        made = generations.create(IDENTITY)
        assert made.number == 2 and made.vectors.count() == 0
        made.close()
        found.close()


def test_a_kill_while_collecting_is_finished_by_the_next_one(tmp_path):
    root = prepared(tmp_path, "collect")
    assert crash(root, "collect", 0).returncode == -signal.SIGKILL
    shutil.rmtree(root / "gen-1" / "vectors")  # as far as a removal may have come
    found, generations = current(root)
    assert found is not None and found.number == 2
    assert generations.collect() == [1]
    found.close()


def test_a_disk_error_in_a_commit_keeps_the_old_mark(root, opened):
    published(root, "a.md")
    failing = {"on": False}

    def fault(point: str) -> None:
        if failing["on"] and point == "generation.fsync":
            raise OSError(28, os.strerror(28))

    generations = Generations(root, Files(fault))
    found = opened(generations.open_current(IDENTITY))
    failing["on"] = True
    with pytest.raises(OSError, match="No space"):
        fill(found, "b.md", seq=2)
    assert found.watermark.lexical_seq == 1
    failing["on"] = False
    fill(found, "b.md", seq=2)
    assert found.mismatches() == {} and len(names(found)) == 2


def test_a_set_that_cannot_be_made_leaves_nothing_behind(root: Path):
    def full(point: str) -> None:
        if point == "generation.create":
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="space"):
        Generations(root, Files(full)).create(IDENTITY)
    assert list(root.iterdir()) == []


def test_a_set_made_before_sparse_vectors_is_still_read(root, opened):
    published(root, "a.md")
    manifest = root / "gen-1" / "manifest.json"
    manifest.write_text(manifest.read_text().replace(',"sparse":false', ""))
    assert names(opened(current(root)[0]))
