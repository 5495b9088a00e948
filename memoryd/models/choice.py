"""Which model serves a home, with which precision, and why?

Light: nothing of an engine is imported here. `auto` means BGE-M3 where its files are whole and its engine is
installed, else the embedded model.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Literal

from memoryd.errors import ModelFilesWrong, install_extra
from memoryd.models import checkpoint
from memoryd.models.identity import BGE_M3_KIND, EMBEDDED_KIND, ModelIdentity, ModelSpec, embedded_spec

Name = Literal["auto", "embedded", "bge-m3"]
Precision = Literal["auto", "fp32", "bf16"]
MAXSIM, CROSS_ENCODER = "maxsim", "bge-reranker"
ENGINE_MODULES = ("FlagEmbedding", "torch")
_BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""What x86 and ARM kernels call the instructions that make bfloat16 faster than float32."""
_CPU = Path("/proc/cpuinfo")


def choose(name: Name, folder: Path, store: Path, *, precision: Precision = "auto") -> ModelSpec:
    """The model of a configuration: `folder` holds BGE-M3, `store` what is kept about models (hashes, converted files).

    Where bge-m3 is named, was whole once and is not any more, it stays the one: nothing is built for another model,
    and loading it says what is wrong. Raises ModelFilesWrong where it never was, or its engine is not installed.
    """
    if name == EMBEDDED_KIND:
        return embedded_spec("model.name is `embedded`")
    if name == BGE_M3_KIND:
        return bge_m3_spec(folder, store, precision, "model.name is `bge-m3`", lasting=True)
    if not folder.is_dir():
        return embedded_spec(f"model.name is `auto` and there is no BGE-M3 in {folder}")
    try:
        return bge_m3_spec(folder, store, precision, f"model.name is `auto` and BGE-M3 lies whole in {folder}")
    except ModelFilesWrong as error:
        return embedded_spec(f"model.name is `auto` and BGE-M3 cannot be used: {error.message}")


def bge_m3_spec(folder: Path, store: Path, precision: Precision, why: str, *, lasting: bool = False) -> ModelSpec:
    """BGE-M3 in this folder (`lasting`: or as it was when last read). Raises ModelFilesWrong naming what is missing."""
    if missing := [name for name in ENGINE_MODULES if importlib.util.find_spec(name) is None]:
        raise ModelFilesWrong(
            f"The model bge-m3 needs {' and '.join(missing)}, not installed here.",
            next_step=f"{install_extra('bge-m3')}.",
        )
    numbers = best_precision() if precision == "auto" else precision
    try:
        found = checkpoint.read(folder, store / checkpoint.NOTES)
    except ModelFilesWrong:
        remembered = checkpoint.remembered(folder, store / checkpoint.NOTES) if lasting else None
        if remembered is None:
            raise
        found = remembered
    load = {"model": BGE_M3_KIND, "folder": str(folder), "store": str(store), "precision": numbers}
    return ModelSpec(checkpoint.identity(found, numbers), load, why)


def reranker_for(named: str, identity: ModelIdentity) -> str | None:
    """MAXSIM, CROSS_ENCODER or None, for what `search.reranker` says."""
    if named == "auto":
        return MAXSIM if identity.kind == BGE_M3_KIND else None
    return None if named == "off" else named


def best_precision(cpu: Path = _CPU) -> Literal["fp32", "bf16"]:
    """bf16 where this machine's processor computes with it (three times faster there, slower elsewhere)."""
    try:
        flags = set(cpu.read_text().split())
    except OSError:
        return "fp32"
    return "bf16" if flags & _BF16_FLAGS else "fp32"
