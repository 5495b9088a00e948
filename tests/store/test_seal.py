"""Sealing: what is left after an error at any step, and what happens to later writes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from memoryd.errors import DiskFull, StoreError, StorePoisoned
from memoryd.files import Files
from memoryd.store.reserve import RESERVE_BYTES, SMALL_BYTES, Reserve

STEPS = ["pack.mkdir", "pack.create", "pack.write", "pack.fsync", "pack.rename", "pack.fsync_dir", "index.commit"]


class Failing(Files):
    """Raises an OSError at the first time that `step` comes after `arm`, or (`always`) at every time."""

    def __init__(self) -> None:
        super().__init__(self._maybe)
        self.step: str | None = None
        self.code = 0
        self.always = False
        self.seen: list[str] = []
        self.watch: Callable[[], None] = lambda: None

    def arm(self, step: str, code: int, *, always: bool = False) -> None:
        self.step, self.code, self.always = step, code, always

    def _maybe(self, point: str) -> None:
        self.seen.append(point)
        self.watch()
        if point == self.step:
            self.step = point if self.always else None
            raise OSError(self.code, "injected")


def tree(home: Path) -> list[str]:
    return sorted(
        path.relative_to(home).as_posix()
        for path in home.rglob("*")
        if path.is_file() and "index.db" not in path.name and path.name != "reserve"
    )


@pytest.fixture
def failing() -> Failing:
    return Failing()


@pytest.fixture
def started(opened, put, failing, tmp_path):
    """A store with one content, its address, and what lies on disk."""
    store = opened(files=failing)
    [address] = put(store, b"acknowledged before")
    failing.seen.clear()
    return store, address, tree(tmp_path / "home")


def attempt(store) -> list[int]:
    with store.group() as group:
        group.add(b"a later content")
        group.record("document", {"v": 1})
        return group.commit()


def test_the_order_of_a_commit(started, failing):
    """Data before name, name before directory, all before the index."""
    store, _address, _before = started
    attempt(store)
    without_folder = [step for step in failing.seen if step != "pack.mkdir"]
    if "pack.mkdir" in failing.seen:
        assert failing.seen[:2] == ["pack.mkdir", "pack.fsync_dir"]
        without_folder.remove("pack.fsync_dir")
    assert without_folder == [
        "pack.create",
        "pack.write",
        "pack.fsync",
        "pack.rename",
        "pack.fsync_dir",
        "index.commit",
    ]


@pytest.mark.parametrize("step", STEPS)
def test_h38_a_full_disk_leaves_nothing_and_the_next_try_succeeds(started, failing, put, tmp_path, step, opened):
    """ENOSPC at every step: a typed error, nothing half-written, everything stored stays readable."""
    store, address, before = started
    (tmp_path / "home" / "store" / "reserve").unlink()
    failing.arm(step, errno.ENOSPC)
    made = 0
    with pytest.raises(DiskFull) as raised:
        while made < 600:  # `mkdir` comes only with a pack in a new folder
            attempt_number(store, made)
            made += 1
            before = tree(tmp_path / "home")
    assert raised.value.code == "disk-full"
    assert tree(tmp_path / "home") == before
    assert store.read(address) == b"acknowledged before"
    assert store.last_seq() == made
    assert attempt_number(store, made) == [made + 1]
    assert list(store.findings(read_data=True)) == []


@pytest.mark.parametrize("step", STEPS[1:])
def test_a_small_write_takes_the_reserve_on_a_full_disk(started, failing, opened, noise, tmp_path, step):
    """Once; a large one never does; and the space is held back again when there is room."""
    store, _address, _before = started
    reserve = tmp_path / "home" / "store" / "reserve"
    assert reserve.stat().st_blocks * 512 >= RESERVE_BYTES
    failing.arm(step, errno.ENOSPC)
    with pytest.raises(DiskFull), store.group() as group:
        group.add(noise(SMALL_BYTES + 1))
        group.commit()
    assert reserve.exists()
    failing.arm(step, errno.ENOSPC)
    seen = []
    failing.watch = lambda: seen.append(reserve.exists())
    assert attempt_number(store, 0) == [1]
    assert False in seen, "it was given back for the second attempt"
    assert reserve.exists()
    store.close()
    reserve.write_bytes(b"half made")
    opened()
    assert reserve.stat().st_size == RESERVE_BYTES


def test_no_space_is_held_back_where_little_is_left(tmp_path):
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    reserve = Reserve(tmp_path / "reserve", Files(), size=free)
    assert not reserve.make()
    assert not reserve.release()
    assert list(tmp_path.iterdir()) == []


def attempt_number(store, number: int) -> list[int]:
    with store.group() as group:
        group.add(b"content %d" % number)
        group.record("document", {"v": 1})
        return group.commit()


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS, errno.EFBIG])
@pytest.mark.parametrize("step", STEPS[1:])
def test_any_other_error_poisons_the_handle_for_writes(started, failing, opened, step, code):
    """After a failed write or fsync no further pack is sealed through this handle; reads go on; a new handle writes."""
    store, address, _before = started
    failing.arm(step, code)
    with pytest.raises(StorePoisoned):
        attempt(store)
    assert failing.step is None
    for _ in range(2):
        with pytest.raises(StorePoisoned):
            store.group()
    assert store.read(address) == b"acknowledged before"
    assert list(store.findings(read_data=True)) == [] or step == "index.commit"
    store.close()
    again = opened()
    assert again.read(address) == b"acknowledged before"
    assert attempt(again)
    assert list(again.findings(read_data=True)) == []


def test_a_pack_that_was_renamed_is_taken_back_durably(started, failing):
    """Its sequence numbers are given out again: the removal is synced, so that no power loss brings it back."""
    store, _address, _before = started
    attempt_number(store, 0)
    failing.seen.clear()
    fail_after_rename(failing, errno.ENOSPC)
    assert attempt_number(store, 1) == [2], "in the reserve"
    first = failing.seen.index("pack.rename")
    assert failing.seen[first : first + 4] == ["pack.rename", "pack.fsync_dir", "pack.unlink", "pack.fsync_dir"]
    assert [record.seq for record in store.records()] == [1, 2]


def test_a_pack_that_cannot_be_taken_back_ends_all_writes(started, failing):
    store, address, _before = started
    fail_after_rename(failing, errno.ENOSPC, also="pack.unlink")
    with pytest.raises(StorePoisoned):
        attempt_number(store, 1)
    with pytest.raises(StorePoisoned):
        store.group()
    assert store.read(address) == b"acknowledged before"


def fail_after_rename(failing: Failing, code: int, also: str = "") -> None:
    """The sync after the rename fails once, and so does the step `also`."""
    left = {"pack.fsync_dir", also}

    def fault(point: str) -> None:
        failing.seen.append(point)
        if point in left and "pack.rename" in failing.seen:
            left.discard(point)
            raise OSError(code, "injected")

    failing.fault = fault


def test_an_fsync_is_never_tried_again(started, failing):
    store, _address, _before = started
    failing.arm("pack.fsync", errno.EIO)
    with pytest.raises(StorePoisoned):
        attempt(store)
    assert failing.seen.count("pack.fsync") == 1


def test_the_error_on_the_nth_call(opened: Callable[..., object], put, tmp_path):
    """The n-th announced step fails, for every n of a workload: what was acknowledged is there, always."""
    counter = [0, -1]

    def fault(point: str) -> None:
        counter[0] += 1
        if counter[0] == counter[1]:
            raise OSError(errno.EIO, "injected")

    total = None
    nth = 0
    while total is None or nth <= total:
        counter[:] = [0, -1]
        home = tmp_path / f"home-{nth}"
        store = opened(home=home, files=Files(fault))
        counter[:] = [0, nth]
        acknowledged = []
        try:
            for n in range(3):
                acknowledged += put(store, b"content %d" % n)
        except StorePoisoned:
            assert nth > 0
        else:
            assert nth in (0, total) or counter[0] < nth
        total = counter[0] if total is None else max(total, counter[0])
        store.close()
        again = opened(home=home)
        assert [again.read(address) for address in acknowledged] == [
            b"content %d" % n for n in range(len(acknowledged))
        ]
        assert list(again.findings(read_data=True)) == []
        nth += 1
    assert total >= 15


def test_a_pack_that_the_index_could_not_take_is_found_by_the_next_open(started, failing, opened):
    """The pack is the truth: the caller heard of a failure, and the content may be there after all, whole."""
    store, _address, _before = started
    failing.arm("index.commit", errno.EIO)
    with pytest.raises(StorePoisoned):
        attempt(store)
    store.close()
    again = opened()
    assert [record.seq for record in again.records()] == [1]


def test_a_group_is_of_no_use_after_a_failure(started, failing):
    store, _address, _before = started
    failing.arm("pack.write", errno.ENOSPC, always=True)
    group = store.group()
    group.add(b"content")
    with pytest.raises(DiskFull):
        group.commit()
    with pytest.raises(StoreError, match="closed"):
        group.add(b"content")
    with pytest.raises(StoreError, match="closed"):
        group.commit()
