"""Where do the weights of a checkpoint lie in bfloat16, so that they can be mapped instead of copied?

Only the child imports this file. Written once, piece by piece, beside the models of the home; named after the SHA-256
of the weights, so another checkpoint never finds them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memoryd.errors import ModelFilesWrong
from memoryd.models.checkpoint import HEADS, JSON_FILES, SAFETENSORS, Checkpoint

ROWS = 4096
"""Rows of a tensor that are converted together: at most a few megabytes."""
CONFIG = "config.json"


def narrowed(found: Checkpoint, store: Path) -> Path:
    """A folder with the same model in bfloat16. Raises ModelFilesWrong where it cannot be written."""
    place = store / "converted" / f"{found.hashes[found.weights][:32]}-bf16"
    if (place / SAFETENSORS).is_file():
        return place
    begun = place.with_name(f".{place.name}.tmp")
    try:
        shutil.rmtree(begun, ignore_errors=True)
        begun.mkdir(parents=True)
        _write(found, begun)
        for other in place.parent.iterdir():
            if other != begun:
                shutil.rmtree(other, ignore_errors=True)  # of another checkpoint; who still maps it keeps its pages
        begun.rename(place)
    except OSError as error:
        raise ModelFilesWrong(
            f"The weights cannot be written in bfloat16 below {store}: {error.strerror}.",
            next_step="Make about 1.2 GB free there, or set `model.precision` to `fp32`.",
            path=str(store),
        ) from error
    return place


def _write(found: Checkpoint, target: Path) -> None:
    for name in (*JSON_FILES[1:], *HEADS):
        shutil.copyfile(found.folder / name, target / name)
    config = json.loads((found.folder / CONFIG).read_bytes())
    config.pop("torch_dtype", None)
    (target / CONFIG).write_text(json.dumps({**config, "dtype": "bfloat16"}))
    tensors = _tensors(found.folder / found.weights)
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in tensors.items():
        begin, end = end, end + tensor.numel() * 2
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [begin, end]}
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    with (target / SAFETENSORS).open("wb") as stream:
        stream.write(len(raw).to_bytes(8, "little") + raw)
        for tensor in tensors.values():
            for piece in _pieces(tensor):
                stream.write(piece)
        stream.flush()
        os.fsync(stream.fileno())  # after a power cut the name must not stand for half of it


def _tensors(path: Path) -> dict[str, Any]:
    """The floating tensors, as pages of the file."""
    import torch

    if path.name == SAFETENSORS:
        from safetensors import safe_open

        with safe_open(path, framework="pt") as opened:
            found = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - it is no dictionary
    else:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    return {name: tensor for name, tensor in found.items() if tensor.is_floating_point()}


def _pieces(tensor: Any) -> Iterator[bytes]:
    import torch

    rows = tensor.reshape(-1, tensor.shape[-1] if tensor.dim() else 1)
    for start in range(0, rows.shape[0], ROWS):
        piece = rows[start : start + ROWS].to(torch.bfloat16).contiguous()
        yield piece.view(torch.int16).numpy().tobytes()
