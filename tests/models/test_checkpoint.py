"""Behaviour of memoryd.models.checkpoint."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memoryd.errors import ModelFilesWrong
from memoryd.models import checkpoint
from tests.models.whole import look_alike

NAMES = ["config.json", "tokenizer.json", "tokenizer_config.json", "colbert_linear.pt", "sparse_linear.pt"]


@pytest.fixture(autouse=True)
def engine(monkeypatch):
    """The engine's version counts, not the engine."""
    monkeypatch.setattr(checkpoint, "engine_major", lambda: "1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return look_alike(tmp_path / "bge-m3")


def fingerprint(folder: Path, notes: Path, precision: str = "fp32") -> str:
    return checkpoint.identity(checkpoint.read(folder, notes), precision).fingerprint


@pytest.mark.parametrize("pickled", [False, True], ids=["safetensors", "bin"])
def test_a_whole_folder_has_an_identity(tmp_path, pickled):
    folder = look_alike(tmp_path / "other", pickled=pickled)
    found = checkpoint.identity(checkpoint.read(folder, tmp_path / "notes"), "fp32")
    assert (found.kind, found.dims, found.sparse, found.precision) == ("bge-m3", 32, True, "fp32")
    assert len(found.fingerprint) == 64


@pytest.mark.parametrize("name", [*NAMES, "model.safetensors"])
def test_h23_a_missing_file_is_named(folder, tmp_path, name):
    """The engine itself would put random numbers in the place of a missing head."""
    (folder / name).unlink()
    with pytest.raises(ModelFilesWrong, match="is missing") as caught:
        checkpoint.read(folder, tmp_path / "notes")
    assert caught.value.details["path"] == str(folder / name) and "model pull" in caught.value.next_step


@pytest.mark.parametrize("name", [*NAMES, "model.safetensors"])
def test_h23_a_cut_file_is_named(folder, tmp_path, name):
    path = folder / name
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(ModelFilesWrong) as caught:
        checkpoint.read(folder, tmp_path / "notes")
    assert caught.value.details["path"] == str(path)


def test_a_folder_of_another_model_is_refused(folder, tmp_path):
    (folder / "config.json").write_text('{"model_type": "bert", "hidden_size": 32}')
    with pytest.raises(ModelFilesWrong, match="BGE-M3"):
        checkpoint.read(folder, tmp_path / "notes")
    with pytest.raises(ModelFilesWrong, match="is not there"):
        checkpoint.read(tmp_path / "none", tmp_path / "notes")


@pytest.mark.parametrize("name", NAMES)
def test_case_46_a_change_in_any_file_is_another_model(folder, tmp_path, name):
    before = fingerprint(folder, tmp_path / "notes")
    path = folder / name
    path.write_bytes(path.read_bytes() + (b" " if name.endswith("json") else b""))
    if not name.endswith("json"):
        data = bytearray(path.read_bytes())
        data[30] ^= 1
        path.write_bytes(data)
    assert fingerprint(folder, tmp_path / "notes") != before


def test_case_46_precision_and_engine_are_part_of_the_fingerprint(folder, tmp_path, monkeypatch):
    found = {fingerprint(folder, tmp_path / "notes", precision) for precision in ("fp32", "bf16")}
    monkeypatch.setattr(checkpoint, "engine_major", lambda: "2")
    found.add(fingerprint(folder, tmp_path / "notes"))
    monkeypatch.setattr(checkpoint, "MAX_TOKENS", 512)
    found.add(fingerprint(folder, tmp_path / "notes"))
    assert len(found) == 4


def test_a_start_reads_no_file_twice_and_a_verification_every_byte(folder, tmp_path, monkeypatch):
    read: list[str] = []
    plain = checkpoint.file_sha256
    monkeypatch.setattr(checkpoint, "file_sha256", lambda path: (read.append(path.name), plain(path))[1])
    first = checkpoint.read(folder, tmp_path / "notes")
    assert len(read) == 6
    assert checkpoint.read(folder, tmp_path / "notes") == first and len(read) == 6
    os.utime(folder / "tokenizer.json", (1, 1))
    assert checkpoint.read(folder, tmp_path / "notes") == first and read[6:] == ["tokenizer.json"]
    assert checkpoint.read(folder, tmp_path / "notes", again=True) == first and len(read) == 13


def test_notes_that_cannot_be_read_or_written_cost_only_time(folder, tmp_path):
    (tmp_path / "notes").write_text("no json")
    first = checkpoint.read(folder, tmp_path / "notes")
    (tmp_path / "file").write_text("")
    assert checkpoint.read(folder, tmp_path / "file" / "notes") == first


def test_what_lay_there_is_remembered(folder, tmp_path):
    assert checkpoint.remembered(folder, tmp_path / "notes") is None
    found = checkpoint.read(folder, tmp_path / "notes")
    (folder / "colbert_linear.pt").unlink()
    assert checkpoint.remembered(folder, tmp_path / "notes") == found
