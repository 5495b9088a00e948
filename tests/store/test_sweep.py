"""Packs are written again without what may go; nothing that stays ever names something that went."""

from __future__ import annotations

import hashlib
import random

import pytest

from memoryd.digest import address_of
from memoryd.errors import DiskFull, NotFound
from memoryd.store.condemned import CHUNK, MANIFEST
from memoryd.store.merkle import FILE, TreeEntry, build
from memoryd.store.reach import Live, Reach
from memoryd.store.sweep import Sweep, tally


def raw(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def weighed(store, *live: bytes, seqs=frozenset(), idle=frozenset(), nodes=()):
    """(reach, tally) where exactly these contents and trees are in force."""
    reach = Reach(store)
    reach.look(lambda *_record: None)
    missing = reach.follow([raw(data) for data in live], nodes)
    return reach, tally(reach, missing, seqs, idle, lambda: False)


def swept(store, *live: bytes, due=None, floor=0.0, seqs=frozenset(), idle=frozenset()) -> Sweep:
    """Sweep everything dead (or `due`) that is not needed for the contents `live`."""
    reach, found = weighed(store, *live, seqs=seqs, idle=idle)
    dead = {key for share in found.shares.values() for key in share.dead}
    sweep = Sweep(store, reach, found.shares, dead if due is None else dead & due, floor=floor)
    for step in sweep.steps:
        sweep.run(step, Live())
        assert_sound(store)
    return sweep


def assert_sound(store) -> None:
    assert list(store.findings(read_data=True)) == []


def gone(store, data: bytes) -> bool:
    with pytest.raises(NotFound):
        store.read(address_of(data))
    return True


def test_a_tally_tells_live_from_dead(store, put, noise):
    one, two = noise(60_000, 1), noise(40_000, 2)
    put(store, one, b"short")
    put(store, two)
    _reach, found = weighed(store, one)
    first = next(share for share in found.shares.values() if CHUNK + raw(b"short") in share.dead)
    second = next(share for share in found.shares.values() if MANIFEST + raw(two) in share.dead)
    assert found.live_bytes == len(one) and found.missing == set()
    assert sum(size for key, size in second.dead.items() if key[:1] == CHUNK) == len(two)
    assert second.total > len(two) and first.items > 6
    assert weighed(store, one, b"nobody has this")[1].missing == {raw(b"nobody has this")}


def test_what_is_dead_goes_and_the_rest_is_read_as_before(store, put, noise):
    contents = [noise(30_000, seed) for seed in range(6)] + [b"tiny %d" % n for n in range(6)]
    for data in contents:
        put(store, data)
    kept = contents[::2]
    before = store.stats().stored_bytes
    swept(store, *kept)
    assert all(store.read(address_of(data)) == data for data in kept)
    assert all(gone(store, data) for data in contents[1::2])
    assert store.stats().stored_bytes < before - 80_000


def test_all_dead_packs_cost_a_footer_and_come_first(store, put, noise):
    put(store, noise(30_000, 1))
    put(store, noise(30_000, 2), noise(30_000, 3))
    put(store, noise(30_000, 4))
    reach, found = weighed(store, noise(30_000, 3))
    dead = {key for share in found.shares.values() for key in share.dead}
    sweep = Sweep(store, reach, found.shares, dead, floor=0.0)
    assert [len(step) for step in sweep.steps] == [2, 1]
    sweep.run(sweep.steps[0], Live())
    (emptied,) = sweep.own
    assert store._shelf.path(emptied).stat().st_size < 300


def test_packs_that_were_emptied_before_go_along(store, put, noise):
    put(store, noise(30_000, 1))
    put(store, b"kept")
    swept(store, b"kept")
    assert len(store.pack_ids()) == 2
    put(store, noise(30_000, 2))
    swept(store, b"kept")
    assert len(store.pack_ids()) == 2
    assert swept(store, b"kept").steps == []


def test_next_to_nothing_dead_is_left_lying(store, put, noise):
    put(store, *(noise(30_000, seed) for seed in range(40)))
    live = [noise(30_000, seed) for seed in range(1, 40)]
    assert swept(store, *live, floor=0.05).steps == []
    assert store.read(address_of(noise(30_000, 0)))
    assert len(swept(store, *live, floor=0.01).steps) == 1
    assert gone(store, noise(30_000, 0))


def test_a_manifest_that_stays_keeps_its_chunks(store, put, noise):
    """Its pack is not worth writing again: then the pack of its chunks must not lose them."""
    shared = noise(30_000, 1)
    put(store, shared)
    with_shared = shared + noise(30_000, 2)
    put(store, with_shared, *(noise(30_000, seed) for seed in range(3, 60)))
    live = [noise(30_000, seed) for seed in range(3, 60)]
    swept(store, *live, floor=0.05)
    assert_sound(store)
    assert store.read(address_of(with_shared)) == with_shared


def test_what_is_not_due_stays_with_all_that_it_names(store, put, noise):
    shared = noise(30_000, 1)
    one, two = shared + noise(20_000, 2), shared + noise(20_000, 3)
    put(store, one)
    put(store, two)
    due = {MANIFEST + raw(one)} | {CHUNK + raw(part) for part in pieces(store, one)}
    swept(store, due=due)
    assert gone(store, one)
    assert store.read(address_of(two)) == two


def pieces(store, data: bytes) -> list[bytes]:
    ends = store._chunker.cut(data)
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def planned(store, *live: bytes) -> Sweep:
    reach, found = weighed(store, *live)
    dead = {key for share in found.shares.values() for key in share.dead}
    return Sweep(store, reach, found.shares, dead, floor=0.0)


def test_a_pack_that_names_something_comes_before_the_pack_of_it(store, put, noise):
    shared = noise(30_000, 1)
    other = shared + noise(20_000, 2)
    put(store, shared, b"kept 1")
    put(store, other, b"kept 2" * 50_000)
    sweep = planned(store, b"kept 1", b"kept 2" * 50_000)
    first, second = sweep.steps
    assert len(first) == len(second) == 1 and MANIFEST + raw(other) in sweep.shares[first[0]].dead
    assert sweep.left(first[0]) > sweep.left(second[0])
    for step in sweep.steps:
        assert sweep.run(step, Live())
        assert_sound(store)
    assert gone(store, other) and gone(store, shared)


def test_what_a_pack_still_names_stays_where_that_pack_could_not_be_written(store, put, noise):
    shared = noise(30_000, 1)
    other = shared + noise(20_000, 2)
    put(store, shared, b"kept 1", noise(9000, 9))
    put(store, other, b"kept 2")
    sweep = planned(store, b"kept 1", b"kept 2")
    first, second = sweep.steps
    assert sweep.run(second, Live())
    assert_sound(store)
    assert store.read(address_of(other)) == other
    assert gone(store, noise(9000, 9))
    assert sweep.run(first, Live())
    assert_sound(store)
    assert gone(store, other)


def test_packs_that_name_each_other_are_one_step(store, put, noise):
    one, two = noise(30_000, 1), noise(30_000, 2)
    put(store, one, b"kept 1")
    put(store, two, one + two + noise(9000, 3), b"kept 2")
    sweep = planned(store, b"kept 1", b"kept 2")
    assert [len(step) for step in sweep.steps] == [1, 1]
    both = sorted(sweep.chosen)
    sweep._holders = {key: set(both) for pack in both for key in sweep.shares[pack].dead}
    assert sweep._steps() == [both]
    assert sweep.run(both, Live())
    assert_sound(store)
    assert gone(store, one) and gone(store, two)


def test_what_is_spared_stays(store, put, noise):
    data = noise(30_000, 1)
    put(store, data)
    reach, found = weighed(store)
    sweep = Sweep(store, reach, found.shares, {key for share in found.shares.values() for key in share.dead}, floor=0.0)
    live = Live()
    reach.follow_loosely(live, [raw(data)], [])
    assert not sweep.run(sweep.steps[0], live)
    assert store.read(address_of(data)) == data


def test_records_go_by_number_and_idle_ones_go_along(store):
    for number in range(6):
        with store.group() as group:
            group.record("document", {"v": 1, "number": number})
            group.record("tombstone", {"v": 1, "target": 99, "reason": "r"})
            group.commit()
    assert swept(store, idle={2, 4, 6}).steps == []
    swept(store, seqs={1, 5}, idle={2, 4, 6})
    assert [record.seq for record in store.records()] == [3, 4, 7, 8, 9, 10, 11, 12]
    assert store.last_seq() == 12


def test_a_node_goes_with_the_contents_that_it_names(store):
    data = b"in a tree" * 50
    root, nodes = build([TreeEntry(b"a", FILE, False, len(data), raw(data))])
    with store.group() as group:
        group.nodes(nodes)
        group.commit()
    with store.group() as group:
        group.add(data)
        group.commit()
    reach, found = weighed(store)
    sweep = Sweep(store, reach, found.shares, {CHUNK + raw(data)}, floor=0.0)
    assert sweep.steps == [], "the node stays, so does what it names"
    swept(store)
    with pytest.raises(NotFound):
        store.node(root)
    assert gone(store, data)


def test_a_full_disk_leaves_everything(store, put, noise, monkeypatch):
    put(store, noise(3 << 20, 1), noise(3 << 20, 2))
    reach, found = weighed(store, noise(3 << 20, 1))
    sweep = Sweep(store, reach, found.shares, {key for share in found.shares.values() for key in share.dead})

    def full(point: str) -> None:
        if point == "pack.write":
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(store._sealer.files, "fault", full)
    with pytest.raises(DiskFull):
        sweep.run(sweep.steps[0], Live())
    monkeypatch.undo()
    assert_sound(store)
    assert store.read(address_of(noise(3 << 20, 2)))
    assert sweep.run(sweep.steps[0], Live())
    assert gone(store, noise(3 << 20, 2))


def test_any_choice_of_contents_survives_any_sweep(store, put):
    """Contents made of a few shared blocks, dropped at random again and again."""
    source = random.Random(7)
    blocks = [source.randbytes(12_000) for _ in range(8)]
    model: dict[bytes, bytes] = {}
    for turn in range(12):
        for _ in range(3):
            data = b"".join(source.sample(blocks, 3)) + b"%d" % turn
            model[raw(data)] = data
        put(store, *source.sample(list(model.values()), min(3, len(model))), *list(model.values())[-3:])
        for address in source.sample(sorted(model), len(model) // 3):
            del model[address]
        swept(store, *model.values(), floor=source.choice([0.0, 0.05, 0.3]))
        for data in model.values():
            assert store.read(address_of(data)) == data
