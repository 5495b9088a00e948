"""Which models are there, are their files and numbers right, and how does one become the model in force?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from memoryd.config import LoadedConfig, parse_config
from memoryd.errors import ConfigError, ModelFilesWrong, ModelUnavailable
from memoryd.files import Files
from memoryd.models import checkpoint, proof
from memoryd.models import pull as hub
from memoryd.models.choice import bge_m3_spec
from memoryd.models.host import ModelHost
from memoryd.models.identity import BGE_M3_KIND, EMBEDDED_KIND, ModelSpec, embedded_spec, locate, verify
from memoryd.operations.home import Caller, Home, chosen_model

NAMES = (EMBEDDED_KIND, BGE_M3_KIND)
WARM_SECONDS = 600.0


def listed(loaded: LoadedConfig, root: Path) -> dict[str, Any]:
    """Each model with what is known of it without reading it whole, and the one in force with the reason."""
    rows = []
    for name in NAMES:
        row: dict[str, Any] = {"name": name, "usable": True, "problem": ""}
        try:
            identity = spec_of(loaded, root, name).identity
            row |= {"model": identity.name, "dims": identity.dims, "language": identity.language}
            row |= {"fingerprint": identity.fingerprint}
        except ModelFilesWrong as error:
            row |= {"usable": False, "problem": error.message, "next_step": error.next_step}
        rows.append(row)
    told: dict[str, Any] = {"models": rows, "configured": loaded.config.model.name}
    try:
        chosen = chosen_model(loaded, root)
    except ModelFilesWrong as error:
        return told | {"in_force": None, "why": error.message}
    return told | {"in_force": chosen.identity.kind, "why": chosen.why}


def spec_of(loaded: LoadedConfig, root: Path, name: str) -> ModelSpec:
    """One model by name. Raises ModelFilesWrong."""
    if name == EMBEDDED_KIND:
        return embedded_spec(files=locate())
    folder, store = loaded.model_folder(root), root / "models"
    return bge_m3_spec(folder, store, loaded.config.model.precision, "it was asked for by name")


def verified(loaded: LoadedConfig, root: Path, name: str) -> dict[str, Any]:
    """Read every byte of its files, load it in a process of its own, and let it tell paraphrases from the unrelated.

    Raises ModelFilesWrong where a file is wrong or the weights separate nothing, ModelUnavailable.
    """
    if name == EMBEDDED_KIND:
        verify(locate())
    else:
        checkpoint.read(loaded.model_folder(root), root / "models" / checkpoint.NOTES, again=True)
    spec = spec_of(loaded, root, name)
    found = _proved(spec, loaded.config.model.threads)
    if not found.holds:
        raise ModelFilesWrong(
            f"The weights of {name} do not tell paraphrases from unrelated sentences: {found.found:.0%} found their"
            f" own, mean cosine {found.paraphrase:.3f} against {found.unrelated:.3f}.",
            next_step="Pull or copy the model again; these are the numbers of another model, or random.",
        )
    told = {"name": name, "model": spec.identity.name, "fingerprint": spec.identity.fingerprint}
    return told | {"dims": spec.identity.dims, **{key: round(value, 4) for key, value in asdict(found).items()}}


def _proved(spec: ModelSpec, threads: int) -> proof.Proof:
    host = ModelHost(threads=threads, idle_seconds=WARM_SECONDS, log=None, spec=spec)

    def embed(texts: Sequence[str]) -> list[bytes]:
        host.encode_query("ready", WARM_SECONDS)
        vectors = host.embed_passages(texts, lambda: False)
        if None in vectors:
            raise ModelUnavailable("The model's process ended over a sentence of the check.")
        return [one for one in vectors if one is not None]

    try:
        return proof.prove(embed)
    finally:
        host.close()


def pull(loaded: LoadedConfig, root: Path) -> dict[str, Any]:
    """Download BGE-M3 into its folder and look at its files. Raises ModelUnavailable, ModelFilesWrong."""
    folder = loaded.model_folder(root)
    hub.pull(folder)
    found = checkpoint.read(folder, root / "models" / checkpoint.NOTES)
    return {"folder": str(folder), "files": dict(found.hashes), "next": "memoryd model use bge-m3"}


def named_in(loaded: LoadedConfig, name: str) -> bytes:
    """The bytes of config.json with `model.name` set. Raises ConfigError."""
    target = loaded.path
    try:
        given = json.loads(target.read_bytes()) if target.exists() else {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{target} cannot be read: {error}.", path=str(target)) from error
    given["model"] = {**given.get("model", {}), "name": name}
    raw = (json.dumps(given, indent=2, ensure_ascii=False) + "\n").encode()
    parse_config(raw, str(target))
    return raw


def write_config(target: Path, raw: bytes) -> None:
    """Replace config.json atomically. Raises ConfigError."""
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        Files().replace(target, raw, owner="config")
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error.strerror}.", path=str(target)) from error


def warm(home: Home, _caller: Caller) -> dict[str, Any]:
    """Load the model of a running daemon and wait for it. Raises ModelUnavailable, ModelFilesWrong."""
    home.host.encode_query("warm", WARM_SECONDS)
    return home.host.status()
