"""The check names whatever is wrong, and nothing else."""

from __future__ import annotations

import random
import sqlite3
import struct
import zlib
from pathlib import Path

import pytest

from memoryd.errors import ContentDamaged, NotFound
from memoryd.store import pack as packs
from memoryd.store.pack import PackWriter, encode_frame
from tests.store import vectors


def packs_of(home: Path) -> list[Path]:
    return sorted((home / "store" / "packs").rglob("*.pack"))


def codes(store, *, read_data: bool) -> list[str]:
    return sorted(finding.code for finding in store.findings(read_data=read_data))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def edit_index(home: Path, statement: str) -> None:
    connection = sqlite3.connect(home / "store/index.db")
    connection.execute(statement)
    connection.commit()
    connection.close()


def test_a_sound_store_has_no_findings(store, put, prose, noise):
    put(store, b"", prose(50_000, 1), noise(90_000, 2))
    with store.group() as group:
        for kind in ("document", "scope", "snapshot", "tombstone"):
            group.record(kind, {"v": 1})
        group.commit()
    assert codes(store, read_data=False) == []
    assert codes(store, read_data=True) == []


def test_h37_truncated_flipped_and_deleted_packs_are_all_named(store, put, noise, home):
    """H37: one object cut to nothing, one to half, a bit flipped in a third, a fourth deleted: check names all four,
    and reading never returns wrong bytes."""
    contents = [noise(5000, n) for n in range(5)]
    found: dict[bytes, Path] = {}
    addresses = []
    for content in contents:
        before = set(packs_of(home))
        addresses += put(store, content)
        [found[content]] = set(packs_of(home)) - before
    files = [found[content] for content in contents]
    files[0].write_bytes(b"")
    files[1].write_bytes(files[1].read_bytes()[: files[1].stat().st_size // 2])
    data = bytearray(files[2].read_bytes())
    data[data.index(contents[2][1000:1020])] ^= 0x10
    files[2].write_bytes(data)
    files[3].unlink()
    findings = list(store.findings(read_data=True))
    named = {finding.where for finding in findings}
    assert {"store/" + file.relative_to(home / "store").as_posix() for file in files[:4]} == named
    assert {finding.details["addresses"][0] for finding in findings if finding.details} >= set(addresses[2:4])
    for address in addresses[:4]:
        with pytest.raises(ContentDamaged):
            store.read(address)
    assert store.read(addresses[4]) == contents[4]
    put(store, *contents)
    assert [store.read(address) for address in addresses] == contents


def test_every_flipped_byte_of_a_pack_on_disk_is_found(store, put, home, prose):
    """Whatever byte class is hit (headers, table, payloads, records, footer), the check reports this pack."""
    with store.group() as group:
        group.add(b"one")
        group.add(b"two")
        group.add(prose(600, 1))
        group.record("document", {"v": 1})
        group.record("document", {"v": 1})
        group.commit()
    [pack] = packs_of(home)
    good = pack.read_bytes()
    for at in range(len(good)):
        wrong = bytearray(good)
        wrong[at] ^= 1 << random.Random(at).randrange(8)
        pack.write_bytes(wrong)
        found = list(store.findings(read_data=True))
        assert found, at
        assert {finding.where.rsplit("/", 1)[1] for finding in found} == {pack.name}
    pack.write_bytes(good)
    assert codes(store, read_data=True) == []


def test_data_damage_is_found_only_by_reading_the_data(store, put, noise, home):
    content = noise(3000, 1)
    [address] = put(store, content)
    [pack] = packs_of(home)
    data = bytearray(pack.read_bytes())
    data[data.index(content[:30]) + 5] ^= 1
    pack.write_bytes(data)
    assert codes(store, read_data=False) == []
    [finding] = store.findings(read_data=True)
    assert finding.code == "frame-damaged"
    assert finding.details == {"contents": 1, "addresses": [address], "pieces": 0}
    assert finding.remedy


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM chunks WHERE whole = 1",
        "UPDATE chunks SET raw_len = raw_len + 1 WHERE whole = 1",
        "UPDATE chunks SET whole = 1 - whole",
        "DELETE FROM manifests",
        "DELETE FROM records",
        "INSERT INTO chunks VALUES(x'00', (SELECT max(id) FROM packs), 32, 0, 5, 1)",
    ],
)
def test_an_index_that_says_something_else_than_the_packs_is_found_and_rebuilt(store, put, noise, home, statement):
    """Both ways: rows that are missing or wrong, and rows that no pack holds."""
    with store.group() as group:
        group.add(b"whole")
        large = group.add(noise(50_000, 1))
        group.record("document", {"v": 1})
        group.commit()
    edit_index(home, statement)
    assert "index-differs" in codes(store, read_data=False)
    store.rebuild_index()
    assert codes(store, read_data=True) == []
    assert store.read(large) == noise(50_000, 1)


def test_a_pack_that_came_in_behind_the_index_is_named(store, put, home):
    put(store, b"content")
    writer = PackWriter(b"\x07" * 16)
    writer.append(vectors.raw_frames()[0])
    path = home / "store/packs/07" / ("07" * 16 + ".pack")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(writer.finish()))
    assert codes(store, read_data=False) == ["pack-not-indexed"]
    store.rebuild_index()
    assert codes(store, read_data=True) == []
    assert store.read("sha256:" + vectors.digest(vectors.chunks()[0]).hex()) == vectors.chunks()[0]


def test_a_manifest_without_all_its_chunks_is_named(opened, put, home):
    """A pack whose manifest names a chunk that is nowhere: check says which content, reading refuses."""
    store = opened()
    put(store, b"content")
    store.close()
    writer = PackWriter(b"\x07" * 16)
    writer.append(vectors.raw_frames()[2])
    path = home / "store/packs/07" / ("07" * 16 + ".pack")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(writer.finish()))
    again = opened()
    address = "sha256:" + vectors.manifest().address.hex()
    [finding] = again.findings(read_data=False)
    assert (finding.code, finding.details["address"], len(finding.details["chunks"])) == ("manifest-open", address, 2)
    with pytest.raises(ContentDamaged):
        again.read(address)
    put(again, b"".join(vectors.pieces()))
    assert again.read(address) == b"".join(vectors.pieces())


def test_strays_between_the_packs_are_named(store, home):
    (home / "store/packs/notes.txt").write_bytes(b"")
    [finding] = store.findings(read_data=False)
    assert (finding.code, finding.where) == ("stray-file", "store/packs/notes.txt")


def test_golden_pack_is_read_by_a_store(opened, put, home, golden):
    """Trees, snapshots, tombstones, an unknown kind and `replaces` in one store: read, kept, checked, not in the way."""
    store = opened()
    put(store, b"content")
    store.close()
    path = home / "store/packs/a1" / f"{vectors.PACK.hex()}.pack"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes((golden / "pack-v1.pack").read_bytes())
    again = opened()
    assert codes(again, read_data=True) == []
    assert [(r.kind, {**r.data, "seq": r.seq}) for r in again.records()] == vectors.records()
    assert again.last_seq() == 11
    for content in [*vectors.chunks(), b"".join(vectors.pieces())]:
        assert again.read("sha256:" + vectors.digest(content).hex()) == content
    with again.group() as group:
        group.record("document", {"v": 1})
        assert group.commit() == [12]
    assert codes(again, read_data=True) == []


@pytest.mark.parametrize("index", ["kept", "lost"])
def test_a_replaced_pack_is_ignored_and_removed_at_open(opened, put, home, index):
    """`replaces`: the merged pack counts alone, and an old file that came back does not matter."""
    store = opened()
    [kept, dropped] = put(store, b"survives the merge", b"does not")
    store.close()
    [old] = packs_of(home)
    content = b"survives the merge"
    writer = PackWriter(b"\x07" * 16)
    writer.append(encode_frame(packs.CHUNK, [content], [vectors.digest(content)], seq=0, flags=packs.FLAG_WHOLE))
    path = home / "store/packs/07" / ("07" * 16 + ".pack")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(writer.finish([bytes.fromhex(old.stem)])))
    came_back = old.read_bytes()
    for _time in range(2):
        old.write_bytes(came_back)
        if index == "lost":
            (home / "store/index.db").unlink()
        again = opened()
        assert again.read(kept) == content
        with pytest.raises(NotFound):
            again.read(dropped)
        assert (again.stats().packs, again.stats().contents) == (1, 1)
        assert codes(again, read_data=True) == []
        assert not old.exists()
        again.close()


def test_a_pack_of_a_newer_format_is_named(store, put, home):
    put(store, b"content")
    [pack] = packs_of(home)
    data = bytearray(pack.read_bytes())
    data[8] = 2
    data[28:32] = struct.pack("<I", zlib.crc32(bytes(data[:28])))
    pack.write_bytes(data)
    assert codes(store, read_data=False) == ["pack-unsupported"]


def shelve(home: Path, *frames: bytes) -> None:
    writer = PackWriter(b"\x07" * 16)
    for frame in frames:
        writer.append(frame)
    path = home / "store/packs/07" / ("07" * 16 + ".pack")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(writer.finish()))


def test_right_checksums_over_wrong_bytes_are_not_enough(opened, home):
    """Every byte handed out is hashed: a chunk, or a whole content, that is not what its address says is refused."""
    opened().close()
    claimed = vectors.digest(b"what the address says")
    pieces = [b"good piece one, ", b"good piece two"]
    liar = vectors.Manifest(
        vectors.digest(b"other"), 30, tuple((vectors.digest(piece), len(piece)) for piece in pieces)
    )
    shelve(
        home,
        encode_frame(packs.CHUNK, [b"something else"], [claimed], seq=0, flags=packs.FLAG_WHOLE),
        encode_frame(packs.CHUNK, pieces, [vectors.digest(piece) for piece in pieces], seq=0),
        encode_frame(packs.MANIFEST, [liar.encode()], [vectors.digest(liar.encode())], seq=0),
    )
    store = opened()
    for address in (claimed, liar.address):
        with pytest.raises(ContentDamaged):
            store.read("sha256:" + address.hex())
    with pytest.raises(ContentDamaged):
        store.read_range("sha256:" + claimed.hex(), 0, 5)
    assert "frame-damaged" in codes(store, read_data=True)


def test_a_manifest_that_names_another_content_is_refused(opened, put, noise, home):
    """An index that points to the wrong manifest gives no wrong bytes."""
    store = opened()
    first, second = put(store, noise(50_000, 1), noise(50_000, 2))
    edit_index(
        home,
        f"UPDATE manifests SET (frame_off, inner_off) = (SELECT frame_off, inner_off FROM manifests m "
        f"WHERE m.address = x'{second[7:]}') WHERE address = x'{first[7:]}'",
    )
    edit_index(home, f"UPDATE manifests SET raw_len = (SELECT raw_len FROM manifests WHERE address = x'{second[7:]}')")
    for call in (store.read, lambda address: store.read_range(address, 0, 100)):
        with pytest.raises(ContentDamaged):
            call(first)
    assert store.read(second) == noise(50_000, 2)


def test_two_sound_frames_that_changed_places_are_found(store, put, noise, home):
    """Each frame is whole, but lies in the other one's pack."""
    put(store, noise(1500, 1))
    put(store, noise(1500, 2))
    (one, first), (other, second) = ((path, bytearray(path.read_bytes())) for path in packs_of(home))
    place = slice(packs.HEADER_SIZE, packs.HEADER_SIZE + packs.FRAME_SIZE + 1500)
    first[place], second[place] = second[place], first[place]
    one.write_bytes(first)
    other.write_bytes(second)
    assert codes(store, read_data=False).count("frame-damaged") == 2
    assert codes(store, read_data=True).count("frame-damaged") == 2


def test_a_quick_look_sees_files_and_footers(store, put, noise, home):
    put(store, noise(3000, 1))
    put(store, noise(3000, 2))
    assert list(store.findings(quick=True)) == []
    first, second = packs_of(home)
    first.write_bytes(first.read_bytes()[:-10])
    second.unlink()
    assert sorted(finding.code for finding in store.findings(quick=True)) == ["pack-damaged", "pack-missing"]
