"""What does a labelled set in BEIR form hold, and where is it malformed?

corpus.jsonl and queries.jsonl hold `_id`, `text`, optionally `title` and `metadata`; qrels.tsv (or qrels/test.tsv)
query, document, grade.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memoryd.errors import InvalidInput
from memoryd.operations.inputs import read_given

HEADER = "query-id"


@dataclass(frozen=True, slots=True)
class Item:
    """A document or query. `scope` restricts a query to documents of the same one; `self` names one left out for it;
    `category` is what kind of question it is."""

    id: str
    text: str
    title: str = ""
    scope: str | None = None
    self: str | None = None
    category: str | None = None


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """A set as read: only queries with a judgement; judgements as {query: {document: grade above 0}}."""

    documents: list[Item]
    queries: list[Item]
    judgements: dict[str, dict[str, int]]


def read_set(folder: Path) -> LabelledSet:
    """Read the three files. Raises InvalidInput naming the file and line."""
    split = folder / "qrels" / "test.tsv"
    judgements = _judgements(split if split.exists() else folder / "qrels.tsv")
    documents = _items(folder / "corpus.jsonl")
    queries = [query for query in _items(folder / "queries.jsonl") if query.id in judgements]
    if not documents or not queries:
        what = "corpus.jsonl holds no document" if not documents else "no query has a judgement above 0"
        raise InvalidInput(f"There is nothing to measure in {folder}: {what}.")
    known = {document.id for document in documents}
    if not any(known & judgements[query.id].keys() for query in queries):
        raise InvalidInput(f"There is nothing to measure in {folder}: no judgement names a document of corpus.jsonl.")
    return LabelledSet(documents, queries, judgements)


def _judgements(path: Path) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for number, line in _lines(path):
        parts = line.rstrip("\r").split("\t")
        if number == 1 and parts[0] == HEADER:
            continue
        try:
            query, document, grade = parts[0], parts[-2], int(parts[-1])
        except (IndexError, ValueError) as error:
            raise InvalidInput(f"{path}:{number} does not hold query, document and a whole grade.") from error
        if grade > 0:
            found.setdefault(query, {})[document] = grade
    return found


def _items(path: Path) -> list[Item]:
    found: dict[str, Item] = {}
    for number, line in _lines(path):
        try:
            item = _item(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"{path}:{number} is not a JSON object with `_id` and `text` as strings.") from error
        if item.id in found:
            raise InvalidInput(f"{path}:{number} repeats the `_id` {item.id[:80]!r}.")
        found[item.id] = item
    return list(found.values())


def _item(data: Any) -> Item:
    """Raises ValueError for another form."""
    metadata = (data.get("metadata") or {}) if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(metadata, dict):
        raise ValueError
    values = (data.get("_id"), data.get("text"), data.get("title") or "")
    labels = (metadata.get("scope"), metadata.get("self"), metadata.get("category"))
    if not all(isinstance(value, str) for value in values) or not values[0]:
        raise ValueError
    if not all(label is None or isinstance(label, str) for label in labels):
        raise ValueError
    # unpaired surrogates, which JSON can spell, can be neither stored nor asked
    return Item(*(None if one is None else one.encode("utf-8", "replace").decode() for one in (*values, *labels)))  # type: ignore[arg-type]


def _lines(path: Path) -> list[tuple[int, str]]:
    """Numbered lines that are not blank, split at LF only: a JSON string may hold U+2028 and the like unescaped."""
    step = "Name a folder that holds corpus.jsonl, queries.jsonl and qrels.tsv."
    text = read_given(path, step)
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
