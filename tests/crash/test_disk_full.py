"""H38: on a file system that is really full, reads, gc and check work, and after room was made writes go on."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.digest import address_of
from memoryd.errors import DiskFull, MemorydError
from tests.crash.scale import scaled
from tests.crash.stores import noise, open_store, put, text, write_again

SIZE = "24m"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    # A disk that is full for everybody is a mount of its own; the same law is tried by injected ENOSPC without one.
    if os.geteuid() != 0:
        # Reason: only root may mount a disk of its own, and test_nth_error injects ENOSPC into the same calls for anybody.
        pytest.skip(reason="only root may mount; the injected ENOSPC of test_nth_error covers the same calls")
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", place], check=False, capture_output=True, text=True
    )
    if done.returncode:
        # Reason: in a container without CAP_SYS_ADMIN root may not mount either; test_nth_error covers the same calls.
        pytest.skip(reason=f"root may not mount here ({done.stderr.strip()}); injected ENOSPC covers the same calls")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def test_a_full_disk_leaves_reads_gc_and_check_working(small_disk, count):
    turn = random.Random(2)
    rounds = scaled(6, 50)
    for number in range(rounds):
        home = small_disk / f"home-{number}"
        store = open_store(home)
        kept = [text(n) for n in range(30)]
        put(store, kept)
        dead = []
        try:
            while True:
                content = noise(turn.randrange(100_000, 900_000), turn.randrange(1 << 30))
                put(store, [content])
                dead.append(content)
        except DiskFull:
            pass
        filler = small_disk / "filler"
        fill(filler)
        for content in (*kept, *dead):
            assert store.read(address_of(content)) == content
        assert list(store.findings(read_data=True)) == []
        with pytest.raises(MemorydError):
            for n in range(10_000):
                put(store, [noise(300_000, n)])
        store.close()
        store = open_store(home)
        for content in (*kept, *dead):
            assert store.read(address_of(content)) == content
        gone = {digest for content in dead for digest in digests(store, content)}
        write_again(store, without=frozenset(gone))  # what gc does
        assert list(home.glob("store/tmp/*")) == []
        for content in kept:
            assert store.read(address_of(content)) == content
        filler.unlink(missing_ok=True)
        put(store, [b"and it goes on"])
        store.close()
        subprocess.run(["rm", "-rf", home], check=True)
    count("disk full: rounds on a tmpfs of 24 MiB", rounds)


def fill(path: Path) -> None:
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as stream:
        while True:
            stream.write(bytes(4096))


def digests(store, content: bytes) -> list[bytes]:
    return [digest for digest, _length in store.layout(address_of(content))]
