"""Which pairs of texts are labelled as the same, a revision, or distinct, and where is a file of them malformed?

JSON Lines: `a` and `b` (or `old` and `new`) are texts, `label` says what `b` is to `a`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from memoryd.digest import sha256_hex
from memoryd.errors import InvalidInput
from memoryd.operations.inputs import read_given

SAME, REVISION, DISTINCT, UNRELATED = "same", "revision", "distinct", "unrelated"
LABELS = {
    **{name: name for name in (SAME, REVISION, DISTINCT, UNRELATED)},
    "supersedes": REVISION,
    "distinct_same_doc": DISTINCT,
    "distinct_similar": DISTINCT,
}
"""What a file may say; `distinct` is near without being the same matter."""
SHIPPED = "labelled.jsonl"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts and what the second one is to the first."""

    a: str
    b: str
    label: str

    @property
    def chooses(self) -> bool:
        """Whether a cut is chosen on it; it is measured on the others. The same pair always falls on the same side."""
        return int(sha256_hex(f"{self.a}\0{self.b}".encode())[:2], 16) % 2 == 0


def shipped() -> list[Pair]:
    """The pairs that memoryd brings along."""
    text = (resources.files("memoryd.operations") / SHIPPED).read_text("utf-8")
    return [pair for _, pair in _pairs(text, SHIPPED)]


def read_pairs(path: Path) -> list[Pair]:
    """The pairs of a file. Raises InvalidInput naming file and line."""
    step = "Name a file of JSON objects, one a line, with `a`, `b` and `label`."
    text = read_given(path, step)
    found = [pair for _, pair in _pairs(text, str(path))]
    if not found:
        raise InvalidInput(f"{path} holds no pair.", next_step=step)
    return found


def _pairs(text: str, name: str) -> Iterator[tuple[int, Pair]]:
    for number, line in enumerate(text.split("\n"), 1):  # a JSON string may hold U+2028 unescaped
        if line.strip():
            try:
                yield number, _pair(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise InvalidInput(
                    f"{name}:{number} is not a JSON object with two texts (`a` and `b`, or `old` and `new`) and a"
                    f" `label` of {', '.join(LABELS)}.",
                    next_step="Correct that line.",
                ) from error


def _pair(data: Any) -> Pair:
    """Raises ValueError for another form."""
    if not isinstance(data, dict):
        raise ValueError
    a, b, label = data.get("a", data.get("old")), data.get("b", data.get("new")), data.get("label")
    if not (isinstance(a, str) and isinstance(b, str) and a.strip() and b.strip() and label in LABELS):
        raise ValueError
    # unpaired surrogates, which JSON can spell, can be neither stored nor embedded
    a, b = (text.encode("utf-8", "replace").decode() for text in (a, b))
    return Pair(a, b, LABELS[label])
