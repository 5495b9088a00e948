"""Is everything that memoryd promised still there and whole?

Store, catalog, vault and indexes are compared with each other; nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from memoryd.errors import VaultError
from memoryd.operations import indexing
from memoryd.operations.answers import source_of
from memoryd.operations.home import Home
from memoryd.records import VAULT_SOURCE, Finding, shown_path

Progress = Callable[[int, int, str], None]


def check(
    home: Home,
    *,
    read_data: bool = False,
    progress: Progress = lambda _done, _total, _note: None,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """All findings; `read_data` reads and hashes every stored byte. `clean` is True when there are none."""
    findings: list[Finding] = []
    parts: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
        ("store", lambda: home.store.findings(read_data=read_data)),
        ("catalog", lambda: _catalog(home)),
        ("vault", lambda: _vault(home)),
        ("index", lambda: _index(home)),
    )
    for number, (name, part) in enumerate(parts):
        if stop():
            break
        progress(number, len(parts), name)
        findings += part()
    progress(len(parts), len(parts), "done")
    return {
        "clean": not findings,
        "read_data": read_data,
        "findings": [
            {"code": f.code, "where": f.where, "message": f.message, "remedy": f.remedy, **f.details} for f in findings
        ],
    }


def _catalog(home: Home) -> Iterator[Finding]:
    for source in home.documents.sources():
        for row in home.documents.current(source):
            if row.address is not None and home.store.size(row.address) is None:
                yield Finding(
                    "content-missing",
                    source_of(row),
                    f"The catalog names {row.address}, which no pack holds.",
                    "Scan the corpus or touch the file: content that still exists heals.",
                )


def _vault(home: Home) -> Iterator[Finding]:
    try:
        home.vault.git.run(["fsck", "--no-dangling", "--no-progress"])
    except VaultError as error:
        yield Finding(error.code, str(home.vault.path), error.message, error.next_step)
    for row in home.documents.with_problems(VAULT_SOURCE):
        yield Finding("vault-file-invalid", shown_path(row.path), row.problem or "", "Correct the named line by hand.")
    for identity in home.memories.duplicates():
        yield Finding("duplicate-id", identity, "More than one file holds this id.", "Remove or renumber the copy.")


def _index(home: Home) -> Iterator[Finding]:
    generation = home.generation
    if generation is None:
        yield Finding("index-missing", str(home.root / "indexes"), "No generation is open.", "Run `memoryd rebuild`.")
        return
    for problem in indexing.verify(home, generation):
        yield Finding(problem.code, str(generation.path), problem.message, problem.next_step)
