"""How does BGE-M3 turn texts into dense, sparse and token vectors?

Only the child imports this file. FlagEmbedding loads the model; its inner module is called and never its `encode`,
which runs the first batch twice and hides errors. float32 weights stay file pages that the kernel may drop. bfloat16
would be a private copy of them, so the weights are written once in that precision and mapped from there.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy

from memoryd.errors import ModelFilesWrong
from memoryd.models import checkpoint
from memoryd.models.maxsim import Matrix, pack, unit
from memoryd.models.narrow import narrowed
from memoryd.records import Encoded

CPU_BATCH_TOKENS = 512
"""What a query may have to wait for: about half a second on two cores."""
GPU_BATCH_TOKENS = 16_384


class BgeM3Model:
    """BGE-M3 with its three outputs. One thread at a time may use it."""

    def __init__(self, engine: Any, fingerprint: str, device: str) -> None:
        self.fingerprint = fingerprint
        self.device = device
        self.batch_tokens = CPU_BATCH_TOKENS if device == "cpu" else GPU_BATCH_TOKENS
        self._tokenizer = engine.tokenizer
        self._inner = engine.model.to(device).eval()
        self.dims = int(self._inner.config.hidden_size)
        ids = self._tokenizer
        self._unused = {ids.cls_token_id, ids.eos_token_id, ids.pad_token_id, ids.unk_token_id}

    @classmethod
    def load(cls, folder: Path, store: Path, precision: str, *, threads: int) -> BgeM3Model:
        """Look at every file, then load. Raises ModelFilesWrong naming the file."""
        found = checkpoint.read(folder, store / checkpoint.NOTES)
        told = checkpoint.identity(found, precision)
        os.environ["HF_HUB_OFFLINE"] = "1"
        os.environ["TRANSFORMERS_OFFLINE"] = "1"
        import torch
        from FlagEmbedding import BGEM3FlagModel

        torch.set_num_threads(threads)
        bf16 = precision == "bf16"
        place = narrowed(found, store) if bf16 else folder
        try:
            engine = BGEM3FlagModel(str(place), use_fp16=False, use_bf16=bf16, devices="cpu")
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            raise ModelFilesWrong(
                f"BGE-M3 in {folder} cannot be loaded: {str(error)[:500]}.",
                next_step=checkpoint.NEXT_STEP,
                path=str(folder),
            ) from error
        return cls(engine, told.fingerprint, _device(torch))

    def embed(self, text: str) -> bytes:
        """The dense vector of one text."""
        return self.encode([text], tokens=False)[0].dense

    def encode(self, texts: Sequence[str], *, tokens: bool) -> list[Encoded]:
        """One forward over all texts; what is beyond the model's limits does not count."""
        import torch

        inputs = self._tokenizer(
            [text[: checkpoint.MAX_CHARACTERS] for text in texts],
            padding=True,
            truncation=True,
            max_length=checkpoint.MAX_TOKENS,
            return_tensors="pt",
        ).to(self.device)
        with torch.inference_mode():
            made = self._inner(inputs, return_dense=True, return_sparse=True, return_colbert_vecs=tokens)
        dense = unit(_numbers(made["dense_vecs"]))
        weights = _numbers(made["sparse_vecs"])
        ids = inputs["input_ids"].cpu().numpy()
        lengths = inputs["attention_mask"].sum(dim=1).tolist()
        vectors = _numbers(made["colbert_vecs"]) if tokens else None
        return [
            Encoded(
                bytes(dense[place].astype("<f4").tobytes()),
                self._sparse(ids[place][:length], weights[place][:length].reshape(-1)),
                pack(vectors[place][: length - 1]) if vectors is not None else b"",
            )
            for place, length in enumerate(lengths)
        ]

    def _sparse(self, ids: numpy.typing.NDArray[Any], weights: Matrix) -> bytes:
        """The largest weight of each token, in the form of `index.packed`."""
        found: dict[int, float] = {}
        for token, weight in zip(ids.tolist(), weights.tolist(), strict=True):
            if weight > 0 and token not in self._unused:
                found[token] = max(weight, found.get(token, 0.0))
        order = sorted(found)
        kept = numpy.array([found[token] for token in order], dtype="<f4")
        return bytes(numpy.array(order, dtype="<u4").tobytes() + kept.tobytes())


def _numbers(tensor: Any) -> Matrix:
    return numpy.asarray(tensor.float().cpu().numpy(), dtype=numpy.float32)


def _device(torch: Any) -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
