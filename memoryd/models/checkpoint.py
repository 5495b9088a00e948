"""Is a folder a whole checkpoint of BGE-M3, and which one?

A head file that is missing would be replaced by random numbers in silence, so every file is looked at before anything
is loaded: it is there, it is not cut, and its SHA-256 goes into the model's fingerprint. Hashes are kept by the file's
status (size, times, inode), so that a start does not read two gigabytes again.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memoryd.errors import ModelFilesWrong, install_extra
from memoryd.files import Files
from memoryd.models.identity import BGE_M3_KIND, ModelIdentity, file_sha256, fingerprint_of

SAFETENSORS, PICKLED = "model.safetensors", "pytorch_model.bin"
WEIGHTS = (SAFETENSORS, PICKLED)
"""One of them; where both are there, the first one counts."""
JSON_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json")
HEADS = ("colbert_linear.pt", "sparse_linear.pt")
MAX_TOKENS = 1024
"""A passage has at most 200 words: about 400 tokens of prose, more of code."""
MAX_CHARACTERS = 32_768
POOLING = "cls"
ENGINE = "FlagEmbedding"
NOTES = "hashes.json"
"""The file beside the models in which hashes are kept."""
NEXT_STEP = "Run `memoryd model pull bge-m3`, or copy the folder again, then `memoryd model verify`."
_STATUS = ("st_size", "st_mtime_ns", "st_ctime_ns", "st_ino")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder with everything in it; `hashes` by file name, `weights` names the file that counts."""

    folder: Path
    dims: int
    weights: str
    hashes: Mapping[str, str]


def wrong(path: Path, why: str) -> ModelFilesWrong:
    """A file of a checkpoint that cannot be used."""
    return ModelFilesWrong(f"{path} {why}.", next_step=NEXT_STEP, path=str(path))


def read(folder: Path, notes: Path, *, again: bool = False) -> Checkpoint:
    """What lies in `folder`; hashes are kept in the file `notes`, `again` reads every byte nevertheless.

    Raises ModelFilesWrong naming the file that is missing, cut or no part of such a model.
    """
    names = required(folder)
    config = _config(folder / "config.json")
    known = {} if again else _notes(notes).get(str(folder), {}).get("files", {})
    found: dict[str, list[Any]] = {name: [*_status(folder / name), ""] for name in names}
    for name, entry in found.items():
        held = known.get(name)
        entry[-1] = held[-1] if held and held[:-1] == entry[:-1] else file_sha256(folder / name)
    if found != known:
        _keep(notes, str(folder), {"dims": config["hidden_size"], "files": found})
    return Checkpoint(folder, config["hidden_size"], names[0], {name: entry[-1] for name, entry in found.items()})


def remembered(folder: Path, notes: Path) -> Checkpoint | None:
    """What lay in `folder` when it was read last, None where nobody did."""
    noted = _notes(notes).get(str(folder), {})
    files, dims = noted.get("files"), noted.get("dims")
    if not isinstance(files, dict) or not isinstance(dims, int) or not files:
        return None
    return Checkpoint(folder, dims, next(iter(files)), {name: str(entry[-1]) for name, entry in files.items()})


def required(folder: Path) -> list[str]:
    """The names of the checkpoint's files, weights first, each there and not cut. Raises ModelFilesWrong."""
    if not folder.is_dir():
        raise wrong(folder, "is not there")
    weights = next((name for name in WEIGHTS if (folder / name).is_file()), None)
    if weights is None:
        raise wrong(folder / SAFETENSORS, f"is missing (and so is {PICKLED})")
    for name in (*JSON_FILES, *HEADS):
        if not (folder / name).is_file():
            raise wrong(folder / name, "is missing")
    for name in (weights, *HEADS):
        _require_uncut(folder / name)
    for name in JSON_FILES:
        _json(folder / name)
    return [weights, *JSON_FILES, *HEADS]


def identity(checkpoint: Checkpoint, precision: str) -> ModelIdentity:
    """What makes vectors of this checkpoint comparable."""
    parts = {
        "files": dict(checkpoint.hashes),
        "precision": precision,
        "max_tokens": MAX_TOKENS,
        "max_characters": MAX_CHARACTERS,
        "pooling": POOLING,
        "engine": f"{ENGINE} {engine_major()}",
    }
    return ModelIdentity(
        name=f"bge-m3-{precision}",
        fingerprint=fingerprint_of(parts),
        dims=checkpoint.dims,
        max_tokens=MAX_TOKENS,
        max_characters=MAX_CHARACTERS,
        language="multilingual",
        kind=BGE_M3_KIND,
        precision=precision,
        sparse=True,
    )


def engine_major() -> str:
    """Major version of the installed engine. Raises ModelFilesWrong where there is none."""
    try:
        return importlib.metadata.version(ENGINE).split(".")[0]
    except importlib.metadata.PackageNotFoundError as error:
        raise ModelFilesWrong(
            f"The model bge-m3 needs {ENGINE}, which is not installed.",
            next_step=f"{install_extra('bge-m3')}.",
        ) from error


def _config(path: Path) -> dict[str, Any]:
    config = _json(path)
    if config.get("model_type") != "xlm-roberta" or not isinstance(config.get("hidden_size"), int):
        raise wrong(path, "is not that of BGE-M3 (an xlm-roberta with a hidden_size)")
    return config


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise wrong(path, f"cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise wrong(path, "holds no object")
    return value


def _require_uncut(path: Path) -> None:
    """A file whose copy or download ended early shows that at its end."""
    try:
        whole = _safetensors_whole(path) if path.name == SAFETENSORS else zipfile.is_zipfile(path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise wrong(path, f"cannot be read: {error}") from error
    if not whole:
        raise wrong(path, "is cut or is no file of weights")


def _safetensors_whole(path: Path) -> bool:
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        length = int.from_bytes(stream.read(8), "little")
        if not 0 < length <= size - 8:
            return False
        tensors = json.loads(stream.read(length))
    ends = [entry["data_offsets"][1] for name, entry in tensors.items() if name != "__metadata__"]
    return bool(ends) and max(ends) == size - 8 - length


def _status(path: Path) -> list[int]:
    status = path.stat()
    return [getattr(status, name) for name in _STATUS]


def _notes(path: Path) -> dict[str, Any]:
    try:
        noted = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}


def _keep(path: Path, folder: str, found: Mapping[str, Any]) -> None:
    """Only a saving of time: where it cannot be written, the next start reads the files again."""
    data = json.dumps({**_notes(path), folder: found}, indent=1).encode()
    files = Files()
    try:
        files.mkdir(path.parent, owner="model")
        files.replace(path, data, owner="model")
    except OSError:
        return
