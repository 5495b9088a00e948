"""Which bytes are the stores measured on? Consecutive releases of packages, as their source archives.

They are fetched once with the index that pip is set up for, checked by the hash that the index gives, and kept in a
cache folder; nothing of a package is run.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.request
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin, urlsplit

PACKAGES = {"sqlalchemy": "2.0.", "sphinx": "7."}
"""Package and the beginning of the versions that count; the last ones of them are taken."""
COUNT = 12


@dataclass(frozen=True)
class Release:
    """One release: its name (`package-version`), the unpacked tree and the plain tar of it."""

    name: str
    tree: Path
    tar: Path


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


def releases(cache: Path, packages: dict[str, str] | None = None, count: int = COUNT) -> list[Release]:
    """`count` consecutive final releases of each package, oldest first. Raises RuntimeError where too few exist."""
    found = []
    for package, prefix in (packages or PACKAGES).items():
        links = _source_archives(package, prefix)
        if len(links) < count:
            raise RuntimeError(f"{package} {prefix}* has only {len(links)} source archives")
        found += [_fetched(cache, package, version, links[version]) for version in sorted(links, key=_key)[-count:]]
    return found


def _index() -> str:
    """The index that pip asks: what is configured, else pip's own default."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False
    )
    if done.returncode == 0 and done.stdout.strip():
        return done.stdout.strip().rstrip("/") + "/"
    code = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() + "/"


def _source_archives(package: str, prefix: str) -> dict[str, str]:
    page = urljoin(_index(), f"{package}/")
    with urllib.request.urlopen(page, timeout=60) as answer:
        links = _Links()
        links.feed(answer.read().decode())
    pattern = re.compile(rf"{re.escape(package)}-({re.escape(prefix)}[0-9.]+)\.tar\.gz", re.IGNORECASE)
    found = {}
    for link in links.found:
        matched = pattern.fullmatch(Path(urlsplit(link).path).name)
        if matched:
            found[matched[1]] = urljoin(page, link)
    return found


def _key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _fetched(cache: Path, package: str, version: str, link: str) -> Release:
    name = f"{package}-{version}"
    release = Release(name, cache / "trees" / name, cache / "tars" / f"{name}.tar")
    if release.tree.is_dir() and release.tar.is_file():
        return release
    archive = cache / "archives" / f"{name}.tar.gz"
    archive.parent.mkdir(parents=True, exist_ok=True)
    if not archive.exists():
        _download(link, archive)
    unpacking = cache / "unpacking"
    shutil.rmtree(unpacking, ignore_errors=True)
    with tarfile.open(archive) as packed:
        packed.extractall(unpacking, filter="data")
    (top,) = unpacking.iterdir()
    release.tree.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(release.tree, ignore_errors=True)
    top.rename(release.tree)
    release.tar.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(release.tar, "w") as plain:
        plain.add(release.tree, arcname=package)
    return release


def _download(link: str, archive: Path) -> None:
    plain, _, fragment = link.partition("#")
    with urllib.request.urlopen(plain, timeout=180) as answer:
        data = answer.read()
    name, _, wanted = fragment.partition("=")
    if name in hashlib.algorithms_available and hashlib.new(name, data).hexdigest() != wanted:
        raise RuntimeError(f"{archive.name} is not what the index says")
    archive.write_bytes(data)
