"""The store from outside: exact bytes back, by address, verified, whatever happened to the files."""

from __future__ import annotations

import hashlib
import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.config import StoreConfig
from memoryd.errors import (
    BadAddress,
    ContentDamaged,
    FormatDamaged,
    FormatUnsupported,
    HomeError,
    NotFound,
    StoreError,
)
from memoryd.files import Files
from memoryd.store.chunker import FastCdcChunker
from memoryd.store.chunkstore import ChunkStore, StoredRecord
from memoryd.store.pack import FRAME_MAGIC, PACK_MAGIC

SMALL = StoreConfig(chunk_min=256, chunk_avg=512, chunk_max=1024)
DOCUMENT = {"v": 1, "source": "notes", "path": "a.md"}
MISSING = "sha256:" + "0" * 64


def packs_of(home: Path) -> list[Path]:
    return sorted((home / "store" / "packs").rglob("*.pack"))


def sound(store: ChunkStore) -> bool:
    found = list(store.findings(read_data=True))
    assert found == []
    return True


@pytest.fixture
def contents(noise, prose) -> list[bytes]:
    """Empty, tiny, whole, many chunks, repetitive, incompressible, and bytes that look like the format."""
    made = [b"", b"x", prose(1500, 1), prose(90_000, 2), noise(50_000, 3), bytes(300_000), prose(90_000, 2) + b"!"]
    made += [FRAME_MAGIC + noise(500, 4), PACK_MAGIC * 9, zstandard.compress(prose(40_000, 5))]
    return made


def test_contents_come_back_exact_and_after_reopening(opened, put, contents, tmp_path):
    store = opened()
    addresses = put(store, *contents)
    assert addresses == ["sha256:" + hashlib.sha256(content).hexdigest() for content in contents]
    assert [store.read(address) for address in addresses] == contents
    assert [store.size(address) for address in addresses] == [len(content) for content in contents]
    assert sound(store)
    store.close()
    again = opened()
    assert [again.read(address) for address in addresses] == contents
    assert again.stats() == store_stats(addresses, again)


def store_stats(addresses: list[str], store: ChunkStore):
    stats = store.stats()
    assert stats.contents == len(set(addresses))
    assert stats.packs == 1
    return stats


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 1023, 1024, 1025, 5000])
@pytest.mark.parametrize("kind", ["noise", "text", "zeros"])
def test_h39_sizes_around_the_chunk_bounds_round_trip(opened, put, noise, prose, size, kind):
    """H39: 0, 1, min-1, min, min+1, max-1, max and max+1 bytes, compressible or not."""
    content = {"noise": noise(size, 1), "text": prose(size, 1), "zeros": bytes(size)}[kind]
    store = opened(sizes=SMALL)
    [address] = put(store, content)
    assert store.read(address) == content
    assert store.size(address) == size
    assert sound(store)


def test_h39_sixty_four_mebibytes_of_zeros(opened, put):
    """H39: a long run of zeros is stored in almost nothing and read back exact."""
    content = bytes(64 << 20)
    store = opened()
    [address] = put(store, content)
    assert store.stats().raw_bytes <= 2 * 65536
    assert store.stats().stored_bytes < 1 << 20
    assert hashlib.sha256(store.read(address)).hexdigest() == address[7:]
    assert store.read_range(address, (64 << 20) - 5, 1 << 40) == bytes(5)


def test_case_10_empty_content(opened, put):
    """case 10: a 0-byte content is stored, and read back as empty bytes, alone and beside others."""
    store = opened()
    [address] = put(store, b"")
    assert store.read(address) == b""
    assert store.size(address) == 0
    assert store.read_range(address, 0, 10) == b""
    put(store, b"", b"another")
    assert store.stats().contents == 2
    assert sound(store)


def test_case_11_contents_that_start_with_a_magic(opened, put, noise):
    """case 11: data whose first bytes equal a magic of ours or of zstd is stored and read back exact."""
    contents = [FRAME_MAGIC, PACK_MAGIC, FRAME_MAGIC + noise(70_000, 1), zstandard.compress(b"zstd" * 99)]
    store = opened()
    assert [store.read(address) for address in put(store, *contents)] == contents


@pytest.mark.parametrize(
    "text",
    ["..", "." * 64, "../" * 21 + "x", "sha256:..", "/etc/passwd", "", "abc", "sha256:1234567", "g" * 64, "a" * 65],
)
def test_case_12_what_is_no_address_is_refused(store, text):
    """case 12: a key such as `..` padded to 64 characters is rejected, before any path is made of it."""
    for call in (store.read, store.size, lambda t: store.read_range(t, 0, 1)):
        with pytest.raises(BadAddress):
            call(text)


def test_case_13_forms_of_an_address(opened, put):
    """case 13: `sha256:<hex>`, bare and upper-case digits are accepted; the start of an address is none."""
    store = opened()
    [address] = put(store, b"content")
    digits = address.removeprefix("sha256:")
    for form in (address, digits, digits.upper(), "SHA256:" + digits.upper(), f"  {address}\n"):
        assert store.read(form) == b"content"
    with pytest.raises(BadAddress):
        store.read(digits[:63])


def test_an_unknown_address_is_not_found(store):
    for call in (store.read, lambda a: store.read_range(a, 0, 1)):
        with pytest.raises(NotFound):
            call(MISSING)
    assert store.size(MISSING) is None


def test_a_piece_of_a_content_is_no_content_until_it_is_added(opened, put, prose):
    """Addresses stay unambiguous: a mere piece cannot be read, and one added on its own can, with its size."""
    content = prose(60_000, 1)
    store = opened()
    put(store, content)
    piece = content[: FastCdcChunker(2048, 8192, 65536).cut(content)[0]]
    address = "sha256:" + hashlib.sha256(piece).hexdigest()
    with pytest.raises(NotFound):
        store.read(address)
    assert store.size(address) is None
    before = store.stats()
    assert put(store, piece) == [address]
    assert store.read(address) == piece
    assert store.size(address) == len(piece)
    assert store.stats().raw_bytes == before.raw_bytes
    assert store.stats().contents == 2
    assert sound(store)


def test_a_content_that_later_becomes_a_piece_stays_a_content(opened, put, prose):
    content = prose(60_000, 1)
    store = opened()
    piece = content[: FastCdcChunker(2048, 8192, 65536).cut(content)[0]]
    [whole_first] = put(store, piece)
    [large] = put(store, content)
    assert (store.read(whole_first), store.read(large)) == (piece, content)
    with store.group() as group:  # both in one group, in either order
        pair = prose(60_000, 9)
        start = pair[: FastCdcChunker(2048, 8192, 65536).cut(pair)[0]]
        addresses = [group.add(pair), group.add(start)]
        group.commit()
    assert [store.read(address) for address in addresses] == [pair, start]
    assert sound(store)


@given(start=st.integers(-5, 40_000), length=st.integers(-5, 20_000))
@settings(max_examples=60, deadline=None)
def test_ranges_are_slices(ranged, start, length):
    store, address, content = ranged
    end = start + length
    expected = content[max(0, start) : max(0, end)] if end > start else b""
    assert store.read_range(address, start, end) == expected


@pytest.fixture(scope="module")
def ranged(tmp_path_factory):
    home = tmp_path_factory.mktemp("ranged")
    store = ChunkStore.open(home, files=Files(), sizes=SMALL)
    content = random.Random(5).randbytes(15_000) + b"abc" * 5000
    with store.group() as group:
        address = group.add(content)
        group.commit()
    yield store, address, content
    store.close()


def test_a_range_reads_only_the_chunks_that_it_needs(opened, put, noise, tmp_path):
    """Damage elsewhere in the content does not hinder a range; reading across it names the address."""
    content = noise(1_200_000, 1)
    store = opened()
    [address] = put(store, content)
    [pack] = packs_of(tmp_path / "home")
    data = bytearray(pack.read_bytes())
    at = data.index(content[600_000:600_050])
    data[at] ^= 1
    pack.write_bytes(data)
    assert store.read_range(address, 0, 1000) == content[:1000]
    assert store.read_range(address, 1_199_000, 1_200_000) == content[1_199_000:]
    for call in (lambda: store.read(address), lambda: store.read_range(address, 599_000, 601_000)):
        with pytest.raises(ContentDamaged) as caught:
            call()
        assert caught.value.details["address"] == address


def test_records_of_all_kinds_come_back_in_order(opened):
    store = opened()
    kinds = ["document", "document", "scope", "document", "snapshot", "tombstone", "document"]
    with store.group() as group:
        for n, kind in enumerate(kinds[:4]):
            group.record(kind, {"v": 1, "n": n, "text": "é\u2028"})
        assert group.commit() == [1, 2, 3, 4]
    with store.group() as group:
        group.add(b"content")
        for n, kind in enumerate(kinds[4:], 4):
            group.record(kind, {"v": 1, "n": n, "text": "é\u2028"})
        assert group.commit() == [5, 6, 7]
    expected = [StoredRecord(kind, n + 1, {"v": 1, "n": n, "text": "é\u2028"}) for n, kind in enumerate(kinds)]
    assert list(store.records()) == expected
    assert list(store.records(after_seq=4)) == expected[4:]
    assert list(store.records(after_seq=7)) == []
    store.close()
    again = opened()
    assert list(again.records()) == expected
    assert again.last_seq() == 7


def test_many_records_of_one_group_share_frames(opened):
    store = opened()
    with store.group() as group:
        for n in range(2000):
            group.record("document", {**DOCUMENT, "path": f"docs/page-{n}.md"})
        assert group.commit() == list(range(1, 2001))
    assert [record.data["path"] for record in store.records(1500)] == [f"docs/page-{n}.md" for n in range(1500, 2000)]
    assert store.stats().stored_bytes < 2000 * 88
    assert sound(store)


def test_case_1_seven_bytes_at_the_start_of_ten_megabytes(opened, put, prose):
    """case 1: the edited file is stored again with at least 95 % of its bytes reused."""
    content = prose(10_000_000, 1)
    store = opened()
    put(store, content)
    before = store.stats().raw_bytes
    [address] = put(store, b"7 bytes" + content)
    assert store.stats().raw_bytes - before <= 0.05 * len(content)
    assert store.read(address) == b"7 bytes" + content


def test_adding_again_stores_nothing(opened, put, contents, tmp_path):
    store = opened()
    put(store, *contents)
    packs, stats = packs_of(tmp_path / "home"), store.stats()
    with store.group() as group:
        for content in [*contents, *contents]:
            group.add(content)
        assert group.commit() == []
    assert (packs_of(tmp_path / "home"), store.stats()) == (packs, stats)


def test_case_5_one_flipped_byte_is_never_handed_out(opened, put, tmp_path):
    """case 5: a flipped byte in a stored content under 1 KiB gives a typed error that names the address."""
    store = opened()
    content = b"a short note, stored as it is: 0123456789\n"
    [address] = put(store, content)
    [pack] = packs_of(tmp_path / "home")
    good = pack.read_bytes()
    for at in range(len(content)):
        data = bytearray(good)
        data[data.index(content) + at] ^= 0x20
        pack.write_bytes(data)
        with pytest.raises(ContentDamaged, match=address):
            store.read(address)
    pack.write_bytes(good)
    assert store.read(address) == content


@pytest.mark.parametrize("how", ["flip", "truncate", "empty", "delete"])
@pytest.mark.parametrize("index", ["kept", "lost"])
@pytest.mark.parametrize("large", [False, True], ids=["one chunk", "many chunks"])
def test_case_6_adding_a_damaged_content_again_heals_it(opened, put, noise, tmp_path, how, index, large):
    """case 6: an object that was cut or corrupted on disk is stored again when its bytes come in again."""
    content = noise(60_000 if large else 900, 1)
    store = opened()
    [address] = put(store, content)
    assert store.read(address) == content
    [pack] = packs_of(tmp_path / "home")
    data = bytearray(pack.read_bytes())
    data[data.index(content[:40]) + 20] ^= 4
    if how == "delete":
        pack.unlink()
    else:
        pack.write_bytes({"flip": data, "truncate": data[: len(data) // 2], "empty": b""}[how])
    assert put(store, content) == [address]
    store.close()
    if index == "lost":
        (tmp_path / "home/store/index.db").unlink()
    again = opened()
    assert again.read(address) == content
    assert again.read_range(address, 10, 500) == content[10:500]
    assert put(again, content) == [address]
    assert len(packs_of(tmp_path / "home")) == (1 if how == "delete" else 2)


def test_a_damaged_manifest_is_healed_too(opened, put, noise, tmp_path):
    content = noise(100_000, 1)
    store = opened()
    [address] = put(store, content)
    [pack] = packs_of(tmp_path / "home")
    data = bytearray(pack.read_bytes())
    manifest_address = bytes.fromhex(address[7:])
    data[data.index(manifest_address)] ^= 1
    pack.write_bytes(data)
    store.close()
    store = opened()
    with pytest.raises(ContentDamaged):
        store.read(address)
    put(store, content)
    assert store.read(address) == content


def test_case_7_a_pack_that_no_index_knows_is_adopted(opened, put, tmp_path):
    """case 7: what a crash between the rename and the index left is found at the next open, without a walk by hand."""
    store = opened()
    [address] = put(store, b"known to the index")
    store.close()
    kept = tmp_path / "index.db"
    shutil.copy(tmp_path / "home/store/index.db", kept)
    store = opened()
    with store.group() as group:
        orphan = group.add(b"sealed, then the power failed")
        group.record("document", DOCUMENT)
        group.commit()
    store.close()
    shutil.copy(kept, tmp_path / "home/store/index.db")
    again = opened()
    assert again.read(orphan) == b"sealed, then the power failed"
    assert again.read(address) == b"known to the index"
    assert again.last_seq() == 1
    assert sound(again)


def test_torn_temporary_files_are_swept_at_open(opened, put, tmp_path):
    """H37, case 14: what a killed writer left in tmp is gone after the next open, and nothing else is."""
    store = opened()
    [address] = put(store, b"kept")
    store.close()
    (tmp_path / "home/store/tmp/0011.pack").write_bytes(PACK_MAGIC + b"torn")
    again = opened()
    assert list((tmp_path / "home/store/tmp").iterdir()) == []
    assert again.read(address) == b"kept"


def test_concurrent_reads_during_commits(opened, put, prose):
    """Readers of many threads always get right bytes while groups commit and the index is rebuilt."""
    store = opened()
    contents = [prose(20_000, n) for n in range(12)]
    addresses = put(store, *contents)
    done = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        turn = random.Random(threading.get_ident())
        while not done.is_set():
            n = turn.randrange(len(contents))
            try:
                if store.read(addresses[n]) != contents[n]:
                    wrong.append(n)
            except Exception as error:
                wrong.append(error)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    try:
        for n in range(15):
            [address] = put(store, prose(30_000, 100 + n))
            assert store.read(address) == prose(30_000, 100 + n)
        store.rebuild_index()
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert wrong == []


def test_case_10_an_empty_content_between_others(opened, put):
    """case 10: an empty content shares its offset with the next one in the frame: each is found."""
    store = opened()
    a, empty, b = put(store, b"first", b"", b"second")
    assert (store.read(a), store.read(empty), store.read(b)) == (b"first", b"", b"second")


class TestOpen:
    def test_the_format_fixes_the_sizes(self, opened, tmp_path, noise, put):
        """An existing home keeps the sizes in its FORMAT, whatever the configuration says now."""
        opened(sizes=SMALL).close()
        store = opened(sizes=StoreConfig())
        put(store, noise(50_000, 1))
        assert store.stats().chunks > 30

    def test_a_missing_format_beside_packs_is_an_error(self, opened, put, tmp_path):
        put(opened(), b"content")
        (tmp_path / "home/FORMAT").unlink()
        with pytest.raises(FormatDamaged, match="missing"):
            ChunkStore.open(tmp_path / "home", files=Files(), sizes=StoreConfig())

    def test_a_damaged_format_is_an_error(self, opened, tmp_path):
        opened().close()
        path = tmp_path / "home/FORMAT"
        path.write_bytes(path.read_bytes().replace(b"8192", b"8193"))
        with pytest.raises(FormatDamaged):
            ChunkStore.open(tmp_path / "home", files=Files(), sizes=StoreConfig())

    def test_a_format_whose_cuts_differ_is_refused(self, opened, tmp_path):
        opened().close()
        path = tmp_path / "home/FORMAT"
        body = path.read_bytes().rpartition(b"sha256 ")[0].replace(b"sample_cuts 9", b"sample_cuts 8")
        path.write_bytes(body + b"sha256 " + hashlib.sha256(body).hexdigest().encode() + b"\n")
        with pytest.raises(FormatUnsupported):
            ChunkStore.open(tmp_path / "home", files=Files(), sizes=StoreConfig())

    def test_a_home_that_cannot_be_made_is_a_typed_error(self, tmp_path):
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(HomeError):
            ChunkStore.open(tmp_path / "file" / "home", files=Files(), sizes=StoreConfig())

    def test_a_closed_store_answers_with_a_typed_error(self, opened, put):
        store = opened()
        [address] = put(store, b"content")
        store.close()
        store.close()
        with pytest.raises(StoreError):
            store.read(address)


def test_a_copied_home_is_the_same_home(opened, put, contents, tmp_path):
    """Packs, FORMAT and nothing else carry everything."""
    store = opened()
    addresses = put(store, *contents)
    store.close()
    other = tmp_path / "other"
    shutil.copytree(tmp_path / "home/store/packs", other / "store/packs")
    shutil.copy(tmp_path / "home/FORMAT", other / "FORMAT")
    copied = opened(home=other)
    assert [copied.read(address) for address in addresses] == contents
    assert sound(copied)


def test_rebuilding_the_index_changes_no_answer(opened: Callable[..., ChunkStore], put, contents):
    store = opened()
    addresses = put(store, *contents)
    put(store, b"another pack")
    before = store.stats()
    store.rebuild_index()
    assert [store.read(address) for address in addresses] == contents
    assert store.stats() == before
    assert sound(store)
    put(store, b"and one more")
    assert store.stats().packs == before.packs + 1
    assert sound(store)


def test_a_damaged_content_is_noted_until_it_is_added_again(opened, put, tmp_path):
    store = opened()
    [address] = put(store, b"content " * 400)
    store.close()
    [path] = (tmp_path / "home").rglob("*.pack")
    data = bytearray(path.read_bytes())
    data[32 + 88] ^= 1  # the first byte of the first payload
    path.write_bytes(data)
    store = opened()
    assert store.damaged == set()
    with pytest.raises(ContentDamaged):
        store.read(address)
    assert store.damaged == {address}
    put(store, b"content " * 400)
    assert store.damaged == set()
    assert store.read(address) == b"content " * 400


def test_records_in_a_damaged_frame_are_told_and_the_others_come(opened, tmp_path):
    """Also after the index was lost; and their sequence numbers are not given out again."""
    store = opened()
    for n in range(3):
        with store.group() as group:
            group.record("document", {"v": 1, "n": n})
            group.record("scope", {"v": 1, "n": n})
            group.commit()
    home = tmp_path / "home"
    store.close()
    last = [path for path in home.rglob("*.pack") if b'"seq":5' in path.read_bytes()]
    data = last[0].read_bytes()
    last[0].write_bytes(data.replace(b'"seq":5', b'"seq":4').replace(b'"seq":6', b'"seq":4'))
    for view in (home / "store").glob("index.db*"):
        view.unlink()
    store = opened()
    with pytest.raises(ContentDamaged, match="The records 5 to 5"):
        list(store.records())
    lost: list[str] = []
    assert [record.seq for record in store.records(lost=lost)] == [1, 2, 3, 4]
    assert [text.split(" in ")[0] for text in lost] == ["The records 5 to 5", "The records 6 to 6"]
    assert last[0].name in lost[0]
    assert store.last_seq() == 6
    named = [finding for finding in store.findings(read_data=True) if finding.code == "frame-damaged"]
    assert [finding.details["records"] for finding in named] == [[5, 5], [6, 6]]
    assert all("memoryd repair" in finding.remedy for finding in named)
