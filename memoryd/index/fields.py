"""Which fields does the lexical engine have, and what of an entry goes into each?

Whole documents and passages of longer ones have fields of their own, so that each is weighed against its like.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import tantivy

from memoryd.index.analysis import analysed, folded_name, pairs_of, streams
from memoryd.index.entry import COLUMNS, LexicalEntry, columns

WHOLE = ("word", "code", "pair")
PART = ("part_word", "part_code", "part_pair")


def schema() -> tantivy.Schema:
    """The fields of the lexical index."""
    builder = tantivy.SchemaBuilder()
    for name in ("document_id", "scope", "kind", "type", "status", "ancestors", "name"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in COLUMNS:
        builder.add_unsigned_field(name, fast=True)
    builder.add_text_field("title", tokenizer_name="memoryd_words", index_option="freq")
    for word, code, pair in (WHOLE, PART):
        builder.add_text_field(word, tokenizer_name="memoryd_words", index_option="freq")
        for name in (code, pair):
            builder.add_text_field(name, tokenizer_name="memoryd_codes", index_option="freq")
    return builder.build()


def documents(entries: Sequence[LexicalEntry], *, lone: bool) -> Iterator[tantivy.Document]:
    """The engine's documents for entries of one document, passages first."""
    titles: dict[str, tuple[str, str]] = {}
    parts: list[tuple[str, str]] = []
    passages = [entry for entry in entries if entry.passage_id]
    for entry in passages + [entry for entry in entries if not entry.passage_id]:
        if entry.title not in titles:
            titles[entry.title] = streams(entry.title)
        if not entry.passage_id and len(parts) > 1 and entry.text == "\n\n".join([one.text for one in passages]):
            found = " ".join([words for words, _ in parts]), " ".join([codes for _, codes in parts])
        else:
            found = streams(entry.text)
            parts.append(found)
        yield _document(entry, found, titles[entry.title], PART if entry.passage_id and not lone else WHOLE)


def _document(
    entry: LexicalEntry, text: tuple[str, str], title: tuple[str, str], fields: tuple[str, str, str]
) -> tantivy.Document:
    document = tantivy.Document()
    for name in ("document_id", "scope", "kind", "type", "status"):
        document.add_text(name, getattr(entry, name))
    for name, number in columns(entry):
        document.add_unsigned(name, number)
    for ancestor in entry.ancestors:
        document.add_text("ancestors", ancestor)
    for called in filter(None, dict.fromkeys(map(folded_name, entry.names))):
        document.add_text("name", called)
    document.add_text("title", title[0])
    word, code, pair = fields
    # The title counts as part of every passage: what a section leaves unsaid often stands only there.
    words = f"{text[0]} {title[0]}"
    document.add_text(word, words)
    document.add_text(code, f"{text[1]} {title[1]}")
    document.add_text(pair, " ".join(pairs_of(analysed(words))))
    return document
