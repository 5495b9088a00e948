"""Snapshots of directories: what stands there comes back byte for byte, and nothing is left out in silence."""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryd.catalog.statcache import StatCache
from memoryd.digest import address_of
from memoryd.errors import InvalidInput, NotFound, SnapshotError, SnapshotIncomplete
from memoryd.files import Files
from memoryd.operations import treewalk
from memoryd.operations.changes import diff
from memoryd.operations.check import check
from memoryd.operations.collect import gc
from memoryd.operations.ingest import bury
from memoryd.operations.kept import find, listed
from memoryd.operations.optimize import optimize
from memoryd.operations.rebuild import rebuild
from memoryd.operations.restore import restore
from memoryd.operations.snapshots import take
from memoryd.operations.treewriter import lost
from memoryd.records import TombstoneRecord
from tests.operations.conftest import configure, opened, settle

LONG = random.Random(1).randbytes(200_000)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A directory with everything that a directory may hold."""
    top = tmp_path / "tree"
    (top / "src" / "deep").mkdir(parents=True)
    (top / "empty").mkdir()
    (top / "src" / "a.py").write_bytes(b"print('a')\n")
    (top / "src" / "deep" / "data.bin").write_bytes(LONG)
    (top / "run.sh").write_bytes(b"#!/bin/sh\n")
    (top / "run.sh").chmod(0o755)
    (top / "nothing").touch()
    (top / "link").symlink_to("src/a.py")
    (top / "dangling").symlink_to(b"no/\xff/where".decode("utf-8", "surrogateescape"))
    Path(os.fsdecode(os.fsencode(top) + b"/caf\xe9")).write_bytes(b"latin")
    return top


def state(top: Path) -> dict[bytes, object]:
    """Every path below, with what stands there."""
    found: dict[bytes, object] = {}
    base = os.fsencode(top)
    for folder, folders, names in os.walk(base):
        for name in [*folders, *names]:
            path = os.path.join(folder, name)
            shown = path[len(base) + 1 :]
            if os.path.islink(path):
                found[shown] = os.readlink(path)
            elif os.path.isdir(path):
                found[shown] = None
            else:
                mode = os.stat(path).st_mode
                found[shown] = (Path(os.fsdecode(path)).read_bytes(), bool(mode & 0o100))
    return found


def aged(top: Path, seconds: int = 100) -> None:
    """Nothing was touched lately, as far as files tell; the time of the inode cannot be set."""
    for folder, _folders, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            about = os.lstat(path)
            times = (about.st_atime_ns, about.st_mtime_ns - seconds * 1_000_000_000)
            os.utime(path, ns=times, follow_symlinks=False)


@pytest.fixture
def not_racy(monkeypatch):
    """The clock that tells which files changed a moment ago is ahead, so that none did."""
    now = treewalk.time.time_ns
    monkeypatch.setattr(treewalk.time, "time_ns", lambda: now() + 10_000_000_000)


def test_a_snapshot_restores_to_the_same_tree(home, nobody, tree, tmp_path):
    taken = take(home, nobody, path=str(tree), label="first")
    assert (taken["outcome"], taken["files"], taken["directories"]) == ("added", 7, 4)
    assert taken["size"] == len(LONG) + len(b"print('a')\n") + len(b"#!/bin/sh\n") + 5 + len("src/a.py") + 10
    report = restore(home, nobody, snapshot="first", target=str(tmp_path / "back"))
    assert report["ok"]
    assert (report["files"], report["links"], report["directories"]) == (5, 2, 3)
    assert state(tmp_path / "back") == state(tree)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back", "home", "tree"]
    assert check(home, read_data=True)["clean"]


names = st.binary(min_size=1, max_size=8).filter(lambda n: b"/" not in n and b"\0" not in n and n not in (b".", b".."))
files = st.one_of(
    st.tuples(st.binary(max_size=50), st.booleans()), st.binary(min_size=1, max_size=9).filter(lambda n: b"\0" not in n)
)
trees = st.recursive(st.dictionaries(names, files, max_size=3), lambda below: st.dictionaries(names, files | below))


def written(place: bytes, tree: dict[bytes, object]) -> None:
    os.mkdir(place)
    for name, what in tree.items():
        path = place + b"/" + name
        if isinstance(what, dict):
            written(path, what)
        elif isinstance(what, bytes):
            os.symlink(what, path)
        else:
            with open(path, "wb") as stream:
                stream.write(what[0])
            os.chmod(path, 0o755 if what[1] else 0o644)


@given(trees)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_tree_comes_back(home, nobody, tmp_path_factory, tree):
    folder = tmp_path_factory.mktemp("any")
    written(os.fsencode(folder / "in"), tree)
    taken = take(home, nobody, path=str(folder / "in"), label="any")
    restore(home, nobody, snapshot=taken["root"], target=str(folder / "out"))
    assert state(folder / "out") == state(folder / "in")


def test_the_same_state_once_more_is_the_same_snapshot(home, nobody, tree):
    first = take(home, nobody, path=str(tree), label="l")
    again = take(home, nobody, path=str(tree), label="l")
    assert (again["outcome"], again["seq"]) == ("exists", first["seq"])
    (tree / "new").touch()
    assert take(home, nobody, path=str(tree), label="l")["outcome"] == "added"
    (tree / "new").unlink()
    back = take(home, nobody, path=str(tree), label="l")
    assert (back["outcome"], back["root"]) == ("added", first["root"])


def test_an_unchanged_file_is_not_read_again(home, nobody, tree, not_racy):
    first = take(home, nobody, path=str(tree), label="l")
    assert (first["read_files"], first["reused_files"]) == (7, 0)
    again = take(home, nobody, path=str(tree), label="l")
    assert (again["read_files"], again["reused_files"], again["root"]) == (0, 7, first["root"])
    (tree / "src" / "a.py").write_bytes(b"print('b')\n")
    third = take(home, nobody, path=str(tree), label="l")
    assert (third["read_files"], third["reused_files"]) == (1, 6)
    assert diff(home, nobody, since=str(first["seq"]), until=str(third["seq"]))["modified"][0]["path"] == "src/a.py"


def test_files_changed_a_moment_ago_are_read_again(home, nobody, tmp_path, monkeypatch):
    """A change in the same tick of the clock leaves size and times as they were."""
    top = tmp_path / "top"
    top.mkdir()
    (top / "f").write_bytes(b"one")
    about = (top / "f").stat()
    monkeypatch.setattr(treewalk.time, "time_ns", lambda: about.st_mtime_ns + treewalk.RACY_NS)
    taken = take(home, nobody, path=str(top), label="l")
    assert taken["read_files"] == 1
    assert take(home, nobody, path=str(top), label="l")["read_files"] == 1, "still not trusted"
    monkeypatch.setattr(treewalk.time, "time_ns", lambda: about.st_mtime_ns + treewalk.RACY_NS + 1)
    assert take(home, nobody, path=str(top), label="l")["read_files"] == 1
    assert take(home, nobody, path=str(top), label="l")["read_files"] == 0


def test_times_of_whole_seconds_are_trusted_later():
    fact = (3, 7_000_000_000, 6_000_000_001, 1, 0o100644, b"")
    assert treewalk.is_racy(fact, 8_999_999_999)
    assert treewalk.is_racy(fact, 9_000_000_000)
    assert not treewalk.is_racy(fact, 9_000_000_001)


def test_an_edit_that_keeps_size_and_time_is_found(home, nobody, tree, not_racy):
    """The inode's own time gives it away; where even that is as it was, a full look finds it."""
    first = take(home, nobody, path=str(tree), label="l")
    target = tree / "src" / "a.py"
    about = target.stat()
    target.write_bytes(b"print('x')\n")
    os.utime(target, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert take(home, nobody, path=str(tree), label="l")["root"] != first["root"]


def test_a_full_look_reads_what_no_time_gives_away(home, nobody, tree, not_racy):
    first = take(home, nobody, path=str(tree), label="l")
    target = tree / "src" / "a.py"
    target.write_bytes(b"print('x')\n")
    forge(home, tree / "src", b"a.py", target)
    assert take(home, nobody, path=str(tree), label="l")["root"] == first["root"], "nothing tells of the change"
    full = take(home, nobody, path=str(tree), label="l", full=True)
    assert (full["root"] != first["root"], full["read_files"], full["reused_files"]) == (True, 7, 0)
    assert take(home, nobody, path=str(tree), label="l")["root"] == full["root"]


def forge(home, folder: Path, name: bytes, target: Path) -> None:
    """As if the change had left every time as it was: the cache takes the file's new times for those it knew."""
    about = target.stat()
    cache = StatCache(home.root / "stats.db")
    known = cache.folder(os.fsencode(folder), folder.stat().st_dev)
    address = known.facts[name][5]
    known.facts[name] = (about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino, about.st_mode, address)
    cache.keep([known])
    cache.close()


def test_what_left_the_store_is_read_again(home, nobody, tree, not_racy):
    """Packs that went away (gc, repair) make the cache doubt what it knows."""
    first = take(home, nobody, path=str(tree), label="l")
    (pack,) = [p for p in home.store.pack_ids() if home.store.survey(p).chunks]
    rewrite = home.store.rewrite([pack])
    rows = home.store.survey(pack)
    for _first, at, _last in rows.records:
        for kind, seq, raw in home.store.record_items(pack, at):
            rewrite.record(kind, seq, raw)
    for digest, at, inner, length, whole in rows.chunks:
        if length < 100_000 and digest.hex() not in first["root"]:
            rewrite.chunk(digest, home.store.item(pack, at, inner, length, digest), whole=whole)
    rewrite.commit()
    again = take(home, nobody, path=str(tree), label="m")
    assert again["root"] == first["root"]
    assert lost(home, bytes.fromhex(again["root"])) == []
    assert again["read_files"] < 7, "what is still there is not read"
    assert check(home, read_data=True)["clean"]


def test_a_damaged_cache_costs_a_reading_and_no_more(home, nobody, tree, not_racy):
    first = take(home, nobody, path=str(tree), label="l")
    (home.root / "stats.db").write_bytes(b"no database at all" * 1000)
    again = take(home, nobody, path=str(tree), label="l")
    assert (again["root"], again["read_files"]) == (first["root"], 7)


WAYS = ["a failing disk"] if os.geteuid() == 0 else ["a failing disk", "no permission"]
"""Root reads a file whatever its mode is."""


@pytest.mark.parametrize("way", WAYS)
def test_files_that_cannot_be_read_refuse_the_snapshot_by_name(home, nobody, tree, monkeypatch, way):
    read = treewalk.read_steadily

    def failing(name, folder):
        if name == b"run.sh":
            raise OSError(5, "Input/output error")
        return read(name, folder)

    if way == "no permission":
        (tree / "run.sh").chmod(0)
    else:
        monkeypatch.setattr(treewalk, "read_steadily", failing)
    with pytest.raises(SnapshotIncomplete) as caught:
        take(home, nobody, path=str(tree), label="l")
    assert [one["path"] for one in caught.value.details["unread"]] == ["run.sh"]
    assert listed(home, nobody)["snapshots"] == []
    taken = take(home, nobody, path=str(tree), label="l", partial=True)
    assert ([one["path"] for one in taken["unread"]], taken["left_out"], taken["files"]) == (["run.sh"], 1, 6)
    assert listed(home, nobody)["snapshots"][0]["left_out"] == 1


def test_what_no_tree_can_hold_is_named(home, nobody, tree):
    os.mkfifo(tree / "pipe")
    server = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(tree)
    try:
        server.bind("sock")
    finally:
        os.chdir(here)
    taken = take(home, nobody, path=str(tree), label="l")
    server.close()
    assert [one["path"] for one in taken["skipped"]] == ["pipe", "sock"]
    assert taken["files"] == 7


def test_memoryd_itself_is_not_taken(home, nobody):
    taken = take(home, nobody, path=str(home.root.parent), label="l")
    assert [one["path"] for one in taken["skipped"]] == ["home"]
    for own in (home.root, home.root / "vault"):
        with pytest.raises(InvalidInput):
            take(home, nobody, path=str(own), label="l")


def test_links_are_kept_and_never_followed(home, nobody, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    top = tmp_path / "top"
    top.mkdir()
    (top / "way").symlink_to(tmp_path / "outside")
    taken = take(home, nobody, path=str(top), label="l")
    assert (taken["files"], taken["directories"]) == (1, 1)


def test_a_large_file_is_cut_while_it_is_read(home, nobody, tmp_path, monkeypatch):
    monkeypatch.setattr(treewalk, "STREAM_FROM", 1 << 20)
    monkeypatch.setattr("memoryd.operations.treewriter.GROUP_BYTES", 4 << 20)
    top = tmp_path / "top"
    top.mkdir()
    data = random.Random(2).randbytes(20_000_000)
    (top / "large").write_bytes(data)
    (top / "small").write_bytes(b"x")
    before = len(home.store.pack_ids())
    taken = take(home, nobody, path=str(top), label="l")
    assert (taken["files"], taken["size"]) == (2, 20_000_001)
    assert len(home.store.pack_ids()) - before >= 3
    restore(home, nobody, snapshot="l", target=str(tmp_path / "back"))
    assert (tmp_path / "back" / "large").read_bytes() == data
    assert check(home, read_data=True)["clean"]


def test_a_deep_tree_is_taken_and_comes_back(home, nobody, tmp_path):
    """Deeper than any path may be long."""
    top = os.fsencode(tmp_path / "deep")
    os.mkdir(top)
    fd = os.open(top, os.O_RDONLY)
    for _ in range(300):
        os.mkdir(b"d" * 100, dir_fd=fd)
        inner = os.open(b"d" * 100, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(os.open(b"end", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    taken = take(home, nobody, path=os.fsdecode(top), label="l")
    assert (taken["directories"], taken["files"]) == (301, 1)
    report = restore(home, nobody, snapshot="l", target=str(tmp_path / "back"))
    assert (report["directories"], report["files"]) == (300, 1)
    again = take(home, nobody, path=str(tmp_path / "back"), label="m")
    assert again["root"] == taken["root"]


def test_snapshots_are_found_by_label_number_and_root(home, nobody, tree):
    first = take(home, nobody, path=str(tree), label="l")
    (tree / "new").touch()
    second = take(home, nobody, path=str(tree), label="l")
    other = take(home, nobody, path=str(tree))
    assert other["label"] == "tree"
    scopes = ["global"]
    by = {name: find(home, name, scopes).seq for name in ("l", "l@1", "l@2", "l@-2", str(first["seq"]), "tree")}
    first_seq, second_seq = first["seq"], second["seq"]
    assert by == {
        "l": second_seq,
        "l@1": first_seq,
        "l@2": second_seq,
        "l@-2": first_seq,
        str(first_seq): first_seq,
        "tree": other["seq"],
    }
    assert find(home, first["root"][:10], scopes).seq == first["seq"]
    assert find(home, f"sha256:{first['root']}", scopes).seq == first["seq"]
    for unknown in ("l@3", "l@0", "nothing", "999", "00000000", "l@-3"):
        with pytest.raises(NotFound):
            find(home, unknown, scopes)
    with pytest.raises(NotFound):
        find(home, "l", ["p-other-00000000"])
    assert [one["seq"] for one in listed(home, nobody, label="l")["snapshots"]] == [second["seq"], first["seq"]]


@pytest.mark.parametrize("label", ["a@b", "12", "", "sha256:ab", "x" * 101, "a\nb\x01"])
def test_labels_that_could_be_taken_for_something_else_are_refused(home, nobody, tree, label):
    with pytest.raises(InvalidInput):
        take(home, nobody, path=str(tree), label=label)


def test_the_label_of_a_corpus_is_its_own(root, nobody, tree):
    configure(root, corpora=[{"label": "docs", "path": str(tree)}])
    with opened(root) as home, pytest.raises(InvalidInput, match="corpus"):
        take(home, nobody, path=str(tree), label="docs")


def test_snapshots_of_a_project_are_its_own(home, nobody, project):
    caller = project("mine")
    Path(caller.directory, "f").write_text("x")
    taken = take(home, nobody, path=caller.directory, label="l")
    assert taken["scope"].startswith("p-mine-")
    assert listed(home, nobody) == {"snapshots": [], "elsewhere": 1}
    assert [one["seq"] for one in listed(home, caller)["snapshots"]] == [taken["seq"]]
    for call in (lambda: diff(home, nobody, since="l"), lambda: restore(home, nobody, snapshot="l", target="/x")):
        with pytest.raises(NotFound):
            call()


def test_a_missing_directory_is_told(home, nobody, tmp_path):
    with pytest.raises(NotFound):
        take(home, nobody, path=str(tmp_path / "nothing"), label="l")
    (tmp_path / "file").touch()
    with pytest.raises(NotFound):
        take(home, nobody, path=str(tmp_path / "file"), label="l")


def test_a_stopped_snapshot_records_nothing(home, nobody, tmp_path):
    top = tmp_path / "top"
    top.mkdir()
    for number in range(treewalk.PROGRESS_EVERY + 1):
        (top / str(number)).touch()
    assert take(home, nobody, path=str(top), label="l", stop=lambda: True)["stopped"]
    assert listed(home, nobody)["snapshots"] == []


def test_a_rebuild_brings_the_snapshots_back(root, nobody, tree, tmp_path):
    with opened(root) as home:
        taken = take(home, nobody, path=str(tree), label="l", partial=True)
        settle(home)
    for view in ("catalog.db", "store/index.db", "stats.db"):
        (root / view).unlink()
    with opened(root) as home:
        rebuild(home)
        (found,) = listed(home, nobody)["snapshots"]
        assert found == {name: taken[name] for name in found}
        restore(home, nobody, snapshot="l", target=str(tmp_path / "back"))
        assert state(tmp_path / "back") == state(tree)


class Killed(BaseException):
    """The process is gone."""


class Killer:
    """Counts fault points, and ends everything at one of them."""

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.points = 0

    def __call__(self, _point: str) -> None:
        self.points += 1
        if self.points == self.at:
            raise Killed


def test_killed_at_any_step_a_snapshot_is_there_whole_or_not_at_all(tmp_path, nobody, tree):
    with opened(tmp_path / "count", files=Files(counting := Killer())) as home:
        before = counting.points
        take(home, nobody, path=str(tree), label="l")
        steps = counting.points - before
    assert steps >= 5
    for step in range(1, steps + 1):
        root = tmp_path / f"home{step}"
        with opened(root, files=Files(killer := Killer())) as home:
            killer.at = killer.points + step
            with pytest.raises(Killed):
                take(home, nobody, path=str(tree), label="l")
        with opened(root) as home:
            for one in listed(home, nobody)["snapshots"]:
                assert lost(home, bytes.fromhex(one["root"])) == []
            assert check(home, read_data=True)["clean"]
            again = take(home, nobody, path=str(tree), label="l")
            assert len(listed(home, nobody)["snapshots"]) == 1
            restore(home, nobody, snapshot=str(again["seq"]), target=str(tmp_path / f"back{step}"))
            assert state(tmp_path / f"back{step}") == state(tree)


def test_packs_that_vanish_meanwhile_are_noticed(home, nobody, tree, not_racy, monkeypatch):
    """A collection between two groups must not leave a record of a tree that is not there."""
    take(home, nobody, path=str(tree), label="first")
    (tree / "later").write_bytes(b"later")
    enter = treewalk.TreeWalk._enter

    def collected(self, parts, above):
        if parts == (b"src", b"deep"):
            for pack in home.store.pack_ids():
                rewrite = home.store.rewrite([pack])
                for _first, at, _last in home.store.survey(pack).records:
                    for kind, seq, raw in home.store.record_items(pack, at):
                        rewrite.record(kind, seq, raw)
                rewrite.commit()
        return enter(self, parts, above)

    with monkeypatch.context() as patched:
        patched.setattr(treewalk.TreeWalk, "_enter", collected)
        with pytest.raises((SnapshotError, NotFound)):
            take(home, nobody, path=str(tree), label="second")
    assert [one["label"] for one in listed(home, nobody)["snapshots"]] == ["first"]
    again = take(home, nobody, path=str(tree), label="second")
    assert lost(home, bytes.fromhex(again["root"])) == []


def test_a_collection_keeps_what_snapshots_hold(home, nobody, tree, tmp_path):
    before = state(tree)
    take(home, nobody, path=str(tree), label="l")
    (tree / "src" / "deep" / "data.bin").write_bytes(b"replaced")
    take(home, nobody, path=str(tree), label="l")
    gc(home, now=True)
    restore(home, nobody, snapshot="l@1", target=str(tmp_path / "first"))
    restore(home, nobody, snapshot="l@2", target=str(tmp_path / "second"))
    assert state(tmp_path / "first") == before
    assert state(tmp_path / "second") == state(tree)


def test_packs_that_were_only_merged_cost_no_reading(home, nobody, tree, not_racy):
    first = take(home, nobody, path=str(tree), label="l")
    (tree / "more").write_bytes(b"more")
    take(home, nobody, path=str(tree), label="l")
    before = home.store.pack_ids()
    optimize(home, everything=True)
    assert not set(before) <= set(home.store.pack_ids())
    (tree / "more").unlink()
    again = take(home, nobody, path=str(tree), label="l")
    assert (again["root"], again["read_files"]) == (first["root"], 0)
    assert lost(home, bytes.fromhex(again["root"])) == []
    assert take(home, nobody, path=str(tree), label="l")["reused_files"] == 7


def test_erased_contents_refuse_the_snapshot(home, nobody, tree, not_racy):
    take(home, nobody, path=str(tree), label="before")
    with home.store_lane:
        bury(home, [TombstoneRecord(address_of(b"latin"), None, "a secret")])
    for full in (False, True):
        with pytest.raises(SnapshotIncomplete) as caught:
            take(home, nobody, path=str(tree), label="l", full=full)
        assert [one["path"] for one in caught.value.details["unread"]] == ["caf\\xe9"]
    taken = take(home, nobody, path=str(tree), label="l", partial=True)
    assert (taken["left_out"], taken["files"]) == (1, 6)
