"""BGE-M3 with random weights, tiny, run by the real FlagEmbedding in the real child."""

from __future__ import annotations

import array
import math
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.errors import ModelFilesWrong
from memoryd.models import choice
from memoryd.models.host import ModelHost
from tests.models.checkpoints import build, build_reranker

pytestmark = [pytest.mark.extras, pytest.mark.timeout(600)]
NEVER = lambda: False  # noqa: E731
TEXTS = [f"{' '.join(['baba kodo', 'zaizen', 'porto', 'menu lila'][n % 4 :])} number {n}" for n in range(20)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("FlagEmbedding")  # Reason: the extra bge-m3 is not installed
    return build(tmp_path_factory.mktemp("models") / "bge-m3")


@pytest.fixture(scope="module")
def host(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelHost]:
    store = tmp_path_factory.mktemp("store")
    spec = choice.choose("bge-m3", folder, store, precision="fp32")
    made = ModelHost(threads=1, idle_seconds=600, log=store / "model.log", spec=spec, token_vectors=True)
    made.encode_query("ready", 300)
    yield made
    made.close()


def numbers(raw: bytes) -> list[float]:
    return array.array("f", raw).tolist()


def weights_of(raw: bytes) -> dict[int, float]:
    count = len(raw) // 8
    found = struct.unpack(f"<{count}I{count}f", raw)
    return dict(zip(found[:count], found[count:], strict=True))


def test_a_text_becomes_three_things(host):
    one = host.encode_passages(["baba kodo zaizen"], NEVER)[0]
    dense = numbers(one.dense)
    assert len(dense) == 32 and math.isclose(math.fsum(x * x for x in dense), 1.0, abs_tol=1e-4)
    sparse = weights_of(one.sparse)
    assert list(sparse) == sorted(sparse) and min(sparse.values()) > 0 and not {0, 1, 2, 3} & set(sparse)
    assert len(one.tokens) % 32 == 0 and len(one.tokens) > 32
    asked = host.encode_query("baba kodo zaizen", 60)
    assert numbers(asked.dense) == pytest.approx(dense, abs=1e-5) and asked.tokens == b""


def test_a_batch_gives_what_each_text_gives_alone(host):
    together = host.encode_passages(TEXTS, NEVER)
    for text, one in zip(TEXTS[::5], together[::5], strict=True):
        (alone,) = host.encode_passages([text], NEVER)
        assert numbers(alone.dense) == pytest.approx(numbers(one.dense), abs=1e-4)
        assert weights_of(alone.sparse) == pytest.approx(weights_of(one.sparse), abs=1e-4)
        assert len(alone.tokens) == len(one.tokens)


def test_it_is_what_flag_embedding_itself_says(host, folder):
    """The inner module that is called here, against the library's own `encode`."""
    from FlagEmbedding import BGEM3FlagModel

    plain = BGEM3FlagModel(str(folder), use_fp16=False, devices="cpu")
    made = plain.encode(TEXTS[:3], return_dense=True, return_sparse=True, return_colbert_vecs=True)
    for place, one in enumerate(host.encode_passages(TEXTS[:3], NEVER)):
        assert numbers(one.dense) == pytest.approx(made["dense_vecs"][place].tolist(), abs=1e-4)
        theirs = {int(token): float(weight) for token, weight in made["lexical_weights"][place].items()}
        assert weights_of(one.sparse) == pytest.approx(theirs, abs=1e-4)
        assert len(one.tokens) // 32 == len(made["colbert_vecs"][place])


def test_h22_blank_and_endless_texts_pass(host):
    texts = ["", " ", "\ud800", "x" * 200_000, "kodo " * 20_000]
    assert all(one is not None and len(one.dense) == 128 for one in host.encode_passages(texts, NEVER))
    assert host.status()["restarts"] == 0


def test_reranking_by_words_and_by_a_cross_encoder(host, tmp_path):
    done = host.rerank("maxsim", TEXTS[3], [(text, b"") for text in TEXTS[:6]], 60)
    assert max(range(6), key=done.scores.__getitem__) == 3 and done.scores[3] == pytest.approx(1.0, abs=0.01)
    other = host.rerank(f"bge-reranker:{build_reranker(tmp_path / 'r')}", "baba", [(t, b"") for t in TEXTS[:6]], 60)
    assert len(other.scores) == 6 and all(0 < score < 1 for score in other.scores)


@pytest.mark.parametrize("head", ["colbert_linear.pt", "model.safetensors"])
def test_h23_a_file_that_goes_while_it_serves_is_named_and_no_network_is_asked(folder, tmp_path, head):
    """Offline: a missing file is an error, never a download and never a random head."""
    copied = shutil.copytree(folder, tmp_path / "copy")
    spec = choice.choose("bge-m3", copied, tmp_path / "store", precision="fp32")
    (copied / head).unlink()
    host = ModelHost(threads=1, idle_seconds=600, log=None, spec=spec)
    try:
        with pytest.raises(ModelFilesWrong, match=head):
            host.encode_query("one", 300)
    finally:
        host.close()
