"""Behaviour of memoryd.models.choice."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoryd.errors import ModelFilesWrong
from memoryd.models import checkpoint, choice
from memoryd.models.choice import best_precision, choose, reranker_for
from memoryd.models.identity import EMBEDDED
from tests.models.whole import look_alike


@pytest.fixture
def engine(monkeypatch):
    """As if the extra was installed."""
    monkeypatch.setattr(checkpoint, "engine_major", lambda: "1")
    monkeypatch.setattr(choice, "ENGINE_MODULES", ())


def test_auto_takes_bge_m3_where_it_is_whole_and_says_why(tmp_path, engine):
    folder, store = tmp_path / "bge-m3", tmp_path / "models"
    assert choose("auto", folder, store).identity == EMBEDDED
    assert str(folder) in choose("auto", folder, store).why
    look_alike(folder)
    taken = choose("auto", folder, store, precision="fp32")
    assert taken.identity.kind == "bge-m3" and "lies whole" in taken.why
    (folder / "sparse_linear.pt").unlink()
    back = choose("auto", folder, store)
    assert back.identity == EMBEDDED and "sparse_linear.pt is missing" in back.why


def test_auto_without_the_extra_is_the_embedded_model_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(choice, "ENGINE_MODULES", ("no_such_engine",))
    spec = choose("auto", look_alike(tmp_path / "bge-m3"), tmp_path)
    assert spec.identity == EMBEDDED and "no_such_engine" in spec.why


def test_a_name_decides(tmp_path, engine):
    folder = look_alike(tmp_path / "bge-m3")
    assert choose("embedded", folder, tmp_path).identity == EMBEDDED
    assert choose("bge-m3", folder, tmp_path).identity.kind == "bge-m3"
    with pytest.raises(ModelFilesWrong):
        choose("bge-m3", tmp_path / "none", tmp_path)


def test_case_46_a_named_model_that_is_gone_for_now_is_not_replaced_by_another(tmp_path, engine):
    """A disk that is not mounted must not cost a new generation."""
    folder = look_alike(tmp_path / "bge-m3")
    before = choose("bge-m3", folder, tmp_path / "models").identity
    (folder / "model.safetensors").unlink()
    assert choose("bge-m3", folder, tmp_path / "models").identity == before


@pytest.mark.parametrize("flags", ["avx512f avx512_bf16 sse", "amx_bf16", "asimd bf16"])
def test_bf16_is_taken_where_the_processor_computes_with_it(tmp_path, flags):
    (tmp_path / "cpuinfo").write_text(f"flags\t\t: fpu {flags}\n")
    assert best_precision(tmp_path / "cpuinfo") == "bf16"


def test_elsewhere_it_is_fp32(tmp_path):
    (tmp_path / "cpuinfo").write_text("flags : fpu avx2 avx512f\n")
    assert best_precision(tmp_path / "cpuinfo") == "fp32"
    assert best_precision(tmp_path / "none") == "fp32"


def test_precision_can_be_set(tmp_path, engine):
    folder = look_alike(tmp_path / "bge-m3")
    made = [choose("bge-m3", folder, Path(tmp_path), precision=one).identity for one in ("fp32", "bf16")]
    assert [one.precision for one in made] == ["fp32", "bf16"] and made[0].fingerprint != made[1].fingerprint


def test_the_reranker_is_chosen_by_name_and_by_model(tmp_path, engine):
    bge = choose("bge-m3", look_alike(tmp_path / "bge-m3"), tmp_path).identity
    assert (reranker_for("auto", bge), reranker_for("auto", EMBEDDED)) == ("maxsim", None)
    assert reranker_for("maxsim", EMBEDDED) == "maxsim" and reranker_for("off", bge) is None
    assert reranker_for("bge-reranker", EMBEDDED) == "bge-reranker"
