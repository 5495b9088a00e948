"""A whole home on BGE-M3 with random weights, tiny: what the real FlagEmbedding makes goes through every leg."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoryd.config import load_config
from memoryd.digest import sha256_hex
from memoryd.errors import ModelFilesWrong
from memoryd.operations import weights
from memoryd.operations.gateway import add
from memoryd.operations.home import Caller
from memoryd.operations.reranking import rerank
from memoryd.records import Filter
from tests.models.checkpoints import build
from tests.operations.conftest import configure, opened, settle

pytestmark = [pytest.mark.extras, pytest.mark.timeout(600)]
TEXTS = [f"{' '.join(['baba kodo', 'zaizen', 'porto', 'menu lila'][n % 4 :])} number {n}" for n in range(20)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("FlagEmbedding")  # Reason: the extra bge-m3 is not installed
    return build(tmp_path_factory.mktemp("models") / "bge-m3")


def test_random_weights_are_refused_by_verify(folder, root):
    """model.name, model.path"""
    configure(root, model={"path": str(folder), "precision": "fp32", "name": "bge-m3"})
    with pytest.raises(ModelFilesWrong, match="do not tell paraphrases"):
        weights.verified(load_config(root / "config.json"), root, "bge-m3")


def test_case_46_a_home_with_bge_m3_has_a_generation_of_its_own(folder, root):
    """20 passages with the embedded model, then with BGE-M3: another generation, other dimensions, every leg answers;
    model.precision is part of its name."""
    with opened(root) as home:
        for text in TEXTS:
            add(home, Caller(), content=text, type="fact", scope="global", force="alike on purpose")
        settle(home)
        first = home.generation.identity
    configure(root, model={"path": str(folder), "precision": "bf16"})
    with opened(root) as home:
        assert home.host.status()["name"] == "bge-m3-bf16" and "lies whole" in home.host.status()["why"]
        settle(home)
        second = home.generation.identity
        assert (first.dims, first.sparse, second.dims, second.sparse) == (384, False, 32, True)
        assert first.model != second.model == home.host.identity.fingerprint
        asked = home.host.encode_query(TEXTS[7], 120)
        everywhere = Filter(scopes=("global",))
        assert len(home.generation.vectors.search(asked.dense, everywhere, 30)) == 20
        assert len(home.generation.vectors.search_sparse(asked.sparse, everywhere, 30)) == 20
        assert home.generation.lexical.search(TEXTS[7], everywhere, 5)
        sizes = home.cache.sizes(second.model)
        assert sizes["vectors"] >= 20 <= sizes["tokens"]
        passages = [(sha256_hex(text.encode()), text) for text in TEXTS]
        done = rerank(home, TEXTS[7], passages, 60_000)
        assert max(range(20), key=done.scores.__getitem__) == 7
