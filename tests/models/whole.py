"""Folders that look like a checkpoint of BGE-M3 from outside: right for whatever loads none."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path


def look_alike(folder: Path, *, dims: int = 32, pickled: bool = False) -> Path:
    """Every file there and uncut, with next to nothing in it."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "xlm-roberta", "hidden_size": dims}))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "tokenizer_config.json").write_text("{}")
    for name in ("colbert_linear.pt", "sparse_linear.pt", *(["pytorch_model.bin"] if pickled else [])):
        with zipfile.ZipFile(folder / name, "w") as made:
            made.writestr("data", name)
    if not pickled:
        header = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
        (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(16))
    return folder
