"""Many contents come back as one by one, whatever their form, and what is damaged is told for itself."""

from __future__ import annotations

import random
from pathlib import Path

from memoryd.digest import address_of
from memoryd.errors import ContentDamaged, MemorydError, NotFound


def packs_of(home: Path) -> list[Path]:
    return sorted((home / "store" / "packs").rglob("*.pack"))


def raw(address: str) -> bytes:
    return bytes.fromhex(address.removeprefix("sha256:"))


def joined(parts):
    return parts if isinstance(parts, MemorydError) else b"".join(parts)


def test_small_long_and_empty_contents_come_back_once_each(opened, put):
    noise = random.Random(5)
    contents = [b"", b"one", b"two" * 900, noise.randbytes(400_000), noise.randbytes(90_000)]
    store = opened()
    put(store, *contents[:3])
    put(store, *contents[3:])
    wanted = [raw(address_of(data)) for data in contents]
    found = {one: joined(parts) for one, parts in store.read_many([*wanted, *reversed(wanted)])}
    assert found == dict(zip(wanted, contents, strict=True))
    assert len(list(store.read_many([*wanted, *wanted]))) == len(contents)


def test_contents_come_in_the_order_in_which_they_lie(opened, put):
    store = opened()
    contents = [f"content {number}".encode() for number in range(50)]
    put(store, *contents)
    wanted = [raw(address_of(data)) for data in contents]
    assert [address for address, _data in store.read_many(wanted[::-1])] == wanted


def test_what_is_missing_or_damaged_is_an_error_and_the_rest_comes(opened, put, tmp_path):
    store = opened()
    contents = [b"first" * 50, random.Random(6).randbytes(500_000)]
    put(store, contents[0])
    put(store, contents[1])
    for pack in packs_of(tmp_path / "home"):
        data = bytearray(pack.read_bytes())
        at = data.find(contents[1][250_000:250_020])
        if at > 0:
            data[at] ^= 4
            pack.write_bytes(data)
    absent = raw(address_of(b"never stored"))
    found = {
        one: joined(parts) for one, parts in store.read_many([absent, *(raw(address_of(data)) for data in contents)])
    }
    assert isinstance(found[absent], NotFound)
    assert found[raw(address_of(contents[0]))] == contents[0]
    assert isinstance(found[raw(address_of(contents[1]))], ContentDamaged)
