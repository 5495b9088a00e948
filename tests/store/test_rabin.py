"""The Rabin chunker of pyrabin: safe use, and a home that was made with it. Runs where the extra is installed."""

from __future__ import annotations

import os
import sys

import pytest

from memoryd.config import StoreConfig
from memoryd.digest import address_of, sha256_hex
from memoryd.errors import ConfigError, ExtraMissing, FormatUnsupported
from memoryd.store.chunkstore import ChunkStore
from memoryd.store.rabin import RabinChunker

SIZES = StoreConfig(chunker="rabin")


def test_without_the_package_the_error_names_the_extra(tmp_path, opened, monkeypatch):
    monkeypatch.setitem(sys.modules, "rabin", None)
    with pytest.raises(ExtraMissing) as caught:
        opened(tmp_path / "new", sizes=SIZES)
    assert "memoryd[rabin]" in caught.value.next_step
    assert not (tmp_path / "new" / "FORMAT").exists()


def test_a_home_that_was_made_with_it_says_what_to_install(tmp_path, opened, monkeypatch):
    opened(tmp_path / "home").close()
    path = tmp_path / "home" / "FORMAT"
    body = path.read_bytes().rpartition(b"sha256 ")[0].replace(b"chunker fastcdc2020", b"chunker rabin")
    path.write_bytes(body + b"sha256 " + sha256_hex(body).encode() + b"\n")
    monkeypatch.setitem(sys.modules, "rabin", None)
    with pytest.raises(ExtraMissing) as caught:
        opened(tmp_path / "home")
    assert "memoryd[rabin]" in caught.value.next_step


@pytest.mark.parametrize("sizes", [(2048, 3000, 65536), (32, 8192, 65536), (2048, 90_000, 65536)])
def test_sizes_that_the_chunker_cannot_have_are_refused(sizes):
    with pytest.raises(ConfigError, match="rabin"):
        RabinChunker(*sizes)


@pytest.mark.extras
def test_a_home_keeps_the_chunker_that_it_was_made_with(tmp_path, opened, put, prose):
    pytest.importorskip("rabin")  # Reason: the extra rabin is not installed
    text = prose(400_000, 1)
    store = opened(tmp_path / "home", sizes=SIZES)
    [address] = put(store, text)
    store.close()
    assert b"chunker rabin\n" in (tmp_path / "home" / "FORMAT").read_bytes()
    again = opened(tmp_path / "home", sizes=StoreConfig())
    before = again.stats().chunks
    assert again.read(address) == text
    put(again, b"7 bytes" + text)
    assert again.stats().chunks - before < 8  # cut by the home's own chunker, nearly all is shared
    again.close()


@pytest.mark.extras
def test_a_package_that_cuts_elsewhere_is_noticed_at_open(tmp_path, opened, monkeypatch):
    rabin = pytest.importorskip("rabin")  # Reason: the extra rabin is not installed
    opened(tmp_path / "home", sizes=SIZES).close()
    real = rabin.get_file_fingerprints
    monkeypatch.setattr(rabin, "get_file_fingerprints", lambda path: real(path)[1:])
    with pytest.raises(FormatUnsupported, match="sample"):
        opened(tmp_path / "home")


@pytest.mark.extras
def test_two_homes_of_other_sizes_do_not_disturb_each_other(noise):
    pytest.importorskip("rabin")  # Reason: the extra rabin is not installed
    small, large = RabinChunker(1024, 4096, 32768), RabinChunker(4096, 32768, 262144)
    data = noise(600_000, 3)
    first = small.cut(data)
    large.cut(data)
    assert small.cut(data) == first


@pytest.mark.extras
def test_no_descriptor_is_left_open_and_an_empty_file_is_never_handed_over(noise):
    pytest.importorskip("rabin")  # Reason: the extra rabin is not installed
    chunker = RabinChunker(2048, 8192, 65536)
    before = len(os.listdir("/proc/self/fd"))
    for size in (0, 1, 2048, 2049, 50_000) * 20:
        chunker.cut(noise(size, 1))
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.extras
def test_contents_of_every_kind_come_back(tmp_path, opened, put, noise, prose):
    pytest.importorskip("rabin")  # Reason: the extra rabin is not installed
    store: ChunkStore = opened(tmp_path / "home", sizes=SIZES)
    contents = [b"", b"x", noise(100_000, 1), prose(300_000, 2), bytes(300_000), b"ab" * 90_000]
    put(store, *contents)
    assert [store.read(address_of(data)) for data in contents] == contents
    assert list(store.findings(read_data=True)) == []
