"""Files that are replaced as a whole (CURRENT, watermarks, FORMAT, vault files): after a power loss the old or the new."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from memoryd.index.marks import Watermark, read_watermark, write_watermark
from memoryd.sources.folder import Folder
from tests.crash.disk import Disk, Recorder, build

OLD, NEW = b"old words\n" * 90, b"new words, and more of them\n" * 200


class Everything(Recorder):
    """Takes every file as there from the beginning."""

    def begin(self) -> None:
        super().begin()
        self.base = {self._name(path): path.read_bytes() for path in self.root.rglob("*") if path.is_file()}


def replace(files: Recorder, root: Path) -> None:
    files.replace(root / "CURRENT", NEW, owner="generation")


def remove(files: Recorder, root: Path) -> None:
    files.unlink(root / "CURRENT", owner="generation")


def vault_put(files: Recorder, root: Path) -> None:
    Folder(root, files).put(b"CURRENT", NEW)


def vault_put_deep(files: Recorder, root: Path) -> None:
    Folder(root, files).put(b"global/fact/new.md", NEW)


WAYS: dict[str, tuple[Callable[[Recorder, Path], None], str, set[bytes | None], bytes | None]] = {
    "replace": (replace, "CURRENT", {OLD, NEW}, NEW),
    "remove": (remove, "CURRENT", {OLD, None}, None),
    "vault file": (vault_put, "CURRENT", {OLD, NEW}, NEW),
    "vault file in new folders": (vault_put_deep, "global/fact/new.md", {None, NEW}, NEW),
}


@pytest.mark.parametrize("name", WAYS)
def test_old_or_new_and_new_once_it_was_told(name, tmp_path, count):
    work, path, allowed, wanted = WAYS[name]
    (tmp_path / "CURRENT").write_bytes(OLD)
    files = Everything(tmp_path)
    work(files, tmp_path)
    files.mark("told")
    disk, turn, tried = Disk.of(files), random.Random(1), 0
    for op in [*files.log, ("end",)]:
        for state in disk.states(turn):
            found = state.get(path)
            assert found in ({wanted} if disk.told else allowed)
            tried += 1
        disk.play(op)
    assert tried > len(files.log)
    count(f"power loss: states of one file ({name})", tried)


def test_a_watermark_is_the_old_or_the_new(tmp_path, count):
    write_watermark(tmp_path, Watermark(1, 1, "a", 3, 3), Everything(tmp_path))
    files = Everything(tmp_path)
    write_watermark(tmp_path, Watermark(9, 4, "b", 30, 7), files)
    disk, turn, tried = Disk.of(files), random.Random(1), 0
    for op in [*files.log, ("end",)]:
        for number, state in enumerate(disk.states(turn)):
            folder = tmp_path / f"{len(disk.told)}-{tried}-{number}"
            build(state, {"."}, folder)
            assert read_watermark(folder).lexical_seq in (1, 9)
            tried += 1
        disk.play(op)
    count("power loss: states of a watermark", tried)
