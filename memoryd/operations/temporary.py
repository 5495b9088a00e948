"""Where does a measurement run, so that nobody's memories are touched? In a home that is gone afterwards."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memoryd.config import LoadedConfig
from memoryd.errors import HomeError
from memoryd.operations.home import Home, open_home
from memoryd.operations.owner import own_home
from memoryd.operations.recover import recover


def measured_as(loaded: LoadedConfig, root: Path) -> dict[str, Any]:
    """The settings of the home at `root` that decide what a search finds. Raises ConfigError."""
    model = loaded.config.model.model_dump()
    places = {"path": str(loaded.model_folder(root)), "reranker_path": str(loaded.reranker_folder(root))}
    return {"model": model | places, "search": loaded.config.search.model_dump()}


@contextmanager
def temporary_home(
    cache_path: Path, settings: Mapping[str, Any] | None = None, *, lay_out: Callable[[Path], None] = lambda _root: None
) -> Iterator[Home]:
    """A new home with these settings, ready to serve; only its embedding cache, at `cache_path`, is kept.

    `lay_out` may put files into it before it is opened. Raises HomeError, ConfigError and what `open_home` raises.
    """
    try:
        cache_path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HomeError(f"{cache_path.parent} cannot be made: {error.strerror}.", path=str(cache_path)) from error
    with tempfile.TemporaryDirectory(prefix="memoryd-eval-") as temporary:
        root = Path(temporary) / "home"
        lock = own_home(root)
        try:
            (root / "config.json").write_text(json.dumps(dict(settings or {})))
            lay_out(root)
            home = open_home(root, environment={}, cache_path=cache_path)
            try:
                recover(home)
                yield home
            finally:
                home.close()
        finally:
            lock.release()
