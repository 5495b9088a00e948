"""Does what a caller wants remembered hold a secret, and what is shown of a text that does?

Looked at before anything is written, compared or noted down. A refusal names kind and place; neither it nor anything
that is logged holds a piece of the secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from memoryd.errors import SecretFound
from memoryd.extract import secret
from memoryd.extract.secret import Redacted

LISTED = 20
"""So many places are named; all are counted."""


def refuse_secrets(*, allowed: bool, **given: str | Sequence[str] | None) -> None:
    """Raise SecretFound where one of the parameters holds a secret; `allowed` is a person's word that it may."""
    if allowed:
        return
    places = [place for name, value in given.items() for place in _places(name, value)]
    if places:
        first = places[0]
        more = f", and {len(places) - 1} more" if len(places) > 1 else ""
        where = f"line {first['line']}, columns {first['columns'][0]} to {first['columns'][1]}"
        raise SecretFound(
            f"`{first['parameter']}` holds what looks like a secret ({first['kind']}, {where}{more}).",
            findings=places[:LISTED],
            count=len(places),
        )


def _places(name: str, value: str | Sequence[str] | None) -> Iterator[dict[str, Any]]:
    if value is None:
        return
    texts = {name: value} if isinstance(value, str) else {f"{name}.{at}": text for at, text in enumerate(value)}
    for parameter, text in texts.items():
        for one in secret.findings(text):
            yield {"parameter": parameter, "kind": one.kind, "line": one.line, "columns": list(one.columns)}


def redacted(text: str) -> Redacted:
    """The text with each secret replaced by its kind, and how many there were."""
    return secret.redact(text)


def shown(text: str) -> str:
    """A text as a preview may show it."""
    return secret.redact(text).text
