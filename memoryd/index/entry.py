"""What is one entry of the lexical index, and how do its ids and traits become columns of numbers?

Reading a number from a column costs a tenth of reading a stored text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct

from memoryd.records import NO_TRAITS, Traits

_DOCUMENT = ("document_0", "document_1", "document_2", "document_3")
_PASSAGE = ("passage_0", "passage_1")
_TRAITS = ("thread", "place", "nature")
COLUMNS = (*_DOCUMENT, *_PASSAGE, *_TRAITS)
"""A document id is 256 bits, a passage id 128, the traits are packed into three numbers."""
_IDS = Struct(">6Q")
_NONE = "0" * 32


@dataclass(frozen=True, slots=True)
class LexicalEntry:
    """What is indexed: one passage of a document, or with `passage_id` '' the whole document.

    `ancestors` are the folders above the document (`label/`, `label/a/`), for exact prefix filters; `names` is what
    it may be called exactly: paths, symbols.
    """

    document_id: str
    passage_id: str
    scope: str
    kind: str
    type: str
    status: str
    ancestors: list[str]
    title: str
    text: str
    names: tuple[str, ...] = ()
    traits: Traits = NO_TRAITS


def columns(entry: LexicalEntry) -> Iterator[tuple[str, int]]:
    """Name and number of each column; no passage is 0, which no UUID of ours is."""
    digits = entry.document_id
    for at, name in enumerate(_DOCUMENT):
        yield name, int(digits[at * 16 : at * 16 + 16], 16)
    passage = entry.passage_id.replace("-", "") or _NONE
    for at, name in enumerate(_PASSAGE):
        yield name, int(passage[at * 16 : at * 16 + 16], 16)
    yield from zip(_TRAITS, entry.traits.packed(), strict=True)


def read_columns(values: Sequence[Sequence[int]]) -> list[tuple[str, str, Traits]]:
    """(document id, passage id or '', traits) of entries; `values` holds what stands in each of COLUMNS for them."""
    found = []
    for *ids, thread, place, nature in zip(*values, strict=True):
        digits = _IDS.pack(*ids).hex()
        passage = digits[64:]
        traits = Traits.unpacked(thread, place, nature) if thread or nature else NO_TRAITS
        found.append((digits[:64], _uuid(passage) if passage != _NONE else "", traits))
    return found


def _uuid(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
