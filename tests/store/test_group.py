"""Write groups: one pack or nothing, one at a time, with exact book-keeping."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import pytest

from memoryd.digest import address_of
from memoryd.errors import BadCharacters, ContentTooLarge, NotFound, StoreError
from memoryd.store import group as group_module
from memoryd.store.chunker import FastCdcChunker


def packs_of(home: Path) -> list[Path]:
    return sorted((home / "store" / "packs").rglob("*.pack"))


def test_a_group_is_one_pack(store, tmp_path, prose, noise):
    with store.group() as group:
        for n in range(50):
            group.add(prose(3000, n))
        group.add(noise(300_000, 1))
        for n in range(50):
            group.record("document", {"v": 1, "n": n})
        group.commit()
    assert len(packs_of(tmp_path / "home")) == 1


def test_before_the_commit_nothing_is_there(store, tmp_path):
    with store.group() as group:
        address = group.add(b"content")
        group.record("document", {"v": 1})
        with pytest.raises(NotFound):
            store.read(address)
    assert packs_of(tmp_path / "home") == []
    assert store.last_seq() == 0
    with pytest.raises(StoreError, match="closed"):
        group.commit()


def test_an_empty_group_writes_nothing(store, tmp_path):
    assert store.group().commit() == []
    assert packs_of(tmp_path / "home") == []


def test_a_new_group_closes_the_one_before(store):
    first = store.group()
    first.add(b"left behind")
    second = store.group()
    second.add(b"kept")
    for call in (first.commit, lambda: first.add(b"more"), lambda: first.record("document", {"v": 1})):
        with pytest.raises(StoreError, match="closed"):
            call()
    second.commit()
    assert store.stats().contents == 1


def test_sequence_numbers_go_on_over_groups_and_abandoned_ones_leave_no_gap(store):
    with store.group() as group:
        group.record("document", {"v": 1})
        assert group.commit() == [1]
    with store.group() as group:
        group.record("document", {"v": 1})
    with store.group() as group:
        group.add(b"only content")
        assert group.commit() == []
    with store.group() as group:
        group.record("scope", {"v": 1})
        group.record("document", {"v": 1})
        assert group.commit() == [2, 3]


@pytest.mark.parametrize(
    ("kind", "data"),
    [("manifest", {"v": 1}), ("chunk", {"v": 1}), ("document", {}), ("document", {"v": 1, "seq": 4}), ("", {"v": 1})],
)
def test_unsound_records_are_refused_at_once(store, kind, data):
    with store.group() as group:
        with pytest.raises(ValueError):
            group.record(kind, data)
        with pytest.raises(TypeError):
            group.record("document", {"v": 1, "score": 0.5})
        group.record("document", {"v": 1})
        assert group.commit() == [1]


def test_unpaired_surrogates_are_refused(store):
    with store.group() as group:
        with pytest.raises(BadCharacters):
            group.record("document", {"v": 1, "title": "\ud800"})
        assert group.commit() == []


def test_a_content_of_too_many_chunks_is_refused(store, monkeypatch, noise):
    monkeypatch.setattr(group_module, "MANIFEST_MOST", 5)
    with store.group() as group:
        with pytest.raises(ContentTooLarge):
            group.add(noise(500_000, 1))
        assert group.commit() == []


def test_records_interleaved_by_kind_keep_their_order(store):
    with store.group() as group:
        for n in range(30):
            group.record(("document", "scope", "tombstone")[n * n % 3], {"v": 1, "n": n, "fill": "x" * 5000})
        group.commit()
    assert [record.data["n"] for record in store.records()] == list(range(30))


def test_shared_chunks_are_stored_once_within_a_group(store, noise):
    body = noise(400_000, 1)
    with store.group() as group:
        addresses = [group.add(body), group.add(body + b"tail"), group.add(body), group.add(b"head" + body)]
        group.commit()
    assert store.stats().raw_bytes < 1.4 * len(body)
    assert addresses[0] == addresses[2]
    for address, content in zip(addresses, [body, body + b"tail", body, b"head" + body], strict=True):
        assert hashlib.sha256(store.read(address)).hexdigest() == address[7:]
        assert store.size(address) == len(content)


def test_a_small_commit_starts_no_thread(store, put):
    before = threading.active_count()
    put(store, b"a memory")
    assert threading.active_count() == before


def test_case_16_a_thousand_small_files_are_one_durable_write(store, tmp_path, prose):
    """case 16: durability is paid once a group, not once a file."""
    steps: list[str] = []
    store._sealer.files.fault = steps.append
    with store.group() as group:
        addresses = [group.add(prose(400, n)) for n in range(1000)]
        group.commit()
    assert steps.count("pack.fsync") == 1
    assert steps.count("pack.fsync_dir") <= 2
    assert [store.read(addresses[n]) == prose(400, n) for n in (0, 500, 999)] == [True] * 3
    assert list(store.findings(read_data=True)) == []


def test_a_known_content_is_not_cut_again_and_a_damaged_one_is(opened, put, tmp_path, monkeypatch, noise):
    store = opened()
    small, large = b"small" * 20, noise(300_000, 9)
    put(store, small, large)
    cuts: list[int] = []
    cut = FastCdcChunker.cut
    monkeypatch.setattr(FastCdcChunker, "cut", lambda self, data: cuts.append(len(data)) or cut(self, data))
    put(store, small, large)
    assert cuts == []
    (pack,) = packs_of(tmp_path / "home")
    data = bytearray(pack.read_bytes())
    data[data.find(large[200_000:200_020])] ^= 1
    pack.write_bytes(data)
    put(store, small, large)
    assert cuts == [len(large)]
    assert store.read(address_of(large)) == large
