"""What is condemned is remembered, and whoever builds on it takes it back."""

from __future__ import annotations

from memoryd.files import Files
from memoryd.store.condemned import CHUNK, MANIFEST, WHOLE, Condemned

A, B = b"a" * 32, b"b" * 32


def made(tmp_path) -> Condemned:
    return Condemned(tmp_path / "condemned", Files())


def test_times_outlive_a_restart(tmp_path):
    one = made(tmp_path)
    assert one.since() == {}
    one.settle({CHUNK + A: 1.5, MANIFEST + B: 2.25})
    assert made(tmp_path).since() == {CHUNK + A: 1.5, MANIFEST + B: 2.25}
    one.settle({})
    assert made(tmp_path).since() == {}


def test_every_kind_of_an_address_is_revived(tmp_path):
    one = made(tmp_path)
    one.settle({CHUNK + A: 1.0, WHOLE + A: 1.0, MANIFEST + A: 1.0, CHUNK + B: 1.0})
    one.revive([A])
    assert one.since() == {CHUNK + B: 1.0}


def test_what_was_revived_while_watched_is_not_condemned(tmp_path):
    one = made(tmp_path)
    one.revive([A])
    one.watch()
    assert one.asked() == set()
    one.revive([A])
    assert one.asked() == {A}
    one.settle({CHUNK + A: 1.0, CHUNK + B: 1.0})
    assert one.since() == {CHUNK + B: 1.0}
    one.unwatch()
    one.settle({CHUNK + A: 1.0})
    assert one.since() == {CHUNK + A: 1.0}


def test_a_damaged_file_condemns_nothing(tmp_path):
    made(tmp_path).settle({CHUNK + A: 1.0})
    path = tmp_path / "condemned"
    whole = path.read_bytes()
    for at in range(len(whole)):
        broken = bytearray(whole)
        broken[at] ^= 1
        path.write_bytes(bytes(broken))
        assert made(tmp_path).since() == {}
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert made(tmp_path).since() == {}
