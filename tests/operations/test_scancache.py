"""Scans read what may have changed, and nothing else; a full scan reads all."""

from __future__ import annotations

import os

import pytest

from memoryd.catalog.statcache import StatCache
from memoryd.operations import scancache
from memoryd.operations.scan import scan_corpora
from memoryd.sources import corpora
from tests.operations.conftest import configure, opened


@pytest.fixture
def docs(tmp_path):
    folder = tmp_path / "docs"
    (folder / "guide" / "deep").mkdir(parents=True)
    for name in ("index.md", "guide/setup.md", "guide/deep/more.md"):
        (folder / name).write_text(f"# {name}\n\nsome words\n")
    return folder


@pytest.fixture
def read(monkeypatch):
    """The paths that scans read; and a clock by which no file was changed a moment ago."""
    paths = []
    plain, now = corpora.read_file, scancache.time.time_ns
    monkeypatch.setattr(scancache.time, "time_ns", lambda: now() + 10_000_000_000)

    def noted(corpus, path, **options):
        paths.append(path)
        return plain(corpus, path, **options)

    monkeypatch.setattr(corpora, "read_file", noted)
    return paths


@pytest.fixture
def home(root, docs):
    configure(root, corpora=[{"label": "docs", "path": str(docs)}])
    with opened(root) as home:
        yield home


def scanned(home, **options):
    report = scan_corpora(home, **options)
    assert report["ok"]
    one = report["corpora"]["docs"]
    return tuple(one[name] for name in ("added", "changed", "unchanged", "removed"))


def test_an_unchanged_corpus_is_not_read_again(home, docs, read):
    assert scanned(home) == (3, 0, 0, 0)
    read.clear()
    assert scanned(home) == (0, 0, 3, 0)
    assert read == []
    (docs / "guide" / "setup.md").write_text("# Other\n")
    assert scanned(home) == (0, 1, 2, 0)
    assert read == [b"guide/setup.md"]


def test_a_full_scan_reads_everything(home, docs, read):
    scanned(home)
    read.clear()
    assert scanned(home, full=True) == (0, 0, 3, 0)
    assert len(read) == 3


def test_case_19_an_edit_that_keeps_size_and_time_is_found(home, docs, read):
    """The inode's time tells even a plain scan of it; where that is forged, too, a full scan reads the file."""
    scanned(home)
    target = docs / "index.md"
    about = target.stat()
    target.write_text(target.read_text().replace("some", "SOME"))
    os.utime(target, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert scanned(home) == (0, 1, 2, 0)
    about = target.stat()
    target.write_text(target.read_text().replace("SOME", "sOmE"))
    forge(home, docs, target)
    assert scanned(home) == (0, 0, 3, 0), "nothing tells of it"
    assert scanned(home, full=True) == (0, 1, 2, 0)
    assert scanned(home) == (0, 0, 3, 0)


def forge(home, docs, target):
    """As if the change had left every time as it was."""
    about = target.stat()
    cache = StatCache(home.root / "stats.db")
    known = cache.folder(b"corpus\0" + os.fsencode(docs) + b"/", docs.stat().st_dev)
    looks = (about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino, about.st_mode)
    known.facts[b"index.md"] = (*looks, known.facts[b"index.md"][5])
    cache.keep([known])
    cache.close()


def test_files_changed_a_moment_ago_are_read_again(home, docs, read, monkeypatch):
    monkeypatch.setattr(scancache.time, "time_ns", lambda: (docs / "index.md").stat().st_mtime_ns)
    scanned(home)
    read.clear()
    scanned(home)
    assert len(read) == 3


def test_what_the_store_lost_is_read_and_stored_again(home, docs, read):
    scanned(home)
    row = home.documents.by_path("docs", b"index.md")
    digest = bytes.fromhex(row.address[7:])
    pack = home.store.chunk_places([digest])[digest][0].pack
    rewrite = home.store.rewrite([pack])
    rows = home.store.survey(pack)
    for address, at, inner, length, whole in rows.chunks:
        if address != digest:
            rewrite.chunk(address, home.store.item(pack, at, inner, length, address), whole=whole)
    for _first, at, _last in rows.records:
        for kind, seq, raw in home.store.record_items(pack, at):
            rewrite.record(kind, seq, raw)
    rewrite.commit()
    read.clear()
    assert scanned(home) == (0, 1, 2, 0)
    assert read == [b"index.md"]
    assert home.store.read(row.address) == (docs / "index.md").read_bytes()
    read.clear()
    assert scanned(home) == (0, 0, 3, 0)
    assert read == []


def test_folders_that_went_are_forgotten(home, docs, read):
    scanned(home)
    place = b"corpus\0" + os.fsencode(docs) + b"/guide/deep"
    cache = StatCache(home.root / "stats.db")
    assert cache.folder(place, docs.stat().st_dev) is not None
    (docs / "guide" / "deep" / "more.md").unlink()
    assert scanned(home) == (0, 0, 2, 1)
    assert cache.folder(place, docs.stat().st_dev) is None
    assert cache.folder(b"corpus\0" + os.fsencode(docs) + b"/guide", docs.stat().st_dev) is not None
    cache.close()


def test_without_a_cache_everything_is_read(home, docs, read):
    (home.root / "stats.db").mkdir()
    assert scanned(home) == (3, 0, 0, 0)
    assert scanned(home) == (0, 0, 3, 0)
    assert len(read) == 6
