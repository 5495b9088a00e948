"""Does a look at a file outside the home end in time, and is nothing read twice that did not change?"""

from __future__ import annotations

import errno
import os
import threading
import time

import pytest

from memoryd.operations import lookout
from memoryd.operations.lookout import FILE_BYTES, Lookout, Standing

FRESH = Standing("fresh")


def old(path) -> None:
    os.utime(path, (1_000_000_000, 1_000_000_000))


def kept(look: Lookout, root, name: str = "a.py") -> None:
    found = look.files(root, [name.encode()], 5)[name.encode()]
    look.remember(root, f"{name} text", name.encode(), found.looks, FRESH)


@pytest.fixture
def settled(monkeypatch):
    """As if every file had been written long before it was looked at."""
    monkeypatch.setattr(lookout, "RACY_NS", -60_000_000_000)


def test_a_verdict_holds_as_long_as_the_file_looks_the_same(tmp_path, settled):
    file = tmp_path / "a.py"
    file.write_text("x")
    look = Lookout()
    kept(look, tmp_path)
    assert look.still(tmp_path, ["a.py text", "b.py text"], 5) == {"a.py text": FRESH}
    assert look.still(tmp_path / "..", ["a.py text"], 5) == {}, "of another root nothing is known"
    file.write_text("y")
    assert look.still(tmp_path, ["a.py text"], 5) == {}
    kept(look, tmp_path)
    file.unlink()
    assert look.still(tmp_path, ["a.py text"], 5) == {}


def test_a_link_in_the_place_of_a_file_is_no_longer_that_file(tmp_path, settled):
    file = tmp_path / "a.py"
    file.write_text("x")
    look = Lookout()
    kept(look, tmp_path)
    file.rename(tmp_path / "b.py")
    file.symlink_to("b.py")
    assert look.still(tmp_path, ["a.py text"], 5) == {}


def test_a_file_that_changed_this_moment_is_looked_at_again(tmp_path):
    (tmp_path / "a.py").write_text("x")
    look = Lookout()
    kept(look, tmp_path)
    assert look.still(tmp_path, ["a.py text"], 5) == {}


def test_a_look_that_hangs_is_left_behind_and_its_place_is_not_asked_again(tmp_path):
    look, goes_on, ended = Lookout(), threading.Event(), threading.Event()

    def hang() -> int:
        goes_on.wait(30)
        ended.set()
        return 1

    began = time.monotonic()
    with pytest.raises(TimeoutError):
        look.run("mount", hang, 0.05)
    for _ in range(20):
        with pytest.raises(TimeoutError):
            look.run("mount", lambda: pytest.fail("asked a place that hangs"), 10)
    assert time.monotonic() - began < 25
    assert look.run("elsewhere", lambda: 2, 5) == 2
    goes_on.set()
    assert ended.wait(10)
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            assert look.run("mount", lambda: 3, 5) == 3
            return
        except TimeoutError:
            time.sleep(0.01)
    pytest.fail("the place answers again")


def test_an_error_of_the_disk_is_handed_on():
    def broken() -> int:
        raise OSError(errno.EIO, "broken")

    with pytest.raises(OSError, match="broken"):
        Lookout().run("disk", broken, 5)


def test_a_pipe_is_not_waited_for_and_a_large_file_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as stream:
        stream.truncate(FILE_BYTES + 1)
    found = Lookout().files(tmp_path, [b"pipe", b"large", b"gone"], 5)
    assert [one.error.errno for one in found.values() if one.error] == [errno.ENXIO, errno.EFBIG, errno.ENOENT]
    assert [one.data for one in found.values()] == [b"", b"", b""]


def test_one_look_reads_a_bounded_number_of_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(lookout, "BATCH_BYTES", 100)
    for name in "abc":
        (tmp_path / name).write_bytes(b"x" * 60)
    look = Lookout()
    assert list(look.files(tmp_path, [b"a", b"b", b"c"], 5)) == [b"a", b"b"]


def test_the_oldest_verdicts_are_given_up(tmp_path, monkeypatch, settled):
    monkeypatch.setattr(lookout, "KNOWN_MOST", 2)
    look = Lookout()
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text(name)
        kept(look, tmp_path, name)
    assert set(look.still(tmp_path, ["a.py text", "b.py text", "c.py text"], 5)) == {"b.py text", "c.py text"}
