"""Behaviour of memoryd.models.embedded, with the real weights."""

from __future__ import annotations

import array
import math
import os

import numpy
import onnxruntime
import pytest
from tokenizers import Tokenizer

from memoryd.errors import ModelFilesWrong
from memoryd.models import embedded
from memoryd.models.embedded import EmbeddedModel
from memoryd.models.identity import EMBEDDED, ModelFiles, locate
from tests.models.conftest import run_python


@pytest.fixture(scope="module")
def model() -> EmbeddedModel:
    return EmbeddedModel.load(locate(), threads=1)


def vector(model: EmbeddedModel, text: str) -> list[float]:
    return array.array("f", model.embed(text)).tolist()


def cosine(one: list[float], two: list[float]) -> float:
    return math.fsum(a * b for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize(
    "text", ["a", "The quick brown fox", "word " * 3000, "\x00", "日本語", "", "\ud83d\ude00 \u200d"]
)
def test_every_text_gives_one_unit_vector(model, text):
    made = vector(model, text.encode("utf-8", "replace").decode())
    assert len(made) == EMBEDDED.dims
    assert math.isclose(math.sqrt(cosine(made, made)), 1.0, abs_tol=1e-5)


def test_near_in_meaning_is_near(model):
    query = vector(model, "How do I bring my data back after the disk died?")
    near = vector(model, "Restoring from a backup when a drive has failed")
    far = vector(model, "The recipe needs two eggs and a cup of flour")
    assert cosine(query, near) > 0.4 > cosine(query, far) + 0.2


def test_a_vector_does_not_depend_on_what_came_before(model):
    alone = model.embed("one text")
    model.embed("something much longer " * 40)
    assert model.embed("one text") == alone


def test_h22_words_beyond_256_tokens_do_not_count_and_cost_nothing(model):
    """The tokenizer's file itself says 128: a difference between words 130 and 250 must show."""
    words = [f"number {n}" for n in range(124)]
    base = " ".join(words)
    assert model.embed(base + " cat " * 20) != model.embed(base)
    long = "word " * 254
    assert model.embed(long) == model.embed(long + "tail " * 5000)
    words[80] = "volcano eruption"
    assert model.embed(" ".join(words)) != model.embed(base)


def test_pooling_is_the_mean_over_the_tokens_then_unit_length(model):
    """Against the written definition, computed here from the engine's own output with padding and its mask."""
    files = locate()
    tokenizer = Tokenizer.from_file(str(files.tokenizer))
    tokenizer.enable_truncation(max_length=256)
    tokenizer.enable_padding(length=32)
    encoded = tokenizer.encode("Padding must not change the mean.")
    session = onnxruntime.InferenceSession(str(files.weights), providers=["CPUExecutionProvider"])
    mask = numpy.array([encoded.attention_mask], dtype=numpy.int64)
    (hidden,) = session.run(
        None,
        {
            "input_ids": numpy.array([encoded.ids], dtype=numpy.int64),
            "attention_mask": mask,
            "token_type_ids": numpy.array([encoded.type_ids], dtype=numpy.int64),
        },
    )
    mean = hidden[0][mask[0] == 1].mean(axis=0)
    expected = (mean / numpy.linalg.norm(mean)).tolist()
    assert cosine(vector(model, "Padding must not change the mean."), expected) > 0.999


def test_h23_wrong_files_are_refused_before_the_engine_sees_them(tmp_path):
    wrong = ModelFiles(tmp_path / "model.onnx", locate().tokenizer)
    wrong.weights.write_bytes(b"not a model")
    with pytest.raises(ModelFilesWrong, match="model.onnx"):
        EmbeddedModel.load(wrong, threads=1)


def test_case_46_another_major_version_of_the_engine_is_refused(monkeypatch):
    monkeypatch.setattr(embedded.onnxruntime, "__version__", "2.0.1")
    with pytest.raises(ModelFilesWrong, match=r"onnxruntime 2\.0\.1"):
        EmbeddedModel.load(locate(), threads=1)


def test_case_54_loading_and_embedding_print_nothing(tmp_path):
    code = (
        "from memoryd.models.embedded import EmbeddedModel; from memoryd.models.identity import locate;"
        "EmbeddedModel.load(locate(), threads=1).embed('text')"
    )
    assert run_python(code, cwd=tmp_path).stdout == ""


NETWORK_REFUSED = """
import os, sys
from pathlib import Path

def refuse(event, args):
    if event.startswith("socket."):
        raise RuntimeError(event)

sys.addaudithook(refuse)
from memoryd.models.embedded import EmbeddedModel
from memoryd.models.identity import locate

EmbeddedModel.load(locate(), threads=1).embed("text")
held = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
print([name for name in held if name.startswith("socket")])
"""


@pytest.mark.parametrize("offline", ["", "1"])
def test_h23_the_model_asks_no_network(tmp_path, offline):
    """Every attempt of Python code would raise; what the engine's own code opened would show as a descriptor."""
    environment = {"PATH": os.environ["PATH"], "HF_HUB_OFFLINE": offline, "HTTPS_PROXY": "http://127.0.0.1:1"}
    assert run_python(NETWORK_REFUSED, cwd=tmp_path, env=environment).stdout == "[]\n"
