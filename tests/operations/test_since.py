"""What changed since a snapshot or a moment, in what the caller may see and in nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.errors import ContentDamaged, InvalidInput, NotFound
from memoryd.operations.entries import get
from memoryd.operations.home import Caller
from memoryd.operations.scan import scan_corpora
from memoryd.operations.since import BUDGET, COMPARED_MOST, diff_since
from memoryd.operations.snapshots import take
from memoryd.store.pack import FRAME_SIZE
from tests.operations.conftest import configure, opened

DAY = 86_400
START = 1_795_985_600 - 10 * DAY
"""2026-11-19T20:53:20Z."""
NOBODY = Caller()


def paths(listed):
    return [one["path"] for one in listed]


class World:
    """A home with one folder, one kept directory, and a clock that only tests move."""

    def __init__(self, folder: Path) -> None:
        self.now = float(START)
        self.docs, self.tree = folder / "docs", folder / "work"
        (self.docs / "api").mkdir(parents=True)
        (self.tree / "src").mkdir(parents=True)
        (self.docs / "guide.md").write_text("first words\n")
        (self.docs / "api" / "one.md").write_text("one\n")
        (self.tree / "src" / "a").write_text("a")

    def days(self, number: float) -> None:
        self.now += number * DAY

    def scan(self):
        scan_corpora(self.home)

    def keep(self, label="work", **more):
        return take(self.home, NOBODY, path=str(self.tree), label=label, full=True, **more)

    def since(self, since, caller=NOBODY, **more):
        return diff_since(self.home, caller, since=since, **more)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    configure(tmp_path / "home", corpora=[{"label": "docs", "path": str(made.docs)}])
    with opened(tmp_path / "home", clock=lambda: made.now) as home:
        made.home = home
        yield made


@pytest.fixture
def lived(world: World) -> World:
    """Day 0: both kept. Day 3: the folder changes. Day 6: the directory changes, the folder again."""
    world.scan()
    world.keep()
    world.days(3)
    (world.docs / "guide.md").write_text("second words\n")
    world.scan()
    world.days(3)
    (world.docs / "api" / "two.md").write_text("two\n")
    (world.tree / "src" / "a").write_text("b")
    world.scan()
    world.keep()
    world.days(3)
    return world


def test_a_moment_compares_everything_that_is_kept(lived):
    told = lived.since("4 days ago")
    assert [one["label"] for one in told["changes"]] == ["docs", "work"]
    docs, work = told["changes"]
    assert (paths(docs["added"]), paths(docs["modified"])) == (["api/two.md"], [])
    assert paths(work["modified"]) == ["src/a"]
    assert docs["before"]["seq"] < docs["after"]["seq"]
    assert told["since"] == "2026-11-24T20:53:20Z"
    assert told["summary"] == "docs: 1 added; work: 1 modified."
    assert told["unchanged"] == told["not_compared"] == []


def test_between_two_moments(lived):
    told = lived.since("2026-11-20", until="2026-11-23T00:00")
    assert [(one["label"], one["counts"]["modified"]) for one in told["changes"]] == [("docs", 1)]
    assert [one["label"] for one in told["unchanged"]] == ["work"]
    assert told["until"] == "2026-11-23T00:00:00Z"
    assert lived.since("yesterday")["changes"] == []


def test_what_no_snapshot_tells_is_named_and_not_guessed(lived):
    lived.keep(label="young")
    told = lived.since("4 days ago")
    assert [one["label"] for one in told["not_compared"]] == ["young"]
    assert "first is of 2026-11-28" in told["not_compared"][0]["reason"]
    assert "not known: young" in told["summary"]
    before_all = lived.since("2026-01-01")
    assert (before_all["changes"], len(before_all["not_compared"])) == ([], 3)


def test_a_label_alone_is_its_newest_change(lived):
    told = lived.since("docs")["changes"]
    assert [paths(one["added"]) for one in told] == [["api/two.md"]]
    lived.keep(label="once")
    with pytest.raises(NotFound, match="nothing earlier"):
        lived.since("once")


def test_snapshots_by_every_name(lived):
    records = lived.home.snapshots.labelled("docs", None)
    for name in ("docs@1", str(records[0].seq), records[0].root[:12], "sha256:" + records[0].root, "docs@2026-11-20"):
        (one,) = lived.since(name)["changes"]
        assert (one["before"]["seq"], one["after"]["seq"]) == (records[0].seq, records[-1].seq), name
        assert one["counts"] == {"added": 1, "removed": 0, "modified": 1, "renamed": 0}
    (middle,) = lived.since("docs@1", until="docs@-2")["changes"]
    assert middle["counts"]["added"] == 0
    (dated,) = lived.since("docs@1", until="2026-11-23")["changes"]
    assert dated["after"] == middle["after"]
    (to_record,) = lived.since("2026-11-20", until="docs@2")["changes"]
    assert to_record["after"] == middle["after"]
    (back,) = lived.since("docs@3", until="docs@1")["changes"]
    assert paths(back["removed"]) == ["api/two.md"]


def test_a_prefix_is_what_a_search_takes(lived):
    for prefix in ("docs/api", "docs/api/", "/docs/api/"):
        (one,) = lived.since("2026-11-20", path_prefix=prefix)["changes"]
        assert (paths(one["added"]), one["counts"]["modified"]) == (["api/two.md"], 0)
    assert [one["label"] for one in lived.since("2026-11-20", path_prefix="work/")["changes"]] == ["work"]
    with pytest.raises(InvalidInput, match="no label") as caught:
        lived.since("2026-11-20", path_prefix="api/")
    assert caught.value.details["labels"] == ["docs", "work"]
    with pytest.raises(NotFound, match="Neither snapshot"):
        lived.since("docs@1", path_prefix="docs/nowhere/")
    for since, more in (
        ("docs@1", {"path_prefix": "work/"}),
        ("docs@2026-11-20", {"path_prefix": "work/"}),
        ("docs@2026-11-20", {"until": "work@2026-11-24"}),
        ("docs@2026-11-20", {"until": "work@1"}),
    ):
        with pytest.raises(InvalidInput, match="both"):
            lived.since(since, **more)


@pytest.mark.parametrize("name", ["nothing", "docs@99", "docs@soon", "nothing@2026-11-28", "99999", "2 months ago", ""])
def test_what_is_neither_snapshot_nor_time_names_what_there_is(lived, name):
    with pytest.raises(NotFound) as caught:
        lived.since(name)
    assert caught.value.details["labels"] == ["docs", "work"]
    with pytest.raises(NotFound):
        lived.since("docs@1", until=name)


def test_times_that_make_no_sense_are_refused(lived):
    with pytest.raises(InvalidInput, match="future"):
        lived.since("2099-01-01")
    with pytest.raises(InvalidInput, match="lies before"):
        lived.since("yesterday", until="2 days ago")


def test_both_sides_of_a_folder_can_be_read(lived):
    (one,) = lived.since("2026-11-20", path_prefix="docs/")["changes"]
    (changed,), (added,) = one["modified"], one["added"]
    read = [get(lived.home, NOBODY, address=changed[side])["content"] for side in ("old_address", "address")]
    assert read == ["first words\n", "second words\n"]
    assert get(lived.home, NOBODY, address=added["address"])["content"] == "two\n"


def test_nothing_is_kept(home, nobody):
    told = diff_since(home, nobody, since="yesterday")
    assert (told["changes"], told["unchanged"], told["not_compared"]) == ([], [], [])
    assert "nothing is known" in told["summary"]


def test_long_lists_are_cut_to_a_budget_and_said_so(world):
    world.keep()
    world.days(1)
    for number in range(800):
        (world.tree / f"a-rather-long-name-of-a-file-{number:04}").write_text(str(number))
    (world.tree / "src" / "a").write_text("changed")
    world.keep()
    (one,) = world.since("work")["changes"]
    assert one["counts"] == {"added": 800, "removed": 0, "modified": 1, "renamed": 0}
    assert (one["cut"], paths(one["modified"])) == (True, ["src/a"])
    assert 50 < len(one["added"]) < 800
    assert len(json.dumps(one["added"])) < BUDGET * 1.1
    assert "path_prefix" in world.since("work")["next"]
    (part,) = world.since("work", path_prefix="work/src")["changes"]
    assert not part["cut"]


def test_entries_that_could_not_be_read_are_not_called_removed_in_silence(world):
    world.keep()
    world.days(1)
    (world.tree / "src" / "a").unlink()
    record = world.home.snapshots.labelled("work", None)[-1]
    world.keep()
    later = world.home.snapshots.labelled("work", None)[-1]
    with world.home.catalog.write() as tx:
        tx.execute("UPDATE snapshots SET left_out = 1 WHERE seq = ?", (later.seq,))
    told = world.since(str(record.seq))
    assert "absence there is no deletion" in told["summary"]


def damage(home, node: bytes) -> None:
    """One bit of a stored tree node."""
    for place in home.store.node_places([node])[node]:
        path = home.store._shelf.path(place.pack)
        with home.store._shelf.open(place.pack) as pack:
            payload = place.frame_off + FRAME_SIZE + pack.header(place.frame_off).table_len
        raw = bytearray(path.read_bytes())
        raw[payload + 12] ^= 1
        path.chmod(0o600)
        path.write_bytes(raw)
    home.store._shelf._cached.clear()


def test_damage_of_one_label_does_not_hide_the_others(lived):
    damage(lived.home, bytes.fromhex(lived.home.snapshots.labelled("docs", None)[0].root))
    told = lived.since("2026-11-20")
    assert [one["label"] for one in told["changes"]] == ["work"]
    assert [one["label"] for one in told["not_compared"]] == ["docs"]
    with pytest.raises(ContentDamaged) as caught:
        lived.since("docs@1")
    assert told["not_compared"][0]["reason"] == caught.value.message


def test_only_so_many_labels_are_compared(lived):
    for number in range(COMPARED_MOST):
        lived.keep(label=f"label-{number:02}")
    told = lived.since("now")
    assert len(told["unchanged"]) == COMPARED_MOST
    assert {one["label"] for one in told["not_compared"]} == {"label-49", "work"}
    assert "path_prefix" in told["not_compared"][0]["reason"]


def test_another_projects_snapshots_are_answered_like_missing_ones(lived, project):
    mine, yours = project("mine"), project("yours")
    inside = Path(mine.directory)
    (inside / "f").write_text("1")
    first = take(lived.home, mine, path=str(inside), label="hidden")
    lived.days(1)
    (inside / "f").write_text("2")
    take(lived.home, mine, path=str(inside), label="hidden", full=True)
    assert "hidden" in [one["label"] for one in lived.since("1 day ago", mine)["changes"]]
    missing = error_of(lived, yours, "nothing@1")
    for name in ("hidden", "hidden@1", "hidden@2026-11-29", str(first["seq"]), first["root"], first["root"][:10]):
        hidden = error_of(lived, yours, name)
        assert {**hidden, "message": ""} == {**missing, "message": ""}
        assert error_of(lived, yours, "docs@1", until=name)["details"] == missing["details"]
    assert "hidden" not in json.dumps(lived.since("2026-11-20", yours))
    other, none = (prefix_error(lived, yours, name) for name in ("hidden/", "nothing/"))
    assert other == none


def error_of(world, caller, since, **more) -> dict:
    with pytest.raises(NotFound) as caught:
        world.since(since, caller, **more)
    return caught.value.to_dict()


def prefix_error(world, caller, prefix) -> dict:
    with pytest.raises(InvalidInput) as caught:
        world.since("2026-11-20", caller, path_prefix=prefix)
    return {**caught.value.to_dict(), "message": ""}
