"""How does a cross-encoder (bge-reranker) score passages against a query?

Only the child imports this file. FlagReranker loads it; its inner module is called, a few pairs at a time, so that the
time allowed can be kept.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memoryd.errors import ModelFilesWrong

MAX_TOKENS = 512
PAIRS = 4
NEEDED = ("config.json", "tokenizer.json", "tokenizer_config.json")


class Reranker:
    """One loaded cross-encoder. One thread at a time may use it."""

    def __init__(self, folder: Path, *, threads: int) -> None:
        """Raises ModelFilesWrong where the folder holds none."""
        for name in NEEDED:
            if not (folder / name).is_file():
                raise ModelFilesWrong(
                    f"{folder / name} is missing: {folder} holds no reranker.",
                    next_step="Copy the folder of bge-reranker-v2-m3 there, or set `search.reranker` to `maxsim`.",
                    path=str(folder / name),
                )
        os.environ["HF_HUB_OFFLINE"] = "1"
        import torch
        from FlagEmbedding import FlagReranker

        torch.set_num_threads(threads)
        engine: Any = FlagReranker(str(folder), use_fp16=False, devices="cpu")
        self._tokenizer = engine.tokenizer
        self._inner = engine.model.eval()

    def score(self, query: str, texts: Sequence[str], until: float) -> list[float] | None:
        """0 to 1 for each text; None where `until` (of time.monotonic) came first."""
        import torch

        scores: list[float] = []
        for start in range(0, len(texts), PAIRS):
            if time.monotonic() > until:
                return None
            part = list(texts[start : start + PAIRS])
            inputs = self._tokenizer(
                [query] * len(part),
                part,
                padding=True,
                truncation="only_second",
                max_length=MAX_TOKENS,
                return_tensors="pt",
            )
            with torch.inference_mode():
                logits = self._inner(**inputs).logits.view(-1).float()
            scores += torch.sigmoid(logits).tolist()
        return scores
