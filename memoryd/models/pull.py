"""How do BGE-M3's files get here? Only where a person asks for it: nothing else in memoryd downloads anything."""

from __future__ import annotations

from pathlib import Path

from memoryd.errors import ModelFilesWrong, ModelUnavailable, install_extra
from memoryd.models.checkpoint import HEADS, JSON_FILES, PICKLED, SAFETENSORS, required

REPOSITORY = "BAAI/bge-m3"
FILES = (*JSON_FILES, *HEADS, SAFETENSORS, PICKLED)


def pull(folder: Path) -> None:
    """Download what is missing into `folder`, with progress bars on stderr; an interrupted one is gone on with.

    Raises ModelUnavailable: no huggingface_hub, no network, no such place.
    """
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError
    except ImportError as error:
        raise ModelUnavailable(
            "Downloading needs huggingface_hub, which is not installed.",
            next_step=f"{install_extra('bge-m3')}, or copy the folder by hand.",
        ) from error
    try:
        snapshot_download(REPOSITORY, local_dir=folder, allow_patterns=list(FILES))
        required(folder)  # without a network it returns the folder as it is, and says nothing
    except (OSError, HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError, ModelFilesWrong) as error:
        raise ModelUnavailable(
            f"{REPOSITORY} could not be downloaded into {folder}: {str(error)[:500]}",
            next_step="Give the command again: it goes on where it stopped. A folder copied by hand does as well.",
            path=str(folder),
        ) from error
