"""How good is retrieval on labelled sets, or on a person's own vault?

Any folder in BEIR form works, see `operations.beir`. Everything runs in a temporary home on the product's own road;
only the embedding cache is kept.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from memoryd.digest import document_id, sha256_hex, slug
from memoryd.errors import InvalidInput
from memoryd.operations import indexing, ingest
from memoryd.operations.asking import Asked, Progress, ask_all, told
from memoryd.operations.beir import Item, LabelledSet, read_set
from memoryd.operations.home import Home
from memoryd.operations.ownset import Question, questions
from memoryd.operations.temporary import temporary_home
from memoryd.operations.tuning import THRESHOLDS
from memoryd.records import GLOBAL_SCOPE, ScopeRecord
from memoryd.runtime import VERSION
from memoryd.search.synonyms import NAME as SYNONYMS

SOURCE = "eval"
FILES = ("corpus.jsonl", "queries.jsonl", "qrels.tsv")
OWN = "own"


def evaluate_all(
    folder: Path,
    *,
    cache_path: Path,
    settings: Mapping[str, Any] | None = None,
    ablate: bool = False,
    progress: Progress = lambda _done, _total, _note: None,
) -> dict[str, Any]:
    """A report over one set, or over all sets in the folders below `folder`, with these settings (else the defaults).

    Raises InvalidInput where there is none, or one is malformed; ModelError kinds when the model does not work.
    """
    sets = {}
    for place in sets_in(folder.resolve()):
        sets[place.name] = evaluate(
            place,
            cache_path=cache_path,
            settings=settings,
            ablate=ablate,
            progress=lambda done, total, note, name=place.name: progress(done, total, f"{name}: {note}"),  # type: ignore[misc]
        )
    return _report(sets)


def sets_in(folder: Path) -> list[Path]:
    """The folder itself where it is a set, else those below it that are. Raises InvalidInput where there is none."""
    if (folder / FILES[0]).exists():
        return [folder]
    found = sorted(one for one in folder.iterdir() if all((one / name).exists() for name in FILES[:2]))
    if not found:
        raise InvalidInput(
            f"{folder} holds no set.", next_step="Name a folder with corpus.jsonl, queries.jsonl and qrels.tsv."
        )
    return found


def evaluate(
    folder: Path,
    *,
    cache_path: Path,
    settings: Mapping[str, Any] | None = None,
    ablate: bool = False,
    progress: Progress = lambda _done, _total, _note: None,
) -> dict[str, Any]:
    """Index the set in a temporary home and ask all queries: one set's part of a report (see docs/eval.md).

    Raises InvalidInput when the folder is not in BEIR form, ModelError kinds when the model does not work.
    """
    labelled = read_set(folder)
    with temporary_home(cache_path, settings) as home:
        index_set(home, labelled, progress)
        asked = [
            Asked(
                query.id,
                query.text,
                (scope_of(query),),
                {_document(one): grade for one, grade in labelled.judgements[query.id].items()},
                None if query.self is None else _document(query.self),
                () if query.category is None else (query.category,),
            )
            for query in labelled.queries
        ]
        outcome = ask_all(home, asked, ablate=ablate, progress=progress)
        return {"digest": _digest(folder), **_sizes(home), **told(asked, outcome)}


def evaluate_own(
    root: Path,
    vault: Path,
    *,
    cache_path: Path,
    settings: Mapping[str, Any] | None = None,
    ablate: bool = False,
    progress: Progress = lambda _done, _total, _note: None,
) -> dict[str, Any]:
    """A report over a copy of the vault of the home at `root`; the home itself is only read.

    Raises InvalidInput where the vault answers no question, HomeError kinds, ModelError kinds.
    """
    with temporary_home(cache_path, settings, lay_out=lambda copy: _lay_out(root, vault, copy)) as home:
        _index(home, progress)
        own = questions(home, home.state.recalls.all())
        if not own:
            raise InvalidInput(
                f"The vault {vault} holds no memory in force that could be asked for.",
                next_step="Remember something first, or name a set in BEIR form.",
            )
        asked = [_asked(number, one) for number, one in enumerate(own)]
        outcome = ask_all(home, asked, ablate=ablate, progress=progress)
        digest = sha256_hex("\0".join(sorted(one.text for one in own)).encode("utf-8", "surrogatepass"))
        return _report({OWN: {"digest": digest, **_sizes(home), **told(asked, outcome)}})


def _lay_out(root: Path, vault: Path, copy: Path) -> None:
    shutil.copytree(vault, copy / "vault", symlinks=True)
    for name in (SYNONYMS, THRESHOLDS):
        if (root / name).is_file():
            shutil.copyfile(root / name, copy / name)
    if (root / "state.db").exists():
        with (
            closing(sqlite3.connect(f"{(root / 'state.db').absolute().as_uri()}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(copy / "state.db")) as target,
        ):
            source.backup(target)


def _asked(number: int, one: Question) -> Asked:
    categories = (one.category, *(["recalled"] if one.recalled else []))
    return Asked(str(number), one.text, one.scopes, {one.answer: 1}, None, categories)


def _report(sets: Mapping[str, Any]) -> dict[str, Any]:
    models = {one.pop("model") for one in sets.values()}
    name, fingerprint = next(iter(models))
    return {"version": VERSION, "model": {"name": name, "fingerprint": fingerprint}, "sets": dict(sets)}


def _digest(folder: Path) -> str:
    """What says whether two reports asked the same of the same documents."""
    split = folder / "qrels" / "test.tsv"
    judged = split if split.exists() else folder / FILES[2]
    parts = [sha256_hex(path.read_bytes()) for path in (folder / FILES[0], folder / FILES[1], judged)]
    return sha256_hex("".join(parts).encode())


def _sizes(home: Home) -> dict[str, Any]:
    identity = home.host.identity
    counts = {"documents": home.documents.live_count(), "passages": home.passages.count()}
    return {"model": (identity.name, identity.fingerprint), **counts}


def _document(item: str) -> str:
    return document_id(SOURCE, item.encode())


def scope_id(value: str) -> str:
    """The project scope that stands for one `metadata.scope` value."""
    return f"p-{slug(value, fallback='scope')}-{sha256_hex(value.encode())[:8]}"


def scope_of(item: Item) -> str:
    """Where an item of a set belongs."""
    return GLOBAL_SCOPE if item.scope is None else scope_id(item.scope)


def index_set(home: Home, labelled: LabelledSet, progress: Progress) -> None:
    """Store and index all documents."""
    values = {item.scope for item in (*labelled.documents, *labelled.queries) if item.scope is not None}
    for value in sorted(values):
        ingest.register_scope(home, ScopeRecord(id=scope_id(value), name=value, remote=None, root=None))
    ingest.store_documents(home, (_seen(document) for document in labelled.documents))
    _index(home, progress)


def _index(home: Home, progress: Progress) -> None:
    total = home.documents.live_count()
    while indexing.catch_up(home):
        progress(max(0, total - indexing.pending(home)), total, "indexing")


def _seen(item: Item) -> ingest.Seen:
    text = item.text.encode("utf-8")
    return ingest.Seen(SOURCE, item.id.encode(), scope_of(item), "document", text, title=item.title)
